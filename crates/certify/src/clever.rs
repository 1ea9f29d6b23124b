//! CLEVER (Weng et al., ICLR 2018): how far away another class may be, estimated from
//! gradients around an image. An estimate: nothing is proven.
//!
//! Within a ball B around x, `g = f_c - f_j` cannot fall by more than `L |perturbation|`,
//! with L the largest dual norm of its gradient in B; so class j is at least
//! `g(x) / L` away, if that is within B. L is not known. The largest gradient norms
//! of batches of points in B follow, in the limit, a reverse Weibull distribution, and
//! the right end of the one fitted to them is taken for L.

use std::time::Instant;

use network::logits::{argmax, top_k};
use network::{Distribution, Executor, Images, Mode, Noise, Purpose, uniform};
use record::Norm;
use settings::{SettingError, settings};

use crate::CertifyError;
use crate::image::{Image, check, finite, singles};
use crate::observer::OutcomeObserver;
use crate::statistics::ReverseWeibull;

settings! {
    /// What can be said about an estimate; [`CleverParams::plan`] makes a [`Clever`]
    /// of it.
    pub struct CleverParams {
        /// Batches of points around an image; the largest gradient norms of all
        /// batches are fitted.
        batches: u32 = 50,
        /// Points a batch.
        samples: u32 = 100,
        /// Radius of the ball of points, in the norm; no score is larger [default: 2
        /// for l2, 0.1 for linf].
        radius: Option<f64> = None,
        /// Without a target: only so many other classes, those with the largest
        /// logits, are looked at.
        runner_ups: usize = 9,
    }
}

impl CleverParams {
    /// The plan for this norm.
    ///
    /// # Errors
    /// A value out of its range; a norm that there is no ball for.
    pub fn plan(&self, norm: Norm, seed: u64) -> Result<Clever, SettingError> {
        let usual = match norm {
            Norm::L2 => 2.0,
            Norm::Linf => 0.1,
            Norm::L1 => return Err(SettingError::value("norm", "l1", "l2 or linf")),
        };
        let radius = self.radius.unwrap_or(usual);
        if !(radius > 0.0 && radius.is_finite()) {
            return Err(SettingError::value("radius", radius, "a positive number"));
        }
        for (name, value) in [("batches", self.batches), ("samples", self.samples)] {
            if !(2..=1_000_000).contains(&value) {
                return Err(SettingError::value(name, value, "2 to 1000000"));
            }
        }
        if u64::from(self.batches) * u64::from(self.samples) > u64::from(u32::MAX) {
            let expected = "fewer: batches times samples has at most 32 bits";
            return Err(SettingError::value("samples", self.samples, expected));
        }
        if self.runner_ups == 0 {
            return Err(SettingError::value("runner-ups", 0, "at least 1"));
        }
        Ok(Clever {
            norm,
            radius,
            batches: self.batches,
            samples: self.samples,
            runner_ups: self.runner_ups,
            seed,
        })
    }
}

/// How estimates are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Clever {
    /// The norm of perturbations, L2 or Linf.
    pub norm: Norm,
    /// Radius of the ball.
    pub radius: f64,
    /// Batches of points.
    pub batches: u32,
    /// Points a batch.
    pub samples: u32,
    /// How many other classes are looked at without a target.
    pub runner_ups: usize,
    /// Seed of the points.
    pub seed: u64,
}

