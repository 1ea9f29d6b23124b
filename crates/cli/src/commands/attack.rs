//! `heatsmooth attack`: PGD and DDN.

mod options;

use std::time::{Duration, Instant};

use anyhow::Result;
use attack::{Batch, Distances, Outcome, Status, Summary, checks};
use clap::{Args, Subcommand};
use record::{AttackRow, Guarantee, Kind};
use serde_json::{Value, json};

use self::options::{Config, DdnConfig, DdnOptions, Options, Own, PgdConfig, PgdOptions};
use crate::common::{Common, Configured};
use crate::measure::Recorder;
use crate::picture::Album;
use crate::{config, output};

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
    Pgd(MethodFlags<PgdOptions>),
    /// Decoupled direction and norm (Rony et al.): small L2 norms.
    #[command(
        after_help = "Example: heatsmooth attack ddn --model runs/heat/model.safetensors --data digits --out ddn.tsv"
    )]
    Ddn(MethodFlags<DdnOptions>),
}

#[derive(Args, Debug)]
struct MethodFlags<O: Args> {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    own: O,
    #[command(flatten)]
    configured: Configured,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    match flags.method {
        Method::Pgd(flags) => {
            let own = json!(flags.own);
            start::<PgdConfig>(&flags.options, own, &flags.configured, &flags.common)
        }
        Method::Ddn(flags) => {
            let own = json!(flags.own);
            start::<DdnConfig>(&flags.options, own, &flags.configured, &flags.common)
        }
    }
}

fn start<A: Own>(
    options: &Options,
    own: Value,
    configured: &Configured,
    common: &Common,
) -> Result<()> {
    let mut flags = json!(options);
    config::extend(&mut flags, own);
    let file = configured.config.as_deref();
    let config: Config<A> = config::resolve(Config::<A>::defaults(), file, flags)?;
    if configured.print_config {
        return output::print(&config::print(&config)?);
    }
    attack_model(&config, common)
}

/// The command as a step of another one, with these options.
pub fn step(name: &str, options: Value, common: &Common) -> Result<()> {
    fn go<A: Own>(options: Value, common: &Common) -> Result<()> {
        let config: Config<A> = config::resolve(Config::<A>::defaults(), None, options)?;
        attack_model(&config, common)
    }
    match name {
        "pgd" => go::<PgdConfig>(options, common),
        _ => go::<DdnConfig>(options, common),
    }
}

fn attack_model<A: Own>(config: &Config<A>, common: &Common) -> Result<()> {
    config.check()?;
    let (attack, settings) = config.attack(common.seed)?;
    let subject = config.subject.open(common)?;
    let target = config.model(&subject.network, common.seed)?;
    let aim = config.aim(&subject.dataset, common.seed)?;
    let procedure = match aim {
        Some(_) => format!("{}-targeted", A::NAME),
        None => A::NAME.into(),
    };
    let manifest = subject.manifest(
        &config.subject,
        common,
        (Kind::Attack, &procedure),
        config.sigma,
        Guarantee::Empirical,
        settings,
    );
    let mut extra = vec![AttackRow::CLEAN_CORRECT, AttackRow::LAST_L2];
    extra.extend(aim.map(|_| AttackRow::TARGET));
    let mut recorder = Recorder::open(&config.subject.out, &manifest, &extra, common.quiet)?;
    let mut outcomes: Vec<Outcome> = recorder.rows.iter().map(recalled).collect();
    let mut album = match &config.save {
        Some(folder) => Some(Album::open(
            folder,
            &procedure,
            config.sigma,
            &subject,
            common.seed,
        )?),
        None => None,
    };
    let classes = subject.dataset.classes().len();
    let mut images = subject.images(recorder.resumed);
    let mut checked = common.quiet;
    loop {
        let chunk: Vec<_> = (&mut images).take(config.batch_size).collect();
        if chunk.is_empty() {
            break;
        }
        let pixels: Vec<f32> = chunk
            .iter()
            .flat_map(|i| i.pixels.iter().copied())
            .collect();
        let indices: Vec<u32> = chunk.iter().map(|i| i.index).collect();
        let labels: Vec<u32> = chunk.iter().map(|i| i.label as u32).collect();
        let targets: Option<Vec<u32>> = aim.map(|aim| {
            let pairs = indices.iter().zip(&labels);
            pairs.map(|(&i, &y)| aim.target(i, y, classes)).collect()
        });
        let mut batch = Batch::new(&pixels, &indices, &labels).top_k(config.top_k);
        if let Some(targets) = &targets {
            batch = batch.targeted(targets);
        }
        if !checked {
            for warning in checks::before(target.as_ref(), &batch)? {
                eprintln!("warning: {warning}");
            }
            checked = true;
        }
        let clock = Instant::now();
        let done = attack::run(attack.as_ref(), target.as_ref(), &batch, &mut |_| {})?;
        let each = clock.elapsed().as_secs_f64() / done.len() as f64;
        for (outcome, image) in done.iter().zip(&chunk) {
            if recorder
                .push(row(outcome, each), || "attacked".into())
                .is_break()
            {
                break;
            }
            if let Some(album) = &mut album
                && album.len() < config.pictures()
            {
                album.add(&subject, outcome, &image.pixels)?;
            }
        }
        outcomes.extend(done.into_iter().map(|o| Outcome { image: vec![], ..o }));
    }
    images.result()?;
    recorder.finish()?;
    if !common.quiet {
        for warning in checks::after(attack.as_ref(), &outcomes) {
            eprintln!("warning: {warning}");
        }
    }
    let log = config.subject.out.display().to_string();
    let (value, text) = told(&log, aim.is_some(), &outcomes);
    output::summary(common, &value, &text)
}

