//! Losses on logits: value and cotangent, per image.

use network::logits::{argmax, log_softmax};

/// Cross-entropy `-log softmax(z)_y`, averaged over the images: the mean, and
/// `d mean / d logits = (softmax(z) - e_y) / images` in `cotangent`.
pub fn cross_entropy(classes: usize, logits: &[f32], labels: &[u32], cotangent: &mut [f32]) -> f64 {
    let images = labels.len() as f64;
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
        let loss = cross_entropy(3, &logits, &labels, &mut cotangent);
        let expected = (1.407_605_964_444_38 + 3f64.ln()) / 2.0;
        assert!((loss - expected).abs() < 1e-7);
        for i in 0..6 {
            let at = |by: f32| {
                let mut z = logits;
                z[i] += by;
                cross_entropy(3, &z, &labels, &mut [0.0; 6])
            };
            let numeric = (at(1e-3) - at(-1e-3)) / 2e-3;
            assert!((numeric - f64::from(cotangent[i])).abs() < 1e-4);
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let logits = [1e30f32, -1e30];
        let mut cotangent = [0.0; 2];
        assert_eq!(cross_entropy(2, &logits, &[0], &mut cotangent), 0.0);
        assert_eq!(network::logits::softmax(&logits), [1.0, 0.0]);
    }
}
