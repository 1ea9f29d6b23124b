//! The largest of many numbers: a reverse Weibull distribution fitted by maximum
//! likelihood.

/// `P(X <= x) = exp(-((location - x)/scale)^shape)` for x below `location`, the largest
/// value that there is: what maxima of bounded numbers tend to (Fisher, Tippett,
/// Gnedenko).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReverseWeibull {
    /// The right end of the distribution.
    pub location: f64,
    /// Its shape, at least 1; infinite where the likelihood grows without end as the
    /// location does, so that the numbers say nothing about it: the location is then
    /// the largest number itself.
    pub shape: f64,
    /// Its scale; 0 where all numbers are equal.
    pub scale: f64,
}

/// Steps of the logarithm of the distance between location and largest number.
const STEPS: i32 = 80;
/// That distance, as a multiple of the range of the numbers, goes from 10^-6 to 10^2.
const DECADES: (f64, f64) = (-6.0, 2.0);

impl ReverseWeibull {
    /// The fit of largest likelihood with a shape of at least 1. (Below 1 the density
    /// has a pole at the location, and the likelihood no maximum.) `None` without
    /// numbers, or if one is not finite.
    ///
    /// For a given location, `y = location - x` is a Weibull variable: its shape is the
    /// root of an increasing function, its scale follows. What remains is the maximum
    /// of a function of the location alone.
    pub fn fit(numbers: &[f64]) -> Option<Self> {
        if numbers.is_empty() || numbers.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let largest = numbers.iter().copied().fold(f64::MIN, f64::max);
        let smallest = numbers.iter().copied().fold(f64::MAX, f64::min);
        let range = largest - smallest;
        let flat = |shape| Self {
            location: largest,
            shape,
            scale: range,
        };
        // Equal up to rounding: there is nothing to fit.
        if range <= 1e-9 * largest.abs() {
            return Some(flat(1.0));
        }
        let at = |logarithm: f64| {
            let location = largest + range * logarithm.exp();
            let y: Vec<f64> = numbers.iter().map(|x| location - x).collect();
            (location, Weibull::fit(&y))
        };
        let likelihood = |logarithm: f64| at(logarithm).1.log_likelihood;
        let (from, to) = (
            DECADES.0 * std::f64::consts::LN_10,
            DECADES.1 * std::f64::consts::LN_10,
        );
        let step = (to - from) / f64::from(STEPS);
        let place = |i: i32| from + step * f64::from(i);
        let better = |a: &i32, b: &i32| likelihood(place(*a)).total_cmp(&likelihood(place(*b)));
        let best = (0..=STEPS).max_by(better)?;
        if best == STEPS {
            return Some(flat(f64::INFINITY));
        }
        let (location, Weibull { shape, scale, .. }) =
            at(maximum(place(best - 1), place(best + 1), likelihood));
        Some(Self {
            location,
            shape,
            scale,
        })
    }

    /// `P(X <= x)`.
    pub fn cdf(&self, x: f64) -> f64 {
        if x >= self.location {
            return 1.0;
        }
        (-((self.location - x) / self.scale).powf(self.shape)).exp()
    }

    /// The Kolmogorov-Smirnov distance between the distribution and the numbers; NaN
    /// where nothing was fitted.
    pub fn distance(&self, numbers: &[f64]) -> f64 {
        if !(self.scale > 0.0 && self.shape.is_finite()) {
            return f64::NAN;
        }
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let steps = sorted.iter().enumerate().map(|(i, &x)| {
            let p = self.cdf(x);
            (p - i as f64 / n).max((i as f64 + 1.0) / n - p)
        });
        steps.fold(0.0, f64::max)
    }
}

/// The Weibull distribution of positive numbers, with a shape of at least 1.
struct Weibull {
    shape: f64,
    scale: f64,
    log_likelihood: f64,
}

