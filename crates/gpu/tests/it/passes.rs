//! Passes of a fixed shape, 16 bits, and tapes that are pulled back many times.

use network::architecture::{Task, build};
use network::{Executor, Mode, Model, Noise, NoisyImage, Precision, Purpose, Reference, Shape};

use crate::common::{executor, in_precision, model, pixels};

fn digits() -> Model {
    model(build("smallcnn", &Task::new(Shape::new(8, 8, 1), 10)).unwrap())
}

/// Copies of three images, more than one pass holds.
fn noisy_logits(network: &dyn Executor) -> Vec<f32> {
    let pixels = pixels(3 * 64, 1);
    let batch: Vec<NoisyImage<'_>> = (pixels.chunks_exact(64).zip([300, 1, 70]).enumerate())
        .map(|(i, (pixels, count))| NoisyImage {
            pixels,
            image: i as u32,
            first_sample: 5,
            count,
        })
        .collect();
    let mut logits = vec![0.0; 371 * 10];
    let noise = Noise::gaussian(3, Purpose::Estimation, 0.3);
    network.noisy_logits(&noise, &batch, &mut logits).unwrap();
    logits
}

/// A pass of one copy and of many have the same shape, so the same answer to the bit.
#[test]
fn a_copy_does_not_see_its_neighbours() {
    let network = executor(&digits());
    let all = noisy_logits(&*network);
    let pixels = pixels(3 * 64, 1);
    let alone = NoisyImage {
        pixels: &pixels[64..128],
        image: 1,
        first_sample: 5,
        count: 1,
    };
    let mut logits = vec![0.0; 10];
    let noise = Noise::gaussian(3, Purpose::Estimation, 0.3);
    network.noisy_logits(&noise, &[alone], &mut logits).unwrap();
    assert_eq!(logits, all[3000..3010]);
}

/// Half precision is another function: close, but not the same.
#[test]
fn sixteen_bits_are_close_but_another_function() {
    let model = digits();
    let want = noisy_logits(&*executor(&model));
    for (precision, most) in [(Precision::F16, 0.02), (Precision::Bf16, 0.2)] {
        let got = match std::panic::catch_unwind(|| in_precision(&model, precision)) {
            Ok(network) => noisy_logits(&*network),
            // A device may lack one of the two.
            Err(_) => continue,
        };
        let far = got.iter().zip(&want).map(|(g, w)| (g - w).abs());
        let far = far.fold(0.0, f32::max);
        assert!(far > 1e-6 && far < most, "{precision:?}: {far}");
    }
}

/// One tape is pulled back as often as is asked for.
#[test]
fn a_tape_is_pulled_back_many_times() {
    let model = digits();
    let (network, oracle) = (executor(&model), Reference::<f64>::new(&model));
    let images = pixels(4 * 64, 7);
    for mode in [Mode::Train, Mode::Eval, Mode::Frozen] {
        let (_, tape) = network.forward(&images, mode).unwrap();
        let (_, want_tape) = oracle.forward(&images, mode).unwrap();
        for class in 0..10 {
            let cotangent: Vec<f32> = (0..40)
                .map(|i| if i % 10 == class { 1.0 } else { 0.0 })
                .collect();
            let got = network.input_gradient(&tape, &cotangent).unwrap();
            let want = oracle.input_gradient(&want_tape, &cotangent).unwrap();
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() < 1e-4, "{mode:?}: {got} {want}");
            }
        }
    }
}
