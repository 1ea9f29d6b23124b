//! `heatsmooth eval`: clean and noisy accuracy; of real values, errors.

use anyhow::Result;
use clap::{ArgMatches, Command};
use heatsmooth::settings::{Field, Settings};
use heatsmooth::{
    DataSource, Error, EvalOptions, ImageChoice, ModelSource, Registry, SplitChoice, Subject,
    Weights,
};

use super::measure::{ModelFile, WEIGHTS, read, required, take_shard};
use crate::Entry;
use crate::common::{Shared, with_configuration};
use crate::{options, output};

/// `heatsmooth eval`.
pub const ENTRY: Entry = Entry {
    name: "eval",
    command: |command, _| command_line(command),
    run,
};

fn own_fields() -> Vec<Field> {
    let mut fields = ModelFile::fields();
    fields.extend(DataSource::fields());
    fields.extend(SplitChoice::fields());
    fields.extend(EvalOptions::fields());
    fields
}

fn command_line(command: Command) -> Command {
    let command = command
        .about("Clean and noisy accuracy of a model, top-1 and top-5")
        .long_about(
            "Clean and noisy accuracy of a model, top-1 and top-5\n\n\
             Of a deterministic model that stores a noise level, or with --sigma, also how many \
             images are right with a one-pass radius of at least r, and with a calibrated one \
             if the model is calibrated. Of a model of real values, its errors. With --out every \
             image has a row of a log, and the tasks of an array do a part of them each; \
             `merge` joins the parts, and eval with the merged log sums them up.",
        )
        .args(options::arguments(&own_fields(), None))
        .args(options::arguments(&Weights::fields(), Some(WEIGHTS)))
        .after_help(
            "Example: heatsmooth eval --model runs/baseline/model.safetensors --data digits \
             --sigma 0.1",
        );
    with_configuration(command)
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    let mut fields = own_fields();
    fields.extend(Weights::fields());
    fields.extend(Shared::fields());
    let values = options::said(&fields, matches)?;
    let Some((values, common)) = options::configured(&fields, values, matches)? else {
        return Ok(());
    };
    let path = required(read::<ModelFile>(&values)?.model, "model")?;
    let model = ModelSource::with(path, read::<Weights>(&values)?);
    let (data, split) = (read::<DataSource>(&values)?, read::<SplitChoice>(&values)?);
    let mut options = read::<EvalOptions>(&values)?;
    let mut terminal = common.terminal();
    options.check().map_err(Error::from)?;
    if let Some(log) = &mut options.out {
        take_shard(&mut options.shard, log, &mut terminal)?;
    }
    let images = ImageChoice {
        images: options.images,
        shard: options.shard,
        ..ImageChoice::default()
    };
    let subject = Subject::open(&model, &data, &split, &images, &common.device()?)?;
    let (sigma, seed) = (options.sigma, common.seed());
    let found = match &options.out {
        Some(log) => registry.evaluate_into(&subject, sigma, seed, log, &mut terminal)?,
        None => registry.evaluate(&subject, sigma, seed, &mut terminal)?,
    };
    output::summary(&common, &found.to_json(), &found.to_string())
}
