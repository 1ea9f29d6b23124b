//! ONNX models.
#![no_main]

use exchange::onnx::{self, Fold};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((model, _)) = onnx::read(bytes.to_vec(), None) {
        // What can be imported can be exported and imported again.
        for fold in [Fold::Keep, Fold::Fold] {
            let (again, _) = onnx::read(onnx::write(&model, fold), None).expect("our own export");
            assert_eq!(again.graph.classes(), model.graph.classes());
        }
    }
});
