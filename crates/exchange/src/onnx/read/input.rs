//! The image: which input it is, its shape and layout.

use std::collections::HashSet;

use network::Shape;

use super::attributes::Attributes;
use super::view::View;
use crate::onnx::OnnxError;
use crate::onnx::proto::{GraphProto, ValueInfoProto, data_type};

enum Axis {
    Channel,
    Height,
    Width,
}

/// The input that is no initialiser: its name, the shape of one image, the size
/// of the batch, and the layout.
pub(super) fn image(
    graph: &GraphProto,
    wanted: Option<Shape>,
    ours: bool,
) -> Result<(&str, Shape, usize, View), OnnxError> {
    let fail = |reason: String| OnnxError::Model(reason);
    let weights: HashSet<&str> = graph
        .initializer
        .iter()
        .filter_map(|t| t.name.as_deref())
        .collect();
    let is_input = |v: &&ValueInfoProto| !weights.contains(v.name.as_deref().unwrap_or_default());
    let inputs: Vec<&ValueInfoProto> = graph.input.iter().filter(is_input).collect();
    let [input] = inputs[..] else {
        return Err(fail(format!(
            "it has {} inputs instead of one",
            inputs.len()
        )));
    };
    let name = input.name.as_deref().unwrap_or_default();
    let kind = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
    let (Some(kind), Some(shape)) = (kind, kind.and_then(|kind| kind.shape.as_ref())) else {
        return Err(fail(format!("input `{name}` has no shape")));
    };
    let floats = [
        data_type::FLOAT,
        data_type::FLOAT16,
        data_type::DOUBLE,
        data_type::BFLOAT16,
    ];
    if kind.elem_type.is_some_and(|t| !floats.contains(&t)) {
        return Err(fail(format!(
            "input `{name}` holds no floats: pixels are to be scaled to [0, 1]"
        )));
    }
    let sizes: Vec<Option<usize>> = shape
        .dim
        .iter()
        .map(|d| {
            d.dim_value
                .and_then(|v| usize::try_from(v).ok())
                .filter(|&v| v > 0)
        })
        .collect();
    let (batch, sizes) = sizes
        .split_first()
        .ok_or_else(|| fail(format!("input `{name}` is a number")))?;
    use Axis::{Channel, Height, Width};
    let axes = match sizes.len() {
        1 => vec![Channel],
        2 => vec![Height, Width],
        3 if !ours && is_nhwc(graph, name, sizes) => vec![Height, Width, Channel],
        3 => vec![Channel, Height, Width],
        n => return Err(fail(format!("input `{name}` has {} dimensions", n + 1))),
    };
    // What the file leaves open, the caller may say.
    let mut found = Shape::new(1, 1, 1);
    if let Some(wanted) = wanted {
        found = wanted;
        if sizes.len() == 1 && sizes[0].is_none_or(|size| size == wanted.len()) {
            // Images for a network of vectors, flattened as PyTorch does.
            let batch = batch.unwrap_or(1);
            let image = View::nchw(batch, found).dims;
            let flat = View {
                offset: 0,
                dims: vec![image[0].clone(), image[1..].concat()],
            };
            return Ok((name, found, batch, flat));
        }
    }
    for (axis, size) in axes.iter().zip(sizes) {
        let own = match axis {
            Channel => &mut found.channels,
            Height => &mut found.height,
            Width => &mut found.width,
        };
        match (*size, wanted) {
            (Some(size), Some(_)) if size != *own => {
                return Err(fail(format!(
                    "input `{name}` has {size} where the image {} has {own}",
                    wanted.unwrap_or(Shape::new(1, 1, 1)),
                )));
            }
            (Some(size), _) => *own = size,
            (None, Some(_)) => {}
            (None, None) => {
                return Err(OnnxError::OpenInput { name: name.into() });
            }
        }
    }
    if sizes.len() == 2 && found.channels != 1 {
        return Err(fail(format!(
            "input `{name}` has one channel, not {}",
            found.channels
        )));
    }
    let batch = batch.unwrap_or(1);
    let mut view = match axes[0] {
        Channel => View::nchw(batch, found),
        _ => View::nhwc(batch, found),
    };
    // A vector has no pixels, a grey image no channels.
    view.dims.truncate(1 + axes.len());
    Ok((name, found, batch, view))
}

/// Whether an input of four dimensions has its channels last, as TensorFlow's:
/// the sizes mostly say, else what the graph does with it first.
fn is_nhwc(graph: &GraphProto, name: &str, sizes: &[Option<usize>]) -> bool {
    let few = |size: Option<usize>| matches!(size, Some(1 | 3 | 4));
    match (few(sizes[0]), few(sizes[2])) {
        (true, false) => false,
        (false, true) if sizes[1] != Some(1) => true,
        _ => graph.node.iter().any(|node| {
            node.op_type.as_deref() == Some("Transpose")
                && node.input.first().is_some_and(|input| input == name)
                && Attributes(node).ints("perm") == Some(&[0, 3, 1, 2])
        }),
    }
}
