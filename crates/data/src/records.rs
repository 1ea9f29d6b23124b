//! Records of a label byte followed by an image's bytes, plane by plane: the
//! layout of CIFAR's binary files and of the embedded digits.

use std::path::Path;

use crate::{DataError, Shape};

/// What a record holds.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub shape: Shape,
    /// Bytes before the label that are of no use here.
    pub passed_over: usize,
    pub classes: usize,
}

/// Appends the label and the pixels (turned from planes to channels last) of
/// whole records. `first` is the number of the first record, for errors.
pub(crate) fn parse(
    bytes: &[u8],
    layout: Layout,
    (path, first): (&Path, usize),
    labels: &mut Vec<u32>,
    pixels: &mut Vec<u8>,
) -> Result<(), DataError> {
    let Layout {
        shape,
        passed_over,
        classes,
    } = layout;
    let plane = shape.pixels();
    let size = passed_over + 1 + shape.len();
    for (record, bytes) in bytes.chunks_exact(size).enumerate() {
        let (label, planes) = (bytes[passed_over], &bytes[passed_over + 1..]);
        if usize::from(label) >= classes {
            return Err(DataError::Label {
                path: path.to_path_buf(),
                index: first + record,
                got: label.into(),
                classes,
            });
        }
        labels.push(label.into());
        for position in 0..plane {
            pixels.extend((0..shape.channels).map(|channel| planes[channel * plane + position]));
        }
    }
    Ok(())
}
