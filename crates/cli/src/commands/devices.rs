//! `heatsmooth devices`: what there is to run networks on.

use anyhow::Result;
use clap::{ArgMatches, Command};
use heatsmooth::{Device, DeviceInfo, Registry};
use serde_json::json;

use crate::Entry;
use crate::common::{Common, with_common};
use crate::output;

/// `heatsmooth devices`.
pub const ENTRY: Entry = Entry {
    name: "devices",
    command: |command, _| command_line(command),
    run: |matches, _: &Registry| run(matches),
};

fn command_line(command: Command) -> Command {
    with_common(
        command
            .about("What there is to run networks on, by the names that --device takes")
            .after_help("Example: heatsmooth devices"),
    )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let common = Common::of(matches)?;
    common.device()?;
    let devices = Device::list()?;
    let mut lines: Vec<String> = devices.iter().map(line).collect();
    if !Device::HAS_GPUS {
        lines.push(
            "This build does not have GPUs; docs/gpu.md says how to build one that has.".into(),
        );
    } else if !devices.iter().any(|d| d.device.starts_with("gpu")) {
        lines.push("No GPU with a driver was found.".into());
    }
    let value = json!({ "devices": devices, "gpus": Device::HAS_GPUS });
    output::summary(&common, &value, &lines.join("\n"))
}

/// One device for people.
fn line(info: &DeviceInfo) -> String {
    let memory = match info.memory {
        Some(bytes) => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        None => "memory not said".into(),
    };
    let DeviceInfo {
        device,
        name,
        driver,
        ..
    } = info;
    let precisions = info.precisions.join(" ");
    match device.as_str() {
        "cpu" => format!("{device:8} {name}, {driver}, {precisions}"),
        _ => format!("{device:8} {name}, {driver}, {memory}, {precisions}"),
    }
}
