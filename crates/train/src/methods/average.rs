//! Averaging: the Gaussian average itself, with the noise on the teacher's side.

use network::logits::{log_softmax, softmax, vote};
use network::{Executor, Gradients, Images, Mode, Model, NoisyImage, Purpose};
use serde_json::Value;
use settings::{SettingError, choices, settings};

use super::heat::head::Headed;
use super::heat::{Fit, Heat, HeatParams, Start, agreeing};
use super::inputs::{InnerAttackParams, Inputs};
use super::{Leg, LegContext, Method, Position, TrainingNoise, positive, share, widths};
use crate::error::TrainError;
use crate::loss;
use crate::minibatch::Minibatch;
use crate::rows::Rows;

choices! {
    /// What of the teacher is averaged over the noise.
    pub enum AverageOf {
        /// Its logits: `E f(x + eta)`.
        Logits = "logits",
        /// Its probabilities: `E softmax f(x + eta)`.
        Probabilities = "probabilities",
        /// Its decisions: the share of the noise for which it chooses each class,
        /// from which the radius of randomized smoothing follows.
        Votes = "votes",
    }
}

choices! {
    /// What becomes of the student's ReLUs.
    pub enum Relus {
        /// Each becomes its own average over what the noise is where it stands.
        Averaged = "averaged",
        /// They stay as they are.
        Kept = "kept",
    }
}

choices! {
    /// Which statistics the student's batch norms use while it learns.
    pub enum Norms {
        /// The teacher's running ones: the student differs by its weights alone.
        Running = "running",
        /// Those of the batch.
        Batch = "batch",
    }
}

settings! {
    /// Hyper-parameters of averaging. The loss of one image is
    ///
    /// ```text
    /// J = 1/M sum_i fit(v(x), f(x + eta_i)),      eta_i ~ N(0, sigma^2 I), fresh in every step
    /// ```
    ///
    /// Its exact minimiser is `v(x) = E f(x + eta)`, whatever the number of draws, and
    /// whatever the distribution of the noise.
    pub struct AverageParams {
        /// What is averaged: logits (the outputs as they are; all that real values
        /// have), probabilities, or votes (the share of the noise for which f
        /// chooses each class).
        target: AverageOf = AverageOf::Probabilities,
        /// Noisy teacher passes an image and step.
        draws: u32 = 2,
        /// Draws come in pairs eta and -eta: true or false [default: true].
        antithetic: bool = true,
        /// Share of the student's inputs that get noise of their own, 0 to 1: v is
        /// the average there, too.
        noisy_share: f64 = 0.5,
        /// Share of the student's inputs that are mixtures of two images, 0 to 1.
        mixed_share: f64 = 0.0,
        /// Where the student starts: warm (the teacher's weights) or reinit.
        start: Start = Start::Warm,
        /// The student's ReLUs: averaged (each over the noise that reaches it), or
        /// kept as they are.
        relus: Relus = Relus::Averaged,
        /// Statistics of the student's batch norms while it learns: running (the
        /// teacher's, and kept), or batch [default: running; batch for reinit].
        norms: Option<Norms> = None,
        /// Scale of an additional heat penalty; 0: none.
        lambda: f64 = 0.0,
    }
}

impl AverageParams {
    /// Refuses nonsense.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        if !(1..=100_000).contains(&self.draws) {
            return Err(SettingError::value("draws", self.draws, "1 to 100000"));
        }
        share("noisy-share", self.noisy_share)?;
        share("mixed-share", self.mixed_share)?;
        if (self.start, self.norms) == (Start::Reinit, Some(Norms::Running)) {
            let wanted = "batch: fresh weights have no running statistics yet";
            return Err(SettingError::value("norms", Norms::Running, wanted));
        }
        match self.lambda {
            0.0 => Ok(()),
            lambda => positive("lambda", lambda),
        }
    }
}

impl AverageOf {
    /// What is averaged, of one row of the teacher's logits.
    fn of(self, logits: &[f32]) -> Vec<f64> {
        match self {
            Self::Logits => logits.iter().map(|&z| f64::from(z)).collect(),
            Self::Probabilities => softmax(logits),
            Self::Votes => vote(logits),
        }
    }

    /// `factor` times the sum over the images of the distance of the student's
    /// logits to the target, and its cotangent: half the squared distance, or the
    /// Kullback-Leibler divergence, which has the same minimiser as the mean of
    /// those of all draws.
    fn distance(self, student: &Rows, target: &Rows, factor: f64) -> (f64, Rows) {
        if self == Self::Logits {
            return Fit::L2.distance(student, target, factor);
        }
        let mut total = 0.0;
        let mut cotangent = Vec::with_capacity(student.values().len());
        for (z, p) in student.iter().zip(target.iter()) {
            for (log_q, &p) in log_softmax(z).iter().zip(p) {
                let p = f64::from(p);
                if p > 0.0 {
                    total += p * (p.ln() - log_q);
                }
                cotangent.push((factor * (log_q.exp() - p)) as f32);
            }
        }
        (factor * total, Rows::new(student[0].len(), cotangent))
    }
}

/// So many of the columns are measured of real values, too; agreement comes next.
const OF_VALUES: usize = 3;

/// Averaging: a student whose one pass is the Gaussian average of its teacher.
/// No label has any influence.
pub struct Average {
    params: AverageParams,
    attack: InnerAttackParams,
    noise: TrainingNoise,
    /// Holds the teacher and watches; its penalty is without projections where
    /// there is none.
    heat: Heat,
}

