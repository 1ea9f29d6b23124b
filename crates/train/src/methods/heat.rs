//! HeatSmoothing: the weight update of the paper's Algorithm 1.

mod fit;
mod watch;

pub use fit::Fit;

use data::Batch;
use network::logits::argmax;
use network::{Differentiable, Gradients, Mode, Noise, Purpose};
use serde::{Deserialize, Serialize};

use super::gaussian::Gaussian;
use super::{Method, Position};
use crate::error::TrainError;
use crate::loss;
use watch::Watch;

/// How the random projections are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// `K/kappa * sum`: an unbiased estimate of `||J||_F^2` for every `kappa`.
    Unbiased,
    /// The plain sum, as in the paper: right only for `kappa = K`.
    Paper,
}

/// Where a student starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// From its teacher's weights.
    Warm,
    /// From fresh random weights.
    Reinit,
}

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
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `sigma` | - | noise level, pixels scaled to `[0, 1]` | > 0 |
/// | `lambda` | 1 | scale of the gradient term | > 0 |
/// | `timesteps` | 1 | Euler steps `n_T` | >= 1 |
/// | `kappa` | 1 | random projections | >= 1 |
/// | `fd_step` | 0.1 | finite-difference step | > 0 |
/// | `fit` | `l2` | distance to the teacher | |
/// | `start` | `warm` | where a student starts | |
/// | `scale` | `unbiased` | how projections add up | |
/// | `scale_free` | true | divide J by the variance of the teacher's outputs | |
/// | `noisy_share` | 0.5 | share of the student's inputs with noise | [0, 1] |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HeatParams {
    /// Noise level whose average is wanted.
    pub sigma: f64,
    /// Scale of the gradient term.
    pub lambda: f64,
    /// Euler steps `n_T`.
    pub timesteps: u32,
    /// Random projections.
    pub kappa: u32,
    /// Finite-difference step.
    pub fd_step: f64,
    /// Distance to the teacher.
    pub fit: Fit,
    /// Where a student starts.
    pub start: Start,
    /// How projections add up.
    pub scale: Scale,
    /// Divide the loss by the variance of the teacher's outputs, so that no
    /// other hyper-parameter depends on the scale of the logits.
    pub scale_free: bool,
    /// Share of the student's inputs that get noise (the authors' follow-up).
    pub noisy_share: f64,
}

impl HeatParams {
    /// Refuses nonsense.
    pub fn check(&self) -> Result<(), TrainError> {
        let wrong = |name, expected, got: String| {
            Err(TrainError::Setting {
                name,
                expected,
                got,
            })
        };
        for (name, value) in [
            ("sigma", self.sigma),
            ("lambda", self.lambda),
            ("fd-step", self.fd_step),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return wrong(name, "a positive number", value.to_string());
            }
        }
        for (name, value) in [("timesteps", self.timesteps), ("kappa", self.kappa)] {
            if value == 0 {
                return wrong(name, "at least 1", "0".into());
            }
        }
        if !(0.0..=1.0).contains(&self.noisy_share) {
            return wrong(
                "noisy-share",
                "between 0 and 1",
                self.noisy_share.to_string(),
            );
        }
        Ok(())
    }

    /// `h = 1 / n_T`.
    pub fn h(&self) -> f64 {
        1.0 / f64::from(self.timesteps)
    }

    /// Factor on the sum over projections for a network with `classes` outputs:
    /// `lambda * h * sigma^2 / 2`, times `K/kappa` if unbiased.
    fn penalty_factor(&self, classes: usize) -> f64 {
        let unbiased = match self.scale {
            Scale::Unbiased => classes as f64 / f64::from(self.kappa),
            Scale::Paper => 1.0,
        };
        unbiased * self.lambda * self.h() * self.sigma * self.sigma / 2.0
    }
}

/// Heat smoothing of one frozen teacher `f^k`; the network being trained is the
/// student `v`. No label has any influence.
#[derive(Debug)]
pub struct Heat<N> {
    params: HeatParams,
    teacher: N,
    variance: f64,
    watch: Watch,
}

impl<N: Differentiable> Heat<N> {
    /// `images` are some clean training images: the variance of the teacher's
    /// outputs on them makes the loss free of their scale.
    pub fn new(params: HeatParams, teacher: N, images: &[f32]) -> Result<Self, TrainError> {
        params.check()?;
        let count = images.len() / teacher.input().len();
        let mut logits = vec![0.0; count * teacher.classes()];
        teacher.logits(images, &mut logits);
        let outputs = params.fit.outputs(teacher.classes(), &logits);
        let variance = if params.scale_free {
            variance(&outputs)
        } else {
            1.0
        };
        let watch = Watch::new(params.start, teacher.classes());
        Ok(Self {
            params,
            teacher,
            variance,
            watch,
        })
    }
}

impl<N: Differentiable> Method<N> for Heat<N> {
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

