//! What is known about nodes that are steps of a norm, until the step that makes it
//! one: exporters write `(x - mean) / sqrt(variance + epsilon)` as seven operators.

use network::{NodeId, Op};

use super::view::{Part, View};
use super::{Activation, Importer, Refusal, Site};

/// What a tensor is, of another one. Both are tensors of the file, not nodes: a node may
/// hold more than the tensor, or hold it in another order.
#[derive(Clone)]
pub(super) struct Fact {
    step: Step,
    /// The tensor that the norm is of.
    of: Activation,
    /// Its dimensions that are taken together; they stay with one element where they
    /// are reduced.
    dims: Vec<usize>,
    /// How this tensor lies over its node.
    view: View,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// The mean.
    Mean,
    /// The tensor less its mean.
    Centred,
    /// The squares, or those of the centred ones.
    Square { centred: bool },
    /// The mean of these squares and a small number, or its root.
    Variance {
        centred: bool,
        epsilon: f32,
        root: bool,
    },
    /// The length, at least so much.
    Length { least: f32 },
}

/// `max(length, least)` is taken for `sqrt(length^2 + least^2)`, which is the same where
/// the least length only guards against a division by zero.
const LARGEST_GUARD: f32 = 1e-5;

/// Whether two are the same tensor.
fn same(a: &Activation, b: &Activation) -> bool {
    a.node == b.node && a.view.is(&b.view)
}

