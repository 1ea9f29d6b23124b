//! `heatsmooth attack`: PGD and DDN.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use attack::{
    Attack, Averaged, Batch, DdnParams, Deterministic, Goal, Outcome, PgdParams, Summary, Target,
    checks,
};
use clap::{Args, Subcommand};
use network::{Noise, Purpose};
use record::{AttackRow, Gallery, GalleryWriter, Guarantee, Kind, ModelId, Pictures};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::common::{self, Common, Configured};
use crate::measure::{Recorder, Subject, SubjectArgs, SubjectConfig};
use crate::{config, output, picture};

/// Attack a model: the smallest perturbation found for each image.
#[derive(Args, Debug)]
pub struct Flags {
    #[command(subcommand)]
    method: Method,
}

#[derive(Subcommand, Debug)]
enum Method {
    /// Projected gradient descent with a fixed L2 budget.
    #[command(
        after_help = "Example: heatsmooth attack pgd --model runs/heat/model.safetensors --data digits --out pgd.tsv"
    )]
    Pgd(MethodFlags),
    /// Decoupled direction and norm (Rony et al.): small L2 norms.
    #[command(
        after_help = "Example: heatsmooth attack ddn --model runs/heat/model.safetensors --data digits --out ddn.tsv"
    )]
    Ddn(MethodFlags),
}

#[derive(Args, Debug)]
struct MethodFlags {
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
    /// Steps [default: 20].
    #[arg(long)]
    steps: Option<u32>,
    /// PGD: the L2 budget [default: 4].
    #[arg(long, allow_negative_numbers = true)]
    eps: Option<f64>,
    /// Attack the average over M fixed noises: the stochastic model [default: 1,
    /// the network itself].
    #[arg(long, value_name = "M")]
    samples: Option<u32>,
    /// Noise level of the stochastic model.
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// An image is broken when its label leaves the top K [default: 1].
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Images attacked at once [default: 100].
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Save original, noisy and adversarial pictures of the first images here.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// How many [default: 24].
    #[arg(long, value_name = "N")]
    save_images: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(flatten)]
    subject: SubjectConfig,
    steps: u32,
    eps: f64,
    samples: u32,
    #[serde(default)]
    sigma: Option<f64>,
    top_k: usize,
    batch_size: usize,
    #[serde(default)]
    save: Option<PathBuf>,
    save_images: usize,
}

fn defaults() -> Value {
    json!({
        "split": "test", "skip": 1, "steps": 20, "eps": 4.0, "samples": 1, "top-k": 1,
        "batch-size": 100, "save-images": 24,
    })
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let (name, flags) = match flags.method {
        Method::Pgd(flags) => ("pgd", flags),
        Method::Ddn(flags) => ("ddn", flags),
    };
    let file = flags.configured.config.as_deref();
    let config: Config = config::resolve(defaults(), file, &flags.options)?;
    if flags.configured.print_config {
        return output::print(&config::print(&config)?);
    }
    attack_model(name, &config, &flags.common)
}

/// The command as a step of another one, with these options.
pub fn step(name: &str, options: Value, common: &Common) -> Result<()> {
    attack_model(name, &config::resolve(defaults(), None, options)?, common)
}

fn attack_model(name: &str, config: &Config, common: &Common) -> Result<()> {
    let attack: Box<dyn Attack> = match name {
        "pgd" => Box::new(
            PgdParams {
                steps: config.steps,
                eps: config.eps,
                seed: common.seed,
                ..PgdParams::default()
            }
            .check()?,
        ),
        _ => Box::new(
            DdnParams {
                steps: config.steps,
                seed: common.seed,
                ..DdnParams::default()
            }
            .check()?,
        ),
    };
    let subject = config.subject.open(common)?;
    let target: Box<dyn Target + '_> = match (config.samples, config.sigma) {
        (0 | 1, _) => Box::new(Deterministic::new(&subject.network)),
        (samples, Some(sigma)) => {
            let noise = Noise {
                seed: common.seed,
                purpose: Purpose::Prediction,
                sigma: common::sigma(sigma)?,
            };
            Box::new(Averaged::new(&subject.network, noise, samples)?)
        }
        (_, None) => {
            return Err(crate::failure::advised(
                "--samples without --sigma",
                "the stochastic model needs its noise level, such as --sigma 0.1",
            ));
        }
    };
    measure(
        name,
        config,
        common,
        &subject,
        attack.as_ref(),
        target.as_ref(),
    )
}

