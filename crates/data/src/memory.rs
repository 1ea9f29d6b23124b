//! Data sets of the caller's own, held in memory.

use sha2::{Digest, Sha256};

use crate::dataset::About;
use crate::{Augment, DataError, Dataset, Shape, Split, Targets, files};

impl Dataset {
    /// A training split made of `pixels`: one byte a value, row by row, channels
    /// last, image after image; byte `white` means 1.0. Label k means
    /// `classes[k]`; there is no augmentation.
    ///
    /// Its hash is the SHA-256 of `white`, the pixels and the labels (four bytes
    /// each, little-endian), in this order.
    ///
    /// # Errors
    /// No image, values that make no whole number of images or exceed `white`,
    /// labels that are too many, too few or beyond the last class.
    pub fn from_bytes(
        name: &str,
        shape: Shape,
        classes: &[&str],
        labels: Vec<u32>,
        pixels: Vec<u8>,
        white: u8,
    ) -> Result<Self, DataError> {
        check(shape, classes, &labels, pixels.len())?;
        if let Some(beyond) = pixels.iter().find(|&&pixel| pixel > white || white == 0) {
            return wrong("a pixel", "at most a positive white", beyond.to_string());
        }
        let mut hasher = Sha256::new();
        hasher.update([white]);
        hasher.update(&pixels);
        let about = about(name, shape, &labels, hasher);
        let targets = Targets::classes(classes.iter().copied(), labels);
        Ok(Self::in_memory(about, targets, pixels, white))
    }

    /// The same of pixels of any value between 0 and 1, which lie on no grid: exact
    /// noise is not for them.
    ///
    /// Its hash is the SHA-256 of a zero byte, the pixels and the labels (four bytes
    /// each, little-endian), in this order.
    ///
    /// # Errors
    /// As [`Dataset::from_bytes`]; a pixel that is not between 0 and 1.
    pub fn from_values(
        name: &str,
        shape: Shape,
        classes: &[&str],
        labels: Vec<u32>,
        pixels: Vec<f32>,
    ) -> Result<Self, DataError> {
        check(shape, classes, &labels, pixels.len())?;
        if let Some(beyond) = pixels.iter().find(|pixel| !(0.0..=1.0).contains(*pixel)) {
            return wrong("a pixel", "between 0 and 1", beyond.to_string());
        }
        let mut hasher = Sha256::new();
        hasher.update([0]);
        pixels
            .iter()
            .for_each(|pixel| hasher.update(pixel.to_le_bytes()));
        let about = about(name, shape, &labels, hasher);
        let targets = Targets::classes(classes.iter().copied(), labels);
        Ok(Self::of_values(about, targets, pixels))
    }
}

fn wrong<T>(name: &'static str, expected: &'static str, got: String) -> Result<T, DataError> {
    Err(DataError::Setting {
        name,
        expected,
        got,
    })
}

/// Refuses pixels and labels that do not fit each other or the classes.
fn check(shape: Shape, classes: &[&str], labels: &[u32], pixels: usize) -> Result<(), DataError> {
    if labels.is_empty() {
        return wrong("the number of images", "at least 1", "0".into());
    }
    if Some(pixels) != image_len(shape).and_then(|len| len.checked_mul(labels.len())) {
        let expected = "height x width x channels for each label";
        return wrong("the number of pixels", expected, pixels.to_string());
    }
    let mut beyond = labels.iter().filter(|&&l| l as usize >= classes.len());
    match beyond.next() {
        Some(label) => wrong("a label", "below the number of classes", label.to_string()),
        None => Ok(()),
    }
}

/// What is known about such a data set; its hash goes on with the labels.
fn about(name: &str, shape: Shape, labels: &[u32], mut hasher: Sha256) -> About {
    labels
        .iter()
        .for_each(|label| hasher.update(label.to_le_bytes()));
    About {
        name: name.into(),
        split: Split::Train,
        shape,
        hash: files::hex(hasher.finalize()),
        augment: Augment::None,
        whole: false,
    }
}

/// The number of values of an image that has some.
fn image_len(shape: Shape) -> Option<usize> {
    let rows = shape.height.checked_mul(shape.width)?;
    let len = rows.checked_mul(shape.channels)?;
    (len > 0).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(labels: &[u32], pixels: &[u8], white: u8) -> Result<Dataset, DataError> {
        let (labels, pixels) = (labels.to_vec(), pixels.to_vec());
        let shape = Shape::new(1, 2, 1);
        Dataset::from_bytes("two", shape, &["a", "b"], labels, pixels, white)
    }

    #[test]
    fn pixels_are_shares_of_white() {
        let set = make(&[1, 0], &[0, 50, 150, 200], 200).unwrap();
        let mut image = [0.0; 2];
        set.read(1, &mut image).unwrap();
        assert_eq!(
            (set.len(), set.labels(), image),
            (2, &[1, 0][..], [0.75, 1.0])
        );
        let other = make(&[0, 0], &[0, 50, 150, 200], 200).unwrap();
        assert_ne!(set.hash(), other.hash());
    }

    #[test]
    fn values_on_no_grid_are_kept_as_they_are() {
        let shape = Shape::new(1, 2, 1);
        let make =
            |pixels: Vec<f32>| Dataset::from_values("two", shape, &["a", "b"], vec![1, 0], pixels);
        let set = make(vec![0.1, 0.2, 0.3, 1.0]).unwrap().as_part(None);
        let mut image = [0.0; 2];
        set.read(1, &mut image).unwrap();
        assert_eq!((image, set.levels()), ([0.3, 1.0], None));
        assert!(set.is_whole() && set.split_name() == "all");
        let shift = Augment::CropFlip {
            padding: 0,
            flip: false,
        };
        set.read_augmented(0, &shift, 0, 0, &mut image).unwrap();
        assert_eq!(image, [0.1, 0.2]);
        assert!(
            set.read_augmented(0, &Augment::IMAGENET, 0, 0, &mut image)
                .is_err()
        );
        for beyond in [1.5, -0.1, f32::NAN] {
            assert!(make(vec![0.1, 0.2, 0.3, beyond]).is_err());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (labels, pixels, white) in [
            (&[][..], &[][..], 200),
            (&[0], &[1, 2, 3], 200),
            (&[0], &[1, 201], 200),
            (&[0], &[0, 0], 0),
            (&[2], &[1, 2], 200),
        ] {
            let error = make(labels, pixels, white).unwrap_err();
            assert!(matches!(error, DataError::Setting { .. }), "{error}");
        }
        let none = Dataset::from_bytes("none", Shape::new(0, 2, 1), &["a"], vec![0], vec![], 1);
        assert!(none.is_err());
    }
}
