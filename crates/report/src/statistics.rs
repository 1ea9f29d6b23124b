//! The figures of a report, as method.md defines them.

/// Two-sided 95 % quantile of the standard normal distribution.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Certified accuracy against radius for one log.
#[derive(Clone, Debug)]
pub struct CertifiedCurve {
    /// Images in the log.
    pub images: usize,
    /// Images abstained on.
    pub abstained: usize,
    /// Radii of the images that are right and certified, ascending.
    radii: Vec<f64>,
}

impl CertifiedCurve {
    /// From (radius, right) of each image; `None` where abstained.
    pub fn new(rows: impl Iterator<Item = Option<(f64, bool)>>) -> Self {
        let mut out = Self {
            images: 0,
            abstained: 0,
            radii: Vec::new(),
        };
        for row in rows {
            out.images += 1;
            match row {
                None => out.abstained += 1,
                Some((radius, true)) => out.radii.push(radius),
                Some((_, false)) => {}
            }
        }
        out.radii.sort_unstable_by(f64::total_cmp);
        out
    }

    /// Images that are right, not abstained on, with radius >= `radius`.
    pub fn count(&self, radius: f64) -> usize {
        self.radii.len() - self.radii.partition_point(|&found| found < radius)
    }

    /// Average certified radius: the mean of radius*correct over all images.
    pub fn acr(&self) -> f64 {
        self.radii.iter().sum::<f64>() / self.images as f64
    }

    /// The largest radius; 0 without any.
    pub fn largest(&self) -> f64 {
        self.radii.last().copied().unwrap_or(0.0)
    }
}

/// Cohen's lower bound on certified accuracy over the data set, right with
/// probability 1 - rho although each of the N certificates may fail with alpha:
/// `acc - alpha - sqrt(alpha (1-alpha) ln(1/rho) / N) - ln(1/rho) / (3N)`.
pub fn high_probability_accuracy(accuracy: f64, alpha: f64, rho: f64, images: usize) -> f64 {
    let (log, images) = ((1.0 / rho).ln(), images as f64);
    let bound =
        accuracy - alpha - (alpha * (1.0 - alpha) * log / images).sqrt() - log / (3.0 * images);
    bound.max(0.0)
}

/// Median of ascending values (the mean of the two in the middle); `None` of none.
pub fn median(ascending: &[f64]) -> Option<f64> {
    let middle = ascending.len() / 2;
    match ascending.len() {
        0 => None,
        length if length % 2 == 1 => Some(ascending[middle]),
        _ => Some((ascending[middle - 1] + ascending[middle]) / 2.0),
    }
}

/// Mean; `None` of none.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// An estimate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the interval leaves out 0: the difference is not chance alone.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// Paired outcomes of two models on the same images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paired {
    /// Both models.
    pub both: usize,
    /// The first only.
    pub first: usize,
    /// The second only.
    pub second: usize,
    /// Neither.
    pub neither: usize,
}

/// Difference of two paired proportions with Newcombe's square-and-add interval
/// (R. G. Newcombe, Statistics in Medicine 17, 1998, p. 2635, method 10): Wilson
/// intervals of both proportions, joined with their correlation. Closed form,
/// within [-1, 1], sound also where the models never disagree.
pub fn paired_difference(counts: Paired) -> Option<Interval> {
    let Paired {
        both,
        first,
        second,
        neither,
    } = counts;
    let [a, b, c, d] = [both, first, second, neither].map(|count| count as f64);
    let images = a + b + c + d;
    if images == 0.0 {
        return None;
    }
    let (p, q) = ((a + b) / images, (a + c) / images);
    let ((p_low, p_high), (q_low, q_high)) = (wilson(p, images), wilson(q, images));
    let margins = (a + b) * (c + d) * (a + c) * (b + d);
    let correlation = if margins == 0.0 {
        0.0
    } else {
        let product = a * d - b * c;
        // Newcombe's continuity correction of a positive correlation.
        let product = if product > 0.0 {
            (product - images / 2.0).max(0.0)
        } else {
            product
        };
        product / margins.sqrt()
    };
    let reach = |x: f64, y: f64| (x * x - 2.0 * correlation * x * y + y * y).max(0.0).sqrt();
    Some(Interval {
        value: p - q,
        low: p - q - reach(p - p_low, q_high - q),
        high: p - q + reach(p_high - p, q - q_low),
    })
}

/// Wilson's 95 % interval of a proportion.
fn wilson(p: f64, images: f64) -> (f64, f64) {
    let z2 = Z95 * Z95;
    let centre = p + z2 / (2.0 * images);
    let half = Z95 * (p * (1.0 - p) / images + z2 / (4.0 * images * images)).sqrt();
    let scale = 1.0 + z2 / images;
    (
        ((centre - half) / scale).max(0.0),
        ((centre + half) / scale).min(1.0),
    )
}

/// Mean of paired differences with its normal 95 % interval; `None` of fewer
/// than two.
pub fn mean_difference(differences: &[f64]) -> Option<Interval> {
    let count = differences.len() as f64;
    if count < 2.0 {
        return None;
    }
    let value = mean(differences)?;
    let squares: f64 = differences.iter().map(|x| (x - value) * (x - value)).sum();
    let half = Z95 * (squares / (count - 1.0) / count).sqrt();
    Some(Interval {
        value,
        low: value - half,
        high: value + half,
    })
}

