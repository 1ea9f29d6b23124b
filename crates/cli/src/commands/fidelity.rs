//! `heatsmooth fidelity`: is v the Gaussian average of f?

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use certify::{Closeness, Fidelity, FidelityOutcome, FidelitySummary, fidelity_all};
use clap::Args;
use network::Cpu;
use record::{FidelityRow, Guarantee, Kind, ModelId};
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
    let levels: Vec<f64> = plan.levels.iter().copied().chain([config.sigma]).collect();
    let extra: Vec<String> = levels.iter().map(|&s| FidelityRow::column_at(s)).collect();
    let mut recorder = Recorder::open(&config.subject.out, &manifest, &extra, common.quiet)?;
    let mut images = subject.images(recorder.resumed);
    let mut summary = FidelitySummary::new(&plan);
    let mut observer = |outcome: FidelityOutcome| {
        summary.add(&outcome);
        let at = |sigma: f64| outcome.at(sigma).expect("a level of the plan").logits;
        let own = at(config.sigma);
        let row = FidelityRow {
            idx: outcome.index.into(),
            label: outcome.label as u32,
            v_distance: own.v,
            f_distance: own.f,
            standard_error: own.standard_error,
            agree: own.v_agrees,
            extra: levels.iter().map(|&s| at(s).v).collect(),
        };
        recorder.push(row, String::new)
    };
    fidelity_all(
        &subject.network,
        &f,
        &mut images,
        &plan,
        1024,
        &mut observer,
    )?;
    images.result()?;
    let (rows, resumed) = recorder.finish()?;
    let mut text = format!(
        "{}: {} images, sigma {}\n",
        config.subject.out.display(),
        rows.len(),
        config.sigma
    );
    if resumed > 0 {
        text += "  resumed: `heatsmooth report` summarises the whole log\n";
    } else {
        let spaces = [
            ("logits", summary.logits()),
            ("probabilities", summary.probabilities()),
        ];
        for (space, closeness) in spaces {
            text += &closeness.map_or(String::new(), |c| line(space, &c));
        }
    }
    text += "  guarantee: empirical\n";
    let numbers = |c: Option<Closeness>| {
        c.map(|c| {
            json!({
                "v_distance": c.v, "f_distance": c.f, "gap_closed": c.closed,
                "agreement": c.v_agreement, "effective_sigma": c.effective_sigma.map(|e| e.sigma),
            })
        })
    };
    let value = json!({
        "log": config.subject.out.display().to_string(), "images": rows.len(), "sigma": config.sigma,
        "logits": numbers(summary.logits().filter(|_| resumed == 0)),
        "probabilities": numbers(summary.probabilities().filter(|_| resumed == 0)),
        "guarantee": "empirical",
    });
    output::summary(common, &value, &text)
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
