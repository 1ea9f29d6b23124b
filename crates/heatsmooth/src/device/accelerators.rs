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

/// One or several GPUs.
#[cfg(feature = "cube")]
struct Gpus {
    infos: Vec<gpu::GpuInfo>,
    precision: Precision,
}

/// GPUs by their numbers.
///
/// # Errors
/// A number that there is not; a driver that fails.
#[cfg(feature = "cube")]
pub(super) fn gpus(numbers: &[usize]) -> Result<Arc<dyn Engine>, DeviceError> {
    let infos: Result<Vec<_>, _> = numbers.iter().map(|&number| gpu::info(number)).collect();
    Ok(Arc::new(Gpus {
        infos: infos?,
        precision: Precision::F32,
    }))
}

#[cfg(feature = "cube")]
impl Engine for Gpus {
    fn name(&self) -> String {
        let one = |info: &gpu::GpuInfo| {
            let tf32 = match info.tf32 && self.precision == Precision::F32 {
                true => " (products may be TF32)",
                false => "",
            };
            let precision = self.precision.name();
            let (device, name, driver) = (info.choice(), &info.name, &info.driver);
            format!("{device}: {name}, {driver}, {precision}{tf32}")
        };
        let all: Vec<String> = self.infos.iter().map(one).collect();
        all.join("; ")
    }

    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        let load = |info: &gpu::GpuInfo| gpu::load(info.index, model, self.precision);
        let mut networks: Vec<_> = self.infos.iter().map(load).collect::<Result<_, _>>()?;
        match (networks.len(), networks.pop()) {
            (1, Some(only)) => Ok(only),
            (_, last) => {
                networks.extend(last);
                Ok(Box::new(gpu::Several::new(networks)?))
            }
        }
    }

    fn in_precision(&self, precision: Precision) -> Option<Arc<dyn Engine>> {
        let has = |info: &gpu::GpuInfo| info.precisions.contains(&precision);
        self.infos.iter().all(has).then(|| {
            let infos = self.infos.clone();
            Arc::new(Self { infos, precision }) as Arc<dyn Engine>
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
