//! GPUs, and burn on the CPU, as engines for our own networks.

use std::sync::Arc;

use network::{DeviceError, Executor, Model, Precision};

use super::Engine;

/// Burn's backend for the CPU: the GPU's program without a driver, for tests.
#[cfg(feature = "flex")]
struct OnFlex(Precision);

/// Burn on the CPU.
#[cfg(feature = "flex")]
pub(super) fn flex() -> Arc<dyn Engine> {
    Arc::new(OnFlex(Precision::F32))
}

#[cfg(feature = "flex")]
impl Engine for OnFlex {
    fn name(&self) -> String {
        format!("flex, {}", self.0.name())
    }

    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        let device = gpu::FlexDevice;
        let network = gpu::Burn::<gpu::Flex>::new(model, device, "flex", None, self.0)?;
        Ok(Box::new(network))
    }

    fn in_precision(&self, precision: Precision) -> Option<Arc<dyn Engine>> {
        Some(Arc::new(Self(precision)))
    }
}

/// A GPU.
#[cfg(feature = "cube")]
struct Gpu {
    info: gpu::GpuInfo,
    precision: Precision,
}

/// GPUs by their numbers.
///
/// # Errors
/// A number that there is not; a driver that fails.
#[cfg(feature = "cube")]
pub(super) fn gpus(numbers: &[usize]) -> Result<Vec<Arc<dyn Engine>>, DeviceError> {
    let gpu = |&number: &usize| {
        let precision = Precision::F32;
        let info = gpu::info(number)?;
        Ok(Arc::new(Gpu { info, precision }) as Arc<dyn Engine>)
    };
    numbers.iter().map(gpu).collect()
}

#[cfg(feature = "cube")]
impl Engine for Gpu {
    fn name(&self) -> String {
        let tf32 = match self.info.tf32 && self.precision == Precision::F32 {
            true => " (products may be TF32)",
            false => "",
        };
        let precision = self.precision.name();
        let (device, name, driver) = (self.info.choice(), &self.info.name, &self.info.driver);
        format!("{device}: {name}, {driver}, {precision}{tf32}")
    }

    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        gpu::load(self.info.index, model, self.precision)
    }

    fn in_precision(&self, precision: Precision) -> Option<Arc<dyn Engine>> {
        self.info.precisions.contains(&precision).then(|| {
            let info = self.info.clone();
            Arc::new(Self { info, precision }) as Arc<dyn Engine>
        })
    }
}

/// All GPUs, described.
///
/// # Errors
/// A driver that fails.
#[cfg(feature = "cube")]
pub(super) fn list() -> Result<Vec<super::DeviceInfo>, DeviceError> {
    let described = |info: gpu::GpuInfo| super::DeviceInfo {
        device: info.choice(),
        precisions: info.precisions.iter().map(|p| p.name()).collect(),
        name: info.name,
        driver: info.driver,
        memory: info.memory,
    };
    Ok(gpu::list()?.into_iter().map(described).collect())
}
