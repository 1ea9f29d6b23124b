//! Logs as columns, for every library that speaks Arrow.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use heatsmooth::record::{Tsv, parse_duration};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::errors::raise;

/// Columns of whole numbers; -1 stands for no class.
const WHOLE: [&str; 12] = [
    "idx",
    "label",
    "predict",
    "clean_predict",
    "adv_predict",
    "g_predict",
    "target",
    "n_a",
    "n",
    "samples",
    "steps",
    "epoch",
];
/// Columns of yes and no.
const FLAGS: [&str; 9] = [
    "correct",
    "clean_correct",
    "success",
    "agree",
    "f_agree",
    "p_agree",
    "p_f_agree",
    "votes_agree",
    "votes_f_agree",
];
/// The column of durations, here in seconds.
const TIME: &str = "time";

/// A log's rows, column by column.
#[pyclass(frozen, module = "heatsmooth._core")]
pub struct Table {
    batch: RecordBatch,
}

fn column(name: &str, cells: &[&str]) -> ArrayRef {
    let parsed = |cell: &str| match name {
        TIME => parse_duration(cell).map(|time| time.as_secs_f64()),
        _ => cell.parse::<f64>().ok(),
    };
    let texts = || cells.iter().map(|&cell| (!cell.is_empty()).then_some(cell));
    if WHOLE.contains(&name) {
        let all: Option<Vec<Option<i64>>> = texts()
            .map(|cell| cell.map_or(Some(None), |cell| cell.parse().ok().map(Some)))
            .collect();
        if let Some(all) = all {
            return Arc::new(Int64Array::from(all));
        }
    }
    if FLAGS.contains(&name) && texts().flatten().all(|cell| matches!(cell, "0" | "1")) {
        let all = texts().map(|cell| cell.map(|cell| cell == "1"));
        return Arc::new(all.collect::<BooleanArray>());
    }
    let numbers: Option<Vec<Option<f64>>> = texts()
        .map(|cell| cell.map_or(Some(None), |cell| parsed(cell).map(Some)))
        .collect();
    match numbers {
        Some(numbers) => Arc::new(Float64Array::from(numbers)),
        None => Arc::new(texts().collect::<StringArray>()),
    }
}

#[pymethods]
impl Table {
    /// Reads a log.
    #[new]
    fn new(py: Python<'_>, log: PathBuf) -> PyResult<Self> {
        let tsv = Tsv::read(&log).map_err(|error| raise(py, &error.into()))?;
        let rows: Vec<Vec<&str>> = tsv
            .lines()
            .map(|(_, line)| line.split('\t').collect())
            .collect();
        let names = tsv.columns();
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut fields = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let cells: Vec<&str> = rows
                .iter()
                .map(|row| row.get(at).copied().unwrap_or(""))
                .collect();
            let values = column(name, &cells);
            fields.push(Field::new(name, values.data_type().clone(), true));
            columns.push(values);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        let batch =
            batch.map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
        Ok(Self { batch })
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// Every column as a list; `None` where a cell is empty.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, values) in self.columns().iter().zip(self.batch.columns()) {
            let any = values.as_any();
            match values.data_type() {
                DataType::Int64 => {
                    let values: Option<&Int64Array> = any.downcast_ref();
                    let values: Option<Vec<_>> = values.map(|v| v.iter().collect());
                    all.set_item(name, values)?;
                }
                DataType::Float64 => {
                    let values: Option<&Float64Array> = any.downcast_ref();
                    let values: Option<Vec<_>> = values.map(|v| v.iter().collect());
                    all.set_item(name, values)?;
                }
                DataType::Boolean => {
                    let values: Option<&BooleanArray> = any.downcast_ref();
                    let values: Option<Vec<_>> = values.map(|v| v.iter().collect());
                    all.set_item(name, values)?;
                }
                _ => {
                    let values: Option<&StringArray> = any.downcast_ref();
                    let values: Option<Vec<_>> = values.map(|v| v.iter().collect());
                    all.set_item(name, values)?;
                }
            }
        }
        Ok(all)
    }

    /// Arrow's PyCapsule interface: pandas, polars, pyarrow, DuckDB read it.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Another schema may be asked for; the interface lets us give our own.
        let _ = requested_schema;
        let batches = [Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
