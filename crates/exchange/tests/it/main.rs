//! Tests of import and export, in one program.

mod import_checkpoints;
mod import_onnx;
