//! The GPUs of this machine.

use burn_cubecl::CubeBackend;
use cubecl::{Device, RuntimeId};
use network::{DeviceError, Executor, Model, Precision};

use crate::executor::{Burn, supports};
use crate::place::Place;

/// What is known of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number, from 0 on.
    pub index: usize,
    /// As its driver calls it.
    pub name: String,
    /// The runtime, and the driver with its version where it is known.
    pub driver: String,
    /// Bytes of memory, where the runtime says so.
    pub memory: Option<u64>,
    /// Precisions that passes can have.
    pub precisions: Vec<Precision>,
    /// Products in single precision may be rounded to TF32 first: 11 significant bits.
    pub tf32: bool,
}

impl GpuInfo {
    /// The name that chooses it: `gpu:0`.
    pub fn choice(&self) -> String {
        format!("gpu:{}", self.index)
    }
}

/// All GPUs that the runtimes of this build find.
///
/// # Errors
/// A driver that fails.
pub fn list() -> Result<Vec<GpuInfo>, DeviceError> {
    let found = found()?.into_iter().enumerate();
    found
        .map(|(index, device)| describe(index, &device))
        .collect()
}

/// What is known of one GPU.
///
/// # Errors
/// No GPU of this number; a driver that fails.
pub fn info(index: usize) -> Result<GpuInfo, DeviceError> {
    describe(index, &device(index)?)
}

/// Puts a model on a GPU.
///
/// # Errors
/// No GPU of this number; what [`Burn::new`] refuses.
pub fn load(
    index: usize,
    model: &Model,
    precision: Precision,
) -> Result<Box<dyn Executor>, DeviceError> {
    let device = device(index)?;
    let info = describe(index, &device)?;
    let name = format!("{} ({})", info.choice(), info.name);
    let burn = Burn::<CubeBackend>::new(model, device, &name, info.memory, precision)?;
    Ok(Box::new(burn))
}

fn any() -> Place<CubeBackend> {
    Place {
        device: Device::default(),
        name: "gpu".into(),
    }
}

fn found() -> Result<Vec<Device>, DeviceError> {
    any().guard(|| Ok(Device::enumerate_all()))
}

fn device(index: usize) -> Result<Device, DeviceError> {
    let found = found()?;
    found
        .get(index)
        .cloned()
        .ok_or_else(|| DeviceError::Failed {
            device: format!("gpu:{index}"),
            reason: match found.len() {
                0 => "there is no GPU with a driver here".into(),
                count => format!("there are {count}, from 0 on"),
            },
        })
}

fn describe(index: usize, device: &Device) -> Result<GpuInfo, DeviceError> {
    let place = Place::<CubeBackend> {
        device: device.clone(),
        name: format!("gpu:{index}"),
    };
    place.guard(|| {
        let (name, driver) = names(device);
        let client = device.client();
        let precisions = Precision::ALL.into_iter();
        Ok(GpuInfo {
            index,
            name: name.unwrap_or_else(|| format!("{device:?}")),
            driver: match driver {
                Some(driver) => format!("{}, {driver}", client.name()),
                None => client.name().into(),
            },
            memory: client.properties().memory.max_memory(),
            precisions: precisions
                .filter(|&precision| supports::<CubeBackend>(device, precision))
                .collect(),
            tf32: device.runtime() == RuntimeId::Cuda,
        })
    })
}

/// What the driver calls the device and itself.
#[cfg(feature = "wgpu")]
fn names(device: &Device) -> (Option<String>, Option<String>) {
    use std::collections::HashMap;
    use std::sync::{Mutex, PoisonError};

    use cubecl::wgpu::{AutoGraphicsApi, RuntimeOptions, try_init_setup};

    // A device can be set up once; what it said then is kept.
    static SAID: Mutex<Option<HashMap<String, (String, String)>>> = Mutex::new(None);
    let Device::Wgpu(wgpu) = device else {
        return (None, None);
    };
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let said = said.get_or_insert_default();
    let key = format!("{wgpu:?}");
    if !said.contains_key(&key) {
        let options = RuntimeOptions::default();
        let Ok(setup) = try_init_setup::<AutoGraphicsApi>(wgpu, options) else {
            return (None, None);
        };
        let info = setup.adapter.get_info();
        let driver = format!("{:?}, {} {}", info.backend, info.driver, info.driver_info);
        said.insert(key.clone(), (info.name, driver.trim().into()));
    }
    let (name, driver) = said[&key].clone();
    (Some(name), Some(driver))
}

#[cfg(not(feature = "wgpu"))]
fn names(_: &Device) -> (Option<String>, Option<String>) {
    (None, None)
}
