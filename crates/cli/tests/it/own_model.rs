//! A ResNet of PyTorch's, from ONNX: imported, smoothed on the digits, handed
//! back. `own_model/check.py` trained and exported it, and does the same with
//! ONNX Runtime at the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use heatsmooth::exchange::{LoadOptions, load};
use heatsmooth::network::{Classify, Cpu, Model};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/own_model")
        .join(name)
}

/// The summary of a command that must succeed.
fn heatsmooth(folder: &Path, arguments: &str) -> Value {
    let resnet = fixture("resnet.onnx");
    let words = arguments.split_whitespace().map(|word| match word {
        "RESNET" => resnet.to_str().unwrap(),
        word => word,
    });
    let output = Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(words)
        .args(["--json", "--quiet"])
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn model(path: &Path) -> Model {
    load(path, &LoadOptions::default()).unwrap().model
}

/// Logits of pixels that are a function of their position.
fn logits(model: &Model) -> Vec<f32> {
    let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
    let cpu = Cpu::new(model, pool.into());
    let images: Vec<f32> = (0..4 * 64).map(|i| (i * 37 % 101) as f32 / 101.0).collect();
    let mut logits = vec![0.0; 4 * 10];
    cpu.logits(&images, &mut logits).unwrap();
    logits
}

#[test]
fn a_resnet_from_pytorch_is_smoothed_and_handed_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();

    // What PyTorch counted when it exported the network.
    let right = std::fs::read_to_string(fixture("right.txt")).unwrap();
    let right: f64 = right.trim().parse().unwrap();
    let eval = &heatsmooth(folder, "eval --model RESNET --data digits")[0];
    assert_eq!((360.0 * eval["top1"].as_f64().unwrap()).round(), right);

    heatsmooth(
        folder,
        "smooth --model RESNET --data digits --sigma 0.25 --epochs 3 --relus kept --out run",
    );
    heatsmooth(folder, "convert run/model.safetensors smoothed.onnx");
    heatsmooth(folder, "convert run/model.safetensors folded.onnx --fold");
    heatsmooth(folder, "convert smoothed.onnx again.safetensors");

    let original = model(&fixture("resnet.onnx"));
    let smoothed = model(&folder.join("run/model.safetensors"));
    let names = |model: &Model| -> Vec<String> {
        let specs = model.graph.parameters().iter();
        specs.map(|spec| spec.name.clone()).collect()
    };
    assert_eq!(names(&smoothed), names(&original));
    assert_ne!(smoothed.parameters, original.parameters);
    assert_eq!(smoothed.info.sigma, Some(0.25));

    // There and back: the same bits, and the same computation.
    let exported = model(&folder.join("smoothed.onnx"));
    let again = model(&folder.join("again.safetensors"));
    for other in [&exported, &again] {
        assert_eq!(other.parameters, smoothed.parameters);
        assert_eq!(logits(other), logits(&smoothed));
        assert_eq!(other.info.sigma, Some(0.25));
    }
    // Without batch norms: the same function up to rounding.
    let folded = model(&folder.join("folded.onnx"));
    assert!(names(&folded).len() < names(&smoothed).len());
    for (a, b) in logits(&folded).iter().zip(logits(&smoothed)) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
}
