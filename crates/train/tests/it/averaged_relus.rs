//! Networks whose ReLUs are averaged over the noise that reaches them.

use network::{GraphBuilder, Images, Model, Op, Shape};
use train::methods::{Average, AverageParams, InnerAttackParams, Relus};
use train::{Leg, LegContext, Method};

use crate::common::{on_the_cpu, pool};

const SIGMA: f64 = 0.3;
const AXES: usize = 12;
const UNITS: usize = 5;

fn student(relus: Relus, teacher: &Model, images: &Images) -> Model {
    let params = AverageParams {
        relus,
        ..AverageParams::default()
    };
    let mut average = Average::new(SIGMA, params, InnerAttackParams::default()).unwrap();
    let pool = pool(2);
    let stage = LegContext {
        load: &on_the_cpu(&pool),
        images,
        seed: 0,
    };
    let leg = Leg { number: 0, of: 1 };
    average.begin(leg, teacher, &stage).unwrap()
}

fn logits(model: &Model, pixels: &[f32]) -> Vec<f32> {
    let network = on_the_cpu(&pool(2))(model).unwrap();
    let mut logits = vec![0.0; pixels.len() / AXES * 3];
    network.logits(pixels, &mut logits).unwrap();
    logits
}

/// With one hidden layer, noise at the input is exactly Gaussian where the ReLUs
/// stand, so that the network of averages is the average of the network.
#[test]
fn one_hidden_layer_is_averaged_exactly_before_the_first_step() {
    let mut graph = GraphBuilder::new(Shape::vector(AXES));
    let linear = |out_features| Op::Linear {
        out_features,
        bias: true,
    };
    graph.then("inner", linear(UNITS));
    graph.then("relu", Op::RELU);
    graph.then("outer", linear(3));
    let teacher = Model::initialised(graph.build().unwrap(), 7, Default::default());
    let pixels: Vec<f32> = (0..256 * AXES)
        .map(|i| (i * 37 % 101) as f32 / 101.0)
        .collect();
    let images = Images {
        pixels,
        labels: vec![0; 256],
        indices: (0..256).collect(),
        shape: Shape::vector(AXES),
        values: vec![],
    };

    let v = student(Relus::Averaged, &teacher, &images);
    let inner = teacher.parameters.get(0).chunks_exact(AXES);
    for (weights, width) in inner.zip(v.parameters.get(2)) {
        let length = weights
            .iter()
            .map(|w| f64::from(*w).powi(2))
            .sum::<f64>()
            .sqrt();
        let relative = f64::from(*width) / (SIGMA * length);
        assert!(
            (relative - 1.0).abs() < 0.08,
            "{relative} of the exact width"
        );
    }

    // The average by brute force, over fixed noise.
    let some = &images.pixels[..16 * AXES];
    let mut mean = vec![0.0; 16 * 3];
    const DRAWS: u32 = 4000;
    let noise = network::Noise::gaussian(1, network::Purpose::Bench, SIGMA);
    for draw in 0..DRAWS {
        let eta = noise.draw(0, draw, AXES);
        let moved: Vec<f32> = some
            .iter()
            .zip(eta.iter().cycle())
            .map(|(x, e)| x + e)
            .collect();
        let each = logits(&teacher, &moved);
        mean.iter_mut()
            .zip(each)
            .for_each(|(m, z)| *m += z / DRAWS as f32);
    }
    let far = |got: &[f32]| -> f32 {
        let squares = got.iter().zip(&mean).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f32>().sqrt()
    };
    let (start, f) = (far(&logits(&v, some)), far(&logits(&teacher, some)));
    assert!(
        start < 0.15 * f,
        "{start} from the average, the teacher {f}"
    );
    let kept = student(Relus::Kept, &teacher, &images);
    assert_eq!(logits(&kept, some), logits(&teacher, some));
}
