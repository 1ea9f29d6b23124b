//! Figures 1 and 2 of the paper: a binary classifier on the line before and after
//! heat smoothing.

mod figures;
mod line;
mod measured;

use std::fmt;
use std::path::{Path, PathBuf};

use record::{Guarantee, atomic};
use serde_json::{Value, json};
use settings::{SettingError, settings};

use crate::device::Device;
use crate::error::Error;
use crate::observer::Observer;
use line::{LineProblem, TIMESTEPS};
use measured::{Functions, OUTLIER, POINT};

/// Standard deviations of the average that the line can show.
const SPREAD: std::ops::RangeInclusive<f64> = 0.01..=0.5;

settings! {
    /// What can be said about the illustration.
    pub struct IllustrationParams {
        /// Noise level of the average, in units of x.
        sigma: f64 = 0.1,
        /// Scale of the gradient term: 0.5 aims at the average at sigma, the
        /// paper's 5 at ten times its variance.
        lambda: f64 = 0.5,
    }
}

/// What the illustration came to.
pub struct Illustration {
    /// Where the figures and numbers are.
    pub out: PathBuf,
    /// Everything measured, with the settings that led to it.
    pub numbers: Value,
    text: String,
}

impl fmt::Display for Illustration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Trains a binary classifier on the line, smooths it by five timesteps, and
/// draws it beside the exact Gaussian average. Writes figure-1 and figure-2 (SVG,
/// PNG), curves.tsv and illustration.json into `out`.
///
/// # Errors
/// Settings that the line cannot show; a disk or device that fails.
pub fn illustrate(
    params: &IllustrationParams,
    out: &Path,
    device: &Device,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Illustration, Error> {
    let &IllustrationParams { sigma, lambda } = params;
    let settings = LineProblem {
        sigma,
        lambda,
        seed,
    };
    if !(sigma > 0.0 && sigma.is_finite()) {
        return Err(SettingError::value("sigma", sigma, "a positive number").into());
    }
    settings.heat().check()?;
    let spread = settings.variance(TIMESTEPS).sqrt();
    if !SPREAD.contains(&spread) {
        return Err(Error::refused(
            format!("sigma {sigma} and lambda {lambda} aim at an average over {spread:.4}"),
            format!(
                "choose them so that sqrt(2 lambda) sigma is between {} and {}: the line is 2.5 long",
                SPREAD.start(),
                SPREAD.end()
            ),
        ));
    }
    if out.exists() && !out.is_dir() {
        let expected = "a folder; it is made if it is missing";
        return Err(SettingError::value("out", out.display(), expected).into());
    }
    let models = line::train(&settings, device, observer)?;
    let measured = Functions::new(&settings, &models)?;
    for panels in figures::both(&settings, &measured) {
        let file = |extension: &str| out.join(format!("{}.{extension}", panels.id));
        atomic::write(&file("svg"), panels.to_svg().as_bytes())?;
        atomic::write(&file("png"), &panels.to_png()?)?;
    }
    atomic::write(&out.join("curves.tsv"), measured.to_tsv().as_bytes())?;
    let numbers = numbers(&settings, &measured);
    atomic::write_json(&out.join("illustration.json"), &numbers)?;
    Ok(Illustration {
        out: out.into(),
        text: text(out, &settings, &measured),
        numbers,
    })
}

/// Everything measured, with the settings that led to it.
fn numbers(settings: &LineProblem, measured: &Functions) -> Value {
    let iterate = |k: usize| {
        let f = &measured.iterates[k];
        json!({
            "iterate": k,
            "boundaries": f.boundaries,
            "adversarial_distance": f.distance(),
            "point_class": f.class_at(POINT),
            "outlier_class": f.class_at(OUTLIER),
            "accuracy": measured.accuracy(k),
            "rms_to_average": measured.to_average(k),
        })
    };
    json!({
        "format": "heatsmooth-illustration",
        "version": env!("CARGO_PKG_VERSION"),
        "isa": network::Isa::detect().name(),
        "seed": settings.seed,
        "unit": "x = 2.5 pixel - 1.25",
        "sigma": settings.sigma,
        "lambda": settings.lambda,
        "average_variance": settings.variance(TIMESTEPS),
        "sigma_in_pixels": settings.sigma_in_pixels(),
        "heat": settings.heat(),
        "training_f0": settings.first_training(),
        "training_timestep": settings.timestep_training(),
        "point": POINT,
        "outlier": OUTLIER,
        "paper": {"adversarial_distance": {"f0": 0.10, "f5": 0.35}},
        "iterates": (0..measured.iterates.len()).map(iterate).collect::<Vec<_>>(),
        "average": {
            "boundaries": measured.average.boundaries,
            "adversarial_distance": measured.average.distance(),
        },
        "guarantee": Guarantee::Empirical.sentence(),
    })
}

/// The summary.
fn text(out: &Path, settings: &LineProblem, measured: &Functions) -> String {
    let distance = |distance: Option<f64>| match distance {
        Some(distance) => format!("{distance:.3}"),
        None => "none: one class on the whole line".into(),
    };
    let mut text = format!(
        "{}: figure-1 and figure-2 (SVG, PNG), curves.tsv, illustration.json\n\
         \x20 a binary classifier on the line, sigma {}, lambda {}, {TIMESTEPS} timesteps\n\
         \x20 adversarial distance of the point at x = {POINT}, to the nearest change of class:\n",
        out.display(),
        settings.sigma,
        settings.lambda
    );
    for (k, f) in measured.iterates.iter().enumerate() {
        let paper = match k {
            0 => " (paper: about 0.10)",
            5 => " (paper: about 0.35)",
            _ => "",
        };
        text += &format!("    f{k} {}{paper}\n", distance(f.distance()));
    }
    let (f, v) = (
        &measured.iterates[0],
        &measured.iterates[TIMESTEPS as usize],
    );
    let spread = settings.variance(TIMESTEPS).sqrt();
    text += &format!(
        "    exact average of f0 over N(0, {spread:.3}^2) {}\n\
         \x20 the outlier at x = {OUTLIER}: {} for f0, {} for f5\n\
         \x20 distance to the exact average (root mean square over the line): f0 {:.3}, f5 {:.3}\n",
        distance(measured.average.distance()),
        f.class_at(OUTLIER),
        v.class_at(OUTLIER),
        measured.to_average(0),
        measured.to_average(TIMESTEPS as usize),
    );
    text += "  meaning: the points are placed to tell the paper's story. The distance grows because \
             smoothing gives up a lone outlier, which is then classified against its label\n\
             \x20 guarantee: empirical\n";
    text
}
