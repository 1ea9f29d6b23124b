//! Distances between student and teacher.

use network::logits::log_softmax;
use settings::choices;

use super::head::Head;
use crate::rows::Rows;

choices! {
    /// How the student is held to its teacher, with `z` and `t` their logits.
    pub enum Fit {
        /// `1/2 ||z - t||^2` (the paper on CIFAR-10).
        L2 = "l2",
        /// `KL(softmax t || softmax z)` (the paper on ImageNet).
        Kl = "kl",
        /// `1/2 ||softmax z - softmax t||^2` (the authors' follow-up): a softmax
        /// is the head of what is smoothed, so that the heat equation is that of
        /// the probabilities.
        L2Prob = "l2-prob",
    }
}

impl Fit {
    /// The head of the networks that are fitted.
    pub(super) fn head(self) -> Head {
        match self {
            Self::L2 | Self::Kl => Head::Logits,
            Self::L2Prob => Head::Softmax,
        }
    }

    /// `factor` times the sum over the images of the distance between the
    /// student's and the teacher's outputs, and its cotangent on the student's.
    pub(in crate::methods) fn distance(
        self,
        student: &Rows,
        teacher: &Rows,
        factor: f64,
    ) -> (f64, Rows) {
        let mut total = 0.0;
        let mut cotangent = Vec::with_capacity(student.values().len());
        match self {
            Self::L2 | Self::L2Prob => {
                for (&z, &t) in student.values().iter().zip(teacher.values()) {
                    let d = f64::from(z) - f64::from(t);
                    total += 0.5 * d * d;
                    cotangent.push((factor * d) as f32);
                }
            }
            Self::Kl => {
                for (z, t) in student.iter().zip(teacher.iter()) {
                    let (log_q, log_p) = (log_softmax(z), log_softmax(t));
                    for (log_q, log_p) in log_q.iter().zip(&log_p) {
                        total += log_p.exp() * (log_p - log_q);
                        cotangent.push((factor * (log_q.exp() - log_p.exp())) as f32);
                    }
                }
            }
        }
        let width = student.values().len() / student.count();
        (factor * total, Rows::new(width, cotangent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cotangents_are_derivatives() {
        let student = [0.3f32, -0.7, 1.1, 0.2, 0.0, -0.4];
        let teacher = [0.5f32, -0.2, 0.9, 1.2, -1.0, 0.4];
        for fit in [Fit::L2, Fit::Kl, Fit::L2Prob] {
            let outputs = |z: [f32; 6]| fit.head().outputs(Rows::new(3, z.to_vec()));
            let distance = |z: [f32; 6]| fit.distance(&outputs(z), &outputs(teacher), 0.7);
            let (_, cotangent) = distance(student);
            let cotangent = fit.head().pull_back(&outputs(student), &cotangent);
            for i in 0..student.len() {
                let at = |by: f32| {
                    let mut z = student;
                    z[i] += by;
                    distance(z).0
                };
                let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
                let exact = f64::from(cotangent.values()[i]);
                assert!((numeric - exact).abs() < 1e-4, "{fit} {i}");
            }
            assert_eq!(distance(teacher).0, 0.0);
        }
    }
}
