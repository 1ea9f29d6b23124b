//! `heatsmooth convert`: from and to other people's formats.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use heatsmooth::exchange::{ImportReport, onnx};
use heatsmooth::settings::Settings as _;
use heatsmooth::{Error, Registry, Weights, network, record};
use serde_json::json;

use super::inspect::source;
use super::measure::WEIGHTS;
use crate::Entry;
use crate::common::{Common, with_common};
use crate::{options, output};

/// `heatsmooth convert`.
pub const ENTRY: Entry = Entry {
    name: "convert",
    command: |command, _| command_line(command),
    run: |matches, _: &Registry| run(matches),
};

fn command_line(command: Command) -> Command {
    let file = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id)
            .value_name(name)
            .help(help)
            .required(true)
            .value_parser(value_parser!(PathBuf))
    };
    let command = command
        .about(
            "Convert a model: safetensors, ONNX or a PyTorch checkpoint to safetensors or ONNX. \
             Weights keep their bits",
        )
        .arg(file("from", "IN", "The model to read"))
        .arg(file(
            "to",
            "OUT",
            "The file to write, .safetensors or .onnx",
        ))
        .arg(
            Arg::new("fold")
                .long("fold")
                .help("ONNX: multiply batch norms into the layers before them")
                .action(ArgAction::SetTrue),
        )
        .args(options::arguments(&Weights::fields(), Some(WEIGHTS)))
        .after_help(
            "Example: heatsmooth convert resnet20.th resnet20.safetensors --arch resnet20-cifar \
             --input 32x32x3 --classes 10 --normalise 0.485,0.456,0.406/0.229,0.224,0.225",
        );
    with_common(command)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let common = Common::of(matches)?;
    let to = matches
        .get_one::<PathBuf>("to")
        .cloned()
        .unwrap_or_default();
    let fold = matches.get_flag("fold");
    let extension = to.extension().and_then(|e| e.to_str());
    let refused = |message: String, hint: &str| Err(Error::refused(message, hint).into());
    match extension {
        Some("onnx") => {}
        Some("safetensors") if fold => {
            return refused(
                "--fold has no effect on a .safetensors file".into(),
                "leave it out, or write a .onnx file",
            );
        }
        Some("safetensors") => {}
        _ => {
            return refused(
                format!("cannot write {}", to.display()),
                "give an output file that ends in .safetensors or .onnx",
            );
        }
    }
    let given = source(matches, "from")?;
    let file = match given.path.is_dir() {
        true => given.path.join("model.safetensors"),
        false => given.path.clone(),
    };
    let canonical = (file.canonicalize(), to.canonicalize());
    if matches!(canonical, (Ok(from), Ok(to)) if from == to) {
        return refused(
            format!("{} is the model itself", to.display()),
            "give another output file",
        );
    }
    let loaded = given.load(None)?;
    if let (Some((program, network)), Some("onnx")) = (loaded.model.graph.foreign(), extension) {
        return refused(
            format!("{network} is a network of {program}: only its weights are in the file"),
            "export it from there",
        );
    }
    if !common.quiet {
        for note in &loaded.report.notes {
            eprintln!("{note}");
        }
    }
    let bytes = match extension {
        Some("onnx") => {
            let fold = match fold {
                true => onnx::Fold::Fold,
                false => onnx::Fold::Keep,
            };
            onnx::write(&loaded.model, fold)
        }
        _ => loaded.model.to_bytes(),
    };
    record::atomic::write(&to, &bytes).map_err(Error::from)?;
    let mut text = format!(
        "{}: {} parameters",
        to.display(),
        loaded.model.graph.parameter_count()
    );
    // A model file of our own needs no matching.
    if loaded.report != ImportReport::default() {
        text += &format!("; {}", loaded.report);
    }
    let value = json!({
        "model": to.display().to_string(), "sha256": network::file::sha256(&bytes),
        "matched": loaded.report.matched.len(), "missing": loaded.report.missing,
        "left_over": loaded.report.left_over, "notes": loaded.report.notes,
    });
    output::summary(&common, &value, &text)
}
