//! From values to places, and round numbers for the ticks.

use super::Axis;

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
pub fn nice_step(step: f64) -> f64 {
    if !(step.is_finite() && step > 0.0) {
        return 1.0;
    }
    let exponent = step.log10().floor();
    for exponent in [exponent, exponent + 1.0] {
        for factor in [1.0, 2.0, 2.5, 5.0] {
            let nice = factor * 10f64.powf(exponent);
            if nice >= step * (1.0 - 1e-9) {
                return clean(nice);
            }
        }
    }
    step
}

/// Rounds away the dust of arithmetic: 0.30000000000000004 becomes 0.3.
pub fn clean(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

impl Axis {
    /// Where a value lies, 0 (low) to 1 (high).
    pub fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values along the axis.
    pub fn ticks(&self) -> Vec<f64> {
        if self.log {
            return self.log_ticks();
        }
        if !(self.high - self.low).is_finite() {
            return Vec::new();
        }
        let step = nice_step((self.high - self.low) / 6.5);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|at| clean(at as f64 * step)).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = if decades > 2.5 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        // Very long axes skip decades, at most about ten ticks stay.
        let skip = ((last - first) / 10 + 1) as usize;
        (first..=last)
            .step_by(skip)
            .flat_map(|exponent| factors.iter().map(move |f| clean(f * 10f64.powi(exponent))))
            .filter(|&tick| tick >= self.low * (1.0 - 1e-9) && tick <= self.high * (1.0 + 1e-9))
            .collect()
    }
}

/// A tick's text: plain, thousands as `10k`, very small or large as `1e-7`.
pub fn tick_text(value: f64) -> String {
    let size = value.abs();
    if size >= 1e9 || (size > 0.0 && size < 1e-4) {
        format!("{value:e}")
    } else if size >= 1e6 {
        format!("{}M", clean(value / 1e6))
    } else if size >= 1e4 {
        format!("{}k", clean(value / 1e3))
    } else {
        format!("{value}")
    }
    .replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        let axis = |low, high| Axis::linear("", "", low, high).ticks();
        assert_eq!(axis(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(axis(0.0, 0.35), [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(axis(-1.0, 1.0), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(
            Axis::logarithmic("", 10.0, 1000.0).ticks(),
            [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert_eq!(Axis::logarithmic("", 1.0, 1e6).ticks().len(), 7);
        assert_eq!(Axis::linear("", "", 3.0, 3.0).ticks().len(), 6);
        let texts = [0.25, 100_000.0, 2.5e6, -0.5, 1e-7].map(tick_text);
        assert_eq!(texts, ["0.25", "100k", "2.5M", "−0.5", "1e−7"]);
    }

    proptest! {
        #[test]
        fn there_are_always_a_few(low in -1e6..1e6f64, span in 1e-6..1e9f64, log: bool) {
            let axis = if log {
                Axis::logarithmic("", low.abs() + 1e-3, low.abs() + 1e-3 + span)
            } else {
                Axis::linear("", "", low, low + span)
            };
            let ticks = axis.ticks();
            prop_assert!(ticks.len() <= 20);
            prop_assert!(log || ticks.len() >= 2);
            prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
        }

        #[test]
        fn nice_steps_are_the_next_round_ones(step in 1e-9..1e9f64) {
            let nice = nice_step(step);
            prop_assert!(nice >= step * (1.0 - 1e-9) && nice <= 2.5 * step);
        }
    }
}
