//! Bounds on the mean of numbers between 0 and 1.

/// A bound on the mean of `n` independent draws from [0, 1] that is wrong with
/// probability at most `alpha`: the empirical Bernstein bound with predictable
/// weights of Waudby-Smith and Ramdas ("Estimating means of bounded random
/// variables by betting", JRSS B 2024, theorem 2), one-sided.
///
/// With the mean and variance of what came before,
///
/// ```text
/// m_t = (1/2 + x_1 + ... + x_t) / (t+1),    s_t = (1/4 + sum_i (x_i - m_i)^2) / (t+1),
/// w_t = min( sqrt(2 ln(1/alpha) / (n s_(t-1))), 3/4 ),
/// ```
///
/// the weighted mean is off by more than the margin with probability `alpha`,
///
/// ```text
/// sum w_t x_t / sum w_t  -+  ( ln(1/alpha) + sum (x_t - m_(t-1))^2 (-ln(1-w_t) - w_t) ) / sum w_t,
/// ```
///
/// because `exp(w (x - mean) - (x - m)^2 (-ln(1-w) - w))` has an expectation of at
/// most 1 whatever m and w, as long as they are chosen before x is drawn. The
/// margin shrinks with the variance: where a class always has nearly all of the
/// probability it is about `1.3 ln(1/alpha) / n`.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanBound {
    ln_threshold: f64,
    planned: f64,
    draws: f64,
    sum: f64,
    squares: f64,
    weights: f64,
    weighted: f64,
    spread: f64,
}

/// The largest weight.
const LARGEST: f64 = 0.75;

impl MeanBound {
    /// For `n` draws. It holds for another number as well, but is sharpest at
    /// that.
    ///
    /// # Panics
    /// If `alpha` is not between 0 and 1.
    pub fn new(n: u32, alpha: f64) -> Self {
        assert!(alpha > 0.0 && alpha < 1.0, "alpha = {alpha}");
        Self {
            ln_threshold: -alpha.ln(),
            planned: n.into(),
            draws: 0.0,
            sum: 0.5,
            squares: 0.25,
            weights: 0.0,
            weighted: 0.0,
            spread: 0.0,
        }
    }

    /// The next draw.
    pub fn add(&mut self, x: f64) {
        let before = self.draws + 1.0;
        let (mean, variance) = (self.sum / before, self.squares / before);
        let weight = (2.0 * self.ln_threshold / (self.planned * variance)).sqrt();
        let weight = weight.min(LARGEST);
        self.weights += weight;
        self.weighted += weight * x;
        self.spread += (x - mean) * (x - mean) * (-(-weight).ln_1p() - weight);
        self.draws += 1.0;
        self.sum += x;
        let mean = self.sum / (self.draws + 1.0);
        self.squares += (x - mean) * (x - mean);
    }

    /// The mean is above this, at least 0.
    pub fn lower(&self) -> f64 {
        if self.weights == 0.0 {
            return 0.0;
        }
        ((self.weighted - self.margin()) / self.weights).max(0.0)
    }

    /// The mean is below this, at most 1.
    pub fn upper(&self) -> f64 {
        if self.weights == 0.0 {
            return 1.0;
        }
        ((self.weighted + self.margin()) / self.weights).min(1.0)
    }

    fn margin(&self) -> f64 {
        self.ln_threshold + self.spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_before_the_first_draw() {
        let bound = MeanBound::new(100, 0.001);
        assert_eq!((bound.lower(), bound.upper()), (0.0, 1.0));
    }

    /// A class that always has everything: the margin of a count, a third more.
    #[test]
    fn constant_draws_have_a_margin_of_one_over_n() {
        for (x, n) in [(0.0, 1000), (1.0, 1000), (1.0, 100_000)] {
            let mut bound = MeanBound::new(n, 0.001);
            (0..n).for_each(|_| bound.add(x));
            let margin = 0.001_f64.ln().abs() / f64::from(n);
            let off = if x > 0.5 {
                1.0 - bound.lower()
            } else {
                bound.upper()
            };
            assert!((1.3..1.6).contains(&(off / margin)), "{off} {margin}");
        }
    }
}
