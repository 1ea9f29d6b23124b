//! Processes that train together, through an object of Python's.
//!
//! The Python side is `Ranks` of `heatsmooth/torch/_ranks.py`: `rank`, `size`, `sum(array)` in
//! place, `gather(array)`, `broadcast(bytes)` and `barrier()`.

use std::fmt;
use std::sync::Arc;

use heatsmooth::network::{Collective, DeviceError};
use numpy::{PyArray1, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::watch::Watch;

/// The processes of an object of Python's.
pub struct Ranks {
    object: Py<PyAny>,
    rank: usize,
    size: usize,
    watch: Arc<Watch>,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

impl Ranks {
    /// The processes of an object; its exceptions go to `watch`.
    pub fn of(object: &Bound<'_, PyAny>, watch: &Arc<Watch>) -> PyResult<Arc<dyn Collective>> {
        Ok(Arc::new(Self {
            rank: object.getattr("rank")?.extract()?,
            size: object.getattr("size")?.extract()?,
            object: object.clone().unbind(),
            watch: Arc::clone(watch),
        }))
    }

    fn call<T>(
        &self,
        work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, DeviceError> {
        Python::attach(|py| {
            work(self.object.bind(py)).map_err(|error| {
                let reason = error.to_string();
                self.watch.fail(error);
                DeviceError::Ranks { reason }
            })
        })
    }
}

impl Collective for Ranks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum(&self, values: &mut [f32]) -> Result<(), DeviceError> {
        self.call(|object| {
            let array = PyArray1::from_slice(object.py(), values);
            object.call_method1("sum", (&array,))?;
            values.copy_from_slice(array.readonly().as_slice()?);
            Ok(())
        })
    }

    fn gather(&self, values: &[f64]) -> Result<Vec<f64>, DeviceError> {
        self.call(|object| {
            let array = PyArray1::from_slice(object.py(), values);
            let all = object.call_method1("gather", (array,))?;
            let all: PyReadonlyArray1<'_, f64> = all.extract()?;
            Ok(all.as_slice()?.to_vec())
        })
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), DeviceError> {
        self.call(|object| {
            let own = PyBytes::new(object.py(), bytes);
            *bytes = object.call_method1("broadcast", (own,))?.extract()?;
            Ok(())
        })
    }

    fn barrier(&self) -> Result<(), DeviceError> {
        self.call(|object| object.call_method0("barrier").map(drop))
    }
}
