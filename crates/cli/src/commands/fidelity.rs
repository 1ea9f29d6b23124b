//! `heatsmooth fidelity`: is v the Gaussian average of f?

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use certify::{
    AtLevel, Closeness, Distances, Fidelity, FidelityOutcome, FidelitySummary, fidelity_all,
};
use clap::Args;
use network::Cpu;
use record::{FidelityRow, Guarantee, Kind, ModelId, format_number};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::common::{Common, Configured, ModelConfig};
use crate::measure::{Recorder, SubjectArgs, SubjectConfig};
use crate::{config, output};

/// How close v(x) is to the Monte-Carlo average of f at x, beside the same
/// distance for f itself, and the sigma at which it fits best.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth fidelity --model runs/heat/model.safetensors \
                  --reference runs/baseline/model.safetensors --data digits --sigma 0.25 --out fidelity.tsv"
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
    /// The model f that v is to average.
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Noise level, in units of pixels scaled to [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// Noisy copies an average [default: 100].
    #[arg(long, value_name = "M")]
    samples: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(flatten)]
    subject: SubjectConfig,
    reference: PathBuf,
    sigma: f64,
    samples: u32,
}

fn defaults() -> Value {
    json!({"split": "test", "skip": 1, "samples": 100})
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
    let plan = Fidelity {
        samples: config.samples,
        seed: common.seed,
        ..Fidelity::new(config.sigma)
    };
    plan.check()?;
    let subject = config.subject.open(common)?;
    let reference = ModelConfig {
        model: config.reference.clone(),
        ..config.subject.model.clone()
    };
    let reference = reference.load(Some(&subject.dataset), common.quiet)?;
    let f = Cpu::new(&reference.model, Arc::clone(&subject.pool));
    let mut manifest = subject.manifest(
        &config.subject,
        common,
        (Kind::Fidelity, "fidelity"),
        Some(config.sigma),
        Guarantee::Empirical,
        json!({"samples": config.samples, "levels": plan.levels}),
    );
    manifest.reference = Some(ModelId {
        sha256: reference.sha256.clone(),
        path: Some(config.reference.display().to_string()),
    });
    let levels = levels(&plan);
    let extra = columns(&levels);
    let mut recorder = Recorder::open(&config.subject.out, &manifest, &extra, common.quiet)?;
    let mut images = subject.images(recorder.resumed);
    let mut observer = |outcome: FidelityOutcome| recorder.push(row(&outcome, &plan), String::new);
    fidelity_all(
        &subject.network,
        &f,
        &mut images,
        &plan,
        1024,
        &mut observer,
    )?;
    images.result()?;
    let (rows, _) = recorder.finish()?;
    // From the log alone, so that it covers what an earlier run measured.
    let mut summary = FidelitySummary::new(&plan);
    for row in &rows {
        summary.add(&outcome(row, &levels));
    }
    let mut text = format!(
        "{}: {} images, sigma {}\n",
        config.subject.out.display(),
        rows.len(),
        config.sigma
    );
    let spaces = [
        ("logits", summary.logits()),
        ("probabilities", summary.probabilities()),
    ];
    for (space, closeness) in &spaces {
        text += &closeness.map_or(String::new(), |c| line(space, &c));
    }
    text += "  guarantee: empirical\n";
    let [logits, probabilities] = spaces.map(|(_, closeness)| closeness.map(numbers));
    let value = json!({
        "log": config.subject.out.display().to_string(), "images": rows.len(), "sigma": config.sigma,
        "logits": logits, "probabilities": probabilities, "guarantee": "empirical",
    });
    output::summary(common, &value, &text)
}

/// All levels, in the order of [`FidelityOutcome::levels`].
fn levels(plan: &Fidelity) -> Vec<f64> {
    let mut levels = plan.levels.clone();
    levels.push(plan.sigma);
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

/// The further columns of the log: with them a row says all about its image that
/// the summary needs. `p_` means of probabilities rather than logits; `step` is
/// the distance of the average from that at the level before.
fn columns(levels: &[f64]) -> Vec<String> {
    let mut columns = Vec::new();
    for &sigma in levels {
        let at = format_number(sigma);
        columns.push(FidelityRow::column_at(sigma));
        let others = [
            "standard_error",
            "step",
            "p_v_distance",
            "p_standard_error",
            "p_step",
        ];
        columns.extend(others.map(|name| format!("{name}@{at}")));
    }
    let own = ["f_agree", "p_f_distance", "p_agree", "p_f_agree"];
    columns.extend(own.map(str::to_owned));
    columns
}

/// One image as a row of the log.
fn row(outcome: &FidelityOutcome, plan: &Fidelity) -> FidelityRow {
    let own = outcome.at(plan.sigma).expect("the plan's own level");
    let of = |d: &Distances| [d.v, d.standard_error, d.step];
    let by_level = outcome.levels.iter();
    let mut extra: Vec<f64> = by_level
        .flat_map(|at| [of(&at.logits), of(&at.probabilities)])
        .flatten()
        .collect();
    let flag = |flag: bool| f64::from(u8::from(flag));
    extra.extend([
        flag(own.logits.f_agrees),
        own.probabilities.f,
        flag(own.probabilities.v_agrees),
        flag(own.probabilities.f_agrees),
    ]);
    FidelityRow {
        idx: outcome.index.into(),
        label: outcome.label as u32,
        v_distance: own.logits.v,
        f_distance: own.logits.f,
        standard_error: own.logits.standard_error,
        agree: own.logits.v_agrees,
        extra,
    }
}

/// A row back as an outcome. Of f and of classes it knows what holds at the log's
/// own sigma, and a summary asks for no more.
fn outcome(row: &FidelityRow, levels: &[f64]) -> FidelityOutcome {
    let (by_level, own) = row.extra.split_at(6 * levels.len());
    let distances = |values: &[f64], f: f64, agree: [bool; 2]| Distances {
        v: values[0],
        f,
        standard_error: values[1],
        step: values[2],
        v_agrees: agree[0],
        f_agrees: agree[1],
    };
    let at = |(&sigma, values): (&f64, &[f64])| AtLevel {
        sigma,
        logits: distances(&values[..3], row.f_distance, [row.agree, own[0] != 0.0]),
        probabilities: distances(&values[3..], own[1], [own[2] != 0.0, own[3] != 0.0]),
    };
    FidelityOutcome {
        index: row.idx as u32,
        label: row.label as usize,
        levels: levels
            .iter()
            .zip(by_level.chunks_exact(6))
            .map(at)
            .collect(),
        seconds: 0.0,
    }
}

fn numbers(c: Closeness) -> Value {
    json!({
        "v_distance": c.v, "f_distance": c.f, "gap_closed": c.closed,
        "agreement": c.v_agreement, "effective_sigma": c.effective_sigma.map(|e| e.sigma),
    })
}

fn line(space: &str, c: &Closeness) -> String {
    let sigma = match &c.effective_sigma {
        Some(effective) => format!("{:.4}", effective.sigma),
        None => "unknown".into(),
    };
    format!(
        "  {space}: v is {:.4} from the average of f, f itself {:.4}: {} of the gap closed; same class {}; effective sigma {sigma}\n",
        c.v,
        c.f,
        output::percent(c.closed),
        output::percent(c.v_agreement),
    )
}
