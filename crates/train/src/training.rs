//! Everything about a training run that is not the method's own.

use std::time::Duration;

use data::{Augment, Dataset};
use network::SgdStep;
use settings::{SettingError, choices, settings};

use crate::methods::positive;
use crate::ranks::RankNorms;
use crate::schedule::Schedule;

choices! {
    /// Which variations of the training images.
    pub enum AugmentChoice {
        /// Those that are usual for the data set.
        Auto = "auto",
        /// None.
        None = "none",
    }
}

settings! {
    /// How a network is trained, whatever the method: stochastic gradient descent
    /// with momentum ([`SgdStep`]).
    pub struct Training {
        /// What the model is called in reports [default: its method's name].
        label: Option<String> = None,
        /// Passes over the data.
        epochs: u32 = 1,
        /// Images a step.
        batch_size: usize = 128,
        /// Learning rate.
        lr: f64 = 0.1,
        /// Factor on the learning rate over time: constant, cosine, one-cycle or
        /// piecewise:EPOCHS@FACTOR.
        schedule: Schedule = Schedule::Cosine,
        /// Epochs over which the rate first rises from 0.
        warmup_epochs: f64 = 0.0,
        /// Share of the old step that is kept, at least 0 and below 1.
        momentum: f64 = 0.9,
        /// Pull towards 0 on weights, never on biases and norms.
        weight_decay: f64 = 5e-4,
        /// Bound on the gradient's norm; 0: none.
        clip: f64 = 0.0,
        /// Variations of the images: auto (those usual for the data set) or none.
        augment: AugmentChoice = AugmentChoice::Auto,
        /// Keep the last N training images out of training, so that choices can
        /// be made on them rather than on test images.
        hold_out: usize = 0,
        /// Batch norms where several ranks train one network: synchronised (over the
        /// images of all ranks, as in one process), or per-rank.
        rank_norms: RankNorms = RankNorms::Synchronised,
        /// Seconds between checkpoints within an epoch.
        checkpoint_seconds: f64 = 30.0,
    }
}

impl Training {
    /// Refuses nonsense.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        let wrong =
            |name: &str, got: f64, expected: &str| Err(SettingError::value(name, got, expected));
        let at_least_zero = |v: f64| v >= 0.0 && v.is_finite();
        if let Some(label) = &self.label
            && (label.trim().is_empty() || label.chars().any(char::is_control))
        {
            return Err(SettingError::value("label", label, "a name of one line"));
        }
        if self.epochs == 0 {
            return wrong("epochs", 0.0, "at least 1");
        }
        if self.batch_size < 2 {
            let got = self.batch_size as f64;
            return wrong("batch-size", got, "at least 2, for batch norm");
        }
        positive("lr", self.lr)?;
        if !(0.0..1.0).contains(&self.momentum) {
            return wrong("momentum", self.momentum, "at least 0 and below 1");
        }
        for (name, value) in [
            ("weight-decay", self.weight_decay),
            ("clip", self.clip),
            ("checkpoint-seconds", self.checkpoint_seconds),
        ] {
            if !at_least_zero(value) {
                return wrong(name, value, "at least 0");
            }
        }
        if !(self.warmup_epochs >= 0.0 && self.warmup_epochs <= f64::from(self.epochs)) {
            let expected = "between 0 and the number of epochs";
            return wrong("warmup-epochs", self.warmup_epochs, expected);
        }
        Ok(())
    }

    /// The images that are trained on.
    ///
    /// # Errors
    /// If fewer than two are left.
    pub fn images(&self, data: &Dataset) -> Result<Dataset, SettingError> {
        match data.len().checked_sub(self.hold_out) {
            Some(len) if len >= 2 => Ok(data.first(len)),
            _ => {
                let expected =
                    format!("to leave 2 or more of the training images ({})", data.len());
                Err(SettingError::value("hold-out", self.hold_out, expected))
            }
        }
    }

    /// Variations of the training images.
    pub fn augmentation(&self, data: &Dataset) -> Augment {
        match self.augment {
            AugmentChoice::Auto => data.default_augment(),
            AugmentChoice::None => Augment::None,
        }
    }

    /// Learning rate after `done` epochs (a fraction within an epoch).
    pub fn rate(&self, done: f64) -> f64 {
        let warm = match self.warmup_epochs {
            warmup if done < warmup => done / warmup,
            _ => 1.0,
        };
        self.lr * warm * self.schedule.factor(done, f64::from(self.epochs))
    }

    /// The update after `done` epochs.
    pub fn step(&self, done: f64) -> SgdStep {
        SgdStep {
            rate: self.rate(done) as f32,
            momentum: self.momentum as f32,
            weight_decay: self.weight_decay as f32,
            clip: (self.clip != 0.0).then_some(self.clip as f32),
        }
    }

    /// Time between two checkpoints within an epoch.
    pub fn checkpoint_every(&self) -> Duration {
        Duration::try_from_secs_f64(self.checkpoint_seconds).unwrap_or(Duration::MAX)
    }
}