/// Median of paired differences with its sign-test 95 % interval: order
/// statistics, exact for any continuous distribution, so that infinite
/// differences (a distance that was never found) have their place too. `None` of
/// fewer than six, for which no order statistics reach 95 %, or if the estimate
/// is not finite.
pub fn median_difference(differences: &mut [f64]) -> Option<Interval> {
    differences.sort_unstable_by(f64::total_cmp);
    let count = differences.len();
    // The largest `below` with P(Binomial(count, 1/2) < below) <= 2.5 %.
    let mut log_choose = 0.0;
    let mut tail = 0.0;
    let mut below = 0;
    while below < count {
        tail += (log_choose - count as f64 * std::f64::consts::LN_2).exp();
        if tail > 0.025 {
            break;
        }
        log_choose += ((count - below) as f64 / (below + 1) as f64).ln();
        below += 1;
    }
    let value = median(differences).filter(|value| value.is_finite())?;
    (below > 0).then(|| Interval {
        value,
        low: differences[below - 1],
        high: differences[count - below],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ranks from tables of the sign test: 6 differences, the extremes; 25, the
    /// 8th from both ends; 100, the 40th.
    #[test]
    fn medians_of_differences_with_tabled_ranks() {
        assert_eq!(median_difference(&mut [1.0, 2.0, 3.0, 4.0, 5.0]), None);
        for (count, rank) in [(6usize, 1), (25, 8), (100, 40)] {
            let mut all: Vec<f64> = (1..=count).rev().map(|i| i as f64).collect();
            all[0] = f64::INFINITY;
            let found = median_difference(&mut all).unwrap();
            let high = match rank {
                1 => f64::INFINITY,
                _ => (count + 1 - rank) as f64,
            };
            assert_eq!((found.low, found.high), (rank as f64, high), "{count}");
            assert_eq!(found.value, (count + 1) as f64 / 2.0);
        }
        assert_eq!(median_difference(&mut [f64::INFINITY; 9]), None);
    }

    #[test]
    fn certified_accuracy_counts_right_certified_and_far_enough() {
        let rows = [
            Some((0.5, true)),
            None,
            Some((0.9, false)),
            Some((0.2, true)),
        ];
        let certified = CertifiedCurve::new(rows.into_iter());
        let counts = [0.0, 0.2, 0.2000001, 0.5, 0.6].map(|radius| certified.count(radius));
        assert_eq!(counts, [2, 2, 1, 1, 0]);
        assert_eq!((certified.images, certified.abstained), (4, 1));
        assert_eq!(certified.acr(), 0.7 / 4.0);
        assert_eq!(certified.largest(), 0.5);
    }

    /// Tables that textbooks work out (Bentur et al. 2009; Altman et al. 2000,
    /// table 6.2); the limits are from `newcombe` in `tests/goldens/generate.py`.
    #[test]
    fn paired_intervals_of_textbook_tables() {
        for ((both, first, second, neither), low, high) in [
            (
                (1, 1, 7, 12),
                -0.506_920_226_686_141,
                -0.025_559_124_164_859_837,
            ),
            (
                (14, 5, 0, 22),
                0.011_483_241_383_033_25,
                0.226_492_684_351_211_25,
            ),
        ] {
            let counts = Paired {
                both,
                first,
                second,
                neither,
            };
            let found = paired_difference(counts).unwrap();
            assert!((found.low - low).abs() < 1e-12, "{found:?}");
            assert!((found.high - high).abs() < 1e-12, "{found:?}");
        }
    }

    /// Exact coverage, a sum over all tables of 30 images: at least the nominal
    /// 95 % within a hair, and more where models hardly ever disagree.
    #[test]
    fn paired_intervals_cover() {
        let logs: Vec<f64> = (0..=30)
            .scan(0.0, |sum, k| {
                *sum += f64::from(k.max(1)).ln();
                Some(*sum)
            })
            .collect();
        for (p, most) in [
            ([0.6f64, 0.2, 0.1, 0.1], 0.97),
            ([0.4, 0.1, 0.1, 0.4], 0.97),
            ([0.85, 0.05, 0.03, 0.07], 1.0),
        ] {
            let mut covered = 0.0;
            for a in 0..=30usize {
                for b in 0..=30 - a {
                    for c in 0..=30 - a - b {
                        let d = 30 - a - b - c;
                        let counts = Paired {
                            both: a,
                            first: b,
                            second: c,
                            neither: d,
                        };
                        let found = paired_difference(counts).unwrap();
                        if found.low <= p[1] - p[2] && p[1] - p[2] <= found.high {
                            let log = logs[30]
                                + [a, b, c, d]
                                    .iter()
                                    .zip(p)
                                    .map(|(&k, p)| k as f64 * p.ln() - logs[k])
                                    .sum::<f64>();
                            covered += log.exp();
                        }
                    }
                }
            }
            assert!((0.945..=most).contains(&covered), "{p:?}: {covered}");
        }
    }

    #[test]
    fn medians_and_means() {
        assert_eq!((median(&[]), mean(&[])), (None, None));
        assert_eq!(
            (median(&[3.0]), median(&[1.0, 2.0, 9.0])),
            (Some(3.0), Some(2.0))
        );
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
    }

    proptest! {
        #[test]
        fn paired_intervals_hold_the_estimate_and_mirror(
            both in 0usize..50, first in 0usize..50, second in 0usize..50, neither in 0usize..50,
        ) {
            prop_assume!(both + first + second + neither > 0);
            let there = paired_difference(Paired { both, first, second, neither }).unwrap();
            let back = paired_difference(Paired { both, first: second, second: first, neither }).unwrap();
            prop_assert!(-1.0 - 1e-12 <= there.low && there.low <= there.value);
            prop_assert!(there.value <= there.high && there.high <= 1.0 + 1e-12);
            prop_assert!((there.low + back.high).abs() < 1e-12);
        }
    }
}
