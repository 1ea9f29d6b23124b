//! `heatsmooth certify`: certified radii.

use std::time::Duration;

use anyhow::Result;
use certify::{Certify, Decision, Goal, Outcome, Select, TopKRule, certify_all};
use clap::Args;
use record::{CertifyRow, Guarantee, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::common::{Common, Configured};
use crate::failure::advised;
use crate::measure::{Recorder, SubjectArgs, SubjectConfig};
use crate::{config, output};

/// Noisy copies evaluated at once.
const BATCH: usize = 1024;

/// Certified L2 radii of the smoothed classifier (Cohen et al.); running again
/// resumes.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth certify --model runs/heat/model.safetensors --data digits \
                  --sigma 0.25 --select clean --out heat.tsv"
)]
pub struct Flags {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    configured: Configured,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Options {
    #[command(flatten)]
    #[serde(flatten)]
    subject: SubjectArgs,
    /// Noise level, in units of pixels scaled to [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// Samples that choose the class [default: 100].
    #[arg(long)]
    n0: Option<u32>,
    /// Samples that estimate its probability; at most so many with --anytime
    /// [default: 10000].
    #[arg(long)]
    n: Option<u32>,
    /// Failure probability, for each image [default: 0.001].
    #[arg(long, allow_negative_numbers = true)]
    alpha: Option<f64>,
    /// How the class is chosen: noise (n0 samples) or clean (argmax v(x), for a
    /// deterministic v) [default: noise].
    #[arg(long)]
    select: Option<String>,
    /// How many classes count as right [default: 1].
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// What a top-k certificate counts: sound or paper [default: sound].
    #[arg(long)]
    rule: Option<String>,
    /// Stop an image early, by an anytime confidence sequence.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    anytime: bool,
    /// With --anytime: stop when "radius >= R" is decided.
    #[arg(
        long,
        value_name = "R",
        requires = "anytime",
        allow_negative_numbers = true
    )]
    radius: Option<f64>,
    /// With --anytime: stop when the radius can hardly grow by more than this
    /// [default: sigma/50].
    #[arg(
        long,
        value_name = "T",
        requires = "anytime",
        conflicts_with = "radius"
    )]
    tolerance: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(flatten)]
    subject: SubjectConfig,
    sigma: f64,
    n0: u32,
    n: u32,
    alpha: f64,
    select: String,
    top_k: usize,
    rule: String,
    anytime: bool,
    #[serde(default)]
    radius: Option<f64>,
    #[serde(default)]
    tolerance: Option<f64>,
}

impl Config {
    fn plan(&self, seed: u64) -> Result<Certify> {
        let choice = |name: &str, got: &str, known: &str| {
            advised(format!("--{name} is `{got}`"), format!("give {known}"))
        };
        let select = match self.select.as_str() {
            "noise" => Select::Noise,
            "clean" => Select::Clean,
            other => return Err(choice("select", other, "noise or clean")),
        };
        let rule = match self.rule.as_str() {
            "sound" => TopKRule::Sound,
            "paper" => TopKRule::Paper,
            other => return Err(choice("rule", other, "sound or paper")),
        };
        let anytime = match (self.anytime, self.radius) {
            (false, _) => None,
            (true, Some(radius)) => Some(Goal::Radius(radius)),
            (true, None) => Some(Goal::Tolerance(self.tolerance.unwrap_or(self.sigma / 50.0))),
        };
        Ok(Certify {
            sigma: self.sigma,
            n0: self.n0,
            n: self.n,
            alpha: self.alpha,
            select,
            top_k: self.top_k,
            rule,
            anytime,
            seed,
        })
    }
}

fn defaults() -> Value {
    json!({
        "split": "test", "skip": 1, "n0": 100, "n": 10_000, "alpha": 0.001,
        "select": "noise", "top-k": 1, "rule": "sound", "anytime": false,
    })
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let file = flags.configured.config.as_deref();
    let config: Config = config::resolve(defaults(), file, &flags.options)?;
    if flags.configured.print_config {
        return output::print(&config::print(&config)?);
    }
    measure(&config, &flags.common)
}

/// The command as a step of another one, with these options.
pub fn step(options: Value, common: &Common) -> Result<()> {
    measure(&config::resolve(defaults(), None, options)?, common)
}

