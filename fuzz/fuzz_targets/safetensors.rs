//! Model files of ours, which are run, and other people's safetensors.
#![no_main]

use exchange::safetensors;
use libfuzzer_sys::fuzz_target;
use network::Model;

mod running;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(model) = Model::from_bytes(bytes) {
        // What can be read can be written and read again.
        let again = Model::from_bytes(&model.to_bytes()).expect("our own file");
        assert_eq!(again, model);
        running::run(&model, running::logits(&model).as_deref());
    }
    let _ = safetensors::read(bytes);
});
