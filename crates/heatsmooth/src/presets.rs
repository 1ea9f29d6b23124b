//! Shipped settings: `presets/COMMAND-NAME.toml`.

use settings::{Field, SettingError, Values};

use crate::config;
use crate::error::Error;

macro_rules! presets {
    ($($command:literal: $($name:literal)*;)*) => {
        &[$($((
            $command,
            $name,
            include_str!(concat!("../presets/", $command, "-", $name, ".toml")),
        ),)*)*]
    };
}

/// What the settings are for, name and text.
const PRESETS: &[(&str, &str, &str)] = presets! {
    "heat": "cifar10-paper" "imagenet-paper" "one-epoch";
    "baseline": "cifar10-paper";
    "gaussian": "cifar10-paper" "cifar10-cohen" "imagenet-cohen";
    "smoothadv": "cifar10-paper" "cifar10-salman" "cifar10-salman-pgd2"
        "cifar10-salman-ddn4";
    "adversarial": "cifar10-paper" "cifar10-salman";
    "reproduce-cifar10": "quick" "larger-noise" "paper";
    "reproduce-imagenet": "quick" "paper";
    "reproduce": "demo";
};

/// Names and texts of the presets of a method or experiment.
pub fn presets_of(what: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = PRESETS.iter().filter(move |preset| preset.0 == what);
    all.map(|&(_, name, text)| (name, text))
}

/// The text of a preset.
///
/// # Errors
/// A name that there is not.
pub fn preset_text(what: &str, name: &str) -> Result<&'static str, Error> {
    let found = presets_of(what).find(|(found, _)| *found == name);
    let (_, text) = found.ok_or_else(|| {
        let names: Vec<&str> = presets_of(what).map(|(name, _)| name).collect();
        SettingError::value("preset", name, names.join(", "))
    })?;
    Ok(text)
}

/// The values of a preset.
///
/// # Errors
/// A name that there is not.
pub fn preset(what: &str, name: &str, fields: &[Field]) -> Result<Values, Error> {
    config::values(&config::parse(preset_text(what, name)?)?, fields)
}
