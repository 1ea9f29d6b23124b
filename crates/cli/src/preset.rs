//! Shipped configurations: `presets/COMMAND-NAME.toml`.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::config;
use crate::failure::advised;

/// Which shipped settings to start from.
#[derive(Args, Clone, Debug)]
pub struct PresetArgs {
    /// Start from shipped settings; `--preset list` shows them. A configuration
    /// file and flags win over them.
    #[arg(long, value_name = "NAME", help_heading = "Common options")]
    pub preset: Option<String>,
}

macro_rules! presets {
    ($($command:literal: $($name:literal)*;)*) => {
        &[$($((
            $command,
            $name,
            include_str!(concat!("../presets/", $command, "-", $name, ".toml")),
        ),)*)*]
    };
}

/// Command, name and text.
const PRESETS: &[(&str, &str, &str)] = presets! {
    "smooth": "cifar10-paper" "imagenet-paper" "one-epoch";
    "train-baseline": "cifar10-paper";
    "train-gaussian": "cifar10-paper" "cifar10-cohen" "imagenet-cohen";
    "train-smoothadv": "cifar10-paper" "cifar10-salman" "cifar10-salman-pgd2"
        "cifar10-salman-ddn4";
    "train-adversarial": "cifar10-paper" "cifar10-salman";
};

/// Names and texts of a command's presets.
fn of(command: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = PRESETS.iter().filter(move |preset| preset.0 == command);
    all.map(|&(_, name, text)| (name, text))
}

impl PresetArgs {
    /// The preset named among options, taken out of them.
    pub fn taken(options: &mut Value) -> Self {
        let preset = options.as_object_mut().and_then(|map| map.remove("preset"));
        Self {
            preset: preset.and_then(|name| name.as_str().map(String::from)),
        }
    }

    /// What `--preset list` prints: each name with the comment of its file.
    pub fn list(&self, command: &str) -> Option<String> {
        let wanted = self.preset.as_deref() == Some("list");
        wanted.then(|| {
            let presets = of(command).map(|(name, text)| {
                let about = text.lines().map_while(|line| line.strip_prefix("# "));
                let about: Vec<&str> = about.collect();
                format!("{name}\n    {}", about.join("\n    "))
            });
            presets.collect::<Vec<_>>().join("\n")
        })
    }

    /// Lays the preset, if one is asked for, over a command's defaults.
    pub fn lay(&self, command: &str, defaults: &mut Value) -> Result<()> {
        let Some(wanted) = &self.preset else {
            return Ok(());
        };
        let found = of(command).find(|(name, _)| name == wanted);
        let (_, text) = found.ok_or_else(|| {
            let names: Vec<&str> = of(command).map(|(name, _)| name).collect();
            advised(
                format!("no preset is called `{wanted}`"),
                format!("there are {}", names.join(", ")),
            )
        })?;
        let preset: toml::Table = toml::from_str(text)?;
        config::extend(defaults, serde_json::to_value(preset)?);
        Ok(())
    }
}
