//! Data sets: by name, or the caller's own arrays.

use heatsmooth::data::Shape;
use heatsmooth::{DataSource, Dataset, Error, GivenImages, ImageSource, Split};
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use crate::errors::{raise, refuse};

/// One part of the caller's own images.
#[pyclass(frozen, module = "heatsmooth._core")]
pub struct Part(Dataset);

#[pymethods]
impl Part {
    /// Images of one shape (height, width, channels), row by row, channels last, one
    /// behind the other: bytes of which 255 means 1, or floats between 0 and 1.
    /// `split` is `train`, `test`, or none where there are no parts.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        pixels: &Bound<'_, PyAny>,
        shape: (usize, usize, usize),
        labels: Vec<u32>,
        classes: Vec<String>,
        split: Option<&str>,
    ) -> PyResult<Self> {
        let shape = Shape::new(shape.0, shape.1, shape.2);
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        let made = if let Ok(bytes) = pixels.extract::<PyReadonlyArray1<'_, u8>>() {
            let bytes = bytes.as_slice()?.to_vec();
            Dataset::from_bytes(name, shape, &classes, labels, bytes, u8::MAX)
        } else if let Ok(values) = pixels.extract::<PyReadonlyArray1<'_, f32>>() {
            let values = values.as_slice()?.to_vec();
            Dataset::from_values(name, shape, &classes, labels, values)
        } else {
            let hint = "give uint8 or float32";
            return Err(refuse(py, "pixels of another type", hint));
        };
        let dataset = made.map_err(|error| raise(py, &error.into()))?;
        let split = split.map(str::parse::<Split>).transpose();
        let split = split.map_err(|error| raise(py, &error.into()))?;
        Ok(Self(dataset.as_part(split)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Where images come from.
#[pyclass(frozen, module = "heatsmooth._core")]
pub struct Data(Source);

enum Source {
    Named(DataSource),
    Given(GivenImages),
}

impl Data {
    /// The library's view of it.
    pub fn source(&self) -> &(dyn ImageSource + Sync) {
        match &self.0 {
            Source::Named(named) => named,
            Source::Given(given) => given,
        }
    }
}

#[pymethods]
impl Data {
    /// A data set by name, or a folder of class folders.
    #[staticmethod]
    fn named(name: String, root: Option<std::path::PathBuf>) -> Self {
        Self(Source::Named(DataSource {
            data: Some(name),
            root,
            ..DataSource::default()
        }))
    }

    /// The caller's own images.
    #[staticmethod]
    fn given(train: Option<&Bound<'_, Part>>, test: Option<&Bound<'_, Part>>) -> Self {
        let part = |part: Option<&Bound<'_, Part>>| part.map(|part| part.get().0.clone());
        Self(Source::Given(GivenImages {
            train: part(train),
            test: part(test),
        }))
    }

    /// Pixels (NHWC, float32, flat), labels, shape and class names of some images.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        split: &str,
        indices: Vec<u32>,
    ) -> PyResult<(
        Bound<'py, numpy::PyArray1<f32>>,
        Vec<u32>,
        (usize, usize, usize),
        Vec<String>,
    )> {
        let read = || -> Result<_, Error> {
            let dataset = self.source().open(split.parse::<Split>()?, None)?;
            let images = dataset.images(indices)?;
            Ok((images, dataset.classes().to_vec()))
        };
        let (images, classes) = read().map_err(|error| raise(py, &error))?;
        let shape = images.shape;
        Ok((
            numpy::PyArray1::from_vec(py, images.pixels),
            images.labels,
            (shape.height, shape.width, shape.channels),
            classes,
        ))
    }

    /// How many images a part has.
    fn len(&self, py: Python<'_>, split: &str) -> PyResult<usize> {
        let open = || -> Result<usize, Error> {
            Ok(self.source().open(split.parse::<Split>()?, None)?.len())
        };
        open().map_err(|error| raise(py, &error))
    }
}

/// Pixels of a flat float32 array.
pub fn floats<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
) -> PyResult<PyReadonlyArray1<'py, f32>> {
    let array = array.extract::<PyReadonlyArray1<'py, f32>>();
    let array = array.map_err(|_| refuse(py, "not a flat float32 array", "give float32"))?;
    match array.is_contiguous() {
        true => Ok(array),
        false => Err(refuse(py, "the array is not contiguous", "copy it first")),
    }
}
