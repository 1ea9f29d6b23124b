//! Models: files, bytes, and what was loaded from them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use heatsmooth::exchange::ImportReport;
use heatsmooth::exchange::onnx::{self, Fold};
use heatsmooth::network::{self, GraphBuilder, ModelInfo, Op, ParameterSpec, Parameters, Shape};
use heatsmooth::settings::Settings as _;
use heatsmooth::{Device, Error, Loaded, ModelSource, Weights, record};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::data::floats;
use crate::errors::{raise, refuse};
use crate::settings::{fields_of, values};
use crate::watch::{Watch, run};

/// A model: a file that is read when it is needed, or one that has been read.
#[pyclass(frozen, module = "heatsmooth._core")]
pub struct Model {
    /// What the library is told.
    pub source: ModelSource,
    /// What the file held when it was read.
    loaded: OnceLock<Arc<Loaded>>,
}

/// What a file of weights does not say, from keywords.
pub fn weights(py: Python<'_>, said: &Bound<'_, PyDict>) -> PyResult<Weights> {
    let fields = fields_of("weights").map_err(|error| raise(py, &error))?;
    let values = values(py, &fields, said)?;
    Weights::read(&values).map_err(|error| raise(py, &error.into()))
}

#[pymethods]
impl Model {
    /// A file or run folder, read when it is needed: the data may have to say what the
    /// file does not.
    #[staticmethod]
    fn file(py: Python<'_>, path: PathBuf, said: &Bound<'_, PyDict>) -> PyResult<Self> {
        let source = ModelSource::with(path, weights(py, said)?);
        Ok(Self::new(source))
    }

