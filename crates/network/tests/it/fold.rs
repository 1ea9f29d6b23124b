//! Folding batch norms, on numbers that can be computed by hand.

use network::{
    Graph, GraphBuilder, Model, ModelInfo, Op, Parameters, Shape, Window, fold_batch_norms,
};

/// A convolution of one channel with a batch norm behind it, and a batch norm
/// behind a ReLU, which no layer can take in.
fn graph() -> Graph {
    let norm = |scale, shift| Op::BatchNorm {
        epsilon: 0.0,
        momentum: 0.1,
        scale,
        shift,
    };
    let mut graph = GraphBuilder::new(Shape::new(1, 1, 1));
    let conv = Op::Conv {
        out_channels: 1,
        window: Window::square(1, 1, 0),
        groups: 1,
        bias: true,
    };
    graph.then("conv", conv);
    graph.then("norm", norm(true, true));
    graph.then("relu", Op::RELU);
    graph.then("last", norm(false, false));
    graph.build().unwrap()
}

/// The model with this variance in its first batch norm.
fn model(variance: f32) -> Model {
    let graph = graph();
    // Weight and bias of the convolution; weight, bias, mean and variance of the
    // first batch norm; mean and variance of the second.
    let values = [2.0, 0.25, 3.0, 0.5, 1.0, variance, -1.0, 0.25];
    let values = values.map(|value| vec![value]).to_vec();
    Model {
        parameters: Parameters::new(&graph, values),
        graph,
        info: ModelInfo::default(),
    }
}

fn ops(model: &Model) -> Vec<&'static str> {
    model.graph.nodes().iter().map(|n| n.op.name()).collect()
}

#[test]
fn batch_norms_become_weights_or_affine_nodes() {
    let folded = fold_batch_norms(&model(4.0));
    assert_eq!(ops(&folded), ["input", "conv", "relu", "affine"]);
    // The factor is 3/2, the offset 0.5 - 3/2 * 1.
    let values: Vec<&[f32]> = folded.parameters.iter().collect();
    assert_eq!(values, [[2.0 * 1.5], [0.25 * 1.5 - 1.0]]);
    let affine = Op::Affine {
        scale: vec![2.0],
        shift: vec![2.0],
    };
    assert_eq!(folded.graph.nodes()[3].op, affine);
}

#[test]
fn a_batch_norm_whose_factor_overflows_stays() {
    let folded = fold_batch_norms(&model(0.0));
    let kept = ["input", "conv", "batch-norm", "relu", "affine"];
    assert_eq!(ops(&folded), kept);
    let (before, after) = (model(0.0).parameters, folded.parameters);
    assert!(before.iter().take(6).eq(after.iter()));
}
