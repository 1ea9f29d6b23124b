//! What does not fit a network is an error of the verb, not a panic.

use std::fmt::Debug;

use network::architecture::{Task, build};
use network::{
    DeviceError, Executor, Gradients, Graph, GraphBuilder, GraphError, Mode, Model, ModelInfo,
    Node, Noise, NoisyImage, Op, ParameterSpec, Purpose, Reference, Role, SgdStep, Shape, Tape,
};

use crate::common::{executor, model};

const SHAPE: Shape = Shape {
    height: 2,
    width: 2,
    channels: 1,
};
const CLASSES: usize = 3;

fn executors() -> [Box<dyn Executor>; 3] {
    let model = model(build("mlp", &Task::new(SHAPE, CLASSES)).unwrap());
    [
        executor(&model),
        Box::new(Reference::<f32>::new(&model)),
        Box::new(Reference::<f64>::new(&model)),
    ]
}

fn assert_length<T: Debug>(
    result: Result<T, DeviceError>,
    what: &'static str,
    expected: usize,
    got: usize,
) {
    let error = DeviceError::Length {
        what,
        expected,
        got,
    };
    assert_eq!(result.unwrap_err(), error);
}

#[test]
fn wrong_lengths_are_refused_by_every_verb() {
    let noise = Noise::gaussian(0, Purpose::Bench, 0.1);
    let noisy = |pixels| NoisyImage {
        pixels,
        image: 0,
        first_sample: 0,
        count: 2,
    };
    let images = [0.5; 8];
    for network in executors() {
        let mut logits = [0.0; 6];
        let result = network.logits(&images[..7], &mut logits);
        assert_length(result, "pixels", 4, 7);
        let result = network.logits(&images, &mut logits[..5]);
        assert_length(result, "logits", 6, 5);

        let short = [noisy(&images[..4]), noisy(&images[..3])];
        let result = network.noisy_logits(&noise, &short, &mut logits);
        assert_length(result, "an image", 4, 3);
        let one = [noisy(&images[..4])];
        let result = network.noisy_logits(&noise, &one, &mut logits[..3]);
        assert_length(result, "logits", 6, 3);
        assert_length(network.noisy(&noise, &short), "an image", 4, 3);

        for mode in [Mode::Train, Mode::Eval, Mode::Frozen] {
            let result = network.forward(&images[..5], mode);
            assert_length(result, "pixels", 4, 5);
            let (_, tape) = network.forward(&images, mode).unwrap();
            let result = network.input_gradient(&tape, &[1.0; 3]);
            assert_length(result, "cotangent", 6, 3);
            let mut gradients = network.gradients().unwrap();
            let result = network.parameter_gradient(&tape, &[1.0; 7], &mut gradients);
            assert_length(result, "cotangent", 6, 7);
        }
    }
}

/// No images at all are no error.
#[test]
fn nothing_of_nothing_is_nothing() {
    for network in executors() {
        network.logits(&[], &mut []).unwrap();
        let noise = Noise::gaussian(0, Purpose::Bench, 0.1);
        network.noisy_logits(&noise, &[], &mut []).unwrap();
        assert!(network.noisy(&noise, &[]).unwrap().is_empty());
    }
}

fn assert_foreign<T: Debug>(result: Result<T, DeviceError>, what: &'static str) {
    assert_eq!(result.unwrap_err(), DeviceError::Foreign { what });
}

#[test]
fn a_tape_of_another_kind_of_executor_is_refused() {
    let images = [0.5; 8];
    let cotangent = [1.0; 6];
    for (i, mut network) in executors().into_iter().enumerate() {
        let others = executors().into_iter().enumerate().filter(|(j, _)| *j != i);
        let foreign = others.map(|(_, other)| other.forward(&images, Mode::Train).unwrap().1);
        for tape in foreign.chain([Tape::new("a tape of somebody else")]) {
            assert_foreign(network.input_gradient(&tape, &cotangent), "tape");
            let mut gradients = network.gradients().unwrap();
            let result = network.parameter_gradient(&tape, &cotangent, &mut gradients);
            assert_foreign(result, "tape");
            assert_foreign(network.update_running_statistics(&tape), "tape");
        }
    }
}

#[test]
fn gradients_of_another_kind_of_executor_are_refused() {
    let step = SgdStep {
        rate: 0.1,
        momentum: 0.9,
        weight_decay: 0.0,
        clip: None,
    };
    for mut network in executors() {
        let before = network.state().unwrap();
        let mut gradients = Gradients::new(vec![0.0_f64; 4]);
        let (_, tape) = network.forward(&[0.5; 8], Mode::Train).unwrap();
        let result = network.parameter_gradient(&tape, &[1.0; 6], &mut gradients);
        assert_foreign(result, "gradients");
        assert_foreign(network.optimise(&step, &mut gradients), "gradients");
        assert_eq!(network.state().unwrap(), before);
    }
}

/// A network of another program, known by its parameters only.
fn foreign(classes: usize, parameters: Vec<ParameterSpec>) -> Result<Graph, GraphError> {
    let mut graph = GraphBuilder::new(Shape::new(2, 2, 1));
    let op = Op::Foreign {
        program: "torch".into(),
        network: "Net".into(),
        classes,
        parameters,
    };
    graph.then("network", op);
    graph.build()
}

fn spec(name: &str, shape: &[usize], role: Role) -> ParameterSpec {
    ParameterSpec {
        name: name.into(),
        shape: shape.to_vec(),
        role,
    }
}

#[test]
fn a_foreign_network_is_kept_whole() {
    let specs = vec![
        spec("a.weight", &[3, 4], Role::Weight),
        spec("mask", &[2], Role::Constant),
        spec("scale", &[], Role::Bias),
    ];
    let graph = foreign(3, specs).unwrap();
    assert_eq!(graph.foreign(), Some(("torch", "Net")));
    assert_eq!((graph.classes(), graph.parameter_count()), (3, 13));
    let model = Model::initialised(graph, 0, ModelInfo::default());
    let again = Model::from_bytes(&model.to_bytes()).unwrap();
    assert_eq!(again, model);
    assert_eq!(again.identity(), model.identity());
}

#[test]
fn a_foreign_network_stands_alone_and_names_everything_once() {
    let twice = vec![spec("a", &[1], Role::Bias), spec("a", &[1], Role::Bias)];
    assert!(foreign(3, twice).is_err());
    assert!(foreign(3, vec![spec("a", &[0], Role::Bias)]).is_err());
    assert!(foreign(0, vec![]).is_err());
    let mut nodes: Vec<Node> = foreign(3, vec![]).unwrap().into();
    nodes.push(Node {
        name: "more".into(),
        op: Op::RELU,
        inputs: vec![1],
    });
    assert_eq!(Graph::new(nodes).unwrap_err(), GraphError::Mixed);
}
