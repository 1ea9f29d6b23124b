//! Evaluates copies of images a few at a time and averages as it goes.

use std::ops::Range;

use network::{DeviceError, Executor, Images, Tape};

use super::cross_entropy::{cotangent, log_probabilities};
use super::{Evaluation, Judgement, Standing};
use crate::error::AttackError;

/// Running average over the copies of one image.
///
/// With `p_i` the probability of the class on copy `i` and `c_i` the pulled-back
/// cotangent, the loss is `-log(sum_i p_i / m)` and its gradient is proportional
/// to `sum_i p_i (1 - p_i) c_i`. Both sums are kept relative to their largest
/// factor so far, as log-sum-exp does: exact in one pass, and never 0/0.
#[derive(Clone)]
struct Average {
    log_p: LogSum,
    log_weight: f64,
    gradient: Vec<f64>,
    standing: Standing,
}

/// `log sum exp`, one term at a time.
#[derive(Clone)]
struct LogSum {
    max: f64,
    sum: f64,
}

impl LogSum {
    fn add(&mut self, value: f64) {
        if value > self.max {
            self.sum = self.sum * (self.max - value).exp() + 1.0;
            self.max = value;
        } else {
            self.sum += (value - self.max).exp();
        }
    }
}

impl Average {
    fn new(classes: usize, pixels: usize) -> Self {
        Self {
            log_p: LogSum {
                max: f64::NEG_INFINITY,
                sum: 0.0,
            },
            log_weight: f64::NEG_INFINITY,
            gradient: vec![0.0; pixels],
            standing: Standing::new(classes),
        }
    }

    fn add_gradient(&mut self, log_weight: f64, gradient: &[f32]) {
        if log_weight > self.log_weight {
            let shrink = (self.log_weight - log_weight).exp();
            self.gradient.iter_mut().for_each(|g| *g *= shrink);
            self.log_weight = log_weight;
        }
        let weight = (log_weight - self.log_weight).exp();
        for (sum, &g) in self.gradient.iter_mut().zip(gradient) {
            *sum += weight * f64::from(g);
        }
    }
}

/// The averages of a batch under way.
struct Averages<'a> {
    points: &'a Images,
    classes: usize,
    samples: usize,
    averages: Vec<Average>,
}

impl<'a> Averages<'a> {
    /// `samples` copies an image; room for gradients of `pixels` values.
    fn new(points: &'a Images, classes: usize, samples: usize, pixels: usize) -> Self {
        let averages = vec![Average::new(classes, pixels); points.len()];
        Self {
            points,
            classes,
            samples,
            averages,
        }
    }

    /// Counts logits of consecutive copies; gives back `log p (1 - p)` of each.
    fn add(&mut self, copies: Range<usize>, logits: &[f32]) -> Result<Vec<f64>, AttackError> {
        let mut weights = Vec::with_capacity(copies.len());
        for (copy, logits) in copies.zip(logits.chunks_exact(self.classes)) {
            let i = copy / self.samples;
            if logits.iter().any(|z| !z.is_finite()) {
                let index = self.points.indices[i];
                return Err(AttackError::NotFinite { index });
            }
            let (log_p, log_rest) = log_probabilities(logits, self.points.labels[i] as usize);
            self.averages[i].log_p.add(log_p);
            self.averages[i].standing.add(logits, self.samples == 1);
            weights.push(log_p + log_rest);
        }
        Ok(weights)
    }

    fn finish(self) -> Evaluation {
        let mut losses = Vec::with_capacity(self.averages.len());
        let mut standings = Vec::with_capacity(self.averages.len());
        let mut gradient = Vec::new();
        for average in self.averages {
            let log_p = average.log_p;
            losses.push((self.samples as f64).ln() - log_p.max - log_p.sum.ln());
            standings.push(average.standing);
            gradient.extend(average.gradient.iter().map(|&g| g as f32));
        }
        Evaluation {
            judgement: Judgement { losses, standings },
            gradient,
        }
    }
}

fn passes(copies: usize, each: usize) -> impl Iterator<Item = Range<usize>> {
    (0..copies)
        .step_by(each)
        .map(move |start| start..copies.min(start + each))
}

/// Judges `samples` copies an image; `logits` gives those of a range of copies,
/// copy `c` being the `c % samples`-th of image `c / samples`.
pub fn judge(
    network: &dyn Executor,
    points: &Images,
    samples: usize,
    logits: impl Fn(Range<usize>, &mut [f32]) -> Result<(), DeviceError>,
) -> Result<Judgement, AttackError> {
    let classes = network.classes();
    let mut averages = Averages::new(points, classes, samples, 0);
    for copies in passes(points.len() * samples, network.taped_batch()) {
        let mut out = vec![0.0; copies.len() * classes];
        logits(copies.clone(), &mut out)?;
        averages.add(copies, &out)?;
    }
    Ok(averages.finish().judgement)
}

/// The same with gradients; `forward` is an eval-mode pass of a range of copies.
pub fn evaluate(
    network: &dyn Executor,
    points: &Images,
    samples: usize,
    forward: impl Fn(Range<usize>) -> Result<(Vec<f32>, Tape), DeviceError>,
) -> Result<Evaluation, AttackError> {
    let (classes, pixels) = (network.classes(), network.input().len());
    let mut averages = Averages::new(points, classes, samples, pixels);
    for copies in passes(points.len() * samples, network.taped_batch()) {
        let (logits, tape) = forward(copies.clone())?;
        let weights = averages.add(copies.clone(), &logits)?;
        let mut cotangents = vec![0.0; logits.len()];
        let rows = logits.chunks_exact(classes);
        for ((copy, z), out) in copies
            .clone()
            .zip(rows)
            .zip(cotangents.chunks_exact_mut(classes))
        {
            cotangent(z, points.labels[copy / samples] as usize, out);
        }
        let gradients = network.input_gradient(&tape, &cotangents)?;
        for ((copy, weight), g) in copies.zip(weights).zip(gradients.chunks_exact(pixels)) {
            averages.averages[copy / samples].add_gradient(weight, g);
        }
    }
    Ok(averages.finish())
}
