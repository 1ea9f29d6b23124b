//! Euclidean geometry of images, summed in `f64`.

use network::{Noise, Purpose};

/// `||values||_2`.
pub fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// `adversarial - image`, pixel by pixel.
pub fn difference<'a>(image: &'a [f32], adversarial: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
    let pairs = image.iter().zip(adversarial);
    pairs.map(|(&x, &a)| f64::from(a) - f64::from(x))
}

/// `||adversarial - image||_2`.
pub fn distance(image: &[f32], adversarial: &[f32]) -> f64 {
    norm(difference(image, adversarial))
}

/// `max |adversarial - image|`.
pub fn max_distance(image: &[f32], adversarial: &[f32]) -> f64 {
    difference(image, adversarial).fold(0.0, |max, d| max.max(d.abs()))
}

/// Moves `adversarial` towards `image` until `distance <= eps` holds, not only
/// up to rounding.
pub fn project(image: &[f32], adversarial: &mut [f32], eps: f64) {
    let mut norm = distance(image, adversarial);
    let mut scale = eps / norm;
    let mut shrink = (-24f64).exp2();
    while norm > eps {
        for (a, &x) in adversarial.iter_mut().zip(image) {
            let x = f64::from(x);
            *a = (x + scale * (f64::from(*a) - x)) as f32;
        }
        // Rounding pixels to f32 can leave the norm a hair too large. The last
        // of at most 25 such rounds has scale 0 and gives back the image.
        scale = 1.0 - shrink;
        shrink = (2.0 * shrink).min(1.0);
        norm = distance(image, adversarial);
    }
}

/// `gradient / ||gradient||`, or a random direction if that is 0 or not finite:
/// a pure function of `(seed, image, step)`.
pub fn unit(gradient: &[f32], seed: u64, image: u32, step: u32) -> Vec<f64> {
    let normalised = |values: &[f32]| {
        let norm = norm(values.iter().map(|&v| f64::from(v)));
        let usable = norm > 0.0 && norm.is_finite();
        usable.then(|| values.iter().map(|&v| f64::from(v) / norm).collect())
    };
    let noise = Noise::gaussian(seed, Purpose::Attack, 1.0);
    normalised(gradient)
        .or_else(|| normalised(&noise.draw(image, step, gradient.len())))
        .unwrap_or_else(|| vec![0.0; gradient.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn projection_keeps_range_and_budget(
            pairs in prop::collection::vec((0.0f32..=1.0, 0.0f32..=1.0), 1..60),
            exponent in -9.0f64..1.0,
        ) {
            let eps = 10f64.powf(exponent);
            let (image, start): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let mut adversarial = start.clone();
            project(&image, &mut adversarial, eps);
            let got = distance(&image, &adversarial);
            prop_assert!(got <= eps);
            prop_assert!(adversarial.iter().all(|a| (0.0..=1.0).contains(a)));
            let wanted = distance(&image, &start).min(eps);
            if eps > 1e-3 {
                prop_assert!((got / wanted - 1.0).abs() < 1e-4 || got == wanted);
            }
            if wanted < eps {
                prop_assert_eq!(start, adversarial);
            }
        }
    }

    #[test]
    fn a_zero_gradient_gives_a_reproducible_random_direction() {
        let zeros = [0.0; 50];
        let a = unit(&zeros, 7, 3, 1);
        assert!((norm(a.iter().copied()) - 1.0).abs() < 1e-12);
        assert_eq!(a, unit(&[f32::NAN; 50], 7, 3, 1));
        for other in [
            unit(&zeros, 8, 3, 1),
            unit(&zeros, 7, 4, 1),
            unit(&zeros, 7, 3, 2),
        ] {
            let cosine: f64 = a.iter().zip(&other).map(|(x, y)| x * y).sum();
            assert!(cosine.abs() < 0.6);
        }
    }
}
