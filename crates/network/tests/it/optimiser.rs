//! Steps of the optimiser by hand, and what belongs to its state.

use network::{
    Executor, Gradients, Graph, GraphBuilder, HostGradients, Model, Op, Parameters, Reference,
    SgdStep, Shape,
};

use crate::common::executor;

/// `z = W x + b` behind a batch norm: one parameter of every role.
fn graph() -> Graph {
    let mut graph = GraphBuilder::new(Shape::vector(2));
    let norm = Op::BatchNorm {
        epsilon: 1e-5,
        momentum: 0.1,
        scale: true,
        shift: true,
    };
    graph.then("norm", norm);
    let (out_features, bias) = (1, true);
    graph.then("linear", Op::Linear { out_features, bias });
    graph.build().unwrap()
}

/// Scale, shift, running mean, running variance, weight, bias.
fn model() -> Model {
    let graph = graph();
    let values = [
        [1.0, 2.0].to_vec(),
        [0.5, -0.5].to_vec(),
        [0.25, 0.75].to_vec(),
        [1.0, 4.0].to_vec(),
        [-1.0, 2.0].to_vec(),
        [3.0].to_vec(),
    ];
    Model {
        parameters: Parameters::new(&graph, values.into()),
        graph,
        info: Default::default(),
    }
}

/// Of norm 5: 3 on a weight, 4 on the bias.
fn gradients(network: &dyn Executor) -> Gradients {
    with(network, |own| {
        own.get_mut(4)[0] = 3.0;
        own.get_mut(5)[0] = 4.0;
    })
}

/// Gradients of 0 with a change.
fn with(network: &dyn Executor, change: impl FnOnce(&mut HostGradients)) -> Gradients {
    let mut gradients = network.gradients().unwrap();
    let mut own = HostGradients::zeros(network.graph());
    change(&mut own);
    network.write_gradients(own, &mut gradients).unwrap();
    gradients
}

fn executors() -> [Box<dyn Executor>; 2] {
    let model = model();
    [executor(&model), Box::new(Reference::<f64>::new(&model))]
}

fn assert_close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-6, "{got:?} {want:?}");
    }
}

/// Clipped to 2.5 the gradient is 1.5 and 2; a decay of 0.5 adds half of the
/// weight, and nothing to the bias and the norm:
///
/// ```text
/// v1 = 1.5 - 0.5 = 1           w1 = -1 - 0.1 * 1 = -1.1
/// v2 = 0.5 * 1 + 1.5 - 0.55    w2 = -1.1 - 0.1 * 1.45 = -1.245
/// ```
#[test]
fn two_steps_with_momentum_decay_and_clipping() {
    let step = SgdStep {
        rate: 0.1,
        momentum: 0.5,
        weight_decay: 0.5,
        clip: Some(2.5),
    };
    for mut network in executors() {
        let mut gradients = gradients(&*network);
        assert_eq!(network.optimise(&step, &mut gradients).unwrap(), 5.0);
        let state = network.state().unwrap();
        assert_close(state.velocity.get(4), &[1.0, 1.0]);
        assert_close(state.velocity.get(5), &[2.0]);
        assert_close(state.parameters.get(4), &[-1.1, 1.9]);
        assert_close(state.parameters.get(5), &[2.8]);

        // They are 0 again, and taken up anew.
        let own = network.read_gradients(&gradients).unwrap();
        assert_eq!(own, HostGradients::zeros(network.graph()));
        gradients = self::gradients(&*network);
        network.optimise(&step, &mut gradients).unwrap();
        let state = network.state().unwrap();
        assert_close(state.velocity.get(4), &[1.45, 0.5 + 0.95]);
        assert_close(state.velocity.get(5), &[3.0]);
        assert_close(state.parameters.get(4), &[-1.245, 1.9 - 0.145]);
        assert_close(state.parameters.get(5), &[2.5]);

        // Neither decay nor the optimiser itself moves the norm.
        let before = model().parameters;
        for parameter in 0..4 {
            assert_eq!(state.parameters.get(parameter), before.get(parameter));
        }
    }
}

#[test]
fn short_gradients_are_not_clipped() {
    for clip in [None, Some(6.0)] {
        let step = SgdStep {
            rate: 0.5,
            momentum: 0.0,
            weight_decay: 0.0,
            clip,
        };
        for mut network in executors() {
            let mut gradients = gradients(&*network);
            network.optimise(&step, &mut gradients).unwrap();
            let parameters = network.parameters().unwrap();
            assert_eq!(parameters.get(4), [-2.5, 2.0]);
            assert_eq!(parameters.get(5), [1.0]);
        }
    }
}

#[test]
fn a_norm_that_is_not_finite_moves_nothing() {
    let step = SgdStep {
        rate: 0.5,
        momentum: 0.9,
        weight_decay: 0.1,
        clip: Some(1.0),
    };
    for mut network in executors() {
        for value in [f32::NAN, f32::INFINITY] {
            let before = network.state().unwrap();
            let mut gradients = with(&*network, |own| own.get_mut(0)[1] = value);
            let norm = network.optimise(&step, &mut gradients).unwrap();
            assert!(!norm.is_finite());
            assert_eq!(network.state().unwrap(), before);
            let own = network.read_gradients(&gradients).unwrap();
            assert_eq!(own, HostGradients::zeros(network.graph()));
        }
    }
}

/// A step changes what the network computes, and a restored state goes on as if
/// nothing had happened.
#[test]
fn a_restored_state_goes_on_to_the_bit() {
    let step = SgdStep {
        rate: 0.1,
        momentum: 0.9,
        weight_decay: 0.01,
        clip: None,
    };
    let logits = |network: &dyn Executor| {
        let mut logits = [0.0];
        network.logits(&[0.3, 0.6], &mut logits).unwrap();
        logits
    };
    for (mut network, mut other) in executors().into_iter().zip(executors()) {
        let before = logits(&*network);
        let mut gradients = gradients(&*network);
        network.optimise(&step, &mut gradients).unwrap();
        assert_ne!(logits(&*network), before);
        other.restore(network.state().unwrap()).unwrap();
        assert_eq!(logits(&*other), logits(&*network));
        for network in [&mut network, &mut other] {
            let mut gradients = self::gradients(&**network);
            network.optimise(&step, &mut gradients).unwrap();
        }
        assert_eq!(other.state().unwrap(), network.state().unwrap());
        assert_eq!(logits(&*other), logits(&*network));
    }
}
