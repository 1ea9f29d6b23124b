//! Losses on logits and on real values: value and cotangent, per image.

use network::Images;
use network::logits::{argmax, log_softmax};

/// Cross-entropy `-log softmax(z)_y`, as a part of the mean over `of` images: the part,
/// and `d mean / d logits = (softmax(z) - e_y) / of` in `cotangent`.
pub fn cross_entropy(
    classes: usize,
    logits: &[f32],
    (labels, of): (&[u32], usize),
    cotangent: &mut [f32],
) -> f64 {
    let images = of as f64;
    let mut total = 0.0;
    let rows = logits
        .chunks_exact(classes)
        .zip(cotangent.chunks_exact_mut(classes));
    for ((z, c), &y) in rows.zip(labels) {
        let log_p = log_softmax(z);
        total -= log_p[y as usize];
        for (k, (c, log_p)) in c.iter_mut().zip(log_p).enumerate() {
            let target = if k == y as usize { 1.0 } else { 0.0 };
            *c = ((log_p.exp() - target) / images) as f32;
        }
    }
    total / images
}

/// The squared error of real values, each output in units of the variance of its
/// values, so that no other setting depends on their scale. 1 is what the best
/// constant scores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SquaredError {
    /// One over the variance of each output.
    weights: Vec<f64>,
}

impl SquaredError {
    /// In units of the variances among these images; 1 where there is none to speak
    /// of.
    pub fn of(images: &Images) -> Self {
        let outputs = images.values.len() / images.len().max(1);
        let deviations = deviations(outputs, &images.values);
        Self {
            weights: deviations
                .iter()
                .map(|(_, std)| 1.0 / (std * std))
                .collect(),
        }
    }

    /// The part that these images have in the mean over `of` images and all outputs,
    /// and its derivative in `cotangent`.
    pub fn mean(&self, outputs: &[f32], values: &[f32], of: usize, cotangent: &mut [f32]) -> f64 {
        let width = self.weights.len();
        let count = (of * width) as f64;
        let mut total = 0.0;
        let pairs = outputs.iter().zip(values).zip(cotangent);
        for (at, ((&y, &t), c)) in pairs.enumerate() {
            let weight = self.weights[at % width] / count;
            let d = f64::from(y) - f64::from(t);
            total += weight * d * d;
            *c = (2.0 * weight * d) as f32;
        }
        total
    }
}

/// Mean and standard deviation of each of `outputs` values, one image behind the
/// other; a deviation of 1 where there is none to speak of.
pub fn deviations(outputs: usize, values: &[f32]) -> Vec<(f64, f64)> {
    let of = |output: usize| {
        let own = || {
            values
                .iter()
                .skip(output)
                .step_by(outputs)
                .map(|&v| f64::from(v))
        };
        let n = own().count().max(1) as f64;
        let mean = own().sum::<f64>() / n;
        let std = (own().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        (
            mean,
            if std > 1e-6 * mean.abs().max(1e-30) {
                std
            } else {
                1.0
            },
        )
    };
    (0..outputs).map(of).collect()
}

/// How many images have their label on top.
pub fn correct(classes: usize, logits: &[f32], labels: &[u32]) -> usize {
    let rows = logits.chunks_exact(classes).zip(labels);
    rows.filter(|(z, y)| argmax(z) == **y as usize).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_entropy_by_hand_and_by_differences() {
        // -log(e^2 / (e^1 + e^2 + e^3)) and -log(1/3).
        let logits = [1.0f32, 2.0, 3.0, 0.5, 0.5, 0.5];
        let labels = [1, 0];
        let mut cotangent = [0.0; 6];
        let loss = cross_entropy(3, &logits, (&labels, 2), &mut cotangent);
        let expected = (1.407_605_964_444_38 + 3f64.ln()) / 2.0;
        assert!((loss - expected).abs() < 1e-7);
        for i in 0..6 {
            let at = |by: f32| {
                let mut z = logits;
                z[i] += by;
                cross_entropy(3, &z, (&labels, 2), &mut [0.0; 6])
            };
            let numeric = (at(1e-3) - at(-1e-3)) / 2e-3;
            assert!((numeric - f64::from(cotangent[i])).abs() < 1e-4);
        }
    }

    #[test]
    fn squared_errors_are_in_units_of_the_values_variance() {
        let mut images = Images::new(network::Shape::new(1, 1, 1));
        for index in 0..2 {
            images.push(index, 0, &[0.0]);
        }
        // Variances 4 and 0: the second has no unit.
        images.values = vec![1.0, 7.0, 5.0, 7.0];
        let error = SquaredError::of(&images);
        let outputs = [3.0f32, 7.0, 3.0, 9.0];
        let mut cotangent = [0.0; 4];
        let loss = error.mean(&outputs, &images.values, 2, &mut cotangent);
        assert!((loss - (1.0 + 0.0 + 1.0 + 4.0) / 4.0).abs() < 1e-9);
        for (got, wanted) in cotangent.iter().zip([0.25, 0.0, -0.25, 1.0]) {
            assert!((got - wanted).abs() < 1e-6, "{cotangent:?}");
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let logits = [1e30f32, -1e30];
        let mut cotangent = [0.0; 2];
        assert_eq!(cross_entropy(2, &logits, (&[0], 1), &mut cotangent), 0.0);
        assert_eq!(network::logits::softmax(&logits), [1.0, 0.0]);
    }
}
