//! `heatsmooth bench`: how fast this machine is.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use heatsmooth::exchange::FileKind;
use heatsmooth::network::architecture::{Task, build};
use heatsmooth::network::{ModelInfo, Shape};
use heatsmooth::settings::{SettingError, Settings, settings};
use heatsmooth::{Bench, Error, Model, ModelSource, Registry, Weights, Work};
use serde_json::{Value, json};

use super::measure::read;
use crate::Entry;
use crate::common::{Common, with_common};
use crate::{options, output};

settings! {
    /// How speed is measured.
    pub struct BenchOptions {
        /// Weights to use, for one architecture [default: random ones].
        model: Option<PathBuf> = None,
        /// Images in a batch, at least 2 [default: by architecture].
        batch: Option<usize> = None,
        /// Random projections of a heat step.
        kappa: u32 = 10,
        /// Time for each measurement, in seconds, at most 3600.
        seconds: f64 = 2.0,
    }
}

/// `heatsmooth bench`.
pub const ENTRY: Entry = Entry {
    name: "bench",
    command: |command, _| command_line(command),
    run: |matches, _: &Registry| run(matches),
};

/// Architecture, side of an image, classes, images in a batch, and whether the
/// training verbs are measured by default.
const NETWORKS: [(&str, usize, usize, usize, bool); 6] = [
    ("resnet20-cifar", 32, 10, 128, true),
    ("resnet34-cifar", 32, 10, 128, true),
    ("resnet34-wide-cifar", 32, 10, 64, false),
    ("resnet50", 224, 1000, 16, false),
    ("convnext_tiny", 224, 1000, 8, false),
    ("vit_b_16", 224, 1000, 8, false),
];

fn command_line(command: Command) -> Command {
    let several = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("NAME")
            .help(help)
            .action(ArgAction::Append)
    };
    let command = command
        .about("Forwards, train steps, heat steps and attack steps per second on this machine")
        .arg(several(
            "arch",
            "Architecture; may be given several times [default: the six that are compared with \
             other engines]",
        ))
        .arg(
            several(
                "work",
                "What to measure; may be given several times [default: all]",
            )
            .value_parser(clap::builder::PossibleValuesParser::new(Work::NAMES)),
        )
        .args(options::arguments(&BenchOptions::fields(), None))
        .after_help("Example: heatsmooth bench --arch resnet20-cifar --work noisy --work train");
    with_common(command)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let common = Common::of(matches)?;
    let options: BenchOptions = read(&options::given(&BenchOptions::fields(), matches)?)?;
    let list = |name: &str| -> Vec<String> {
        let given = matches.get_many::<String>(name);
        given.into_iter().flatten().cloned().collect()
    };
    let (mut names, works) = (list("arch"), list("work"));
    check(&options, &names)?;
    if names.is_empty() {
        names = NETWORKS.iter().map(|n| n.0.to_owned()).collect();
    }
    let works: Result<Vec<Work>, String> = works.iter().map(|name| name.parse()).collect();
    let works = works.map_err(|wrong| SettingError::value("work", wrong, Work::NAMES.join(", ")));
    let works = works.map_err(Error::from)?;
    let device = common.device()?;
    let threads = device.threads();
    let mut rows = Vec::new();
    let place = device.versions().isa;
    let mut text = format!("{threads} threads, {place}\n");
    for name in &names {
        let known = NETWORKS.iter().find(|n| n.0 == name);
        let (side, classes, batch, training) =
            known.map_or((32, 10, 64, true), |n| (n.1, n.2, n.3, n.4));
        let input = Shape::new(side, side, 3);
        let model = load(&options, name, input, classes, common.seed())?;
        let works: Vec<Work> = if works.is_empty() {
            let all = Work::ALL.into_iter();
            all.filter(|w| training || !w.trains()).collect()
        } else {
            works.clone()
        };
        let batch = options.batch.unwrap_or(batch);
        for work in works {
            // A network of its own: steps of the works before would have moved it, and averaging
            // refuses a student that does not resemble its teacher.
            let mut bench = Bench::new(&model, &device, batch, options.kappa, common.seed())?;
            let logits = bench.first_logits()?;
            let images = bench.images(work);
            let seconds = bench.seconds(work, Duration::from_secs_f64(options.seconds))?;
            let rate = images as f64 / seconds;
            text += &format!(
                "{name:20} {work:14} batch {images:4}  {:9.3} ms  {rate:10.1} images/s\n",
                1e3 * seconds
            );
            rows.push(json!({
                "arch": name, "work": work.name(), "batch": images, "threads": threads,
                "device": place,
                "seconds": seconds, "images_per_second": rate, "logits": logits,
            }));
            if !common.quiet {
                eprintln!("{name}, {work}: {rate:.1} images/s");
            }
        }
    }
    output::summary(&common, &Value::Array(rows), &text)
}

fn check(options: &BenchOptions, names: &[String]) -> Result<(), Error> {
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        let expected = "above 0, at most 3600";
        return Err(SettingError::value("seconds", options.seconds, expected).into());
    }
    if let Some(batch) = options.batch.filter(|&batch| batch < 2) {
        let expected = "at least 2, for batch norm";
        return Err(SettingError::value("batch", batch, expected).into());
    }
    if options.model.is_some() && names.len() != 1 {
        let hint = "name it with --arch";
        return Err(Error::refused("--model is for one architecture", hint));
    }
    Ok(())
}

fn load(
    options: &BenchOptions,
    name: &str,
    input: Shape,
    classes: usize,
    seed: u64,
) -> Result<Model, Error> {
    if let Some(file) = &options.model {
        if FileKind::of(file).map_err(Error::from)? == Some(FileKind::Own) {
            let model = ModelSource::new(file).load(None)?.model;
            return match model.info.architecture.as_deref() {
                Some(own) if own == name => Ok(model),
                own => {
                    let own = own.unwrap_or("of no built-in architecture");
                    let message = format!("{} is {own}, not {name}", file.display());
                    Err(Error::refused(message, "name its own architecture"))
                }
            };
        }
        let weights = Weights {
            arch: Some(name.into()),
            input: Some(input.to_string()),
            classes: Some(classes),
            ..Weights::default()
        };
        return Ok(ModelSource::with(file, weights).load(None)?.model);
    }
    let graph = build(name, &Task::new(input, classes))?;
    Ok(Model::initialised(graph, seed, ModelInfo::default()))
}
