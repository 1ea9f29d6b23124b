//! Opens data and looks at the first images.

use std::path::Path;

use data::{OpenOptions, Shape, Split, View, open};

/// Both splits, if they open: labels have names, pixels are in range.
pub fn read(path: &Path) {
    let name = path.to_str().expect("plain name");
    let options = OpenOptions {
        view: View::for_shape(Shape::new(8, 8, 3)),
        ..OpenOptions::default()
    };
    for split in [Split::Train, Split::Test] {
        let Ok(dataset) = open(name, split, &options) else {
            continue;
        };
        assert!(!dataset.is_empty());
        let mut image = vec![0.0; dataset.shape().len()];
        for index in 0..dataset.len().min(8) {
            if dataset.read(index, &mut image).is_ok() {
                assert!(image.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
            }
        }
    }
}
