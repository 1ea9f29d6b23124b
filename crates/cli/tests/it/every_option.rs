//! Whatever can change a row changes the manifest: every option of every command
//! that writes one is changed in turn.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use heatsmooth::{Model, Registry};
use serde_json::Value;

use crate::makings;

/// Options that change no row, and why.
const NO_ROW: &[(&str, &str)] = &[
    ("out", "where it goes"),
    ("threads", "results do not depend on it"),
    ("device", "without a GPU there is one"),
    ("precision", "without a GPU there is one"),
    ("quiet", "what is shown"),
    ("json", "what is shown"),
    ("config", "other options, from a file"),
    ("print-config", "nothing runs"),
    ("preset", "other options, by a name"),
    ("help", "nothing runs"),
    ("batch-size of attack", "results do not depend on it"),
    ("save", "pictures, not rows"),
    ("save-images", "pictures, not rows"),
    ("checkpoint-seconds", "results do not depend on it"),
    ("time-budget", "how many rows, not which"),
    ("keep-iterates", "files beside the model"),
    (
        "root",
        "refused for a folder; the hash says which data they are",
    ),
    ("broken", "the hash says which images are used"),
    ("odd", "the hash says which images are used"),
    ("arch", "weights fit one architecture"),
    ("classes", "weights fit one number of classes"),
];

/// Other values, where a guess would be refused; several words stand for several
/// options.
const OTHERS: &[(&str, &str)] = &[
    ("data", "others"),
    ("data of calibrate", "third"),
    ("images of calibrate", "0..3"),
    ("model of calibrate", "base"),
    ("reference of calibrate", "v/model.safetensors"),
    ("model", "others.safetensors"),
    ("reference", "others.safetensors"),
    ("split", "train"),
    ("images", "0..2"),
    ("shard", "1/2"),
    ("skip", "2"),
    ("sigma", "0.3"),
    ("alpha", "0.01"),
    ("n", "200"),
    ("radius", "0.01 --anytime"),
    ("tolerance", "0.01 --anytime"),
    ("prior", "one-pass --anytime"),
    ("noise of lbound", "float --samples 5"),
    ("rule", "paper --top-k 2"),
    ("top-k", "2"),
    ("target", "next"),
    ("fresh-noise", " --samples 2 --sigma 0.2"),
    ("samples", "5 --sigma 0.2"),
    ("samples of clever", "4"),
    ("radius of clever", "0.5"),
    ("arch", "mlp"),
    ("normalise", "half"),
    ("input", "12x12x1"),
    ("schedule", "constant"),
    ("from", "base/model.safetensors"),
    ("warmup-epochs", "0.5"),
    ("gamma", "0.2"),
    ("levels", "16"),
    ("attack", "ddn"),
    ("eps of certify", "0.15"),
    ("eps of smooth", "0.4 --attack pgd"),
    ("attack-steps of smooth", "3 --attack pgd"),
    ("attack-share of smooth", "0.4 --attack pgd"),
    ("scale-free", "false"),
    ("noisy-share", "0.3"),
    ("target of smooth", "votes"),
    ("task", "regression"),
    ("task of certify", "regression --eps 0.1"),
    ("task of fidelity", "regression --classes 3"),
    ("low", "-1 --high 1"),
    ("high", "1 --low -1"),
    ("hold-out", "1"),
    ("label", "x"),
];

/// How options are refused that a way to smooth or a kind of model does not have, or
/// that a file says itself.
const REFUSALS: [&str; 5] = [
    "has no such setting",
    "has no effect: the model file",
    "is about classes",
    "the model predicts real values",
    "it is about real values",
];

/// A command and its options.
type Words = BTreeMap<String, String>;

fn words(text: &str) -> Words {
    let parts = text.split("--").skip(1);
    parts
        .map(|part| {
            let (name, value) = part.trim().split_once(' ').unwrap_or((part.trim(), ""));
            (name.to_owned(), value.trim().to_owned())
        })
        .collect()
}

/// Runs a command into a fresh place; its manifest, or what it said.
fn manifest(folder: &Path, command: &str, words: &Words) -> Result<Value, String> {
    let _ = std::fs::remove_dir_all(folder.join("out"));
    let trains = command.starts_with("train") || command == "smooth";
    let (out, file) = match trains {
        true => ("out/run", "out/run/run.json"),
        false => ("out/log.tsv", "out/log.json"),
    };
    let mut program = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
    program.args(command.split(' ')).current_dir(folder);
    for (name, value) in words {
        program.arg(format!("--{name}"));
        program.args(value.split_whitespace());
    }
    program.args(["--quiet", "--threads", "1", "--out", out]);
    let output = program.output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = std::fs::read(folder.join(file)).unwrap();
    let mut value: Value = serde_json::from_slice(&text).unwrap();
    // What says nothing about rows.
    value.as_object_mut().unwrap().remove("versions");
    if trains {
        value.as_object_mut().unwrap().remove("model");
    }
    Ok(value)
}

/// What an option may be set to, by what its help calls it.
fn guesses(argument: &clap::Arg) -> Vec<String> {
    let names = argument.get_possible_values();
    let value = argument.get_value_names().and_then(|names| names.first());
    match value.map(|name| name.as_str()) {
        _ if !names.is_empty() => names
            .iter()
            .map(|name| name.get_name().to_owned())
            .collect(),
        None => vec![String::new()],
        Some("BOOL") => vec!["true".into(), "false".into()],
        Some("N") => vec!["3".into(), "2".into()],
        Some("X") => vec!["0.4".into()],
        _ => vec![],
    }
}