impl Average {
    /// Averages over this noise; a number is the level of Gaussian noise.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn new(
        noise: impl Into<TrainingNoise>,
        params: AverageParams,
        attack: InnerAttackParams,
    ) -> Result<Self, SettingError> {
        let noise = noise.into();
        noise.check()?;
        params.check()?;
        attack.check()?;
        let heat = HeatParams {
            lambda: params.lambda,
            kappa: u32::from(params.lambda > 0.0),
            start: params.start,
            // Only logits have a scale.
            scale_free: params.target == AverageOf::Logits,
            ..HeatParams::default()
        };
        let mut heat = Heat::unchecked(noise, heat);
        heat.norms = match (params.norms, params.start) {
            (Some(Norms::Running), _) | (None, Start::Warm) => Mode::Frozen,
            (Some(Norms::Batch), _) | (None, Start::Reinit) => Mode::Train,
        };
        Ok(Self {
            params,
            attack,
            noise,
            heat,
        })
    }

    /// The mean over the draws of what is averaged.
    fn target(&self, inputs: &Images, position: Position) -> Result<Rows, TrainError> {
        let teacher = self.heat.teacher()?;
        let classes = teacher.classes();
        let mut mean = vec![0.0f64; inputs.len() * classes];
        for (noise, draws) in self.signs() {
            let noise = noise.noise(position.seed, Purpose::Averaging);
            let first = position.epoch.saturating_mul(self.params.draws);
            let batch = NoisyImage::copies_of(inputs, first, draws);
            let mut logits = vec![0.0; inputs.len() * draws * classes];
            teacher.noisy_logits(&noise, &batch, &mut logits)?;
            for (draw, row) in logits.chunks_exact(classes).enumerate() {
                let sums = &mut mean[draw / draws * classes..][..classes];
                let values = self.params.target.of(row);
                sums.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
            }
        }
        let draws = f64::from(self.params.draws);
        let mean = mean.iter().map(|sum| (sum / draws) as f32);
        let mean = Rows::new(classes, mean.collect());
        Ok(self.heat.head().outputs(mean))
    }

    /// How many draws with the noise as it is, and how many with its mirror image.
    fn signs(&self) -> impl Iterator<Item = (TrainingNoise, usize)> {
        let draws = self.params.draws as usize;
        let mirrored = match self.params.antithetic {
            true => draws / 2,
            false => 0,
        };
        let noise = self.noise;
        let both = [(noise, draws - mirrored), (noise.mirrored(), mirrored)];
        both.into_iter().filter(|(_, draws)| *draws > 0)
    }
}

impl Method for Average {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "fit", "penalty", "agreement", "train_accuracy"]
    }

    fn value_columns(&self) -> Result<&'static [&'static str], &'static str> {
        if self.params.target != AverageOf::Logits {
            return Err("the average is one of probabilities or votes");
        }
        if self.attack.attack.is_some() {
            return Err("the attack on the student looks for another class");
        }
        Ok(&["loss", "fit", "penalty"])
    }

    /// The student can do more than its teacher. A last batch norm without a scale
    /// has outputs of unit variance, which no average has: it gets a scale to learn,
    /// 1 at first. And every ReLU becomes the average that noise at the input makes
    /// of it: already without a step of training, most of the gap is closed.
    fn begin(
        &mut self,
        leg: Leg,
        previous: &Model,
        stage: &LegContext<'_>,
    ) -> Result<Model, TrainError> {
        let student = self.heat.begin(leg, previous, stage)?.with_output_scale();
        match self.params.relus {
            Relus::Kept => Ok(student),
            Relus::Averaged => widths::averaged_relus(student, previous, self.noise, stage),
        }
    }

    fn step(
        &mut self,
        student: &mut dyn Executor,
        images: &Minibatch<'_>,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let inputs = Inputs::new(images)
            .mixed(self.params.mixed_share, position)
            .noisy(self.params.noisy_share, &*student, self.noise, position)?;
        let inputs = match self.attack.attack {
            None => inputs,
            Some(_) => {
                let classes = self.target(inputs.images(), position)?.classes();
                inputs.attacked(&self.attack, &*student, &classes, position)?
            }
        };
        let target = self.target(inputs.images(), position)?;
        let x = inputs.into_rows();
        let headed = Headed {
            network: &*student,
            head: self.heat.head(),
        };
        let per_image = self.heat.per_image(images.of());
        let fit = |v: &Rows| self.params.target.distance(v, &target, per_image);
        let here = (images, position);
        let terms = self.heat.algorithm_1(&headed, &x, &fit, here, gradients)?;
        student.update_running_statistics(&terms.tape)?;

        let (classes, count) = (student.classes(), images.of() as f64);
        let loss = terms.distance + terms.penalty;
        let agreement = agreeing(&terms.v, &target) as f64 / count;
        let right = loss::correct(classes, terms.v.values(), &images.labels) as f64 / count;
        let all = vec![loss, terms.distance, terms.penalty, agreement, right];
        Ok(self.heat.measured(all, OF_VALUES))
    }

    fn finish(&mut self, sums: Vec<f64>, position: Position) -> Result<Vec<f64>, TrainError> {
        self.heat.watch(&sums, OF_VALUES, position.step)?;
        Ok(sums)
    }

    fn save(&self) -> Value {
        self.heat.save()
    }

    fn restore(&mut self, state: &Value) -> Result<(), TrainError> {
        self.heat.restore(state)
    }
}