/// The estimate for one image.
#[derive(Clone, Debug, PartialEq)]
pub struct CleverOutcome {
    /// The image.
    pub index: u32,
    /// Its class.
    pub label: usize,
    /// `argmax f(x)`, whose distance from other classes is estimated.
    pub predict: usize,
    /// The target, or the class that seems nearest.
    pub target: usize,
    /// The estimated distance; 0 where the target is predicted.
    pub score: f64,
    /// `f_c(x) - f_j(x)`.
    pub margin: f64,
    /// The fit of the largest gradient norms; `None` where the target is predicted.
    pub fit: Option<ReverseWeibull>,
    /// Kolmogorov-Smirnov distance between the fit and the norms.
    pub distance: f64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Estimates all images, in order. `target` says for an image and its label to which
/// class the distance is wanted; `None`: to the nearest.
///
/// # Errors
/// A network whose output is not finite; a device that fails.
pub fn clever_all(
    network: &dyn Executor,
    images: impl IntoIterator<Item = Images>,
    plan: &Clever,
    target: &dyn Fn(u32, u32) -> Option<usize>,
    observer: &mut (impl OutcomeObserver<CleverOutcome> + ?Sized),
) -> Result<(), CertifyError> {
    for image in singles(images) {
        check(&image, network)?;
        let clock = Instant::now();
        let wanted = target(image.index, image.label as u32);
        let outcome = plan.estimate(network, &image, wanted)?;
        let seconds = clock.elapsed().as_secs_f64();
        let outcome = CleverOutcome { seconds, ..outcome };
        if observer.outcome(outcome).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

impl Clever {
    fn estimate(
        &self,
        network: &dyn Executor,
        image: &Image,
        target: Option<usize>,
    ) -> Result<CleverOutcome, CertifyError> {
        let mut logits = vec![0.0; network.classes()];
        network.logits(&image.pixels, &mut logits)?;
        finite(&logits, image.index)?;
        let predict = argmax(&logits);
        let nothing = CleverOutcome {
            index: image.index,
            label: image.label,
            predict,
            target: predict,
            score: 0.0,
            margin: 0.0,
            fit: None,
            distance: f64::NAN,
            seconds: 0.0,
        };
        let others = match target {
            Some(target) if target == predict => return Ok(nothing),
            Some(target) => vec![target],
            None => {
                let mut order = top_k(&logits, network.classes());
                order.retain(|class| *class != predict);
                order.truncate(self.runner_ups);
                order
            }
        };
        let largest = self.largest_norms(network, image, (predict, &others))?;
        let mut best = nothing;
        best.score = f64::INFINITY;
        for (class, norms) in others.into_iter().zip(largest) {
            let margin = f64::from(logits[predict]) - f64::from(logits[class]);
            let image = image.index;
            let fit = ReverseWeibull::fit(&norms).ok_or(CertifyError::Output { image })?;
            // Without any slope the class cannot change within the ball.
            let score = (margin / fit.location).min(self.radius);
            let score = if score.is_nan() { self.radius } else { score };
            if score < best.score {
                best = CleverOutcome {
                    target: class,
                    score,
                    margin,
                    distance: fit.distance(&norms),
                    fit: Some(fit),
                    ..best
                };
            }
        }
        Ok(best)
    }

    /// For each of the other classes, the largest dual norm of the gradient of
    /// `f_c - f_j` in each batch.
    fn largest_norms(
        &self,
        network: &dyn Executor,
        image: &Image,
        (class, others): (usize, &[usize]),
    ) -> Result<Vec<Vec<f64>>, CertifyError> {
        let (classes, width) = (network.classes(), image.pixels.len());
        let mut largest = vec![vec![0.0_f64; self.batches as usize]; others.len()];
        let all: Vec<u32> = (0..self.batches * self.samples).collect();
        for points in all.chunks(network.taped_batch().max(1)) {
            let images: Vec<f32> = points
                .iter()
                .flat_map(|&sample| self.point(image, sample))
                .collect();
            let (_, tape) = network.forward(&images, Mode::Eval)?;
            for (&other, largest) in others.iter().zip(&mut largest) {
                let mut cotangent = vec![0.0; points.len() * classes];
                for row in cotangent.chunks_exact_mut(classes) {
                    (row[class], row[other]) = (1.0, -1.0);
                }
                let gradients = network.input_gradient(&tape, &cotangent)?;
                for (&sample, gradient) in points.iter().zip(gradients.chunks_exact(width)) {
                    let batch = &mut largest[(sample / self.samples) as usize];
                    let norm = self.dual_norm(gradient);
                    // One that is no number must not be lost.
                    *batch = if norm.is_nan() { norm } else { batch.max(norm) };
                }
            }
        }
        Ok(largest)
    }

    /// A point that is uniform in the ball, moved into [0, 1] where it is outside: a
    /// function of seed, image and sample alone.
    fn point(&self, image: &Image, sample: u32) -> Vec<f32> {
        let (index, width) = (image.index, image.pixels.len());
        let (distribution, sigma) = match self.norm {
            Norm::Linf => (Distribution::Uniform, self.radius / 3f64.sqrt()),
            _ => (Distribution::Gaussian, 1.0),
        };
        let noise = Noise::float(self.seed, Purpose::Ball, distribution, sigma);
        let mut point = noise.draw(index, sample, width);
        let factor = match self.norm {
            Norm::Linf => 1.0,
            // A random direction; the share of the ball within r is (r/R)^d.
            _ => {
                let squares = point.iter().map(|z| f64::from(*z).powi(2));
                let length = squares.sum::<f64>().sqrt();
                let share = uniform(self.seed, Purpose::Shell, index, sample);
                self.radius * share.powf(1.0 / width as f64) / length
            }
        };
        for (z, x) in point.iter_mut().zip(&image.pixels) {
            *z = (x + (factor * f64::from(*z)) as f32).clamp(0.0, 1.0);
        }
        point
    }

    /// The norm of a gradient that bounds what a perturbation can change: L2 for L2, L1
    /// for Linf.
    fn dual_norm(&self, gradient: &[f32]) -> f64 {
        let sizes = gradient.iter().map(|g| f64::from(*g));
        match self.norm {
            Norm::Linf => sizes.map(f64::abs).sum(),
            _ => sizes.map(|g| g * g).sum::<f64>().sqrt(),
        }
    }
}
