//! What the heat equation acts on: the network's logits, a softmax on top of them,
//! or real values in units of their spread.

use std::sync::Arc;

use network::logits::softmax;
use network::{DeviceError, Executor, Gradients, Mode, Tape};

use crate::rows::Rows;

/// The last layer of what is smoothed.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::methods) enum Head {
    /// The logits themselves.
    Logits,
    /// Their softmax.
    Softmax,
    /// Each output times its own factor.
    Scaled(Arc<[f32]>),
}

/// A network with a head: the verbs, with rows for logits and cotangents.
pub(in crate::methods) struct Headed<'a> {
    pub network: &'a dyn Executor,
    pub head: Head,
}

/// A tape, and the outputs, through which cotangents go back to the logits.
pub(in crate::methods) struct HeadedTape {
    tape: Tape,
    outputs: Rows,
}

impl Headed<'_> {
    /// Outputs in eval mode.
    pub fn outputs(&self, images: &[f32]) -> Result<Rows, DeviceError> {
        let classes = self.network.classes();
        let count = images.len() / self.network.input().len();
        let mut logits = vec![0.0; count * classes];
        self.network.logits(images, &mut logits)?;
        Ok(self.head.outputs(Rows::new(classes, logits)))
    }

    /// Outputs and tape.
    pub fn forward(&self, x: &Rows, mode: Mode) -> Result<(Rows, HeadedTape), DeviceError> {
        let (logits, tape) = self.network.forward(x.values(), mode)?;
        let outputs = self.head.outputs(Rows::new(self.network.classes(), logits));
        let kept = HeadedTape {
            tape,
            outputs: outputs.clone(),
        };
        Ok((outputs, kept))
    }

    /// `d(cotangent . outputs)/dx`.
    pub fn input_gradient(&self, tape: &HeadedTape, cotangent: &Rows) -> Result<Rows, DeviceError> {
        let cotangent = self.head.pull_back(&tape.outputs, cotangent);
        let dx = self
            .network
            .input_gradient(&tape.tape, cotangent.values())?;
        Ok(Rows::new(self.network.input().len(), dx))
    }

    /// Adds `d(cotangent . outputs)/d(parameters)`.
    pub fn parameter_gradient(
        &self,
        tape: &HeadedTape,
        cotangent: &Rows,
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let cotangent = self.head.pull_back(&tape.outputs, cotangent);
        self.network
            .parameter_gradient(&tape.tape, cotangent.values(), gradients)
    }
}

impl HeadedTape {
    /// The network's own tape.
    pub fn into_tape(self) -> Tape {
        self.tape
    }
}

impl Head {
    /// The outputs that belong to logits.
    pub fn outputs(&self, logits: Rows) -> Rows {
        match self {
            Self::Logits => logits,
            Self::Scaled(factors) => scaled(&logits, factors),
            Self::Softmax => {
                let width = logits[0].len();
                let p = logits.iter().flat_map(softmax).map(|p| p as f32);
                Rows::new(width, p.collect())
            }
        }
    }

    /// A cotangent on the outputs as one on the logits: for probabilities `p`,
    /// `p * (c - p . c)`.
    pub fn pull_back(&self, outputs: &Rows, cotangent: &Rows) -> Rows {
        match self {
            Self::Logits => cotangent.clone(),
            Self::Scaled(factors) => scaled(cotangent, factors),
            Self::Softmax => {
                let means = outputs.dot(cotangent);
                let rows = outputs.iter().zip(cotangent.iter()).zip(means);
                let values = rows.flat_map(|((p, c), mean)| {
                    let pairs = p.iter().zip(c);
                    pairs.map(move |(&p, &c)| (f64::from(p) * (f64::from(c) - mean)) as f32)
                });
                Rows::new(outputs[0].len(), values.collect())
            }
        }
    }
}

fn scaled(rows: &Rows, factors: &[f32]) -> Rows {
    let values = rows.iter().flat_map(|row| row.iter().zip(factors));
    Rows::new(
        factors.len(),
        values.map(|(v, factor)| v * factor).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_softmax_pulls_back() {
        let logits = [0.3f32, -0.7, 1.1];
        let cotangent = Rows::new(3, vec![1.0, -2.0, 0.5]);
        let outputs = Head::Softmax.outputs(Rows::new(3, logits.to_vec()));
        let pulled = Head::Softmax.pull_back(&outputs, &cotangent);
        for i in 0..3 {
            let at = |by: f32| {
                let mut z = logits;
                z[i] += by;
                let p = Head::Softmax.outputs(Rows::new(3, z.to_vec()));
                p.dot(&cotangent)[0]
            };
            let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((numeric - f64::from(pulled[0][i])).abs() < 1e-4);
        }
    }
}
