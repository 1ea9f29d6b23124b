//! A table of what a graph computes.

use std::fmt;

use crate::graph::Graph;

/// Prints a graph layer by layer: name, operator, output shape, trainable
/// parameters, multiply-accumulates.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a>(pub &'a Graph);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graph = self.0;
        let widest = graph.nodes().iter().map(|n| n.name.len()).max();
        let width = widest.unwrap_or(0).max("layer".len());
        writeln!(
            f,
            "{:width$}  {:19}  {:>12}  {:>12}  {:>14}",
            "layer", "operator", "output", "parameters", "MACs"
        )?;
        for (id, node) in graph.nodes().iter().enumerate() {
            let specs = &graph.parameters()[graph.parameters_of(id)];
            let trainable = specs.iter().filter(|p| p.role.trainable());
            let parameters: usize = trainable.map(|p| p.len()).sum();
            let macs = if id == 0 {
                0
            } else {
                node.op.macs(graph.input_of(id), graph.shape(id))
            };
            let line = format!(
                "{:width$}  {:19}  {:>12}  {:>12}  {:>14}",
                node.name,
                node.op.name(),
                graph.shape(id).to_string(),
                grouped(parameters as u64),
                grouped(macs),
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        write!(
            f,
            "total: {} parameters, {} MACs an image",
            grouped_or_zero(graph.parameter_count() as u64),
            grouped_or_zero(graph.macs())
        )
    }
}

/// `1234567` as `1,234,567`; nothing for 0.
fn grouped(n: u64) -> String {
    if n == 0 {
        String::new()
    } else {
        grouped_or_zero(n)
    }
}

fn grouped_or_zero(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
