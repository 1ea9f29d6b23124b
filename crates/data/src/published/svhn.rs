//! SVHN's cropped digits: MATLAB arrays `X` (height, width, channel, image) and `y` (1 to
//! 10, where 10 is the digit 0).

use std::path::Path;

use crate::dataset::About;
use crate::{Augment, DataError, Dataset, Shape, Split, Targets, files, matlab};

/// Of train, unpacked, and a little more.
const MAX_BYTES: u64 = 256 << 20;

pub(super) fn open(path: &Path, split: Split) -> Result<Dataset, DataError> {
    let bytes = std::fs::read(path).map_err(DataError::io("read", path))?;
    let wrong = |what: String| DataError::format(path, what);
    let arrays = matlab::byte_arrays(&bytes, MAX_BYTES).map_err(wrong)?;
    let find = |name: &str| arrays.iter().find(|array| array.name == name);
    let (Some(x), Some(y)) = (find("X"), find("y")) else {
        return Err(wrong("expected arrays X and y of bytes in it".into()));
    };
    let &[height, width, channels, count] = &x.sizes[..] else {
        return Err(wrong(format!("X has the sizes {:?}", x.sizes)));
    };
    if y.values.len() != count || count == 0 {
        let got = y.values.len();
        return Err(wrong(format!("expected {count} labels, got {got}")));
    }
    if let Some(index) = y.values.iter().position(|label| !(1..=10).contains(label)) {
        let got = y.values[index];
        return Err(wrong(format!(
            "label {got} of image {index} is not 1 to 10"
        )));
    }
    let shape = Shape::new(height, width, channels);
    let mut pixels = vec![0; x.values.len()];
    for (image, out) in x
        .values
        .chunks_exact(shape.len())
        .zip(pixels.chunks_exact_mut(shape.len()))
    {
        // MATLAB counts the first index fastest.
        for (place, out) in out.iter_mut().enumerate() {
            let (channel, column) = (place % channels, place / channels % width);
            let row = place / channels / width;
            *out = image[(channel * width + column) * height + row];
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let about = About {
        name: "svhn".into(),
        split,
        shape,
        hash: files::split_hash([(&*name, files::sha256(path)?.as_str())]),
        augment: Augment::CropFlip {
            padding: 4,
            flip: false,
        },
        whole: false,
    };
    let labels = y
        .values
        .iter()
        .map(|&label| u32::from(label % 10))
        .collect();
    let names = (0..10).map(|digit| digit.to_string());
    Ok(Dataset::in_memory(
        about,
        Targets::classes(names, labels),
        pixels,
        u8::MAX,
    ))
}
