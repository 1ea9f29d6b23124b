//! Albums of attacked images.

use std::path::Path;

use attack::AttackOutcome;
use data::encode_png;
use network::{Noise, Purpose, Shape};
use record::{Gallery, GalleryWriter, ModelId, Pictures};

use crate::error::Error;
use crate::source::data_id;
use crate::subject::Subject;

/// White columns between pictures that stand side by side.
const GAP: usize = 2;

/// `adversarial - original` around grey, and the factor by which it is amplified:
/// the largest of 1, 2, 5, 10, 20, ... at which nothing is clipped.
fn difference(original: &[f32], adversarial: &[f32]) -> (Vec<f32>, u32) {
    let pairs = || original.iter().zip(adversarial);
    let largest = pairs().fold(0f32, |max, (x, a)| max.max((a - x).abs()));
    let mut factor = 1;
    for next in (0..6).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u32.pow(power))) {
        if next as f32 * largest <= 0.5 {
            factor = next;
        }
    }
    let grey = pairs().map(|(x, a)| 0.5 + factor as f32 * (a - x));
    (grey.collect(), factor)
}

/// Pictures of one size as one, from left to right.
fn side_by_side(shape: Shape, pictures: &[&[f32]]) -> (Shape, Vec<f32>) {
    let Shape {
        height,
        width,
        channels,
    } = shape;
    let mut out = Vec::new();
    for y in 0..height {
        for (at, picture) in pictures.iter().enumerate() {
            if at > 0 {
                out.extend(std::iter::repeat_n(1.0, GAP * channels));
            }
            let row = width * channels;
            out.extend_from_slice(&picture[y * row..(y + 1) * row]);
        }
    }
    let columns = pictures.len() * width + pictures.len().saturating_sub(1) * GAP;
    (Shape::new(height, columns, channels), out)
}

/// Pictures of attacked images in a gallery's folder.
pub struct Album {
    writer: GalleryWriter,
    noise: Option<Noise>,
}

impl Album {
    /// Opens or reopens the folder. Noisy copies are drawn at `sigma`, or at the
    /// model's own.
    pub fn open(
        folder: &Path,
        attack: &str,
        sigma: Option<f64>,
        subject: &Subject,
        seed: u64,
    ) -> Result<Self, Error> {
        let sigma = sigma.or(subject.loaded.model.info.sigma);
        let header = Gallery {
            format: Gallery::FORMAT.into(),
            version: Gallery::VERSION,
            method: subject.method(),
            label: subject.loaded.model.info.label.clone(),
            model: ModelId {
                sha256: subject.loaded.sha256.clone(),
                identity: Some(subject.loaded.model.identity()),
                path: None,
            },
            data: data_id(&subject.dataset),
            sigma,
            attack: Some(attack.into()),
            seed,
            classes: subject.dataset.classes().to_vec(),
            images: vec![],
        };
        let own = subject.loaded.model.info.noise;
        let noise = sigma.map(|sigma| Noise::float(seed, Purpose::Prediction, own, sigma));
        let writer = GalleryWriter::open(folder, header)?;
        Ok(Self { writer, noise })
    }

    /// How many images it holds.
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Adds the image, one noisy copy, and what the attack made of it.
    pub fn add(
        &mut self,
        subject: &Subject,
        outcome: &AttackOutcome,
        pixels: &[f32],
    ) -> Result<(), Error> {
        let shape = subject.dataset.shape();
        let original = encode_png(shape, pixels)?;
        let noisy = match &self.noise {
            Some(noise) => {
                let mut copy = vec![0.0; pixels.len()];
                noise.add(outcome.index, 0, pixels, &mut copy);
                let mut logits = vec![0.0; subject.network.classes()];
                subject.network.logits(&copy, &mut logits)?;
                let class = network::logits::argmax(&logits) as u32;
                Some((encode_png(shape, &copy)?, class))
            }
            None => None,
        };
        let mut pictures = Pictures {
            original: &original,
            noisy: noisy
                .as_ref()
                .map(|(png, class)| (png.as_slice(), Some(*class))),
            ..Pictures::default()
        };
        let (adversarial, amplified, beside);
        if let Some(l2) = outcome.l2.filter(|&l2| l2 > 0.0) {
            let (grey, factor) = difference(pixels, &outcome.image);
            let (wide, all) = side_by_side(shape, &[pixels, &outcome.image, &grey]);
            adversarial = encode_png(shape, &outcome.image)?;
            amplified = encode_png(shape, &grey)?;
            beside = encode_png(wide, &all)?;
            pictures.adversarial = Some((&adversarial, Some(outcome.adv_predict), l2));
            pictures.difference = Some((&amplified, factor));
            pictures.side_by_side = Some(&beside);
        }
        Ok(self.writer.add(
            outcome.index.into(),
            outcome.label,
            Some(outcome.clean_predict),
            &pictures,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_amplified_without_clipping() {
        let (grey, factor) = difference(&[0.5, 0.5, 0.5], &[0.5, 0.52, 0.49]);
        assert_eq!(factor, 20);
        for (got, wanted) in grey.iter().zip([0.5, 0.9, 0.3]) {
            assert!((got - wanted).abs() < 1e-5, "{grey:?}");
        }
        assert_eq!(difference(&[0.0], &[0.9]).1, 1);
        assert_eq!(difference(&[0.1], &[0.35]).1, 2);
        let (unchanged, _) = difference(&[0.3], &[0.3]);
        assert_eq!(unchanged, [0.5]);
    }

    #[test]
    fn pictures_stand_side_by_side() {
        let (left, right) = ([0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]);
        let (shape, all) = side_by_side(Shape::new(2, 2, 1), &[&left, &right]);
        assert_eq!(shape, Shape::new(2, 6, 1));
        let rows = [0.1, 0.2, 1.0, 1.0, 0.5, 0.6, 0.3, 0.4, 1.0, 1.0, 0.7, 0.8];
        assert_eq!(all, rows);
    }
}
