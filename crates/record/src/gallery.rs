//! A gallery: pictures of single images, for people to look at.
//!
//! One folder per model and attack, `gallery.json` and PNG files:
//! the original, a noisy copy, what the attack made of it, and the difference,
//! amplified. Radii and further
//! predictions come from the logs; the report brings all of them together by
//! image and model hash.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::manifest::{differences, read_versioned};
use crate::{DataId, ModelId, RecordError, atomic};

/// `gallery.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gallery {
    /// Always [`Gallery::FORMAT`].
    pub format: String,
    /// Version of this schema, [`Gallery::VERSION`].
    pub version: u32,
    /// How the model was made.
    pub method: String,
    /// Name for people where the method alone would be ambiguous; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The model.
    pub model: ModelId,
    /// The data set.
    pub data: DataId,
    /// Noise std of the noisy pictures.
    pub sigma: Option<f64>,
    /// The attack: `pgd`, `ddn`; `None` without adversarial pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<String>,
    /// Seed of the noise.
    pub seed: u64,
    /// Names of the classes, by number; may be empty.
    #[serde(default)]
    pub classes: Vec<String>,
    /// The images.
    #[serde(default)]
    pub images: Vec<GalleryImage>,
}

/// One image of a gallery. Pictures are file names in the gallery's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GalleryImage {
    /// The image: its position in the data set.
    pub idx: u64,
    /// Its class.
    pub label: u32,
    /// The image itself.
    pub original: String,
    /// The model's class for it; `None`: abstained, or no majority.
    pub predict: Option<u32>,
    /// The image under one draw of noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noisy: Option<NoisyPicture>,
    /// The adversarial image, if the attack succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversarial: Option<AdversarialPicture>,
}

/// An image under one draw of noise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoisyPicture {
    /// The picture's file name.
    pub picture: String,
    /// The model's class for it.
    pub predict: Option<u32>,
}

/// What an attack made of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdversarialPicture {
    /// The picture's file name.
    pub picture: String,
    /// The model's class for it.
    pub predict: Option<u32>,
    /// L2 distance from the original.
    pub l2: f64,
    /// What was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<DifferencePicture>,
}

/// Adversarial minus original image around grey, amplified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DifferencePicture {
    /// The picture's file name, which ends in the factor too.
    pub picture: String,
    /// By which the difference is multiplied.
    pub factor: u32,
}

/// The pictures of one image as PNG files, with what the model says of each.
#[derive(Clone, Debug, Default)]
pub struct Pictures<'a> {
    /// The image itself.
    pub original: &'a [u8],
    /// Under noise, and the model's class for it.
    pub noisy: Option<(&'a [u8], Option<u32>)>,
    /// Attacked, the model's class for it, and the L2 distance.
    pub adversarial: Option<(&'a [u8], Option<u32>, f64)>,
    /// What the attack changed, and by which factor it is amplified.
    pub difference: Option<(&'a [u8], u32)>,
    /// Original, adversarial image and difference in one picture, for people who
    /// look into the folder.
    pub side_by_side: Option<&'a [u8]>,
}

impl Gallery {
    /// Value of `format`.
    pub const FORMAT: &str = "heatsmooth-gallery";
    /// The version this library writes, and the newest it reads.
    pub const VERSION: u32 = 1;
    /// Its name in the gallery's folder.
    pub const FILE: &str = "gallery.json";

    /// Reads `gallery.json`; a picture outside the folder is refused.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let gallery: Self = read_versioned(path, Self::FORMAT, Self::VERSION)?;
        let names = gallery.images.iter().flat_map(|image| {
            let noisy = image.noisy.iter().map(|noisy| &noisy.picture);
            let adversarial = image.adversarial.iter();
            let difference = adversarial.clone().flat_map(|found| &found.difference);
            [&image.original]
                .into_iter()
                .chain(noisy)
                .chain(adversarial.map(|found| &found.picture))
                .chain(difference.map(|found| &found.picture))
        });
        for name in names {
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', ':']) {
                let reason = format!("the picture `{name}` is not a plain file name");
                return Err(RecordError::json(path, reason));
            }
        }
        Ok(gallery)
    }
}

/// Adds images to a gallery folder; `gallery.json` is whole after each.
#[derive(Debug)]
pub struct GalleryWriter {
    folder: PathBuf,
    gallery: Gallery,
}

impl GalleryWriter {
    /// Creates the folder, or reopens it: `header` without its images must agree
    /// with what is there.
    pub fn open(folder: &Path, header: Gallery) -> Result<Self, RecordError> {
        let path = folder.join(Gallery::FILE);
        let exists = path.try_exists().map_err(RecordError::io(&path, "read"))?;
        let gallery = if exists {
            Gallery::read(&path)?
        } else {
            header.clone()
        };
        let ignored = ["images", "label", "model.path"];
        let differences = differences(&gallery, &header, &ignored);
        if !differences.is_empty() {
            return Err(RecordError::Differs { path, differences });
        }
        let writer = Self {
            folder: folder.into(),
            gallery,
        };
        writer.save()?;
        Ok(writer)
    }

    /// Whether an image is there already.
    pub fn contains(&self, idx: u64) -> bool {
        self.gallery.images.iter().any(|image| image.idx == idx)
    }

    /// How many images are there.
    pub fn len(&self) -> usize {
        self.gallery.images.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.gallery.images.is_empty()
    }

    /// Adds one image, or replaces it. `predict` is the model's class for the
    /// original.
    pub fn add(
        &mut self,
        idx: u64,
        label: u32,
        predict: Option<u32>,
        pictures: &Pictures<'_>,
    ) -> Result<(), RecordError> {
        let save = |name: &str, png: &[u8]| -> Result<String, RecordError> {
            let name = format!("{idx:06}-{name}.png");
            let path = self.folder.join(&name);
            if !png.starts_with(b"\x89PNG\r\n\x1a\n") {
                return Err(RecordError::Row {
                    path,
                    reason: "the picture is not a PNG".into(),
                });
            }
            fs::write(&path, png).map_err(RecordError::io(&path, "write"))?;
            Ok(name)
        };
        let original = save("original", pictures.original)?;
        let noisy = match pictures.noisy {
            Some((png, predict)) => Some(NoisyPicture {
                picture: save("noisy", png)?,
                predict,
            }),
            None => None,
        };
        let difference = match pictures.difference {
            Some((png, factor)) => Some(DifferencePicture {
                picture: save(&format!("difference-x{factor}"), png)?,
                factor,
            }),
            None => None,
        };
        if let Some(png) = pictures.side_by_side {
            let factor = pictures.difference.map_or(1, |(_, factor)| factor);
            save(&format!("side-by-side-x{factor}"), png)?;
        }
        let adversarial = match pictures.adversarial {
            Some((png, predict, l2)) => Some(AdversarialPicture {
                picture: save("adversarial", png)?,
                predict,
                l2,
                difference,
            }),
            None => None,
        };
        let image = GalleryImage {
            idx,
            label,
            original,
            predict,
            noisy,
            adversarial,
        };
        match self
            .gallery
            .images
            .binary_search_by_key(&idx, |image| image.idx)
        {
            Ok(at) => self.gallery.images[at] = image,
            Err(at) => self.gallery.images.insert(at, image),
        }
        self.save()
    }

    fn save(&self) -> Result<(), RecordError> {
        atomic::write_json(&self.folder.join(Gallery::FILE), &self.gallery)
    }
}