fn measure(
    name: &str,
    config: &Config,
    common: &Common,
    subject: &Subject,
    attack: &dyn Attack,
    target: &dyn Target,
) -> Result<()> {
    let manifest = subject.manifest(
        &config.subject,
        common,
        (Kind::Attack, name),
        config.sigma,
        Guarantee::Empirical,
        json!({"steps": config.steps, "eps": (name == "pgd").then_some(config.eps), "samples": config.samples, "top_k": config.top_k}),
    );
    let extra = [AttackRow::CLEAN_CORRECT, AttackRow::LAST_L2];
    let mut recorder = Recorder::open(&config.subject.out, &manifest, &extra, common.quiet)?;
    let mut gallery = open_gallery(name, config, common, subject)?;
    let mut images = subject.images(recorder.resumed);
    let (mut outcomes, mut checked) = (Vec::new(), false);
    loop {
        let chunk: Vec<_> = (&mut images).take(config.batch_size.max(1)).collect();
        if chunk.is_empty() {
            break;
        }
        let pixels: Vec<f32> = chunk
            .iter()
            .flat_map(|i| i.pixels.iter().copied())
            .collect();
        let indices: Vec<u32> = chunk.iter().map(|i| i.index).collect();
        let labels: Vec<u32> = chunk.iter().map(|i| i.label as u32).collect();
        let batch = Batch {
            images: &pixels,
            indices: &indices,
            labels: &labels,
            goal: Goal::Untargeted,
            top_k: config.top_k,
        };
        if !checked && !common.quiet {
            for warning in checks::before(target, &batch)? {
                eprintln!("warning: {warning}");
            }
            checked = true;
        }
        let clock = Instant::now();
        let done = attack::run(attack, target, &batch, &mut |_| {})?;
        let each = clock.elapsed().as_secs_f64() / done.len() as f64;
        for (outcome, image) in done.iter().zip(&chunk) {
            if recorder
                .push(row(outcome, each), || "attacked".into())
                .is_break()
            {
                break;
            }
            if let Some(gallery) = &mut gallery
                && gallery.len() < config.save_images
            {
                save(
                    gallery,
                    subject,
                    common,
                    config.sigma,
                    outcome,
                    &image.pixels,
                )?;
            }
        }
        outcomes.extend(done.into_iter().map(|o| Outcome { image: vec![], ..o }));
    }
    images.result()?;
    let (rows, resumed) = recorder.finish()?;
    if !common.quiet {
        for warning in checks::after(attack, &outcomes) {
            eprintln!("warning: {warning}");
        }
    }
    let summary = Summary::new(&outcomes);
    let distances = |d: Option<attack::Distances>| match d {
        Some(d) => format!("median {:.4}, mean {:.4}", d.median, d.mean),
        None => "none".into(),
    };
    let mut text = format!("{}: {} images\n", config.subject.out.display(), rows.len());
    if resumed > 0 {
        text += &format!(
            "  the figures below leave out {resumed} images of an earlier run; `heatsmooth report` has all\n"
        );
    }
    text += &format!(
        "  already wrong {}, broken {}, attack failed {}; success rate {}\n  distances of successes on images the model gets right: {}\n  the paper's convention (all images): {}\n  guarantee: empirical\n",
        summary.already_wrong,
        summary.broken,
        summary.failed,
        summary.success_rate.map_or("-".into(), output::percent),
        distances(summary.distances),
        distances(attack::Distances::paper_convention(&outcomes)),
    );
    let value = json!({
        "log": config.subject.out.display().to_string(), "images": rows.len(), "already_wrong": summary.already_wrong,
        "broken": summary.broken, "failed": summary.failed, "success_rate": summary.success_rate,
        "median": summary.distances.map(|d| d.median), "mean": summary.distances.map(|d| d.mean), "guarantee": "empirical",
    });
    output::summary(common, &value, &text)
}

fn row(outcome: &Outcome, seconds: f64) -> AttackRow {
    AttackRow {
        idx: outcome.index.into(),
        label: outcome.label,
        clean_predict: Some(outcome.clean_predict),
        adv_predict: Some(outcome.adv_predict),
        success: outcome.success(),
        l2: outcome.l2.unwrap_or(f64::NAN),
        linf: outcome.linf.unwrap_or(f64::NAN),
        steps: outcome.steps.into(),
        time: Duration::try_from_secs_f64(seconds).ok(),
        extra: vec![f64::from(u8::from(outcome.clean_correct)), outcome.last_l2],
    }
}

fn open_gallery(
    name: &str,
    config: &Config,
    common: &Common,
    subject: &Subject,
) -> Result<Option<GalleryWriter>> {
    let Some(folder) = &config.save else {
        return Ok(None);
    };
    let header = Gallery {
        format: Gallery::FORMAT.into(),
        version: Gallery::VERSION,
        method: subject.method(),
        label: None,
        model: ModelId {
            sha256: subject.loaded.sha256.clone(),
            path: None,
        },
        data: crate::commands::train::data_id(&subject.dataset),
        sigma: config.sigma.or(subject.loaded.model.info.sigma),
        attack: Some(name.into()),
        seed: common.seed,
        classes: subject.dataset.classes().to_vec(),
        images: vec![],
    };
    Ok(Some(GalleryWriter::open(folder, header)?))
}

/// The image, one noisy copy, and what the attack made of it, as pictures.
fn save(
    gallery: &mut GalleryWriter,
    subject: &Subject,
    common: &Common,
    sigma: Option<f64>,
    outcome: &Outcome,
    pixels: &[f32],
) -> Result<()> {
    use network::Classify;
    let shape = subject.dataset.shape();
    let original = picture::png(shape, pixels)?;
    let noisy = match sigma.or(subject.loaded.model.info.sigma) {
        Some(sigma) => {
            let noise = Noise {
                seed: common.seed,
                purpose: Purpose::Prediction,
                sigma: sigma as f32,
            };
            let mut copy = vec![0.0; pixels.len()];
            noise.add(outcome.index, 0, pixels, &mut copy);
            let mut logits = vec![0.0; subject.network.classes()];
            subject.network.logits(&copy, &mut logits);
            Some((
                picture::png(shape, &copy)?,
                train::loss::argmax(&logits) as u32,
            ))
        }
        None => None,
    };
    let adversarial = match outcome.l2 {
        Some(l2) if l2 > 0.0 => Some((picture::png(shape, &outcome.image)?, l2)),
        _ => None,
    };
    let pictures = Pictures {
        original: &original,
        noisy: noisy
            .as_ref()
            .map(|(png, class)| (png.as_slice(), Some(*class))),
        adversarial: adversarial
            .as_ref()
            .map(|(png, l2)| (png.as_slice(), Some(outcome.adv_predict), *l2)),
    };
    Ok(gallery.add(
        outcome.index.into(),
        outcome.label,
        Some(outcome.clean_predict),
        &pictures,
    )?)
}