impl Importer<'_> {
    /// What is known of a tensor; what was reduced may have been spread again.
    fn fact(&self, x: &Activation) -> Option<Fact> {
        let fact = self.facts.get(&x.node)?;
        let mut view = x.view.clone();
        if !matches!(fact.step, Step::Centred | Step::Square { .. }) {
            let (sizes, all) = (view.sizes(), fact.of.view.sizes());
            for &d in &fact.dims {
                let still = |part: &Part| matches!(part, Part::Walk { stride: 0, .. });
                if sizes.get(d) == all.get(d) && view.dims[d].iter().all(still) {
                    view.dims[d].clear();
                }
            }
        }
        fact.view.is(&view).then(|| fact.clone())
    }

    /// Notes what the mean over `dims` of `x` is, which lies over `node` as `view` if the
    /// dimensions are kept.
    pub(super) fn reduction_fact(
        &mut self,
        op: &str,
        x: &Activation,
        dims: &[usize],
        node: NodeId,
        view: View,
    ) {
        if op != "ReduceMean" {
            return;
        }
        let (step, of) = match self.fact(x) {
            Some(Fact {
                step: Step::Square { centred },
                of,
                dims: own,
                ..
            }) => {
                if centred && own != dims {
                    return;
                }
                let step = Step::Variance {
                    centred,
                    epsilon: 0.0,
                    root: false,
                };
                (step, of)
            }
            _ => (Step::Mean, x.clone()),
        };
        let dims = dims.to_vec();
        let fact = Fact {
            step,
            of,
            dims,
            view,
        };
        self.facts.insert(node, fact);
    }

    /// Notes what a difference or a product of two tensors is.
    pub(super) fn pair_fact(
        &mut self,
        op: &str,
        a: &Activation,
        b: &Activation,
        result: &Activation,
    ) {
        let (step, of, dims) = match op {
            "Sub" => match self.fact(b) {
                Some(mean) if mean.step == Step::Mean && same(a, &mean.of) => {
                    (Step::Centred, mean.of, mean.dims)
                }
                _ => return,
            },
            "Mul" if same(a, b) => match self.fact(a) {
                Some(own) if own.step == Step::Centred => {
                    (Step::Square { centred: true }, own.of, own.dims)
                }
                _ => (Step::Square { centred: false }, a.clone(), vec![]),
            },
            _ => return,
        };
        let fact = Fact {
            step,
            of,
            dims,
            view: result.view.clone(),
        };
        self.facts.insert(result.node, fact);
    }

    /// Notes what a variance is with a number added.
    pub(super) fn sum_fact(&mut self, x: &Activation, number: f32, result: NodeId) {
        if let Some(mut fact) = self.fact(x)
            && let Step::Variance {
                epsilon,
                root: false,
                ..
            } = &mut fact.step
        {
            *epsilon += number;
            self.facts.insert(result, fact);
        }
    }

    /// A root, which must be that of a variance.
    pub(super) fn square_root(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let input = site.activation(0)?.clone();
        let node = self.sketch.part(&site.name, "Sqrt", input.node);
        if let Some(mut fact) = self.fact(&input)
            && let Step::Variance { root, .. } = &mut fact.step
            && !*root
        {
            *root = true;
            self.facts.insert(node, fact);
        }
        Ok(Activation { node, ..input })
    }

    /// The length of the vectors along the last dimension, which must be divided by.
    pub(super) fn length(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?.clone();
        let rank = x.view.dims.len();
        let axes = match site.constant(1)? {
            Some(axes) => axes.as_ints(),
            None => site.attributes.ints("axes"),
        };
        let last = [-1, rank as i64 - 1].map(|axis| vec![axis]);
        if !axes.is_some_and(|axes| last.contains(&axes.to_vec())) {
            return Err("is supported along the last dimension only".into());
        }
        let keep = site.attributes.int("keepdims") != Some(0);
        let sum = self.reduced("ReduceSum", &site.name, &x, &[-1], keep)?;
        let node = self.sketch.part(&site.name, "ReduceL2", sum.node);
        let mut view = sum.view.clone();
        if !keep {
            view.dims.push(vec![]);
        }
        let fact = Fact {
            step: Step::Length { least: 0.0 },
            of: x,
            dims: vec![rank - 1],
            view,
        };
        self.facts.insert(node, fact);
        Ok(Activation { node, ..sum })
    }

    /// A length that is at least so much, if it is one.
    pub(super) fn at_least(
        &mut self,
        name: &str,
        x: &Activation,
        bound: f32,
    ) -> Option<Activation> {
        let mut fact = self.fact(x)?;
        let Step::Length { least } = &mut fact.step else {
            return None;
        };
        *least = least.max(bound);
        let node = self.sketch.part(name, "Clip", x.node);
        self.facts.insert(node, fact);
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
        let fact = self.fact(b).ok_or_else(refused)?;
        let (centred, epsilon, least) = match fact.step {
            Step::Variance {
                centred,
                epsilon,
                root: true,
            } => (centred, epsilon, None),
            Step::Length { least } if least > LARGEST_GUARD => {
                return Err(format!("a length of at least {least} is not supported").into());
            }
            Step::Length { least } => (false, 0.0, Some(least)),
            _ => return Err(refused()),
        };
        let fits = match centred {
            true => self.fact(a).is_some_and(|own| {
                own.step == Step::Centred && own.dims == fact.dims && same(&own.of, &fact.of)
            }),
            false => same(a, &fact.of),
        };
        if !fits {
            return Err(refused());
        }
        // What is taken together as the channels, and back.
        let rank = fact.of.view.dims.len();
        let mut order: Vec<usize> = (0..rank).filter(|d| !fact.dims.contains(d)).collect();
        order.extend(&fact.dims);
        let turned = Activation {
            node: fact.of.node,
            view: fact.of.view.permuted(&order),
        };
        let turned = self.channels_last(name, &turned, fact.dims.len())?;
        // The length is the root of the mean square times that of the number.
        let n = self.node_shape(&turned).channels as f32;
        let norm = |epsilon| Op::LayerNorm {
            groups: 1,
            over_pixels: false,
            centred,
            epsilon,
            scale: false,
            shift: false,
        };
        let node = match least {
            None => self
                .sketch
                .layer(name, norm(epsilon), turned.node, vec![])?,
            Some(least) => {
                let epsilon = (least * least / n).max(f32::MIN_POSITIVE);
                let inner = format!("{name}.norm");
                let node = self
                    .sketch
                    .layer(&inner, norm(epsilon), turned.node, vec![])?;
                let scale = vec![1.0 / n.sqrt()];
                self.sketch.affine(name, node, scale, vec![0.0])?
            }
        };
        let mut back = vec![0; rank];
        for (place, &d) in order.iter().enumerate() {
            back[d] = place;
        }
        let view = turned.view.permuted(&back);
        Ok(Activation { node, view })
    }
}
