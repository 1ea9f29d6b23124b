//! Attention as one operator (opset 23): products, scores, softmax.

use super::view::{Part, View};
use super::{Activation, Importer, Refusal, Site, Value};
use crate::onnx::constant::{Constant, Data};

impl Importer<'_> {
    /// `softmax(scale * q k^T + mask) v`, head by head.
    pub(super) fn attention(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let given = |index: usize| matches!(site.inputs.get(index), Some(Some(_)));
        if (4..7).any(given) {
            return Err("keys and values of earlier calls are not supported".into());
        }
        if site.attributes.float("softcap").unwrap_or(0.0) != 0.0 {
            return Err("a cap on the scores is not supported".into());
        }
        let flat = self.sizes(site.activation(0)?).len() == 3;
        let q = self.heads(site, 0, "q_num_heads")?;
        let mut k = self.heads(site, 1, "kv_num_heads")?;
        let mut v = self.heads(site, 2, "kv_num_heads")?;
        let heads = self.sizes(&q)[1];
        for x in [&mut k, &mut v] {
            let own = self.sizes(x)[1];
            if own == 0 || !heads.is_multiple_of(own) {
                return Err(format!("{heads} heads of queries for {own} of keys").into());
            }
            // Several heads of queries read the same keys and values.
            let count = heads / own;
            x.view.dims[1].push(Part::Walk { count, stride: 0 });
        }
        let name = |part: &str| format!("{}.{part}", site.name);
        k.view.dims.swap(2, 3);
        let scores = self.multiply(&name("scores"), &q, &k)?;
        let sizes = self.sizes(&scores);
        let depth = self.sizes(&q)[3] as f32;
        let scale = site.attributes.float("scale").unwrap_or(1.0 / depth.sqrt());
        let node = self
            .sketch
            .affine(&name("scale"), scores.node, vec![scale], vec![0.0])?;
        let mut scores = Activation { node, ..scores };
        match site.inputs.get(3) {
            Some(Some(Value::Activation(mask))) => {
                scores = self.two("Add", &name("mask"), &scores, mask)?;
            }
            Some(Some(Value::Constant(mask))) => {
                let mask = as_summand(mask);
                let names = [&name("mask")[..], &name("mask.value")];
                scores = self.with_constant("Add", names, &scores, &mask, false)?;
            }
            _ => {}
        }
        if site.attributes.int("is_causal") == Some(1) {
            let (rows, columns) = (sizes[2], sizes[3]);
            self.spend(rows.saturating_mul(columns))?;
            let seen = |i: usize| i64::from(i % columns <= i / columns);
            let data = Data::Int((0..rows * columns).map(seen).collect());
            let shape = vec![rows, columns];
            let mask = as_summand(&Constant { shape, data });
            let names = [&name("causal")[..], &name("causal.value")];
            scores = self.with_constant("Add", names, &scores, &mask, false)?;
        }
        let weights = self.softmax_along(&name("softmax"), &scores, 3)?;
        let out = self.multiply(&site.name, &weights, &v)?;
        if !flat {
            return Ok(out);
        }
        let view = out.view.permuted(&[0, 2, 1, 3]);
        let out = Activation { view, ..out };
        let sizes = self.sizes(&out);
        let joined = [sizes[0], sizes[1], sizes[2] * sizes[3]];
        self.seen_as(&site.name, &out, &joined)
    }

    /// An input as batch x heads x tokens x channels.
    fn heads(
        &mut self,
        site: &Site<'_>,
        index: usize,
        attribute: &str,
    ) -> Result<Activation, Refusal> {
        let x = self.factor(site, index)?;
        let sizes = self.sizes(&x);
        match sizes[..] {
            [_, _, _, _] => Ok(x),
            [batch, tokens, channels] => {
                let heads = site.attributes.int(attribute).unwrap_or(0);
                let heads = usize::try_from(heads).unwrap_or(0);
                if heads == 0 || !channels.is_multiple_of(heads) {
                    return Err(format!("{heads} heads of {channels} channels").into());
                }
                let wanted = [batch, tokens, heads, channels / heads];
                let x = self.seen_as(&site.name, &x, &wanted)?;
                let view: View = x.view.permuted(&[0, 2, 1, 3]);
                Ok(Activation { view, ..x })
            }
            _ => Err(format!("wants 3 or 4 dimensions, got {sizes:?}").into()),
        }
    }
}

/// A mask that is added: one of truth values says what may be seen.
fn as_summand(mask: &Constant) -> Constant {
    let Data::Int(values) = &mask.data else {
        return mask.clone();
    };
    let summand = |&seen: &i64| if seen == 0 { f32::NEG_INFINITY } else { 0.0 };
    Constant::floats(mask.shape.clone(), values.iter().map(summand).collect())
}