impl Weibull {
    fn fit(y: &[f64]) -> Self {
        let n = y.len() as f64;
        let largest = y.iter().copied().fold(0.0, f64::max);
        // Logarithms of y / largest: all powers are at most 1.
        let logs: Vec<f64> = y.iter().map(|y| (y / largest).ln()).collect();
        let mean_log = logs.iter().sum::<f64>() / n;
        let power_sums = |shape: f64| {
            logs.iter().fold((0.0, 0.0), |(sum, weighted), log| {
                let power = (shape * log).exp();
                (sum + power, weighted + power * log)
            })
        };
        // The derivative of the likelihood by the shape is -n times this.
        let excess = |shape: f64| {
            let (sum, weighted) = power_sums(shape);
            weighted / sum - 1.0 / shape - mean_log
        };
        let (mut low, mut high) = (1.0, 2.0);
        if excess(low) < 0.0 {
            while excess(high) < 0.0 && high < 1e9 {
                (low, high) = (high, 2.0 * high);
            }
            while high - low > 1e-13 * high {
                let middle = 0.5 * (low + high);
                if middle <= low || middle >= high {
                    break;
                }
                if excess(middle) < 0.0 {
                    low = middle;
                } else {
                    high = middle;
                }
            }
        }
        let shape: f64 = low;
        let mean_power = power_sums(shape).0 / n;
        // Of y / largest; largest itself enters by its logarithm.
        let per_number = shape.ln() - mean_power.ln() + (shape - 1.0) * mean_log - 1.0;
        Self {
            shape,
            scale: largest * mean_power.powf(1.0 / shape),
            log_likelihood: n * (per_number - largest.ln()),
        }
    }
}

/// Where a function with one peak is largest, by golden sections.
fn maximum(mut from: f64, mut to: f64, value: impl Fn(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_8;
    let mut left = to - RATIO * (to - from);
    let mut right = from + RATIO * (to - from);
    let (mut at_left, mut at_right) = (value(left), value(right));
    for _ in 0..48 {
        if at_left < at_right {
            (from, left, at_left) = (left, right, at_right);
            right = from + RATIO * (to - from);
            at_right = value(right);
        } else {
            (to, right, at_right) = (right, left, at_left);
            left = to - RATIO * (to - from);
            at_left = value(left);
        }
    }
    0.5 * (from + to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line a set of numbers: location, shape, scale, Kolmogorov-Smirnov distance
    /// and log-likelihood of SciPy's fit, then the numbers; from
    /// tests/goldens/weibull.py.
    #[test]
    fn fits_agree_with_scipy() {
        let text = include_str!("../../tests/goldens/weibull.tsv");
        let mut sets = 0;
        for line in text.lines().skip(1) {
            let cells = line.split('\t').map(|cell| cell.parse::<f64>().unwrap());
            let cells: Vec<f64> = cells.collect();
            let (want, numbers) = cells.split_at(5);
            let fit = ReverseWeibull::fit(numbers).unwrap();
            let close = |got: f64, want: f64, what: &str| {
                let error = (got / want - 1.0).abs();
                assert!(error < 2e-4, "{what} {got}, SciPy {want}");
            };
            // The likelihood is flat along a ridge of location, shape and scale.
            close(fit.location, want[0], "location");
            assert!((fit.shape / want[1] - 1.0).abs() < 1e-2, "{fit:?} {want:?}");
            assert!((fit.scale / want[2] - 1.0).abs() < 1e-2, "{fit:?} {want:?}");
            assert!((fit.distance(numbers) - want[3]).abs() < 2e-3, "{fit:?}");
            let density = |x: &f64| {
                let t = (fit.location - x) / fit.scale;
                fit.shape.ln() - fit.scale.ln() + (fit.shape - 1.0) * t.ln() - t.powf(fit.shape)
            };
            let likelihood: f64 = numbers.iter().map(density).sum();
            // Never a worse fit than SciPy's.
            assert!(likelihood > want[4] - 1e-6, "{likelihood} {}", want[4]);
            sets += 1;
        }
        assert_eq!(sets, 12);
    }

    #[test]
    fn equal_numbers_and_numbers_without_an_end_have_their_largest_as_location() {
        let fit = ReverseWeibull::fit(&[2.0; 9]).unwrap();
        assert_eq!((fit.location, fit.scale), (2.0, 0.0));
        assert!(fit.distance(&[2.0; 9]).is_nan());
        // Quantiles of a Gumbel distribution with a heavier right tail still.
        let heavy: Vec<f64> = (1..60).map(|i| 1.0 / (1.0 - f64::from(i) / 60.0)).collect();
        let fit = ReverseWeibull::fit(&heavy).unwrap();
        assert_eq!((fit.location, fit.shape), (heavy[58], f64::INFINITY));
        assert_eq!(ReverseWeibull::fit(&[]), None);
        assert_eq!(ReverseWeibull::fit(&[1.0, f64::NAN]), None);
    }
}
