//! Attributes of nodes, and the types of inputs and outputs.

use network::{Padding, Window};
use prost::bytes::Bytes;

use crate::onnx::proto::{
    AttributeProto, DimensionProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
    attribute_type, data_type,
};

fn attribute(name: &str) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        ..AttributeProto::default()
    }
}

pub(super) fn int(name: &str, value: usize) -> AttributeProto {
    AttributeProto {
        i: Some(value as i64),
        r#type: Some(attribute_type::INT),
        ..attribute(name)
    }
}

pub(super) fn ints(name: &str, values: &[usize]) -> AttributeProto {
    AttributeProto {
        ints: values.iter().map(|&v| v as i64).collect(),
        r#type: Some(attribute_type::INTS),
        ..attribute(name)
    }
}

pub(super) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        f: Some(value),
        r#type: Some(attribute_type::FLOAT),
        ..attribute(name)
    }
}

pub(super) fn text(name: &str, value: &'static str) -> AttributeProto {
    AttributeProto {
        s: Some(Bytes::from_static(value.as_bytes())),
        r#type: Some(attribute_type::STRING),
        ..attribute(name)
    }
}

/// Kernel, stride, padding and dilation; the dilation only where it matters,
/// as older operators do not have it.
pub(super) fn window_attributes(window: &Window) -> Vec<AttributeProto> {
    let Padding {
        top,
        left,
        bottom,
        right,
    } = window.padding;
    let mut attributes = vec![
        ints("kernel_shape", &window.kernel),
        ints("strides", &window.stride),
        ints("pads", &[top, left, bottom, right]),
    ];
    if window.dilation != [1, 1] {
        attributes.push(ints("dilations", &window.dilation));
    }
    attributes
}

/// An input or output of any batch size.
pub(super) fn value_info(name: &str, sizes: &[usize]) -> ValueInfoProto {
    let batch = DimensionProto {
        dim_param: Some("N".into()),
        dim_value: None,
    };
    let fixed = sizes.iter().map(|&size| DimensionProto {
        dim_value: Some(size as i64),
        dim_param: None,
    });
    let dim = std::iter::once(batch).chain(fixed).collect();
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: Some(data_type::FLOAT),
                shape: Some(TensorShapeProto { dim }),
            }),
        }),
    }
}
