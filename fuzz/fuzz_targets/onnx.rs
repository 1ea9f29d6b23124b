//! ONNX models. What is read is run, exported and read again.
#![no_main]

use exchange::onnx::{self, Fold};
use libfuzzer_sys::fuzz_target;

mod running;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((model, _)) = onnx::read(bytes.to_vec(), None) {
        let logits = running::logits(&model);
        running::run(&model, logits.as_deref());
        // What can be imported can be exported and imported again.
        for fold in [Fold::Keep, Fold::Fold] {
            let (again, _) = onnx::read(onnx::write(&model, fold), None).expect("our own export");
            assert_eq!(again.graph.classes(), model.graph.classes());
            if let Some(logits) = &logits
                && let Some(others) = running::logits(&again)
            {
                assert!(
                    running::same(logits, &others, 1e-2),
                    "{logits:?} {others:?}"
                );
            }
        }
    }
});
