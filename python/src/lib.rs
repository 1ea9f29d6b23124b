//! `heatsmooth._core`: the library `heatsmooth` for Python.
//!
//! This module only turns Python's objects into the library's parameters and its
//! answers into Python's objects; what users see is written over it in
//! `heatsmooth/*.py`.

mod classifier;
mod data;
mod errors;
mod fit;
mod measure;
mod model;
mod ranks;
mod report;
mod settings;
mod table;
mod torch;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::classifier::Classifier;
    #[pymodule_export]
    use crate::data::{Data, Part};
    #[pymodule_export]
    use crate::fit::{smooth, train};
    #[pymodule_export]
    use crate::measure::{evaluate, measure, predict};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::report::{figures, merge, report};
    #[pymodule_export]
    use crate::settings::{architectures, fields, presets};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::torch::noisy_copies;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
