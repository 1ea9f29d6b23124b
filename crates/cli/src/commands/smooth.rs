//! `heatsmooth smooth`: a given model's Gaussian average.

use anyhow::Result;
use clap::{ArgMatches, Command};
use heatsmooth::settings::{Field, Settings, Values};
use heatsmooth::{
    DataSource, ModelSource, Origin, Registry, SmoothOptions, Training, Weights, presets,
};

use super::measure::{ModelFile, WEIGHTS, read, required};
use super::train::{RunFolder, preset_argument, preset_list, workshop};
use crate::Entry;
use crate::common::{Shared, with_configuration};
use crate::ranks::together;
use crate::{options, output};

/// `heatsmooth smooth`.
pub const ENTRY: Entry = Entry {
    name: "smooth",
    command,
    run,
};

/// The method that has presets.
const PRESETS: &str = "heat";

fn command(command: Command, registry: &Registry) -> Command {
    let command = command
        .about(
            "Turn a model into its own Gaussian average; labels are never used. Running the same \
             command again resumes",
        )
        .args(options::arguments(&own_fields(registry), None))
        .args(options::arguments(&Weights::fields(), Some(WEIGHTS)))
        .arg(preset_argument())
        .after_help(
            "Example: heatsmooth smooth --model runs/baseline/model.safetensors --data digits \
             --sigma 0.25 --out runs/smooth",
        );
    with_configuration(command)
}

fn own_fields(registry: &Registry) -> Vec<Field> {
    let mut fields = given_fields();
    fields.extend(registry.smoothing_fields());
    fields.extend(Training::fields().into_iter().map(|field| Field {
        // Each way has its own.
        default: None,
        ..field
    }));
    fields
}

/// What is given, and where the result goes.
fn given_fields() -> Vec<Field> {
    let mut fields = ModelFile::fields();
    fields.extend(DataSource::fields());
    fields.extend(RunFolder::fields());
    fields
}

/// What the chosen way uses, with its defaults: what `--print-config` shows.
fn used_fields(registry: &Registry, values: &Values) -> Result<Vec<Field>> {
    let by = read::<SmoothOptions>(values)?.by;
    let data = read::<DataSource>(values)?.data.unwrap_or_default();
    let mut fields = given_fields();
    fields.extend(registry.fields_of_smoothing(by.as_deref(), &data)?);
    Ok(fields)
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    let preset = matches.get_one::<String>("preset");
    if preset.is_some_and(|preset| preset == "list") {
        return output::list(matches.get_flag("json"), true, &preset_list(PRESETS));
    }
    let everywhere = || Weights::fields().into_iter().chain(Shared::fields());
    let mut fields = own_fields(registry);
    fields.extend(everywhere());
    let mut values = match preset {
        Some(name) => presets::preset(PRESETS, name, &fields)?,
        None => Default::default(),
    };
    if preset.is_some() {
        values.put("by", &Some(PRESETS.to_owned()));
    }
    values.lay(options::said(&fields, matches)?);
    let mut used = used_fields(registry, &values)?;
    used.extend(everywhere());
    let Some((values, common)) = options::configured(&used, values, matches)? else {
        return Ok(());
    };
    let path = required(read::<ModelFile>(&values)?.model, "model")?;
    let origin = Origin::Model(ModelSource::with(path, read::<Weights>(&values)?));
    let (data, folder, device) = workshop(&values, &common)?;
    together(|ranks| {
        let workshop = heatsmooth::Workshop {
            origin: &origin,
            data: &data,
            folder: &folder,
            seed: common.seed(),
            device: &ranks.on(device),
        };
        let smoothed = registry.smooth(&values, &workshop, &mut *ranks.observer(&common))?;
        match ranks.leads() {
            true => output::summary(&common, &smoothed.to_json(), &smoothed.to_string()),
            false => Ok(()),
        }
    })
}
