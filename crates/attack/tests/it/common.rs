//! Small networks for tests.

use network::{
    Executor, Graph, GraphBuilder, Images, Model, ModelInfo, Noise, Op, Padding, Parameters,
    Purpose, Reference, Shape, Window,
};

/// A 3x3 window with padding 1.
pub fn three(stride: usize) -> Window {
    Window {
        kernel: [3, 3],
        stride: [stride, stride],
        padding: Padding::same(1),
        dilation: [1, 1],
    }
}

fn conv(out_channels: usize, stride: usize) -> Op {
    Op::Conv {
        out_channels,
        window: three(stride),
        groups: 1,
        bias: true,
    }
}

fn linear(out_features: usize) -> Op {
    Op::Linear {
        out_features,
        bias: true,
    }
}

/// Two convolutions and a linear layer, as in `goldens/generate.py`.
pub fn small_graph() -> Graph {
    let mut graph = GraphBuilder::new(Shape::new(5, 5, 2));
    graph.then("conv1", conv(4, 1));
    graph.then("relu1", Op::RELU);
    graph.then("conv2", conv(6, 2));
    graph.then("relu2", Op::RELU);
    graph.then("flatten", Op::Flatten);
    graph.then("linear", linear(5));
    graph.build().unwrap()
}

pub fn model(graph: Graph, values: Vec<Vec<f32>>) -> Model {
    let parameters = Parameters::new(&graph, values);
    Model {
        graph,
        parameters,
        info: ModelInfo::default(),
    }
}

/// The same with random weights, logits of a few units, and no class that wins
/// everywhere.
pub fn small_network(seed: u64) -> Reference<f32> {
    let mut model = Model::initialised(small_graph(), seed, ModelInfo::default());
    for values in model.parameters.iter_mut() {
        values.iter_mut().for_each(|v| *v *= 2.0);
    }
    Reference::new(&model)
}

/// `z = W x + b` on an image of `height x width x 1`.
pub fn linear_network(side: usize, weights: &[Vec<f32>], bias: &[f32]) -> Reference<f64> {
    let mut graph = GraphBuilder::new(Shape::new(side, side, 1));
    graph.then("flatten", Op::Flatten);
    graph.then("linear", linear(bias.len()));
    let values = vec![weights.concat(), bias.to_vec()];
    Reference::new(&model(graph.build().unwrap(), values))
}

/// Images of a network's shape, with their numbers and labels.
pub fn images_for(
    network: &dyn Executor,
    pixels: &[f32],
    indices: &[u32],
    labels: &[u32],
) -> Images {
    Images {
        shape: network.input(),
        pixels: pixels.to_vec(),
        indices: indices.to_vec(),
        labels: labels.to_vec(),
        values: vec![],
    }
}

/// Random numbers that depend on their key alone.
pub fn random(seed: u64, image: u32, len: usize) -> Vec<f32> {
    let noise = Noise::gaussian(seed, Purpose::Bench, 1.0);
    noise.draw(image, 0, len)
}

/// Random pixels, rounded to 256 levels; a few are black or white.
pub fn random_image(seed: u64, image: u32, len: usize) -> Vec<f32> {
    let level = |z: &f32| ((0.5 + 0.3 * z).clamp(0.0, 1.0) * 255.0).round() / 255.0;
    random(seed, image, len).iter().map(level).collect()
}