fn measure(config: &Config, common: &Common) -> Result<()> {
    let plan = config.plan(common.seed)?;
    let subject = config.subject.open(common)?;
    plan.check(subject.loaded.model.graph.classes())?;
    subject.check_sigma(config.sigma, common.quiet);
    let procedure = if config.anytime { "anytime" } else { "cohen" };
    let manifest = subject.manifest(
        &config.subject,
        common,
        (Kind::Certify, procedure),
        Some(config.sigma),
        Guarantee::SoundSmoothed {
            alpha: config.alpha,
        },
        json!({
            "n0": config.n0, "n": config.n, "select": config.select, "top_k": config.top_k,
            "rule": config.rule, "radius": config.radius, "tolerance": config.tolerance,
        }),
    );
    let extra = [
        CertifyRow::LECUYER,
        CertifyRow::LI,
        CertifyRow::SAMPLES,
        CertifyRow::CLASSIFY_TIME,
        CertifyRow::CLEAN_CORRECT,
    ];
    let mut recorder = Recorder::open(&config.subject.out, &manifest, &extra, common.quiet)?;
    let mut images = subject.images(recorder.resumed);
    let mut certified = 0usize;
    let mut observer = |outcome: Outcome| {
        certified += usize::from(outcome.correct);
        let row = row(&outcome);
        recorder.push(row, || format!("({certified} certified and right)"))
    };
    certify_all(&subject.network, &mut images, &plan, BATCH, &mut observer)?;
    images.result()?;
    let (rows, _) = recorder.finish()?;
    summary(config, &plan, &rows, common)
}

fn row(outcome: &Outcome) -> CertifyRow {
    let c = &outcome.certificate;
    // Whether "radius >= R" holds was not decided within n samples: abstain.
    let decided = c.decision != Some(Decision::Undecided);
    CertifyRow {
        idx: outcome.index.into(),
        label: outcome.label as u32,
        predict: c.predict.filter(|_| decided).map(|p| p as u32),
        radius: if decided { c.radius } else { 0.0 },
        correct: outcome.correct && decided,
        time: Duration::try_from_secs_f64(outcome.seconds).ok(),
        n_a: Some(c.n_a.into()),
        n: Some(c.n.into()),
        p_lower: c.p_lower,
        p_correct_l_bound: c.p_correct_lower,
        extra: vec![
            c.lecuyer,
            c.li,
            outcome.samples as f64,
            outcome.classify_seconds,
            f64::from(u8::from(outcome.clean == outcome.label)),
        ],
    }
}

fn summary(config: &Config, plan: &Certify, rows: &[CertifyRow], common: &Common) -> Result<()> {
    let images = rows.len().max(1) as f64;
    let at = |radius: f64| {
        let good = rows.iter().filter(|r| r.correct && r.radius >= radius);
        good.count() as f64 / images
    };
    let acr = rows
        .iter()
        .filter(|r| r.correct)
        .map(|r| r.radius)
        .sum::<f64>()
        / images;
    let abstained = rows.iter().filter(|r| r.predict.is_none()).count() as f64 / images;
    let samples = rows.iter().map(|r| r.extra[2]).sum::<f64>() / images;
    let steps = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0];
    let radii: Vec<f64> = steps.iter().map(|s| s * config.sigma).collect();
    let mut text = format!(
        "{}: {} images, sigma {}\n  certified accuracy (of all images):",
        config.subject.out.display(),
        rows.len(),
        config.sigma
    );
    for radius in &radii {
        text += &format!(" {} at r = {radius:.3},", output::percent(at(*radius)));
    }
    text.pop();
    let guarantee = plan.guarantee();
    text += &format!(
        "\n  average certified radius {acr:.4}, abstained {}, {samples:.0} noisy passes an image\n  guarantee: {guarantee}\n",
        output::percent(abstained)
    );
    let accuracy: Vec<_> = radii
        .iter()
        .map(|r| json!({"radius": r, "certified_accuracy": at(*r)}))
        .collect();
    let value = json!({
        "log": config.subject.out.display().to_string(), "images": rows.len(), "sigma": config.sigma,
        "certified_accuracy": accuracy, "acr": acr, "abstained": abstained,
        "samples_per_image": samples, "guarantee": guarantee.to_string(),
    });
    output::summary(common, &value, &text)
}
