//! HeatSmoothing: the paper's Algorithm 1.

mod fit;
pub(super) mod head;
mod watch;

pub use fit::Fit;

use network::logits::argmax;
use network::{Executor, Gradients, Images, Mode, Model, Noise, Purpose, Tape, TaskKind};
use serde_json::Value;
use settings::{SettingError, choices, settings};

use self::head::{Head, Headed};
use self::watch::Watch;
use super::inputs::{InnerAttackParams, Inputs};
use super::{Leg, LegContext, Method, Position, TrainingNoise, positive, share};
use crate::error::TrainError;
use crate::loss;
use crate::minibatch::Minibatch;
use crate::rows::Rows;

choices! {
    /// How the random projections are put together.
    pub enum Scale {
        /// `K/kappa * sum`: an unbiased estimate of `||J||_F^2` for every `kappa`.
        Unbiased = "unbiased",
        /// The plain sum, as in the paper: right only for `kappa = K`.
        Paper = "paper",
    }
}

choices! {
    /// Where a student starts.
    pub enum Start {
        /// From its teacher's weights.
        Warm = "warm",
        /// From fresh random weights.
        Reinit = "reinit",
    }
}

settings! {
    /// Hyper-parameters of heat smoothing. The loss of one image is
    ///
    /// ```text
    /// J = fit(v(x), f^k(x)) + lambda * h * sigma^2 / 2 * G,      h = 1 / timesteps
    /// G = scale * sum_j ((w_j . v(x + fd_step * l_j) - w_j . v(x)) / fd_step)^2
    /// ```
    ///
    /// with `w_j ~ N(0, I_K)/sqrt(K)` and `l_j` the direction of `grad_x w_j . v(x)`,
    /// so that `E G = ||dv/dx||_F^2` up to the finite difference. With the `l2` fit,
    /// `lambda = 1/2` is one implicit Euler step of the heat equation, hence true
    /// Gaussian averaging at `sigma`.
    pub struct HeatParams {
        /// Scale of the gradient term; 0.5 is true Gaussian averaging, the paper
        /// takes 5.
        lambda: f64 = 0.5,
        /// Steps of the heat equation, each with its own student.
        timesteps: u32 = 1,
        /// Random projections of the Jacobian a step.
        kappa: u32 = 1,
        /// Finite-difference step.
        fd_step: f64 = 0.1,
        /// Distance to the teacher: l2, kl or l2-prob.
        fit: Fit = Fit::L2,
        /// Where a student starts: warm (the teacher's weights) or reinit.
        start: Start = Start::Warm,
        /// How projections add up: unbiased, or the paper's plain sum.
        scale: Scale = Scale::Unbiased,
        /// Divide the loss by the variance of the teacher's outputs, so that no
        /// other setting depends on the scale of the logits: true or false
        /// [default: true].
        scale_free: bool = true,
        /// Share of the student's inputs that get noise, 0 to 1; the paper has
        /// none.
        noisy_share: f64 = 0.5,
        /// Keep all iterates f1, f2, ... beside the model.
        keep_iterates: bool = false,
    }
}

impl HeatParams {
    /// Refuses nonsense.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        positive("lambda", self.lambda)?;
        positive("fd-step", self.fd_step)?;
        for (name, value) in [("timesteps", self.timesteps), ("kappa", self.kappa)] {
            if value == 0 {
                return Err(SettingError::value(name, 0, "at least 1"));
            }
        }
        share("noisy-share", self.noisy_share)
    }

    /// `h = 1 / n_T`.
    pub fn h(&self) -> f64 {
        1.0 / f64::from(self.timesteps)
    }
}

/// Heat smoothing: in each leg the teacher `f^k` is frozen, and the student `v`
/// fitted to it becomes `f^{k+1}`. No label has any influence.
pub struct Heat {
    params: HeatParams,
    attack: InnerAttackParams,
    noise: TrainingNoise,
    teacher: Option<Box<dyn Executor>>,
    /// Of the teacher's outputs; 1 unless the loss is to be free of their scale.
    variance: f64,
    /// Which statistics the student's batch norms use while it learns.
    pub(super) norms: Mode,
    /// What is smoothed of networks.
    head: Head,
    task: TaskKind,
    watch: Watch,
}

/// What is measured of real values.
const VALUE_COLUMNS: [&str; 4] = ["loss", "fit", "penalty", "jacobian"];
/// The last of them.
const JACOBIAN: usize = 3;

/// What one step came to: the terms of J, and what they were computed from.
pub(super) struct Terms {
    pub distance: f64,
    pub penalty: f64,
    /// Sum over images and projections of the squared finite differences.
    squares: f64,
    pub v: Rows,
    pub tape: Tape,
}

