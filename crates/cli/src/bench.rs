//! `heatsmooth bench`: how fast this machine is.

mod work;

use anyhow::Result;
use clap::Args;
use network::architecture::{Task, build};
use network::{Classify as _, Cpu, Model, ModelInfo, Shape};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::{Common, ModelConfig};
use crate::failure::advised;
use crate::output;
use work::{Bench, Work};

/// Forwards, train steps, heat steps and attack steps per second on this
/// machine.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth bench --arch resnet20-cifar --work noisy --work train")]
pub struct Flags {
    /// Architecture; may be given several times [default: the four that are
    /// compared with other engines].
    #[arg(long, value_name = "NAME")]
    arch: Vec<String>,
    /// What to measure; may be given several times [default: all].
    #[arg(long, value_enum)]
    work: Vec<Work>,
    /// Weights to use, for one architecture [default: random ones].
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Images in a batch [default: by architecture].
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Random projections of a heat step.
    #[arg(long, default_value_t = 10)]
    kappa: u32,
    /// Time for each measurement.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    #[command(flatten)]
    common: Common,
}

/// Architecture, side of an image, classes, images in a batch, and whether the
/// training verbs are measured by default.
const NETWORKS: [(&str, usize, usize, usize, bool); 4] = [
    ("resnet20-cifar", 32, 10, 128, true),
    ("resnet34-cifar", 32, 10, 128, true),
    ("resnet34-wide-cifar", 32, 10, 64, false),
    ("resnet50", 224, 1000, 16, false),
];

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    if !(flags.seconds > 0.0 && flags.seconds <= 3600.0) {
        let hint = "give a number of seconds above 0, at most 3600";
        return Err(advised(format!("--seconds is {}", flags.seconds), hint));
    }
    if flags.batch.is_some_and(|batch| batch < 2) {
        return Err(advised(
            "--batch is below 2",
            "batch norm needs at least 2 images",
        ));
    }
    if flags.model.is_some() && flags.arch.len() != 1 {
        let hint = "name it with --arch";
        return Err(advised("--model is for one architecture", hint));
    }
    let pool = flags.common.start()?;
    let threads = pool.current_num_threads();
    let names: Vec<&str> = if flags.arch.is_empty() {
        NETWORKS.iter().map(|n| n.0).collect()
    } else {
        flags.arch.iter().map(String::as_str).collect()
    };
    let mut rows = Vec::new();
    let mut text = format!("{threads} threads\n");
    for name in names {
        let known = NETWORKS.iter().find(|n| n.0 == name);
        let (side, classes, batch, training) =
            known.map_or((32, 10, 64, true), |n| (n.1, n.2, n.3, n.4));
        let model = load(&flags, name, Shape::new(side, side, 3), classes)?;
        let works: Vec<Work> = if flags.work.is_empty() {
            let all = Work::ALL.into_iter();
            all.filter(|w| training || !w.trains()).collect()
        } else {
            flags.work.clone()
        };
        let logits = first_logits(&Cpu::new(&model, pool.clone()));
        let batch = flags.batch.unwrap_or(batch);
        let seed = flags.common.seed;
        let mut bench = Bench::new(&model, pool.clone(), batch, flags.kappa, seed)?;
        for work in works {
            let images = bench.images(work);
            let seconds = median(Duration::from_secs_f64(flags.seconds), || bench.run(work))?
                / f64::from(work.steps());
            let rate = images as f64 / seconds;
            text += &format!(
                "{name:20} {:14} batch {images:4}  {:9.3} ms  {rate:10.1} images/s\n",
                work.name(),
                1e3 * seconds
            );
            rows.push(json!({
                "arch": name, "work": work.name(), "batch": images, "threads": threads,
                "seconds": seconds, "images_per_second": rate, "logits": logits,
            }));
            if !flags.common.quiet {
                eprintln!("{name}, {}: {rate:.1} images/s", work.name());
            }
        }
    }
    output::summary(&flags.common, &Value::Array(rows), &text)
}

fn load(flags: &Flags, name: &str, input: Shape, classes: usize) -> Result<Model> {
    if let Some(file) = &flags.model {
        let config = ModelConfig {
            model: file.clone(),
            arch: Some(name.into()),
            normalise: None,
            input: Some(input.to_string()),
            classes: Some(classes),
        };
        return Ok(config.load(None, flags.common.quiet)?.model);
    }
    let graph = build(name, &Task::new(input, classes))?;
    Ok(Model::initialised(
        graph,
        flags.common.seed,
        ModelInfo::default(),
    ))
}

/// Logits of an image that anyone can make, to compare engines: element `i` in
/// NHWC order is `(i * 7919 mod 256) / 255`.
fn first_logits(cpu: &Cpu) -> Vec<f32> {
    let image: Vec<f32> = (0..cpu.input().len())
        .map(|i| (i * 7919 % 256) as f32 / 255.0)
        .collect();
    let mut logits = vec![0.0; cpu.classes()];
    cpu.logits(&image, &mut logits);
    logits
}

/// Median seconds of a call, after two calls to warm up; at least five calls.
fn median(time: Duration, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    run()?;
    run()?;
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || start.elapsed() < time {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
