//! What is known about nodes that are steps of a norm, until the step that makes it
//! one: exporters write `(x - mean) / sqrt(variance + epsilon)` as seven operators.

use network::{NodeId, Op};

use super::view::{Part, joined};
use super::{Activation, Importer, Refusal, Site};

/// What a node's value is, of the channels of node `x`, pixel by pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fact {
    /// Their mean.
    Mean { x: NodeId },
    /// They themselves less their mean.
    Centred { x: NodeId },
    /// Their squares, or those of the centred ones.
    Square { x: NodeId, centred: bool },
    /// The mean of these squares and a small number, or its root.
    Variance {
        x: NodeId,
        centred: bool,
        epsilon: f32,
        root: bool,
    },
    /// Their length, at least so much.
    Length { x: NodeId, least: f32 },
}

impl Importer<'_> {
    /// Whether a value is all channels of a node, in these dimensions.
    fn are_channels(&self, x: &Activation, dims: &[usize]) -> bool {
        let shape = self.node_shape(x);
        let channels = joined(&x.view.permuted(dims).walks());
        x.view.covers(shape.len())
            && match shape.channels {
                1 => channels.is_empty(),
                count => channels == [Part::Walk { count, stride: 1 }],
            }
    }

    /// Notes what a mean over `dims` of `x` is.
    pub(super) fn reduction_fact(
        &mut self,
        op: &str,
        x: &Activation,
        dims: &[usize],
        result: &Activation,
    ) {
        if op != "ReduceMean" || !self.are_channels(x, dims) {
            return;
        }
        let fact = match self.facts.get(&x.node) {
            Some(&Fact::Square { x, centred }) => Fact::Variance {
                x,
                centred,
                epsilon: 0.0,
                root: false,
            },
            _ => Fact::Mean { x: x.node },
        };
        self.facts.insert(result.node, fact);
    }

    /// Notes what a difference or a product of two values is.
    pub(super) fn pair_fact(&mut self, op: &str, a: &Activation, b: &Activation, result: NodeId) {
        let fact = match (op, self.facts.get(&a.node), self.facts.get(&b.node)) {
            ("Sub", _, Some(&Fact::Mean { x })) if a.node == x => Fact::Centred { x },
            ("Mul", Some(&Fact::Centred { x }), _) if a.node == b.node => {
                Fact::Square { x, centred: true }
            }
            ("Mul", None, _) if a.node == b.node => Fact::Square {
                x: a.node,
                centred: false,
            },
            _ => return,
        };
        self.facts.insert(result, fact);
    }

    /// Notes what a variance is with a number added.
    pub(super) fn sum_fact(&mut self, x: NodeId, number: f32, result: NodeId) {
        if let Some(&Fact::Variance {
            x,
            centred,
            epsilon,
            root: false,
        }) = self.facts.get(&x)
        {
            let fact = Fact::Variance {
                x,
                centred,
                epsilon: epsilon + number,
                root: false,
            };
            self.facts.insert(result, fact);
        }
    }

    /// A root, which must be that of a variance.
    pub(super) fn square_root(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let input = site.activation(0)?.clone();
        let node = self.sketch.part(&site.name, "Sqrt", input.node);
        if let Some(&Fact::Variance {
            x,
            centred,
            epsilon,
            root: false,
        }) = self.facts.get(&input.node)
        {
            let fact = Fact::Variance {
                x,
                centred,
                epsilon,
                root: true,
            };
            self.facts.insert(node, fact);
        }
        Ok(Activation { node, ..input })
    }

    /// The length of the vectors along the last dimension, which must be divided by.
    pub(super) fn length(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let rank = x.view.dims.len();
        let axes = match site.constant(1)? {
            Some(axes) => axes.as_ints(),
            None => site.attributes.ints("axes"),
        };
        let last = [-1, rank as i64 - 1].map(|axis| vec![axis]);
        if !axes.is_some_and(|axes| last.contains(&axes.to_vec())) {
            return Err("is supported along the last dimension only".into());
        }
        let x = self.channels_last(&site.name, x, 1)?;
        let keep = site.attributes.int("keepdims") != Some(0);
        let sum = self.reduced("ReduceSum", &site.name, &x, &[-1], keep)?;
        let node = self.sketch.part(&site.name, "ReduceL2", sum.node);
        let fact = Fact::Length {
            x: x.node,
            least: 0.0,
        };
        self.facts.insert(node, fact);
        Ok(Activation { node, ..sum })
    }

    /// A length that is at least so much, if it is one.
    pub(super) fn at_least(
        &mut self,
        name: &str,
        x: &Activation,
        least: f32,
    ) -> Option<Activation> {
        let &Fact::Length { x: of, least: own } = self.facts.get(&x.node)? else {
            return None;
        };
        let node = self.sketch.part(name, "Clip", x.node);
        let least = least.max(own);
        self.facts.insert(node, Fact::Length { x: of, least });
        let view = x.view.clone();
        Some(Activation { node, view })
    }

    /// `a / b` where that ends a norm.
    pub(super) fn quotient(
        &mut self,
        name: &str,
        a: &Activation,
        b: &Activation,
    ) -> Result<Activation, Refusal> {
        let refused = || Refusal::from("divides by activations that are no deviation");
        let fact = *self.facts.get(&b.node).ok_or_else(refused)?;
        let own = match self.facts.get(&a.node) {
            Some(&Fact::Centred { x }) => Some(x),
            _ => None,
        };
        let norm = |centred, epsilon| Op::LayerNorm {
            groups: 1,
            over_pixels: false,
            centred,
            epsilon,
            scale: false,
            shift: false,
        };
        match fact {
            Fact::Variance {
                x,
                centred: true,
                epsilon,
                root: true,
            } if own == Some(x) => {
                let node = self.sketch.layer(name, norm(true, epsilon), x, vec![])?;
                let view = a.view.clone();
                Ok(Activation { node, view })
            }
            Fact::Variance {
                x,
                centred: false,
                epsilon,
                root: true,
            } if a.node == x => {
                let node = self.sketch.layer(name, norm(false, epsilon), x, vec![])?;
                let view = a.view.clone();
                Ok(Activation { node, view })
            }
            Fact::Length { x, least } => {
                let a = self.channels_last(name, a, 1)?;
                if a.node != x {
                    return Err(refused());
                }
                // The length is the root of the mean square times that of the number.
                let n = self.node_shape(&a).channels as f32;
                let epsilon = (least * least / n).max(f32::MIN_POSITIVE);
                let node =
                    self.sketch
                        .layer(&format!("{name}.norm"), norm(false, epsilon), x, vec![])?;
                let scale = vec![1.0 / n.sqrt()];
                let node = self.sketch.affine(name, node, scale, vec![0.0])?;
                Ok(Activation { node, ..a })
            }
            _ => Err(refused()),
        }
    }
}
