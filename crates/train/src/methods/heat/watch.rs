//! Notices a diverging run before it wastes hours.

use serde::{Deserialize, Serialize};

use super::Start;
use crate::error::TrainError;

/// Steps whose mean is judged.
const WINDOW: u64 = 25;
/// A loss this many times its first mean explodes.
const EXPLODED: f64 = 20.0;
/// A warm student keeps more of its teacher than chance by this share.
const COLLAPSED: f64 = 0.15;

/// Means over windows of steps; part of a checkpoint, so that a resumed run is
/// watched like one that was not stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Watch {
    steps: u64,
    loss: f64,
    agreement: f64,
    first: Option<f64>,
}

impl Watch {
    /// Takes in one step of a student that began as `start`; an error if the
    /// window that it completes looks lost.
    pub fn see(
        &mut self,
        (start, classes): (Start, usize),
        (loss, agreement): (f64, f64),
        step: u64,
    ) -> Result<(), TrainError> {
        self.steps += 1;
        self.loss += loss;
        self.agreement += agreement;
        if self.steps < WINDOW {
            return Ok(());
        }
        let (loss, agreement) = (self.loss / WINDOW as f64, self.agreement / WINDOW as f64);
        (self.steps, self.loss, self.agreement) = (0, 0.0, 0.0);
        let first = *self.first.get_or_insert(loss);
        if loss > EXPLODED * first {
            let what = format!("the loss rose from {first:.3} to {loss:.3}");
            return Err(TrainError::Diverged { what, step });
        }
        let chance = 1.0 / classes.max(2) as f64;
        if start == Start::Warm && agreement < chance + COLLAPSED * (1.0 - chance) {
            let what = format!(
                "student and teacher agree on {:.0} % of the images",
                100.0 * agreement
            );
            return Err(TrainError::Diverged { what, step });
        }
        Ok(())
    }
}
