//! Networks too large to be kept; `goldens/exchange/torchvision.py` makes them
//! and runs this test.

use std::path::{Path, PathBuf};

use network::architecture::Task;
use network::exchange::onnx::{self, Fold};
use network::{Cpu, Differentiable, LoadOptions, Mode, Reference, Shape, load};
use serde_json::Value;

fn floats(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|v| v.as_f64().unwrap() as f32).collect()
}

/// Norm of the difference over the norm.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let norm =
        |v: &mut dyn Iterator<Item = f32>| v.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
}

/// Largest distance of the logits, and distance of the input gradients in norm.
fn compare(network: &impl Differentiable, images: &[f32], expected: &Value) -> (f32, f64) {
    let (logits, tape) = network.forward(images, Mode::Eval);
    let want = floats(&expected["logits"]);
    let differences = logits.iter().zip(&want).map(|(a, b)| (a - b).abs());
    let mut dx = vec![0.0; images.len()];
    network.input_gradient(&tape, &floats(&expected["cotangent"]), &mut dx);
    let gradient = distance(&dx, &floats(&expected["gradient"]));
    (differences.fold(0.0, f32::max), gradient)
}

fn check(json: &Path) {
    let expected: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let name = json.file_stem().unwrap().to_str().unwrap();
    let mut options = LoadOptions::default();
    let mut path = json.with_extension("onnx");
    if !path.exists() {
        let shape = floats(&expected["shape"]);
        let shape = Shape::new(shape[0] as usize, shape[1] as usize, shape[2] as usize);
        options.architecture = Some((name.into(), Task::new(shape, 1000)));
        path = json.with_extension("pth");
    }
    let loaded = load(&path, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let images = floats(&expected["images"]);
    // In f64 no rectifier flips: this is the check of the graph itself.
    let reference = Reference::<f64>::new(&loaded.model);
    let (logits, gradient) = compare(&reference, &images, &expected);
    println!("{name}, plain f64: logits within {logits:.1e}, gradient within {gradient:.1e}");
    assert!(logits < 1e-3 && gradient < 1e-3, "{name}");
    let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
    let cpu = Cpu::new(&loaded.model, pool.into());
    let (logits, gradient) = compare(&cpu, &images, &expected);
    let pytorch = expected["pytorch_f32"].as_f64().unwrap();
    println!("{name}: logits within {logits:.1e}, gradient within {gradient:.1e}");
    println!("  (PyTorch's own gradient in f32 within {pytorch:.1e})");
    // One rectifier that rounding flips is worth some 1e-3 in these networks.
    assert!(logits < 1e-3 && gradient < 0.05, "{name}");
    for note in &loaded.report.notes {
        println!("  {note}");
    }
    for (kind, fold) in [("keep", Fold::Keep), ("fold", Fold::Fold)] {
        let bytes = onnx::write(&loaded.model, fold);
        std::fs::write(json.with_extension(format!("{kind}.out.onnx")), bytes).unwrap();
    }
}

#[test]
#[ignore = "needs files that torchvision.py makes"]
fn torchvision_networks_agree() {
    let folder = std::env::var_os("HEATSMOOTH_EXCHANGE").expect("torchvision.py sets it");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    assert!(!files.is_empty());
    files.iter().for_each(|path| check(path));
}
