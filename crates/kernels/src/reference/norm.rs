//! Batch normalisation over the pixels of all images of a batch.

use super::Real;

/// Per-channel mean and biased variance over `rows` (images times pixels).
#[derive(Clone, Debug, PartialEq)]
pub struct BatchStatistics<T> {
    /// `m_c = mean of x_c`.
    pub mean: Vec<T>,
    /// `v_c = mean of (x_c - m_c)^2`, biased.
    pub variance: Vec<T>,
    /// Number of values per channel.
    pub rows: usize,
}

/// Statistics of `x`, rows of `channels` values.
pub fn batch_statistics<T: Real>(channels: usize, x: &[T]) -> BatchStatistics<T> {
    let rows = x.len() / channels;
    let n = T::from_f64(rows as f64);
    let mut mean = vec![T::ZERO; channels];
    let mut variance = vec![T::ZERO; channels];
    for row in x.chunks_exact(channels) {
        for (m, &x) in mean.iter_mut().zip(row) {
            *m += x;
        }
    }
    mean.iter_mut().for_each(|m| *m = *m / n);
    for row in x.chunks_exact(channels) {
        for ((v, &m), &x) in variance.iter_mut().zip(&mean).zip(row) {
            *v += (x - m) * (x - m);
        }
    }
    variance.iter_mut().for_each(|v| *v = *v / n);
    BatchStatistics {
        mean,
        variance,
        rows,
    }
}

/// `y = (x - mean) / sqrt(variance + epsilon) * scale + shift` with given
/// statistics; an absent scale is 1, an absent shift 0.
pub fn batch_norm_eval<T: Real>(
    statistics: (&[T], &[T]),
    epsilon: T,
    scale: Option<&[T]>,
    shift: Option<&[T]>,
    x: &[T],
    y: &mut [T],
) {
    let (mean, variance) = statistics;
    let channels = mean.len();
    for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
        for c in 0..channels {
            let hat = (x[c] - mean[c]) / (variance[c] + epsilon).sqrt();
            y[c] = hat * scale.map_or(T::ONE, |s| s[c]) + shift.map_or(T::ZERO, |s| s[c]);
        }
    }
}

/// Train-mode batch norm and its backward pass.
///
/// With `s = sqrt(v + epsilon)` and `hat = (x - m)/s`, for `N` rows:
///
/// ```text
/// dshift = sum dy,   dscale = sum dy * hat
/// dx = scale/s * (dy - dshift/N - hat * dscale/N)
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm<'a, T> {
    /// Of the batch itself.
    pub statistics: &'a BatchStatistics<T>,
    /// Added to the variance.
    pub epsilon: T,
    /// Absent: 1.
    pub scale: Option<&'a [T]>,
}

impl<T: Real> BatchNorm<'_, T> {
    /// Writes `dx` and adds to `dscale` and `dshift`.
    pub fn backward(&self, x: &[T], dy: &[T], dx: &mut [T], dscale: &mut [T], dshift: &mut [T]) {
        let BatchStatistics {
            mean,
            variance,
            rows,
        } = self.statistics;
        let channels = mean.len();
        let n = T::from_f64(*rows as f64);
        for c in 0..channels {
            let s = (variance[c] + self.epsilon).sqrt();
            let hat = |r: usize| (x[r * channels + c] - mean[c]) / s;
            let (mut sum, mut dot) = (T::ZERO, T::ZERO);
            for r in 0..*rows {
                sum += dy[r * channels + c];
                dot += dy[r * channels + c] * hat(r);
            }
            let scale = self.scale.map_or(T::ONE, |s| s[c]);
            for r in 0..*rows {
                let i = r * channels + c;
                dx[i] = scale / s * (dy[i] - sum / n - hat(r) * dot / n);
            }
            dscale[c] += dot;
            dshift[c] += sum;
        }
    }
}
