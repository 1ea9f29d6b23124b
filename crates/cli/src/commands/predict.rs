//! `heatsmooth predict`: class, probability and radii for image files.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use heatsmooth::certify::{Predict, Prediction};
use heatsmooth::measurements::{NoiseLevel, fixed};
use heatsmooth::settings::{Field, SettingError, Settings, settings};
use heatsmooth::{
    LBOUND_GUARANTEE, Model, ModelSource, NoiseChoice, PredictParams, Registry, Smoothing, Weights,
    answer, calibrated_guarantee, calibration_at, data, vote, vote_guarantee,
};
use serde_json::json;

use super::measure::{ModelFile, WEIGHTS, read, required};
use crate::Entry;
use crate::common::{Common, with_common};
use crate::failure::Unfinished;
use crate::{options, output};

settings! {
    /// The vote of noisy copies.
    pub struct VoteOptions {
        /// Let N noisy copies vote as well, and abstain if the vote is too close.
        samples: Option<u32> = None,
        /// Failure probability of the vote, for each image [default: 0.001].
        alpha: Option<f64> = None,
        /// How the noise of the vote is drawn: exact or float [default: exact].
        noise: Option<NoiseChoice> = None,
    }
}

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
        .about("Class, probability and one-pass radius for image files")
        .long_about(
            "Class, probability and one-pass radius for image files\n\n\
             The one-pass radius sigma * Phi^-1(p1) and the L-bound radius sigma * sqrt(pi/2) * \
             (p1 - p2) are approximate: they hold if the model is exactly a Gaussian average at \
             sigma. Of a calibrated model the radius that may be promised is shown too. With --samples noisy copies vote, too: \
             PREDICT of Cohen et al., the class of the smoothed classifier.",
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
            "Example: heatsmooth predict --model runs/heat/model.safetensors cat.png dog.jpg",
        );
    with_common(command)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let common = Common::of(matches)?;
    let mut fields = own_fields();
    fields.extend(Weights::fields());
    let values = options::given(&fields, matches)?;
    let source = ModelSource {
        path: required(read::<ModelFile>(&values)?.model, "model")?,
        weights: read::<Weights>(&values)?,
    };
    let model = source.load(None)?.model;
    let sigma = read::<NoiseLevel>(&values)?
        .sigma
        .or(one_pass_level(&model));
    if let Some(sigma) = sigma.filter(|s| !(*s > 0.0 && s.is_finite())) {
        let wrong = SettingError::value("sigma", sigma, "a positive number");
        return Err(heatsmooth::Error::from(wrong).into());
    }
    let calibration = sigma.and_then(|sigma| calibration_at(&model.info, sigma));
    if let (None, Some(other)) = (calibration, &model.info.calibration) {
        eprintln!(
            "warning: the model is calibrated for sigma {} only",
            other.sigma
        );
    }
    let plan = plan(&read(&values)?, sigma, common.seed())?;
    let network = common
        .device()?
        .load(&model)
        .map_err(heatsmooth::Error::from)?;
    if let Some(plan) = &plan {
        plan.check(&*network).map_err(heatsmooth::Error::from)?;
    }
    let images: Vec<&PathBuf> = matches.get_many("images").into_iter().flatten().collect();
    let (mut text, mut value, mut failed) = (String::new(), Vec::new(), 0);
    for (number, path) in images.iter().enumerate() {
        let name = path.display();
        let answered = data::decode_image(path, model.graph.input())
            .map_err(heatsmooth::Error::from)
            .and_then(|pixels| Ok((answer(&*network, &pixels, sigma, calibration)?, pixels)));
        let (found, pixels) = match answered {
            Ok(found) => found,
            Err(error) if images.len() > 1 => {
                failed += 1;
                eprintln!("error: {error}");
                value.push(json!({"image": name.to_string(), "error": error.to_string()}));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let class = model.class_name(found.class);
        text += &format!("{name}: {class}, probability {:.4}", found.probability);
        if let (Some(one_pass), Some(lbound), Some(sigma)) = (found.one_pass, found.lbound, sigma) {
            text += &format!(
                ", one-pass radius {one_pass:.4}, L-bound radius {} (sigma {sigma})",
                fixed(lbound, 4)
            );
        }
        match found.calibrated {
            Some(radius) if radius > 0.0 => text += &format!(", calibrated radius {radius:.4}"),
            Some(_) => text += ", no calibrated radius",
            None => {}
        }
        let votes = match &plan {
            Some(plan) => Some(vote(&*network, plan, number as u32, &pixels)?),
            None => None,
        };
        if let (Some(votes), Some(plan)) = (&votes, &plan) {
            text += &verdict(&model, votes, plan);
        }
        text += "\n";
        let votes = votes.map(|v| {
            json!({
                "class": v.predict, "first": v.first, "votes": v.n_a, "runner_up_votes": v.n_b,
                "guarantee": plan.as_ref().map(|plan| vote_guarantee(plan).to_string()),
            })
        });
        value.push(json!({
            "image": name.to_string(), "class": found.class, "name": class,
            "probability": found.probability, "lbound": found.lbound, "sigma": sigma,
            "one_pass": found.one_pass, "calibrated": found.calibrated,
            "guarantee": found.lbound.map(|_| LBOUND_GUARANTEE.sentence()),
            "calibrated_guarantee": calibration.map(|c| calibrated_guarantee(c).to_string()),
            "smoothed": votes,
        }));
    }
    if sigma.is_some() {
        text += &format!("guarantee of the radius: {LBOUND_GUARANTEE}\n");
    }
    if let Some(calibration) = calibration {
        let words = calibrated_guarantee(calibration);
        text += &format!("guarantee of the calibrated radius: {words}\n");
    }
    if let Some(plan) = &plan {
        text += &format!("guarantee of the vote: {}\n", vote_guarantee(plan));
    }
    output::summary(&common, &json!(value), &text)?;
    match failed {
        0 => Ok(()),
        n => Err(Unfinished(format!("{n} of {} images could not be read", images.len())).into()),
    }
}

/// The noise level at which a model's radii are shown if none is given: that of its
/// calibration, or the one it was made for.
pub fn one_pass_level(model: &Model) -> Option<f64> {
    let calibrated = model.info.calibration.as_ref();
    calibrated.map(|c| c.sigma).or(model.info.sigma)
}

fn verdict(model: &Model, votes: &Prediction, plan: &Predict) -> String {
    let verdict = match votes.predict {
        Some(class) => format!("is {}", model.class_name(class)),
        None => "abstains".into(),
    };
    format!(
        "; the smoothed classifier {verdict} ({} of {} votes)",
        votes.n_a, plan.n
    )
}

/// The vote that is asked for.
fn plan(
    options: &VoteOptions,
    sigma: Option<f64>,
    seed: u64,
) -> Result<Option<Predict>, heatsmooth::Error> {
    let Some(samples) = options.samples else {
        let name = match (options.alpha, options.noise) {
            (None, None) => return Ok(None),
            (Some(_), _) => "alpha",
            (None, Some(_)) => "noise",
        };
        return Err(SettingError::Ineffective {
            name: name.into(),
            reason: "it is about the vote, and no samples vote".into(),
        }
        .into());
    };
    let sigma = sigma.ok_or_else(|| SettingError::missing("sigma"))?;
    let defaults = PredictParams::default();
    let params = PredictParams {
        samples,
        alpha: options.alpha.unwrap_or(defaults.alpha),
    };
    // Image files are decoded to 8 bits.
    let smoothing = Smoothing::chosen(options.noise, sigma, Some(255))?;
    Ok(Some(params.plan(smoothing, seed)))
}
