//! Distances between student and teacher.

use serde::{Deserialize, Serialize};

use network::logits::{log_softmax, softmax};

/// How the student is held to its teacher, with `z` and `t` their logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// `1/2 ||z - t||^2` (the paper on CIFAR-10).
    L2,
    /// `KL(softmax t || softmax z)` (the paper on ImageNet).
    Kl,
    /// `1/2 ||softmax z - softmax t||^2` (the authors' follow-up). The gradient
    /// penalty then acts on the probabilities too: the heat equation is that of
    /// what is fitted.
    L2Prob,
}

impl Fit {
    /// What the heat equation acts on: logits, or probabilities.
    pub(super) fn outputs(self, classes: usize, logits: &[f32]) -> Vec<f32> {
        match self {
            Self::L2 | Self::Kl => logits.to_vec(),
            Self::L2Prob => {
                let rows = logits.chunks_exact(classes);
                rows.flat_map(|z| softmax(z).into_iter().map(|p| p as f32))
                    .collect()
            }
        }
    }

    /// A cotangent on the outputs as one on the logits: for probabilities
    /// `p * (c - p . c)`.
    pub(super) fn pull_back(self, classes: usize, logits: &[f32], cotangent: &[f32]) -> Vec<f32> {
        match self {
            Self::L2 | Self::Kl => cotangent.to_vec(),
            Self::L2Prob => {
                let rows = logits
                    .chunks_exact(classes)
                    .zip(cotangent.chunks_exact(classes));
                rows.flat_map(|(z, c)| softmax_pull_back(&softmax(z), c))
                    .collect()
            }
        }
    }

    /// `factor` times the sum of distances over the images, and its cotangent on
    /// the student's logits.
    pub(super) fn distance(
        self,
        classes: usize,
        student: &[f32],
        teacher: &[f32],
        factor: f64,
    ) -> (f64, Vec<f32>) {
        let mut total = 0.0;
        let mut cotangent = Vec::with_capacity(student.len());
        let rows = student
            .chunks_exact(classes)
            .zip(teacher.chunks_exact(classes));
        for (z, t) in rows {
            match self {
                Self::L2 => {
                    for (&z, &t) in z.iter().zip(t) {
                        let d = f64::from(z) - f64::from(t);
                        total += 0.5 * d * d;
                        cotangent.push((factor * d) as f32);
                    }
                }
                Self::Kl => {
                    let (log_q, log_p) = (log_softmax(z), log_softmax(t));
                    for (log_q, log_p) in log_q.iter().zip(&log_p) {
                        total += log_p.exp() * (log_p - log_q);
                        cotangent.push((factor * (log_q.exp() - log_p.exp())) as f32);
                    }
                }
                Self::L2Prob => {
                    let (q, p) = (softmax(z), softmax(t));
                    let difference: Vec<f32> = q
                        .iter()
                        .zip(&p)
                        .map(|(q, p)| (factor * (q - p)) as f32)
                        .collect();
                    total += q
                        .iter()
                        .zip(&p)
                        .map(|(q, p)| 0.5 * (q - p) * (q - p))
                        .sum::<f64>();
                    cotangent.extend(softmax_pull_back(&q, &difference));
                }
            }
        }
        (factor * total, cotangent)
    }
}

fn softmax_pull_back(p: &[f64], cotangent: &[f32]) -> Vec<f32> {
    let mean: f64 = p
        .iter()
        .zip(cotangent)
        .map(|(p, &c)| p * f64::from(c))
        .sum();
    let rows = p.iter().zip(cotangent);
    rows.map(|(p, &c)| (p * (f64::from(c) - mean)) as f32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cotangents_are_derivatives() {
        let student = [0.3f32, -0.7, 1.1, 0.2, 0.0, -0.4];
        let teacher = [0.5f32, -0.2, 0.9, 1.2, -1.0, 0.4];
        for fit in [Fit::L2, Fit::Kl, Fit::L2Prob] {
            let (_, cotangent) = fit.distance(3, &student, &teacher, 0.7);
            for i in 0..student.len() {
                let at = |by: f32| {
                    let mut z = student;
                    z[i] += by;
                    fit.distance(3, &z, &teacher, 0.7).0
                };
                let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
                assert!(
                    (numeric - f64::from(cotangent[i])).abs() < 1e-4,
                    "{fit:?} {i}"
                );
            }
            assert_eq!(fit.distance(3, &teacher, &teacher, 1.0).0, 0.0);
        }
    }

    #[test]
    fn outputs_pull_back() {
        let logits = [0.3f32, -0.7, 1.1];
        let cotangent = [1.0f32, -2.0, 0.5];
        let pulled = Fit::L2Prob.pull_back(3, &logits, &cotangent);
        for i in 0..3 {
            let at = |by: f32| {
                let mut z = logits;
                z[i] += by;
                let p = Fit::L2Prob.outputs(3, &z);
                p.iter()
                    .zip(&cotangent)
                    .map(|(p, c)| f64::from(p * c))
                    .sum::<f64>()
            };
            let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((numeric - f64::from(pulled[i])).abs() < 1e-4);
        }
    }
}
