//! Products that are activations.

use network::{Activation, NodeId, Op};

use super::{ERF, Sketch};

impl Sketch {
    /// `x * sigmoid(x)` and `x * hard_sigmoid(x)`.
    pub(super) fn gated(&self, x: NodeId, gate: NodeId) -> Option<Activation> {
        if self.drafts[gate].inputs != [x] {
            return None;
        }
        match self.op(gate)? {
            Op::Activation(Activation::Sigmoid) => Some(Activation::Silu),
            Op::Activation(Activation::HardSigmoid { slope, offset })
                if close(*slope, 1.0 / 6.0) && *offset == 0.5 =>
            {
                Some(Activation::HardSwish)
            }
            _ => None,
        }
    }

    /// Follows affine nodes of one value for all channels to their source:
    /// `node = scale * source + shift`.
    fn scalar_source(&self, mut node: NodeId) -> (NodeId, f32, f32) {
        let (mut a, mut b) = (1.0, 0.0);
        while let Some(Op::Affine { scale, shift }) = self.op(node)
            && let ([scale], [shift]) = (&scale[..], &shift[..])
        {
            (a, b) = (a * scale, a * shift + b);
            node = self.drafts[node].inputs[0];
        }
        (node, a, b)
    }

    /// `k x * a (1 + erf(x / sqrt 2))` is `2 a k` times Gelu; returns `x` and
    /// the factor.
    pub(super) fn gelu(&self, x: NodeId, gate: NodeId) -> Option<(NodeId, f32)> {
        let (erf, a, b) = self.scalar_source(gate);
        if self.drafts[erf].kind != ERF || !close(a, b) {
            return None;
        }
        // The argument is one affine node behind `x`, `x` itself may be one.
        let argument = self.drafts[erf].inputs[0];
        let input = match self.op(argument)? {
            Op::Affine { scale, shift }
                if shift[..] == [0.0]
                    && scale.len() == 1
                    && close(scale[0], std::f32::consts::FRAC_1_SQRT_2) =>
            {
                self.drafts[argument].inputs[0]
            }
            _ => return None,
        };
        if x == input {
            return Some((input, 2.0 * a));
        }
        match self.op(x)? {
            Op::Affine { scale, shift }
                if shift[..] == [0.0] && scale.len() == 1 && self.drafts[x].inputs == [input] =>
            {
                Some((input, 2.0 * a * scale[0]))
            }
            _ => None,
        }
    }
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() < 1e-4 * b.abs()
}