impl Heat {
    /// Smooths with this noise; a number is the level of Gaussian noise. The
    /// penalty depends on its variance alone, noisy inputs on its distribution, too.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn new(noise: impl Into<TrainingNoise>, params: HeatParams) -> Result<Self, SettingError> {
        let noise = noise.into();
        noise.check()?;
        params.check()?;
        Ok(Self::unchecked(noise, params))
    }

    /// The same with a student that is attacked while it learns.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn attacked(mut self, attack: InnerAttackParams) -> Result<Self, SettingError> {
        attack.check()?;
        self.attack = attack;
        Ok(self)
    }

    pub(super) fn unchecked(noise: TrainingNoise, params: HeatParams) -> Self {
        Self {
            params,
            attack: InnerAttackParams::default(),
            noise,
            teacher: None,
            variance: 1.0,
            norms: Mode::Train,
            head: Head::Logits,
            task: TaskKind::Classification,
            watch: Watch::default(),
        }
    }

    /// The frozen network of the leg.
    pub(super) fn teacher(&self) -> Result<&dyn Executor, TrainError> {
        self.teacher.as_deref().ok_or(TrainError::NotBegun)
    }

    /// What is smoothed of networks.
    pub(super) fn head(&self) -> Head {
        self.head.clone()
    }

    /// So many of the columns are measured: those behind are about classes.
    pub(super) fn measured(&self, mut all: Vec<f64>, of_values: usize) -> Vec<f64> {
        if self.task == TaskKind::Regression {
            all.truncate(of_values);
        }
        all
    }

    /// Watches over what a step measured: the loss, and in column `agreement` how far
    /// student and teacher agree.
    pub(super) fn watch(
        &mut self,
        measured: &[f64],
        agreement: usize,
        step: u64,
    ) -> Result<(), TrainError> {
        // Real values have no class to lose, and no such column.
        let agreement = measured.get(agreement).copied().unwrap_or(1.0);
        let start = (self.params.start, self.teacher()?.classes());
        self.watch.see(start, (measured[0], agreement), step)
    }

    /// The paper's Algorithm 1, for all images of the minibatch at once. One
    /// clean student pass is enough: what all projections add to its cotangent
    /// is summed before the single backward pass.
    ///
    /// `fit` is the distance of v(x) to the teacher, with its cotangent.
    pub(super) fn algorithm_1(
        &self,
        student: &Headed<'_>,
        x: &Rows,
        fit: &dyn Fn(&Rows) -> (f64, Rows),
        (images, position): (&Minibatch<'_>, Position),
        gradients: &mut Gradients,
    ) -> Result<Terms, TrainError> {
        let HeatParams { kappa, fd_step, .. } = self.params;
        let classes = student.network.classes();
        let c = self.penalty_factor(classes, images.of());

        // J = fit(v(x), f^k(x)).
        let (v, tape) = student.forward(x, self.norms)?;
        let (distance, mut dv) = fit(&v);
        let mut squares = 0.0;
        for j in 0..kappa {
            // w, then l = grad(w . v) / ||grad(w . v)||, both detached.
            let w = self.projection(images, classes, position, j);
            let l = student.input_gradient(&tape, &w)?.unit();
            // J += c * d^2 with d = (w . v(x + fd_step * l) - w . v(x)) / fd_step.
            let (moved, moved_tape) = student.forward(&x.moved(fd_step, &l), self.norms)?;
            let d: Vec<f64> = w.dot(&(&moved - &v)).iter().map(|d| d / fd_step).collect();
            squares = d.iter().fold(squares, |sum, d| sum + d * d);
            let slope = w.scaled(d.iter().map(|d| 2.0 * c * d / fd_step));
            student.parameter_gradient(&moved_tape, &slope, gradients)?;
            dv -= &slope;
        }
        student.parameter_gradient(&tape, &dv, gradients)?;
        Ok(Terms {
            distance,
            penalty: c * squares,
            squares,
            v,
            tape: tape.into_tape(),
        })
    }

    /// What an image's distance counts in the mean over the minibatch.
    pub(super) fn per_image(&self, images: usize) -> f64 {
        1.0 / (images as f64 * self.variance)
    }

    /// Factor on the squared differences of all images and projections:
    /// `lambda * h * sigma^2 / 2`, times `K/kappa` if unbiased, as a mean over the
    /// minibatch.
    fn penalty_factor(&self, classes: usize, images: usize) -> f64 {
        let HeatParams {
            scale,
            kappa,
            lambda,
            ..
        } = self.params;
        let unbiased = match scale {
            Scale::Unbiased => classes as f64 / f64::from(kappa.max(1)),
            Scale::Paper => 1.0,
        };
        let sigma = self.noise.sigma;
        unbiased * lambda * self.params.h() * sigma * sigma / 2.0 * self.per_image(images)
    }

    /// `w = N(0, I_K)/sqrt(K)` for each image: a function of seed, image, epoch
    /// and `j` alone.
    fn projection(&self, images: &Images, classes: usize, position: Position, j: u32) -> Rows {
        let noise = Noise::gaussian(
            position.seed,
            Purpose::Projection,
            f64::from(1.0 / (classes as f32).sqrt()),
        );
        let sample = position.epoch * self.params.kappa + j;
        let draws = images.indices.iter();
        let draws = draws.flat_map(|&index| noise.draw(index, sample, classes));
        Rows::new(classes, draws.collect())
    }
}

