//! `heatsmooth demo`: the whole pipeline on the embedded digits.

mod modes;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::commands::{attack, certify, fidelity, lbound, smooth, train};
use crate::common::Common;
use crate::output;

/// Noise level, in units of pixels scaled to [0, 1].
const SIGMA: f64 = 0.25;
/// Method, and how its model is certified: a deterministic v chooses its class by
/// one clean pass, a stochastic model by votes.
const MODELS: [(&str, &str); 4] = [
    ("baseline", "clean"),
    ("gaussian", "noise"),
    ("smoothadv", "noise"),
    ("heat", "clean"),
];

/// The whole pipeline on the embedded digits: baseline, RandomizedSmoothing,
/// SmoothAdv and HeatSmoothing are trained, certified (the last one in every
/// mode), bounded, attacked and compared in one report. Running it again continues
/// where it stopped.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth demo --out demo")]
pub struct Flags {
    /// Where everything goes.
    #[arg(long, value_name = "DIR", default_value = "demo")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let clock = Instant::now();
    let (out, common) = (flags.out.as_path(), &flags.common);
    let quiet = Common {
        quiet: true,
        silent: true,
        ..common.clone()
    };
    let say = |text: &str| {
        if !common.quiet {
            eprintln!("[{:5.1} s] {text}", clock.elapsed().as_secs_f64());
        }
    };
    for (name, select) in MODELS {
        say(&format!("{name}: train"));
        let model = make(name, out, &quiet)?;
        say(&format!("{name}: certify, L-bound, PGD, DDN"));
        measure(name, select, &model, out, &quiet)?;
    }
    say("heat: anytime, top-k, PREDICT");
    let (modes_text, modes) = modes::run(out, &quiet)?;
    say("heat: fidelity");
    let options = json!({
        "model": model_file(out, "heat"), "reference": model_file(out, "baseline"),
        "data": "digits", "sigma": SIGMA, "out": out.join("fidelity-heat.tsv"),
    });
    fidelity::step(options, &quiet)?;
    say("report");
    let options = report::Options {
        title: "HeatSmoothing and its comparators on the digits".into(),
        ..report::Options::default()
    };
    let report = report::build(&[out.to_path_buf()], &options)?;
    let written = report.write(&out.join("report"))?;
    let certified = report.tables().find(|t| t.id.starts_with("certified"));
    let table = certified.map_or(String::new(), |t| t.to_markdown());
    let page = written.page.display().to_string();
    let text = format!(
        "{table}\n{modes_text}\n{page}: the report, with figures, attacks and single images"
    );
    let value = json!({"report": page, "modes": modes, "seconds": clock.elapsed().as_secs_f64()});
    output::summary(common, &value, &text)
}

fn model_file(out: &Path, name: &str) -> PathBuf {
    out.join(name).join(::train::MODEL_FILE)
}

/// Trains one of the four models, or goes on with it.
fn make(name: &'static str, out: &Path, common: &Common) -> Result<PathBuf> {
    let pool = common.start()?;
    let folder = out.join(name);
    if name == "heat" {
        let config = smooth::digits_config(model_file(out, "baseline"), folder, SIGMA)?;
        return smooth::smooth_model(&config, common, pool);
    }
    train::on_digits(name, folder, SIGMA, common, pool)
}

/// Certificates, L-bound and attacks of one model.
fn measure(name: &str, select: &str, model: &Path, out: &Path, common: &Common) -> Result<()> {
    let subject = |what: &str, more: Value| {
        let mut options = json!({
            "model": model, "data": "digits", "sigma": SIGMA,
            "out": out.join(format!("{what}-{name}.tsv")),
        });
        if let (Value::Object(options), Value::Object(more)) = (&mut options, more) {
            options.extend(more);
        }
        options
    };
    certify::step(
        subject("certify", json!({"n": 1000, "select": select})),
        common,
    )?;
    // The stochastic models are the average over noise: bounded and attacked so.
    let samples = if select == "noise" { 16 } else { 1 };
    let averaged = if select == "noise" { 100 } else { 0 };
    lbound::step(subject("lbound", json!({"samples": averaged})), common)?;
    for attack_name in ["pgd", "ddn"] {
        let more = json!({
            // DDN cannot shrink below 0.41 in the usual 20 steps.
            "samples": samples, "steps": if attack_name == "ddn" { 100 } else { 20 },
            "images": "0..100", "save-images": 24,
            "save": out.join(format!("gallery-{attack_name}-{name}")),
        });
        attack::step(attack_name, subject(attack_name, more), common)?;
    }
    Ok(())
}
