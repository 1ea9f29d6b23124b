//! Learning-rate schedules as pure functions of the position in a run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Factor on the base learning rate, as a function of the epochs done.
///
/// | text | factor at `t` of `T` epochs |
/// |---|---|
/// | `constant` | 1 |
/// | `piecewise:60,120,160@0.2` | `0.2^k`, `k` of the given epochs being past |
/// | `cosine` | `(1 + cos(pi t/T)) / 2` |
/// | `one-cycle` | cosine up from 1/25 to 1 over the first 30 %, then cosine down to 1e-4 |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Schedule {
    /// The base rate all the way.
    Constant,
    /// Multiplied by `factor` at each of the epochs.
    Piecewise {
        /// Epochs at which the rate drops, ascending.
        epochs: Vec<u32>,
        /// By this.
        factor: f64,
    },
    /// Half a cosine, from 1 down to 0.
    Cosine,
    /// Up and down again (Smith and Topin), as PyTorch's `OneCycleLR`.
    OneCycle,
}

impl Schedule {
    /// Factor after `done` of `total` epochs; both may be fractions.
    pub fn factor(&self, done: f64, total: f64) -> f64 {
        let part = if total > 0.0 {
            (done / total).min(1.0)
        } else {
            1.0
        };
        let between = |from: f64, to: f64, part: f64| {
            to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * part).cos())
        };
        match self {
            Self::Constant => 1.0,
            Self::Piecewise { epochs, factor } => {
                let past = epochs.iter().filter(|&&e| f64::from(e) <= done).count();
                factor.powi(past as i32)
            }
            Self::Cosine => between(1.0, 0.0, part),
            Self::OneCycle if part < 0.3 => between(1.0 / 25.0, 1.0, part / 0.3),
            Self::OneCycle => between(1.0, 1e-4, (part - 0.3) / 0.7),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Piecewise { epochs, factor } => {
                let epochs: Vec<String> = epochs.iter().map(u32::to_string).collect();
                write!(f, "piecewise:{}@{factor}", epochs.join(","))
            }
            Self::Cosine => f.write_str("cosine"),
            Self::OneCycle => f.write_str("one-cycle"),
        }
    }
}

/// A text that is no schedule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no schedule: expected constant, cosine, one-cycle or piecewise:60,120,160@0.2")]
pub struct ScheduleError(String);

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let wrong = || ScheduleError(text.into());
        match text {
            "constant" => return Ok(Self::Constant),
            "cosine" => return Ok(Self::Cosine),
            "one-cycle" => return Ok(Self::OneCycle),
            _ => {}
        }
        let rest = text.strip_prefix("piecewise:").ok_or_else(wrong)?;
        let (epochs, factor) = rest.split_once('@').ok_or_else(wrong)?;
        let epochs: Result<Vec<u32>, _> = epochs.split(',').map(str::parse).collect();
        let epochs = epochs.map_err(|_| wrong())?;
        let factor: f64 = factor.parse().map_err(|_| wrong())?;
        let ascending = epochs.windows(2).all(|pair| pair[0] < pair[1]);
        if !(ascending && factor > 0.0 && factor <= 1.0) {
            return Err(wrong());
        }
        Ok(Self::Piecewise { epochs, factor })
    }
}

impl settings::Setting for Schedule {
    const KIND: settings::FieldKind = settings::FieldKind::Text;
}

/// The texts that there are, as settings say what they expect.
impl TryFrom<String> for Schedule {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
            .map_err(|_: ScheduleError| "constant, cosine, one-cycle or piecewise:60,120,160@0.2")
    }
}

impl From<Schedule> for String {
    fn from(schedule: Schedule) -> Self {
        schedule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }

    #[test]
    fn factors_at_the_corners() {
        let piecewise: Schedule = "piecewise:60,120,160@0.2".parse().unwrap();
        for (epoch, factor) in [
            (0.0, 1.0),
            (59.9, 1.0),
            (60.0, 0.2),
            (159.0, 0.04),
            (199.0, 0.008),
        ] {
            close(piecewise.factor(epoch, 200.0), factor);
        }
        close(Schedule::Cosine.factor(0.0, 10.0), 1.0);
        close(Schedule::Cosine.factor(5.0, 10.0), 0.5);
        close(Schedule::Cosine.factor(10.0, 10.0), 0.0);
        close(Schedule::OneCycle.factor(0.0, 10.0), 0.04);
        close(Schedule::OneCycle.factor(3.0, 10.0), 1.0);
        close(Schedule::OneCycle.factor(10.0, 10.0), 1e-4);
    }

    #[test]
    fn texts_come_back_and_nonsense_is_refused() {
        for text in ["constant", "cosine", "one-cycle", "piecewise:3,5@0.1"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "cos",
            "piecewise:",
            "piecewise:5,3@0.1",
            "piecewise:3@0",
            "piecewise:3@nan",
            "piecewise:a@1",
        ] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
