//! Accuracy on a part of a data set.

use network::architecture::{Task, build};
use network::{Classify, Model, Noise, Purpose, Reference, Shape};
use train::evaluate;

use crate::common::digits;

/// Parts that do not begin or end with a batch add up to the whole, and a part
/// is what the network says about its images one by one.
#[test]
fn parts_add_up() {
    let digits = digits();
    let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    let network = Reference::<f32>::new(&Model::initialised(graph, 3, Default::default()));
    let noise = Noise::gaussian(5, Purpose::Prediction, 0.5);
    for noise in [None, Some(&noise)] {
        let on = |range| evaluate(&network, &digits, noise, range, |_| {}).unwrap();
        let whole = on(0..digits.len());
        let parts = [on(0..3), on(3..300), on(300..512), on(512..usize::MAX)];
        assert_eq!(parts.map(|part| part.images), [3, 297, 212, 925]);
        assert_eq!(whole.images, 1437);
        assert_eq!(parts.iter().map(|part| part.top1).sum::<u64>(), whole.top1);
        assert_eq!(parts.iter().map(|part| part.top5).sum::<u64>(), whole.top5);
        assert_eq!(on(700..700).images, 0);
        assert_eq!(on(1500..1600).images, 0);
        assert_eq!(on(2000..3000).images, 0);
    }
    let right = (290..320).filter(|&image| {
        let (mut pixels, mut logits) = ([0.0; 64], [0.0; 10]);
        digits.read(image, &mut pixels).unwrap();
        network.logits(&pixels, &mut logits).unwrap();
        network::logits::argmax(&logits) == digits.labels()[image] as usize
    });
    let found = evaluate(&network, &digits, None, 290..320, |_| {}).unwrap();
    assert_eq!(found.top1, right.count() as u64);
}
