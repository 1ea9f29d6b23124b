//! PyTorch checkpoints.
#![no_main]

use exchange::pytorch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(state_dict) = pytorch::read(bytes) {
        let total: usize = state_dict.values().map(|tensor| tensor.values.len()).sum();
        assert!(
            total <= bytes.len() + (1 << 16),
            "{total} values from {}",
            bytes.len()
        );
    }
});
