//! `heatsmooth predict`: class, probability and radii for image files.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use heatsmooth::measurements::NoiseLevel;
use heatsmooth::settings::{Field, Settings};
use heatsmooth::{ModelSource, Predictor, Registry, VoteOptions, Weights};
use serde_json::json;

use super::measure::{ModelFile, WEIGHTS, read, required};
use crate::Entry;
use crate::common::{Common, with_common};
use crate::failure::Unfinished;
use crate::{options, output};

/// `heatsmooth predict`.
pub const ENTRY: Entry = Entry {
    name: "predict",
    command: |command, _| command_line(command),
    run: |matches, _: &Registry| run(matches),
};

fn own_fields() -> Vec<Field> {
    let mut fields = ModelFile::fields();
    fields.extend(NoiseLevel::fields());
    fields.extend(VoteOptions::fields());
    fields
}

fn command_line(command: Command) -> Command {
    let command = command
        .about("Class, probability and one-pass radius, or real values, for image files")
        .long_about(
            "Class, probability and one-pass radius, or real values, for image files\n\n\
             The one-pass radius sigma * Phi^-1(p1) and the L-bound radius sigma * sqrt(pi/2) * \
             (p1 - p2) are approximate: they hold if the model is exactly a Gaussian average at \
             sigma. Of a calibrated model the radius that may be promised is shown too. With \
             --samples noisy copies vote, too: PREDICT of Cohen et al., the class of the smoothed \
             classifier. With --certify the class has a certified radius, by counting noisy \
             copies.",
        )
        .args(options::arguments(&own_fields(), None))
        .args(options::arguments(&Weights::fields(), Some(WEIGHTS)))
        .arg(
            Arg::new("images")
                .value_name("IMAGE")
                .help("PNG or JPEG files")
                .required(true)
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf)),
        )
        .after_help(
            "Example: heatsmooth predict --model runs/heat/model.safetensors --certify cat.png dog.jpg",
        );
    with_common(command)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let common = Common::of(matches)?;
    let mut fields = own_fields();
    fields.extend(Weights::fields());
    let values = options::given(&fields, matches)?;
    let path = required(read::<ModelFile>(&values)?.model, "model")?;
    let source = ModelSource::with(path, read::<Weights>(&values)?);
    let sigma = read::<NoiseLevel>(&values)?.sigma;
    let place = (&common.device()?, common.seed());
    let predictor = Predictor::open(&source, sigma, &read(&values)?, place)?;
    if let Some(warning) = predictor.warning() {
        eprintln!("warning: {warning}");
    }
    let images: Vec<&PathBuf> = matches.get_many("images").into_iter().flatten().collect();
    let (mut text, mut value, mut failed) = (String::new(), Vec::new(), 0);
    for (number, path) in images.iter().enumerate() {
        match predictor.picture(number as u32, path) {
            Ok(answer) => {
                text += &format!("{answer}\n");
                value.push(answer.to_json());
            }
            Err(error) if images.len() > 1 => {
                failed += 1;
                eprintln!("error: {error}");
                let name = path.display().to_string();
                value.push(json!({"image": name, "error": error.to_string()}));
            }
            Err(error) => return Err(error.into()),
        }
    }
    text += &predictor.guarantees_in_words();
    output::summary(&common, &json!(value), &text)?;
    match failed {
        0 => Ok(()),
        n => Err(Unfinished(format!("{n} of {} images could not be read", images.len())).into()),
    }
}
