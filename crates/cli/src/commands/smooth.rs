//! `heatsmooth smooth`: HeatSmoothing of a given model.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Command};
use heatsmooth::settings::{Field, Settings, settings};
use heatsmooth::{
    DataSource, Job, MethodEntry, ModelSource, Registry, Split, StartFrom, Training, Weights, fit,
};

use super::measure::{ModelFile, WEIGHTS, read, required};
use super::train::{preset_argument, preset_list, resolved};
use crate::Entry;
use crate::common::{Shared, with_configuration};
use crate::{options, output};

settings! {
    /// Where a smoothed model goes.
    pub struct RunFolder {
        /// The run folder.
        out: Option<PathBuf> = None,
    }
}

/// `heatsmooth smooth`.
pub const ENTRY: Entry = Entry {
    name: "smooth",
    command,
    run,
};

/// The method of the registry that is run.
const METHOD: &str = "heat";

fn command(command: Command, registry: &Registry) -> Command {
    let fields = registry.method(METHOD).map(own_fields).unwrap_or_default();
    let command = command
        .about(
            "Turn a model into its own Gaussian average (HeatSmoothing, Algorithm 1); labels are \
             never used. Running the same command again resumes",
        )
        .args(options::arguments(&fields, None))
        .args(options::arguments(&Weights::fields(), Some(WEIGHTS)))
        .arg(preset_argument())
        .after_help(
            "Example: heatsmooth smooth --model runs/baseline/model.safetensors --data digits \
             --sigma 0.25 --out runs/heat",
        );
    with_configuration(command)
}

fn own_fields(entry: &MethodEntry) -> Vec<Field> {
    let mut fields = ModelFile::fields();
    fields.extend(DataSource::fields());
    fields.extend(RunFolder::fields());
    fields.extend((entry.fields)());
    fields.extend(Training::fields());
    fields
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    if matches
        .get_one::<String>("preset")
        .is_some_and(|preset| preset == "list")
    {
        return output::list(matches.get_flag("json"), true, &preset_list(METHOD));
    }
    let entry = registry.method(METHOD)?;
    let mut fields = own_fields(entry);
    fields.extend(Weights::fields());
    fields.extend(Shared::fields());
    let values = resolved(entry, &fields, matches)?;
    let Some((values, common)) = options::configured(&fields, values, matches)? else {
        return Ok(());
    };
    let source = ModelSource {
        path: required(read::<ModelFile>(&values)?.model, "model")?,
        weights: read::<Weights>(&values)?,
    };
    let data = read::<DataSource>(&values)?;
    data.name()?;
    let out = required(read::<RunFolder>(&values)?.out, "out")?;
    let training = read::<Training>(&values)?;
    let (loaded, train) = source.load_with(&data, Split::Train)?;
    let test = data.open(Split::Test, Some(loaded.model.graph.input()))?;
    let choice = (entry.choose)(&values, loaded.model.info.sigma)?;
    let job = Job {
        start: StartFrom::Model {
            loaded: &loaded,
            path: &source.path,
        },
        train: &train,
        test: Some(&test),
        training: &training,
        folder: &out,
        seed: common.seed(),
        device: &common.device()?,
    };
    let fitted = fit(choice, &job, &mut common.terminal())?;
    output::summary(&common, &fitted.to_json(), &fitted.to_string())
}
