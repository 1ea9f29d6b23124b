//! From the sketch to the graph: joining, tidying, numbering.

use network::{Graph, Node, NodeId, Op, Parameters};

use super::{Kind, Sketch, SketchError};

impl Sketch {
    /// The graph of everything that `output` needs, with its parameters.
    pub(in super::super) fn finish(
        mut self,
        output: NodeId,
    ) -> Result<(Graph, Parameters), SketchError> {
        let output = self.join_affines(output);
        let uses = self.uses(output);
        self.join_biases(&uses);
        let needed = self.uses(output);
        let mut ids = vec![0; self.drafts.len()];
        let (mut nodes, mut values) = (Vec::new(), Vec::new());
        for (id, draft) in self.drafts.into_iter().enumerate() {
            if id > 0 && needed[id] == 0 {
                continue;
            }
            let op = match draft.kind {
                Kind::Op(op) => op,
                Kind::Part(op) => return Err(SketchError::Part(draft.name, op)),
            };
            ids[id] = nodes.len();
            nodes.push(Node {
                name: draft.name,
                op,
                inputs: draft.inputs.iter().map(|&i| ids[i]).collect(),
            });
            values.extend(draft.values);
        }
        let graph = Graph::new(nodes).map_err(SketchError::Graph)?;
        let parameters = Parameters::new(&graph, values);
        Ok((graph, parameters))
    }

    /// How often each node is read on the way to the output.
    fn uses(&self, output: NodeId) -> Vec<usize> {
        let mut uses = vec![0; self.drafts.len()];
        uses[output] = 1;
        for id in (0..=output).rev() {
            if uses[id] > 0 {
                self.drafts[id].inputs.iter().for_each(|&i| uses[i] += 1);
            }
        }
        uses
    }

    /// Joins affine nodes that follow each other and drops those that change
    /// nothing; returns the node that is now the output.
    fn join_affines(&mut self, output: NodeId) -> NodeId {
        let mut instead: Vec<NodeId> = (0..self.drafts.len()).collect();
        for id in 1..self.drafts.len() {
            self.drafts[id]
                .inputs
                .iter_mut()
                .for_each(|i| *i = instead[*i]);
            let Some(Op::Affine { scale, shift }) = self.op(id) else {
                continue;
            };
            let (mut scale, mut shift) = (scale.clone(), shift.clone());
            let mut source = self.drafts[id].inputs[0];
            if let Some(Op::Affine {
                scale: first,
                shift: offset,
            }) = self.op(source)
            {
                let at = |v: &[f32], i: usize| f64::from(v[i % v.len()]);
                let n = first
                    .len()
                    .max(offset.len())
                    .max(scale.len())
                    .max(shift.len());
                let joined = |i: usize| {
                    let factor = at(first, i) * at(&scale, i);
                    (
                        factor as f32,
                        (at(offset, i) * at(&scale, i) + at(&shift, i)) as f32,
                    )
                };
                let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(joined).unzip();
                if a.iter().chain(&b).all(|v| v.is_finite()) {
                    (scale, shift) = (a, b);
                    source = self.drafts[source].inputs[0];
                }
            }
            for values in [&mut scale, &mut shift] {
                if values.iter().all(|v| *v == values[0]) {
                    values.truncate(1);
                }
            }
            if scale[..] == [1.0] && shift[..] == [0.0] {
                instead[id] = source;
            }
            self.drafts[id].kind = Kind::Op(Op::Affine { scale, shift });
            self.drafts[id].inputs = vec![source];
        }
        instead[output]
    }

    /// A constant added behind a convolution or linear layer becomes its bias,
    /// which is trained.
    fn join_biases(&mut self, uses: &[usize]) {
        for id in 1..self.drafts.len() {
            let source = match self.drafts[id].inputs[..] {
                [source] if uses[id] > 0 && uses[source] == 1 => source,
                _ => continue,
            };
            let shift = match self.op(id) {
                Some(Op::Affine { scale, shift }) if scale.iter().all(|&v| v == 1.0) => shift,
                _ => continue,
            };
            let channels = self.shape(id).channels;
            let values: Vec<f32> = shift.iter().copied().cycle().take(channels).collect();
            match &mut self.drafts[source].kind {
                Kind::Op(Op::Conv { bias, .. } | Op::Linear { bias, .. }) if !*bias => *bias = true,
                _ => continue,
            }
            self.drafts[source].values.push(values);
            // The layer takes the sum's place.
            self.drafts.swap(source, id);
        }
    }
}