    /// A file or run folder, read now; `name` is what records call it.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        said: &Bound<'_, PyDict>,
        name: Option<&str>,
    ) -> PyResult<Self> {
        let source = ModelSource::with(path, weights(py, said)?);
        let loaded = run(py, &Watch::default(), || source.load(None))?;
        Ok(match name {
            Some(name) => Self::new(ModelSource::given(name, loaded)),
            None => Self {
                source,
                loaded: Arc::new(loaded).into(),
            },
        })
    }

    /// A module of PyTorch: its name in records, what it is for the engine, its input
    /// (height, width, channels), class names or their number, the names, shapes and
    /// roles of its parameters, and their values.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn foreign(
        py: Python<'_>,
        name: &str,
        network: String,
        input: (usize, usize, usize),
        classes: usize,
        class_names: Vec<String>,
        specs: Vec<(String, Vec<usize>, String)>,
        arrays: Vec<Bound<'_, PyAny>>,
        info: &str,
    ) -> PyResult<Self> {
        let wrong = |error: &dyn std::fmt::Display| {
            refuse(
                py,
                &format!("{network}: {error}"),
                "is this a module for images?",
            )
        };
        let mut parameters = Vec::new();
        for (name, shape, role) in specs {
            let role = serde_json::from_value(role.into()).map_err(|error| wrong(&error))?;
            parameters.push(ParameterSpec { name, shape, role });
        }
        let (height, width, channels) = input;
        let mut graph = GraphBuilder::new(Shape::new(height, width, channels));
        let op = Op::Foreign {
            program: "torch".into(),
            network: network.clone(),
            classes,
            parameters,
        };
        graph.then("network", op);
        let graph = graph.build().map_err(|error| wrong(&error))?;
        let mut values = Vec::new();
        for (array, spec) in arrays.iter().zip(graph.parameters()) {
            let array = floats(py, array)?.as_slice()?.to_vec();
            if array.len() != spec.len() || array.iter().any(|value| !value.is_finite()) {
                let message = format!("{network}: its {} is not finite", spec.name);
                return Err(refuse(py, &message, "load sound weights first"));
            }
            values.push(array);
        }
        if values.len() != graph.parameters().len() {
            return Err(wrong(&"its parameters are not all there"));
        }
        let mut info: ModelInfo = serde_json::from_str(info).map_err(|error| wrong(&error))?;
        info.classes = class_names;
        let model = network::Model {
            parameters: Parameters::new(&graph, values),
            graph,
            info,
        };
        let loaded = Loaded {
            sha256: network::file::sha256(&model.to_bytes()),
            model,
            report: ImportReport::default(),
        };
        Ok(Self::new(ModelSource::given(name, loaded)))
    }

    /// Its parameters: name, shape, role and values, flat.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn values<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<(String, Vec<usize>, Bound<'py, PyArray1<f32>>)>> {
        let loaded = self.loaded(py)?;
        let specs = loaded.model.graph.parameters().iter();
        let all = specs.zip(loaded.model.parameters.iter());
        let all = all.map(|(spec, values)| {
            let array = PyArray1::from_slice(py, values);
            (spec.name.clone(), spec.shape.clone(), array)
        });
        Ok(all.collect())
    }

    /// What records call it: its path, or the name given.
    #[getter]
    fn name(&self) -> String {
        self.source.path.display().to_string()
    }

    /// Everything about it as JSON, the weights left out.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let loaded = self.loaded(py)?;
        let (graph, info) = (&loaded.model.graph, &loaded.model.info);
        let input = graph.input();
        let classes = (0..graph.classes()).map(|class| loaded.model.class_name(class));
        let all = json!({
            "sha256": loaded.sha256, "info": info,
            "input": [input.height, input.width, input.channels],
            "classes": classes.collect::<Vec<_>>(), "named": !info.classes.is_empty(),
            "parameters": graph.parameter_count(), "macs": graph.macs(),
            "layers": graph.nodes().len(), "notes": loaded.report.notes,
            "foreign": graph.foreign().map(|(_, network)| network),
        });
        Ok(all.to_string())
    }

    /// Logits of images, flat NHWC: a flat array of as many times the classes.
    fn logits<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let loaded = self.loaded(py)?;
        let images = floats(py, images)?;
        let pixels = images.as_slice()?;
        let logits = run(py, &Watch::default(), || {
            let network = Device::cpu(threads)?.load(&loaded.model)?;
            let count = pixels.len() / network.input().len();
            let mut logits = vec![0.0; count * network.classes()];
            network.logits(pixels, &mut logits)?;
            Ok(logits)
        })?;
        Ok(PyArray1::from_vec(py, logits))
    }

    /// The bytes of its own file format, or of ONNX.
    fn to_bytes(&self, py: Python<'_>, format: &str, fold: bool) -> PyResult<Vec<u8>> {
        let loaded = self.loaded(py)?;
        if let ("onnx", Some((program, network))) = (format, loaded.model.graph.foreign()) {
            let message = format!("{network} is a network of {program}");
            return Err(refuse(py, &message, "export it from there"));
        }
        match (format, fold) {
            ("safetensors", false) => Ok(loaded.model.to_bytes()),
            ("safetensors", true) => {
                let message = "fold has no effect on a .safetensors file";
                Err(refuse(py, message, "leave it out, or write a .onnx file"))
            }
            ("onnx", true) => Ok(onnx::write(&loaded.model, Fold::Fold)),
            ("onnx", false) => Ok(onnx::write(&loaded.model, Fold::Keep)),
            _ => Err(refuse(
                py,
                &format!("cannot write a .{format} file"),
                "give a file that ends in .safetensors or .onnx",
            )),
        }
    }

    /// Writes it to a file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf, fold: bool) -> PyResult<()> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let bytes = self.to_bytes(py, extension, fold)?;
        record::atomic::write(&path, &bytes).map_err(|error| raise(py, &error.into()))
    }
}

impl Model {
    /// A model that is read when it is needed.
    pub fn new(source: ModelSource) -> Self {
        Self {
            source,
            loaded: OnceLock::new(),
        }
    }

    /// The model itself.
    pub fn loaded(&self, py: Python<'_>) -> PyResult<Arc<Loaded>> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(Arc::clone(loaded));
        }
        let loaded = self.source.load(None);
        let loaded = loaded.map_err(|error: Error| raise(py, &error))?;
        Ok(Arc::clone(self.loaded.get_or_init(|| Arc::new(loaded))))
    }
}
