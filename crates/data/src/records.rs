//! Records of a label byte followed by an image's bytes, plane by plane: the
//! layout of CIFAR-10's binary files and of the embedded digits.

use std::path::Path;

use crate::{DataError, Shape};

/// Appends the label and the pixels (turned from planes to channels last) of
/// whole records. `first` is the number of the first record, for errors.
pub(crate) fn parse(
    bytes: &[u8],
    shape: Shape,
    classes: usize,
    (path, first): (&Path, usize),
    labels: &mut Vec<u32>,
    pixels: &mut Vec<u8>,
) -> Result<(), DataError> {
    let plane = shape.pixels();
    for (record, bytes) in bytes.chunks_exact(1 + shape.len()).enumerate() {
        let (label, planes) = (bytes[0], &bytes[1..]);
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
