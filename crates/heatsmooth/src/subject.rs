//! A model and the images it is measured on.

use std::ops::Range;
use std::path::PathBuf;

use certify::{NoiseChoice, Smoothing};
use data::{DataError, Dataset};
use exchange::Loaded;
use network::{Executor, Images, TaskKind};
use record::{Selection, Shard};
use settings::{SettingError, settings};

use crate::device::Device;
use crate::error::Error;
use crate::measurements::smoothing_for;
use crate::normalise::missing_normalisation;
use crate::observer::Observer;
use crate::source::{ImageSource, ModelSource, SplitChoice, notes};

settings! {
    /// Which images of a data set.
    pub struct ImageChoice {
        /// Only images A to B-1 of the data set, as A..B.
        images: Option<String> = None,
        /// Only every K-th image.
        skip: u64 = 1,
        /// Part I of N, as I/N, for array jobs; the parts are merged afterwards. The
        /// binary finds it in the environment of Slurm, SGE and PBS arrays, Kubernetes
        /// Indexed Jobs, torchrun and mpirun; none: all images, whatever it says.
        shard: Option<String> = None,
    }
}

/// All images, whatever the environment says.
const NO_SHARD: &str = "none";

impl ImageChoice {
    /// The first so many images.
    pub fn first(images: u64) -> Self {
        Self {
            images: Some(format!("0..{images}")),
            ..Self::default()
        }
    }

    /// The images of a data set of this length.
    ///
    /// # Errors
    /// A choice that makes no sense.
    pub fn selection(&self, len: u64) -> Result<Selection, Error> {
        let mut selection = Selection::all(len);
        if let Some(text) = &self.images {
            let range = image_range(text, len)?;
            (selection.start, selection.end) = (range.start, range.end);
        }
        if self.skip == 0 {
            let expected = "at least 1: 1 takes every image, 20 every twentieth";
            return Err(SettingError::value("skip", 0, expected).into());
        }
        selection.step = self.skip;
        if let Some(text) = self.shard.as_deref().filter(|text| *text != NO_SHARD) {
            let parts = text.split_once('/');
            let parts = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
            match parts {
                Some((index, count)) if index >= 1 && index <= count => {
                    selection.shard = Some(Shard { index, count });
                }
                _ => {
                    let expected = "I/N with I from 1 to N, such as 3/8, or none";
                    return Err(SettingError::value("shard", text, expected).into());
                }
            }
        }
        Ok(selection)
    }
}

/// `A..B`, a part of `len` images; either end may be left out.
///
/// # Errors
/// A range that is empty or goes beyond the last image.
pub fn image_range(text: &str, len: u64) -> Result<Range<u64>, Error> {
    let number = |end: &str, or| match end {
        "" => Some(or),
        _ => end.parse().ok(),
    };
    let ends = text.split_once("..");
    match ends.and_then(|(a, b)| Some(number(a, 0)?..number(b, len)?)) {
        Some(range) if !range.is_empty() && range.end <= len => Ok(range),
        _ => {
            let expected = format!(
                "A..B with A below B and B at most {len}, such as 0..{}",
                len.min(500)
            );
            Err(SettingError::value("images", text, expected).into())
        }
    }
}

/// A model on a device, and the images it is measured on.
pub struct Subject {
    /// The model and its hash.
    pub loaded: Loaded,
    /// Where it was read from; for people.
    pub path: PathBuf,
    /// There is no such file: the model is the caller's own.
    pub in_memory: bool,
    /// The data set.
    pub dataset: Dataset,
    /// Which images of it.
    pub selection: Selection,
    /// The model, ready to run.
    pub network: Box<dyn Executor>,
    /// Where it runs.
    pub device: Device,
}

impl Subject {
    /// Reads model and data, and puts the model on the device.
    ///
    /// # Errors
    /// A model or data that cannot be read or do not fit each other; a choice of
    /// images that makes no sense.
    pub fn open(
        model: &ModelSource,
        data: &dyn ImageSource,
        split: &SplitChoice,
        images: &ImageChoice,
        device: &Device,
    ) -> Result<Self, Error> {
        let (loaded, dataset) = model.load_with(data, split.or_test())?;
        if split.split.is_some() && dataset.is_whole() {
            let reason = format!("{} has no parts train and test", dataset.name());
            return Err(SettingError::Ineffective {
                name: "split".into(),
                reason,
            }
            .into());
        }
        let selection = images.selection(dataset.len() as u64)?;
        let network = device.load(&loaded.model)?;
        Ok(Self {
            loaded,
            path: model.path.clone(),
            in_memory: model.given.is_some(),
            dataset,
            selection,
            network,
            device: device.clone(),
        })
    }

    /// How the model was made; what its file says, or `imported`.
    pub fn method(&self) -> String {
        let method = self.loaded.model.info.method.clone();
        method.unwrap_or_else(|| "imported".into())
    }

    /// What the model's outputs are.
    pub fn task(&self) -> TaskKind {
        self.loaded.model.info.task
    }

    /// What the outputs are called.
    pub fn output_names(&self) -> Vec<String> {
        let outputs = 0..self.network.classes();
        outputs.map(|k| self.loaded.model.class_name(k)).collect()
    }

    /// What a user should hear before anything is measured.
    pub(crate) fn tell(&self, observer: &mut dyn Observer) -> Result<(), Error> {
        for note in notes(&self.loaded, &self.path, &self.dataset) {
            observer.note(&note);
        }
        let trained_on = self.loaded.model.info.data_sha256.as_deref();
        if self.dataset.is_whole() && trained_on == Some(self.dataset.hash()) {
            observer.warning(&format!(
                "the model was trained on these images: {} has no parts train and test; measure \
                 on images that it has not seen",
                self.dataset.name()
            ));
        }
        if let Some(doubt) = missing_normalisation(self)? {
            observer.warning(&doubt);
        }
        Ok(())
    }

    /// The noise level: the one given, or the one that the model stores.
    ///
    /// # Errors
    /// If there is neither.
    pub fn sigma(&self, given: Option<f64>) -> Result<f64, Error> {
        let sigma = given.or(self.loaded.model.info.sigma);
        sigma.ok_or_else(|| SettingError::missing("sigma").into())
    }

    /// The noise of certificates: as chosen, or what the model was made for; exact
    /// where the pixels of the data set are on a grid.
    ///
    /// # Errors
    /// A noise level that makes no sense; exact noise for pixels on no grid.
    pub fn smoothing(&self, choice: Option<NoiseChoice>, sigma: f64) -> Result<Smoothing, Error> {
        let info = &self.loaded.model.info;
        smoothing_for(choice, info, sigma, self.dataset.levels())
    }

    /// The selected images from number `skip` on, one by one.
    pub(crate) fn images(&self, skip: usize) -> ImageReader<'_> {
        ImageReader {
            dataset: &self.dataset,
            indices: Box::new(self.selection.indices().skip(skip)),
            error: None,
        }
    }
}

/// Reads images one by one; stops at the first that cannot be read.
pub(crate) struct ImageReader<'a> {
    dataset: &'a Dataset,
    indices: Box<dyn Iterator<Item = u64> + 'a>,
    error: Option<DataError>,
}

impl ImageReader<'_> {
    /// The error that ended the images early, if one did.
    pub fn result(self) -> Result<(), Error> {
        match self.error {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Iterator for ImageReader<'_> {
    type Item = Images;

    fn next(&mut self) -> Option<Images> {
        let index = self.indices.next()?;
        match self.dataset.images([index as u32]) {
            Ok(image) => Some(image),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}
