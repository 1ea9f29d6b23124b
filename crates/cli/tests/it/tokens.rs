//! Networks with layer norms and attention through all commands: trained on the digits with
//! the usual settings, smoothed, certified, attacked, handed out as ONNX.

use std::path::Path;

use heatsmooth::data::{OpenOptions, Split, open};
use heatsmooth::exchange::{LoadOptions, load};
use heatsmooth::network::{Classify, Cpu, Reference};
use serde_json::Value;

use crate::cli::heatsmooth;

/// What a command prints that must succeed.
fn printed(folder: &Path, arguments: &str) -> String {
    let output = heatsmooth(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn summary(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&printed(folder, &format!("{arguments} --json --quiet"))).unwrap()
}

fn share(summary: &Value, key: &str) -> f64 {
    let share = summary[key].as_f64();
    share.unwrap_or_else(|| panic!("no {key} in {summary}"))
}

/// Share of certified images, from the radius 0 on.
fn certified(folder: &Path, model: &str, log: &str) -> Vec<f64> {
    let found = summary(
        folder,
        &format!(
            "certify --model {model} --data digits --sigma 0.25 --n 200 --images 0..60 --out {log}"
        ),
    );
    let curve = found["certified_accuracy"].as_array().unwrap();
    curve
        .iter()
        .map(|point| share(point, "certified_accuracy"))
        .collect()
}

fn through_all_commands(arch: &str, epochs: usize) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trained = summary(
        folder,
        &format!(
            "train gaussian --arch {arch} --data digits --sigma 0.25 --epochs {epochs} \
             --augment none --out trained"
        ),
    );
    assert!(share(&trained, "test_accuracy") > 0.9, "{trained}");
    let smoothed = summary(
        folder,
        "smooth --model trained --data digits --sigma 0.25 --epochs 3 --out run",
    );
    assert!(share(&smoothed, "test_accuracy") > 0.85, "{smoothed}");

    let base = certified(folder, "run/base.safetensors", "base.tsv");
    assert!(base[0] > 0.75 && base[1] > 0.5, "{base:?}");
    assert!(base.is_sorted_by(|near, far| near >= far), "{base:?}");

    let pgd = "attack pgd --model run --data digits --images 0..60 --out";
    let near = summary(folder, &format!("{pgd} near.tsv --eps 0.01"));
    let far = summary(folder, &format!("{pgd} far.tsv --eps 1.5"));
    assert!(share(&near, "success_rate") < 0.1, "{near}");
    assert!(share(&far, "success_rate") > 0.9, "{far}");

    printed(folder, "convert run/model.safetensors out.onnx --quiet");
    let exported = &summary(folder, "eval --model out.onnx --data digits")[0];
    let before = share(&smoothed, "test_accuracy");
    assert!((share(exported, "top1") - before).abs() < 1e-9);
    // The computation that was written down is the one that was trained: plain loops in f64
    // on what is read back, against the f32 kernels on what was written.
    let model = |name: &str| {
        load(&folder.join(name), &LoadOptions::default())
            .unwrap()
            .model
    };
    let (written, read) = (model("run/model.safetensors"), model("out.onnx"));
    let digits = open("digits", Split::Test, &OpenOptions::default()).unwrap();
    let images = digits.images(0..8).unwrap().pixels;
    let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
    let (mut ours, mut plain) = (vec![0.0; 80], vec![0.0; 80]);
    let cpu = Cpu::new(&written, pool.into());
    cpu.logits(&images, &mut ours).unwrap();
    let oracle = Reference::<f64>::new(&read);
    oracle.logits(&images, &mut plain).unwrap();
    let largest = plain
        .iter()
        .fold(0.0, |most: f32, logit| most.max(logit.abs()));
    for (a, b) in ours.iter().zip(&plain) {
        assert!((a - b).abs() < 1e-4 * largest, "{a} {b}");
    }
}

#[test]
fn a_small_vit_is_smoothed_certified_attacked_and_exported() {
    through_all_commands("smallvit", 12);
}

#[test]
fn a_small_convnext_is_smoothed_certified_attacked_and_exported() {
    through_all_commands("smallconvnext", 6);
}

/// Unclipped, both end up worse than a linear classifier of the digits.
#[test]
fn what_a_network_with_layer_norms_learns_by_is_said_and_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let config = |arguments: &str| {
        let text = printed(
            folder.path(),
            &format!("train baseline --data digits --out run {arguments} --print-config"),
        );
        let table: toml::Table = toml::from_str(&text).unwrap();
        let epochs = table["epochs"].as_integer().unwrap();
        (table["clip"].as_float().unwrap(), epochs)
    };
    assert_eq!(config("--arch smallcnn"), (0.0, 20));
    assert_eq!(config("--arch smallconvnext"), (1.0, 20));
    assert_eq!(config("--arch smallvit"), (1.0, 60));
    assert_eq!(config("--arch smallvit --clip 0 --epochs 4"), (0.0, 4));
    assert_eq!(config("--arch vit_b_16 --preset cifar10-paper").0, 0.0);
    let help = printed(folder.path(), "train baseline --help");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "0: none. [default: 0; 1 for networks with layer norms]",
        "[default: 20 for digits, else 200; 60 for smallvit on digits]",
    ] {
        assert!(help.contains(said), "{help}");
    }
}
