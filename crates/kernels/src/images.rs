//! Some images of one shape.

use crate::geometry::Shape;

/// Images of one shape with their numbers and labels: what a data set gives,
/// what is trained on, attacked and certified.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// Shape of each.
    pub shape: Shape,
    /// Pixels scaled to [0, 1], NHWC, one image behind the other.
    pub pixels: Vec<f32>,
    /// Number of each image in its data set: part of the key of its noise, so
    /// that shards and restarts see the same noise.
    pub indices: Vec<u32>,
    /// Class of each; 0 where classes are not known.
    pub labels: Vec<u32>,
    /// Real values to be predicted, the same number for each image, one image
    /// behind the other; empty where there are none.
    pub values: Vec<f32>,
}

impl Images {
    /// No images.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            pixels: Vec::new(),
            indices: Vec::new(),
            labels: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Without images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Pixels of the image at a place.
    pub fn image(&self, place: usize) -> &[f32] {
        let len = self.shape.len();
        &self.pixels[place * len..(place + 1) * len]
    }

    /// Real values of the image at a place; none where there are none.
    pub fn values_of(&self, place: usize) -> &[f32] {
        let width = self.values.len() / self.len().max(1);
        &self.values[place * width..(place + 1) * width]
    }

    /// Appends an image.
    pub fn push(&mut self, index: u32, label: u32, pixels: &[f32]) {
        debug_assert_eq!(pixels.len(), self.shape.len());
        self.pixels.extend_from_slice(pixels);
        self.indices.push(index);
        self.labels.push(label);
    }

    /// The images at some places, in that order.
    pub fn select(&self, places: &[usize]) -> Self {
        let mut chosen = Self::new(self.shape);
        for &place in places {
            chosen.push(self.indices[place], self.labels[place], self.image(place));
            chosen.values.extend_from_slice(self.values_of(place));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_images_with_their_numbers_and_labels() {
        let mut images = Images::new(Shape::new(1, 2, 1));
        assert!(images.is_empty());
        images.push(7, 1, &[0.1, 0.2]);
        images.push(9, 3, &[0.3, 0.4]);
        let chosen = images.select(&[1, 0]);
        assert_eq!((chosen.len(), chosen.image(0)), (2, &[0.3, 0.4][..]));
        assert_eq!((chosen.indices, chosen.labels), (vec![9, 7], vec![3, 1]));
        images.values = vec![1.0, 2.0, 3.0, 4.0];
        assert_eq!(images.select(&[1]).values, [3.0, 4.0]);
    }
}
