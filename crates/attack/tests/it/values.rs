//! How far real values move within a budget: linear functions move by eps * ||w||.

use attack::{AttackError, Pgd, PgdParams, reach};
use network::{GraphBuilder, Images, Op, Reference, Shape};

use crate::common::model;

fn linear(weights: Vec<f32>, outputs: usize) -> Reference<f32> {
    let mut graph = GraphBuilder::new(Shape::vector(weights.len() / outputs));
    let (out_features, bias) = (outputs, true);
    graph.then("linear", Op::Linear { out_features, bias });
    let bias = vec![0.5; outputs];
    Reference::new(&model(graph.build().unwrap(), vec![weights, bias]))
}

#[test]
fn a_linear_function_moves_by_eps_times_its_slope() {
    let network = linear(vec![3.0, -4.0, 0.0, 0.0, 0.6, 0.8], 2);
    let mut images = Images::new(Shape::vector(3));
    images.push(4, 0, &[0.5, 0.5, 0.5]);
    images.push(9, 0, &[0.4, 0.6, 0.5]);
    let params = PgdParams {
        eps: 0.1,
        steps: 10,
        step_size: None,
    };
    let found = reach(&Pgd::new(params, 0).unwrap(), &network, &images).unwrap();
    for (reach, index) in found.iter().zip([4, 9]) {
        assert_eq!(reach.index, index);
        for (output, slope) in [5.0, 1.0].into_iter().enumerate() {
            let (clean, moved) = (reach.clean[output], 0.1 * slope);
            let exact = [clean - moved, clean + moved];
            let got = [reach.low[output], reach.high[output]];
            for (got, exact) in got.iter().zip(exact) {
                assert!((got - exact).abs() < 1e-3 * slope, "{reach:?}");
            }
            // Never beyond the budget, but for rounding in single precision.
            assert!(got[0] > exact[0] - 1e-6 && got[1] < exact[1] + 1e-6);
        }
    }
}

#[test]
fn images_stay_within_range_and_nonsense_is_refused() {
    let network = linear(vec![1.0, 1.0], 1);
    let pgd = Pgd::new(PgdParams::default(), 0).unwrap();
    let mut images = Images::new(Shape::vector(2));
    images.push(0, 0, &[0.5, 1.0]);
    let found = &reach(&pgd, &network, &images).unwrap()[0];
    // A budget of 4 reaches every corner, and no further.
    assert!(found.low[0] >= 0.5 && found.high[0] <= 2.5, "{found:?}");
    assert!(found.low[0] < 0.6 && found.high[0] > 2.4, "{found:?}");
    images.pixels[0] = 1.5;
    let outside = reach(&pgd, &network, &images);
    assert!(matches!(outside, Err(AttackError::Pixel { index: 0, .. })));
    images.pixels.pop();
    assert!(matches!(
        reach(&pgd, &network, &images),
        Err(AttackError::Length { .. })
    ));
    images.pixels = vec![0.5, 0.5];
    let network = linear(vec![f32::MAX, f32::MAX], 1);
    let broken = reach(&pgd, &network, &images);
    assert!(matches!(broken, Err(AttackError::NotFinite { index: 0 })));
}
