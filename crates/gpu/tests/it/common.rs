//! The executor under test: burn's `flex` backend, or a GPU where
//! `HEATSMOOTH_TEST_DEVICE` says so.

use network::{Executor, Model, Precision};

#[expect(dead_code, reason = "its executor is another")]
#[path = "../../../network/tests/it/common.rs"]
mod shared;

pub use shared::{model, pixels, pool};

/// A model on the device under test.
pub fn executor(model: &Model) -> Box<dyn Executor> {
    in_precision(model, Precision::F32)
}

/// The same with passes in another precision.
pub fn in_precision(model: &Model, precision: Precision) -> Box<dyn Executor> {
    let device = std::env::var("HEATSMOOTH_TEST_DEVICE");
    match device.as_deref() {
        #[cfg(feature = "cube")]
        Ok("gpu") => gpu::load(0, model, precision).unwrap(),
        #[cfg(feature = "flex")]
        Ok("flex") | Err(_) => {
            let flex = gpu::Burn::<gpu::Flex>::new(model, gpu::FlexDevice, "flex", None, precision);
            Box::new(flex.unwrap())
        }
        other => panic!("this build has no device {other:?}"),
    }
}
