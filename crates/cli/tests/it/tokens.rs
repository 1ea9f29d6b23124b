//! Networks of layer norms and attention through every command: trained, smoothed,
//! certified, attacked, written as ONNX and read again.

use std::path::Path;
use std::process::Command;

use heatsmooth::exchange::{LoadOptions, load};
use heatsmooth::network::{Classify, Cpu, Model};
use serde_json::Value;

/// The summary of a command that must succeed.
fn heatsmooth(folder: &Path, arguments: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(arguments.split_whitespace())
        .args(["--json", "--quiet"])
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn logits(path: &Path) -> (Model, Vec<f32>) {
    let model = load(path, &LoadOptions::default()).unwrap().model;
    let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
    let cpu = Cpu::new(&model, pool.into());
    let images: Vec<f32> = (0..4 * 64).map(|i| (i * 37 % 101) as f32 / 101.0).collect();
    let mut logits = vec![0.0; 4 * 10];
    cpu.logits(&images, &mut logits).unwrap();
    (model, logits)
}

fn rows(folder: &Path, log: &str) -> usize {
    let text = std::fs::read_to_string(folder.join(log)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.count().saturating_sub(1)
}

/// All commands with a network of this name.
fn through(architecture: &str, rate: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = format!(
        "train baseline --data digits --arch {architecture} --epochs 3 --lr {rate} --out base"
    );
    heatsmooth(folder, &train);
    let eval = &heatsmooth(folder, "eval --model base/model.safetensors --data digits")[0];
    let right = eval["top1"].as_f64().unwrap();
    assert!(right > 0.5, "{architecture}: {right}");
    heatsmooth(
        folder,
        "smooth --model base/model.safetensors --data digits --sigma 0.25 --epochs 1 --out run",
    );
    let model = "--model run/model.safetensors --data digits --images 0..4";
    heatsmooth(
        folder,
        &format!("certify {model} --sigma 0.25 --n 100 --n0 10 --out certify.tsv"),
    );
    heatsmooth(
        folder,
        &format!("attack pgd {model} --steps 3 --out attack.tsv"),
    );
    assert_eq!(rows(folder, "certify.tsv"), 4);
    assert!(rows(folder, "attack.tsv") >= 4);
    heatsmooth(folder, "convert run/model.safetensors out.onnx");
    let (model, want) = logits(&folder.join("run/model.safetensors"));
    let (again, got) = logits(&folder.join("out.onnx"));
    assert_eq!(again.info.sigma, model.info.sigma);
    for (a, b) in got.iter().zip(&want) {
        assert!(
            (a - b).abs() < 1e-4 * (1.0 + b.abs()),
            "{architecture}: {got:?} {want:?}"
        );
    }
}

#[test]
fn a_small_transformer_goes_through_every_command() {
    through("smallvit", "0.05");
}

#[test]
fn a_small_convnext_goes_through_every_command() {
    through("smallconvnext", "0.05");
}