/// The summary, as JSON and for people.
fn told(log: &str, targeted: bool, outcomes: &[Outcome]) -> (Value, String) {
    let summary = Summary::new(outcomes);
    let paper = Distances::paper_convention(outcomes);
    let distances = |d: Option<Distances>| match d {
        Some(d) => format!("median {:.4}, mean {:.4}", d.median, d.mean),
        None => "none".into(),
    };
    let rate = summary.success_rate.map_or("-".into(), output::percent);
    let mut text = format!("{log}: {} images\n", summary.images);
    text += &if targeted {
        format!(
            "  already at the target {}, driven there {}, attack failed {}; success rate {rate}\n  \
             left out, as the target is their label: {}\n  distances of successes: {}\n",
            summary.already_wrong,
            summary.broken,
            summary.failed,
            summary.left_out,
            distances(summary.distances)
        )
    } else {
        format!(
            "  already wrong {}, broken {}, attack failed {}; success rate {rate}\n  \
             distances of successes on images the model gets right: {}\n",
            summary.already_wrong,
            summary.broken,
            summary.failed,
            distances(summary.distances)
        )
    };
    text += &format!(
        "  the paper's convention (all images): {}\n  guarantee: empirical\n",
        distances(paper)
    );
    let value = json!({
        "log": log, "images": summary.images, "targeted": targeted,
        "already_wrong": summary.already_wrong, "broken": summary.broken,
        "failed": summary.failed, "left_out": summary.left_out,
        "success_rate": summary.success_rate, "median": summary.distances.map(|d| d.median),
        "mean": summary.distances.map(|d| d.mean),
        "paper_convention": paper.map(|d| json!({"median": d.median, "mean": d.mean})),
        "guarantee": "empirical",
    });
    (value, text)
}

fn row(outcome: &Outcome, seconds: f64) -> AttackRow {
    let mut extra = vec![f64::from(u8::from(outcome.clean_correct)), outcome.last_l2];
    extra.extend(outcome.target.map(f64::from));
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
        extra,
    }
}

/// What an earlier run wrote, for the summary: the row without the image, and
/// without knowing whether it sits on DDN's floor.
fn recalled(row: &AttackRow) -> Outcome {
    let target = row.extra.get(2).map(|&class| class as u32);
    // Only the image itself, which was not attacked, is at distance 0.
    let status = match (row.success, row.l2 > 0.0) {
        _ if target == Some(row.label) => Status::LeftOut,
        (true, true) => Status::Broken,
        (true, false) => Status::AlreadyWrong,
        (false, _) => Status::Failed,
    };
    Outcome {
        index: row.idx as u32,
        label: row.label,
        target,
        clean_predict: row.clean_predict.unwrap_or_default(),
        clean_correct: row.extra.first().is_some_and(|&flag| flag > 0.5),
        adv_predict: row.adv_predict.unwrap_or_default(),
        status,
        l2: Some(row.l2).filter(|l2| l2.is_finite()),
        linf: Some(row.linf).filter(|linf| linf.is_finite()),
        last_l2: row.extra.get(1).copied().unwrap_or_default(),
        steps: row.steps as u32,
        at_floor: false,
        image: vec![],
    }
}
