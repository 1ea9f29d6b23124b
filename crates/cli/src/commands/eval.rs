//! `heatsmooth eval`: clean and noisy accuracy.

use anyhow::Result;
use clap::{ArgMatches, Command};
use heatsmooth::measurements::NoiseLevel;
use heatsmooth::settings::{Field, Settings, settings};
use heatsmooth::{
    Accuracy, DataSource, ImageChoice, ModelSource, OnePassFigures, Registry, SplitChoice, Subject,
    Weights, accuracy, one_pass,
};
use serde_json::json;

use super::measure::{ModelFile, WEIGHTS, read, required};
use crate::Entry;
use crate::common::{Shared, with_configuration};
use crate::{options, output};

settings! {
    /// What accuracy is measured with and on.
    pub struct EvalOptions {
        /// Noise level for noisy accuracy, in units of pixels scaled to [0, 1]
        /// [default: clean accuracy only].
        sigma: Option<f64> = None,
        /// Only images A to B-1 of the data set, as A..B.
        images: Option<String> = None,
    }
}

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
             if the model is calibrated.",
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
    let model = ModelSource {
        path: required(read::<ModelFile>(&values)?.model, "model")?,
        weights: read::<Weights>(&values)?,
    };
    let (data, split) = (read::<DataSource>(&values)?, read::<SplitChoice>(&values)?);
    let images = ImageChoice {
        images: read::<EvalOptions>(&values)?.images,
        ..ImageChoice::default()
    };
    let subject = Subject::open(&model, &data, &split, &images, &common.device()?)?;
    let mut results = Vec::new();
    let given = read::<NoiseLevel>(&values)?.sigma;
    let mut levels = vec![None];
    levels.extend(given.map(Some));
    for sigma in levels {
        let found = accuracy(&subject, sigma, common.seed(), &mut common.terminal())?;
        results.push((sigma, found));
    }
    // A stochastic model is no average by itself: one pass of it says nothing.
    let level = match registry.is_stochastic(&subject.method()) {
        true => None,
        false => given.or(heatsmooth::one_pass_level(&subject.loaded.model)),
    };
    let radii = match level {
        Some(sigma) => Some(one_pass(&subject, sigma, &mut common.terminal())?),
        None => None,
    };
    let mut text = format!(
        "{} on {} {}, {} images\n",
        model.path.display(),
        data.name()?,
        subject.dataset.split_name(),
        subject.selection.len()
    );
    for (sigma, accuracy) in &results {
        text += &line(*sigma, accuracy);
    }
    text += "guarantee: empirical\n";
    text += &radii
        .as_ref()
        .map_or(String::new(), OnePassFigures::to_text);
    let mut value: Vec<_> = results
        .iter()
        .map(|(sigma, a)| json!({"sigma": sigma, "images": a.images, "top1": a.top1(), "top5": a.top5(), "guarantee": "empirical"}))
        .collect();
    if let (Some(first), Some(radii)) = (value.first_mut(), &radii) {
        first["one_pass"] = radii.to_json();
    }
    output::summary(&common, &json!(value), &text)
}

fn line(sigma: Option<f64>, accuracy: &Accuracy) -> String {
    let what = match sigma {
        None => "clean".to_string(),
        Some(sigma) => format!("one noisy copy each, sigma {sigma}"),
    };
    let (top1, top5) = (
        output::percent(accuracy.top1()),
        output::percent(accuracy.top5()),
    );
    format!("  {what}: top-1 {top1}, top-5 {top5}\n")
}