fn changes(
    folder: &Path,
    command: &str,
    base: &Words,
    argument: &clap::Arg,
    usual: &Value,
) -> Result<(), String> {
    let name = argument.get_id().as_str();
    let kind = command.split(' ').next().unwrap_or_default();
    let listed = |wanted: &str| OTHERS.iter().find(|(option, _)| *option == wanted);
    let other = listed(&format!("{name} of {kind}")).or_else(|| listed(name));
    let values = match other {
        Some((_, value)) => vec![(*value).to_owned()],
        None if name == "by" => vec!["heat".into(), "average".into()],
        None => guesses(argument),
    };
    if values.is_empty() {
        return Err("no other value is known: say one in OTHERS".into());
    }
    let mut said = String::new();
    for value in values {
        let mut changed = base.clone();
        changed.extend(words(&format!("--{name} {value}")));
        if name == "from" {
            // The network that is started from has its own.
            changed.remove("arch");
            changed.remove("input");
        }
        match manifest(folder, command, &changed) {
            Ok(found) if found != *usual => return Ok(()),
            Ok(_) => said += "the manifest stays the same; ",
            // What another way to smooth or another kind of model has is refused, not
            // ignored.
            Err(error) if REFUSALS.iter().any(|words| error.contains(words)) => return Ok(()),
            Err(error) => said += &error,
        }
    }
    Err(said)
}

#[test]
fn issue_17_point_2_whatever_can_change_a_row_changes_the_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    makings::pets(&folder.join("pets"), 3);
    makings::pets(&folder.join("others"), 2);
    makings::pets(&folder.join("third"), 4);
    let train = "--data pets --arch smallcnn --input 8x8x1 --epochs 1 --batch-size 4";
    for (name, more) in [("base", ""), ("others", " --seed 1")] {
        manifest(folder, "train baseline", &words(&format!("{train}{more}"))).unwrap();
        let run = folder.join("out/run");
        let model = std::fs::read(run.join("model.safetensors")).unwrap();
        let model = Model::from_bytes(&model).unwrap();
        makings::weights_alone(&model, &folder.join(format!("{name}.safetensors")));
        if name == "base" {
            std::fs::rename(&run, folder.join(name)).unwrap();
        } else {
            std::fs::rename(&run, folder.join("v")).unwrap();
        }
    }
    let weights = "--model base.safetensors --arch smallcnn --input 8x8x1 --data pets";
    let measured = format!("{weights} --images 0..1");
    let bases = [
        ("train baseline", train.to_owned()),
        ("train gaussian", format!("{train} --sigma 0.2")),
        ("train smoothadv", format!("{train} --sigma 0.2")),
        ("train adversarial", train.to_owned()),
        (
            "smooth",
            format!("{weights} --sigma 0.2 --epochs 1 --batch-size 4 --by heat"),
        ),
        (
            "smooth",
            format!("{weights} --sigma 0.2 --epochs 1 --batch-size 4 --by average"),
        ),
        ("certify", format!("{measured} --sigma 0.2 --n 100")),
        ("lbound", format!("{measured} --sigma 0.2")),
        (
            "fidelity",
            format!("{measured} --sigma 0.2 --reference base.safetensors --samples 2"),
        ),
        ("clever", format!("{measured} --batches 3 --samples 2")),
        (
            "calibrate",
            "--model v --reference base/model.safetensors --data others --n 100 --sigma 0.2 \
             --miss 0.6 --confidence 0.5"
                .to_owned(),
        ),
        (
            "certify",
            format!("{measured} --sigma 0.2 --n 100 --task regression --eps 0.1"),
        ),
        ("attack pgd", format!("{measured} --steps 2")),
        (
            "attack pgd",
            format!("{measured} --steps 2 --task regression"),
        ),
        ("attack ddn", format!("{measured} --steps 2")),
    ];
    let all = heatsmooth_cli::command(&Registry::standard());
    let mut wrong = String::new();
    for (command, base) in bases {
        let base = words(&base);
        let mut parser = &all;
        for word in command.split(' ') {
            parser = parser.find_subcommand(word).unwrap();
        }
        let usual = manifest(folder, command, &base).unwrap();
        let kind = command.split(' ').next().unwrap();
        for argument in parser.get_arguments() {
            let name = argument.get_id().as_str();
            let listed = |listed: &str| listed == name || listed == format!("{name} of {kind}");
            if name == "task" && base.contains_key(name) {
                // The same command without it is in the list, too.
                continue;
            }
            let trained_architecture = name == "arch" && kind == "train";
            if NO_ROW.iter().any(|(option, _)| listed(option)) && !trained_architecture {
                continue;
            }
            if let Err(said) = changes(folder, command, &base, argument, &usual) {
                wrong += &format!("{command} --{name}: {said}\n");
            }
        }
        // The options of all commands are global: clap lists them at the top only
        // once it parses.
        let mut seeded = base.clone();
        seeded.insert("seed".into(), "5".into());
        assert_ne!(
            manifest(folder, command, &seeded).unwrap(),
            usual,
            "{command} --seed"
        );
    }
    assert!(wrong.is_empty(), "{wrong}");
}