    /// Algorithm 1, for all images of the minibatch at once. Quantities named
    /// as in the paper; means over the batch. One clean student pass is enough:
    /// the contributions of all projections to it add up to one cotangent.
    fn step(
        &mut self,
        student: &mut N,
        batch: &Batch,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let HeatParams {
            kappa,
            fd_step,
            fit,
            ..
        } = self.params;
        let (classes, images) = (student.classes(), batch.labels.len());
        let x = self.student_inputs(batch, position);
        let per_image = 1.0 / (images as f64 * self.variance);
        let factor = self.params.penalty_factor(classes) * per_image;

        // Compute v(x), f^k(x) and J = fit(v(x), f^k(x)).
        let mut teacher = vec![0.0; images * classes];
        self.teacher.logits(&batch.images, &mut teacher);
        let (logits, tape) = student.forward(&x, Mode::Train);
        let v = fit.outputs(classes, &logits);
        let (distance, mut cotangent) = fit.distance(classes, &logits, &teacher, per_image);

        let mut squares = 0.0;
        for j in 0..kappa {
            // Generate w, then l = grad(w . v) / ||grad(w . v)||, both detached.
            let w = projections(classes, batch, position, j, kappa);
            let pulled = fit.pull_back(classes, &logits, &w);
            let mut l = vec![0.0; x.len()];
            student.input_gradient(&tape, &pulled, &mut l);
            normalise(&mut l, images);

            // J += factor * ((w . v(x + fd_step * l) - w . v(x)) / fd_step)^2.
            let moved: Vec<f32> = x
                .iter()
                .zip(&l)
                .map(|(x, l)| x + fd_step as f32 * l)
                .collect();
            let (moved_logits, moved_tape) = student.forward(&moved, Mode::Train);
            let moved_v = fit.outputs(classes, &moved_logits);
            let mut difference_cotangent = vec![0.0; w.len()];
            for i in 0..images {
                let row = i * classes..(i + 1) * classes;
                let difference: f64 = (row.clone())
                    .map(|c| f64::from(w[c]) * f64::from(moved_v[c] - v[c]))
                    .sum::<f64>()
                    / fd_step;
                squares += difference * difference;
                let slope = (2.0 * factor * difference / fd_step) as f32;
                for c in row {
                    difference_cotangent[c] = slope * w[c];
                }
            }
            let pulled = fit.pull_back(classes, &moved_logits, &difference_cotangent);
            student.parameter_gradient(&moved_tape, &pulled, gradients);
            let pulled = fit.pull_back(classes, &logits, &difference_cotangent);
            cotangent
                .iter_mut()
                .zip(pulled)
                .for_each(|(sum, p)| *sum -= p);
        }

        // Run backpropagation on J; running statistics move once, on x.
        student.parameter_gradient(&tape, &cotangent, gradients);
        student.update_running_statistics(&tape);

        let penalty = squares * factor;
        let unbiased = classes as f64 / f64::from(kappa);
        let jacobian = (squares * unbiased / images as f64).sqrt();
        let agreement = agreement(classes, &logits, &teacher);
        self.watch
            .see(distance + penalty, agreement, position.step)?;
        // Labels are looked at here alone, and only to be logged.
        let accuracy = loss::correct(classes, &logits, &batch.labels) as f64 / images as f64;
        Ok(vec![
            distance + penalty,
            distance,
            penalty,
            jacobian,
            agreement,
            accuracy,
        ])
    }
}

impl<N> Heat<N> {
    /// The batch's images, a share of them with noise.
    fn student_inputs(&self, batch: &Batch, position: Position) -> Vec<f32> {
        let noisy_images = (self.params.noisy_share * batch.labels.len() as f64).round() as usize;
        let mut x = batch.images.clone();
        if noisy_images > 0 {
            let sigma = self.params.sigma as f32;
            let noisy = Gaussian { sigma }.noisy(batch, position);
            let len = noisy_images * (x.len() / batch.labels.len());
            x[..len].copy_from_slice(&noisy[..len]);
        }
        x
    }
}

/// `w = N(0, I_K)/sqrt(K)` for each image: a function of seed, image, epoch and
/// `j` alone.
fn projections(classes: usize, batch: &Batch, position: Position, j: u32, kappa: u32) -> Vec<f32> {
    let noise = Noise {
        seed: position.seed,
        purpose: Purpose::Projection,
        sigma: 1.0 / (classes as f32).sqrt(),
    };
    let sample = position.epoch * kappa + j;
    let draws = batch.indices.iter();
    draws
        .flat_map(|&index| noise.draw(index, sample, classes))
        .collect()
}

/// Each image's gradient scaled to length 1; 0 stays 0.
fn normalise(gradients: &mut [f32], images: usize) {
    let len = gradients.len() / images;
    for g in gradients.chunks_exact_mut(len) {
        let norm = g
            .iter()
            .map(|&v| f64::from(v) * f64::from(v))
            .sum::<f64>()
            .sqrt();
        if norm > 0.0 {
            g.iter_mut()
                .for_each(|v| *v = (f64::from(*v) / norm) as f32);
        }
    }
}

/// Share of images with the same class on top. A single output agrees if its
/// sign does.
fn agreement(classes: usize, a: &[f32], b: &[f32]) -> f64 {
    let rows = a.chunks_exact(classes).zip(b.chunks_exact(classes));
    let images = rows.len();
    let same = rows.filter(|(a, b)| match classes {
        1 => (a[0] > 0.0) == (b[0] > 0.0),
        _ => argmax(a) == argmax(b),
    });
    same.count() as f64 / images as f64
}

/// Variance of all values; 1 where there is none to speak of.
fn variance(values: &[f32]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let square = |v: &f32| (f64::from(*v) - mean).powi(2);
    let variance = values.iter().map(square).sum::<f64>() / n;
    if variance > 1e-12 { variance } else { 1.0 }
}