impl Method for Heat {
    fn columns(&self) -> &'static [&'static str] {
        &[
            "loss",
            "fit",
            "penalty",
            "jacobian",
            "agreement",
            "train_accuracy",
        ]
    }

    fn value_columns(&self) -> Result<&'static [&'static str], &'static str> {
        if self.params.fit != Fit::L2 {
            return Err("the fits kl and l2-prob compare probabilities");
        }
        if self.attack.attack.is_some() {
            return Err("the attack on the student looks for another class");
        }
        Ok(&VALUE_COLUMNS)
    }

    fn legs(&self) -> u32 {
        self.params.timesteps
    }

    fn keeps_legs(&self) -> bool {
        self.params.keep_iterates
    }

    fn begin(
        &mut self,
        leg: Leg,
        previous: &Model,
        stage: &LegContext<'_>,
    ) -> Result<Model, TrainError> {
        let teacher = (stage.load)(previous)?;
        self.head = self.params.fit.head();
        self.task = previous.info.task;
        self.variance = 1.0;
        if self.params.scale_free {
            let (network, head) = (&*teacher, self.head());
            let outputs = Headed { network, head }.outputs(&stage.images.pixels)?;
            match self.task {
                TaskKind::Classification => self.variance = variance(outputs.values()),
                // Every value has a unit of its own.
                TaskKind::Regression => {
                    let spreads = loss::deviations(network.classes(), outputs.values());
                    let factors = spreads.iter().map(|(_, std)| (1.0 / std) as f32);
                    self.head = Head::Scaled(factors.collect());
                }
            }
        }
        self.teacher = Some(teacher);
        self.watch = Watch::default();
        Ok(match self.params.start {
            Start::Warm => previous.clone(),
            Start::Reinit if previous.graph.foreign().is_some() => {
                let expected = "warm: only another program knows how its networks begin";
                return Err(SettingError::value("start", "reinit", expected).into());
            }
            Start::Reinit => {
                let seed = stage.seed.wrapping_add(u64::from(leg.number) + 1);
                Model::initialised(previous.graph.clone(), seed, previous.info.clone())
            }
        })
    }

    fn step(
        &mut self,
        student: &mut dyn Executor,
        images: &Minibatch<'_>,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let fit = self.params.fit;
        let [headed, teacher] = [&*student, self.teacher()?].map(|network| Headed {
            network,
            head: self.head(),
        });
        let f_k = teacher.outputs(&images.pixels)?;
        let classes = student.classes();
        let x = Inputs::new(images)
            .noisy(self.params.noisy_share, &*student, self.noise, position)?
            .attacked(&self.attack, &*student, &f_k.classes(), position)?
            .into_rows();
        let per_image = self.per_image(images.of());
        let distance = |v: &Rows| fit.distance(v, &f_k, per_image);
        let terms = self.algorithm_1(&headed, &x, &distance, (images, position), gradients)?;
        // Running statistics move once, on the clean pass.
        student.update_running_statistics(&terms.tape)?;

        let count = images.of() as f64;
        let unbiased = classes as f64 / f64::from(self.params.kappa);
        let agreement = agreeing(&terms.v, &f_k) as f64 / count;
        let loss = terms.distance + terms.penalty;
        let right = loss::correct(classes, terms.v.values(), &images.labels);
        let all = vec![
            loss,
            terms.distance,
            terms.penalty,
            // Its root is taken once all ranks are summed up.
            terms.squares * unbiased / count,
            agreement,
            right as f64 / count,
        ];
        Ok(self.measured(all, VALUE_COLUMNS.len()))
    }

    fn finish(&mut self, mut sums: Vec<f64>, position: Position) -> Result<Vec<f64>, TrainError> {
        sums[JACOBIAN] = sums[JACOBIAN].sqrt();
        self.watch(&sums, VALUE_COLUMNS.len(), position.step)?;
        Ok(sums)
    }

    fn save(&self) -> Value {
        serde_json::to_value(self.watch).unwrap_or(Value::Null)
    }

    fn restore(&mut self, state: &Value) -> Result<(), TrainError> {
        // A checkpoint of an earlier version knows nothing about the watch.
        self.watch = match state {
            Value::Null => Watch::default(),
            state => serde_json::from_value(state.clone()).map_err(TrainError::method_state)?,
        };
        Ok(())
    }
}

/// Images with the same class on top. A single output agrees if its sign does.
pub(super) fn agreeing(a: &Rows, b: &Rows) -> usize {
    let same = a.iter().zip(b.iter()).filter(|(a, b)| match a.len() {
        1 => (a[0] > 0.0) == (b[0] > 0.0),
        _ => argmax(a) == argmax(b),
    });
    same.count()
}

/// Variance of all values; 1 where there is none to speak of.
fn variance(values: &[f32]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let square = |v: &f32| (f64::from(*v) - mean).powi(2);
    let variance = values.iter().map(square).sum::<f64>() / n;
    if variance > 1e-12 { variance } else { 1.0 }
}
