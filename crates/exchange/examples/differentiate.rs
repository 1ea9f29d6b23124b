//! What a network of any file computes, for a check from outside:
//! `tests/check_networks.py` and `tests/check_checkpoints.py` run this and compare.
//!
//! `differentiate MODEL INPUTS.pt OUT [ARCH]`
//!
//! INPUTS holds `images` (`N x H x W x C`) and `cotangents` (`N x classes`).
//! Writes the logits of all images and the cotangents pulled back to them as
//! bare f32 values: `OUT.cpu.f32` of the fast executor, `OUT.plain.f32` by plain
//! loops in f64. Exports the network as `OUT.keep.onnx` and `OUT.fold.onnx`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use exchange::onnx::{self, Fold};
use exchange::{LoadOptions, load, pytorch};
use network::architecture::Task;
use network::{Cpu, Executor, Mode, Reference, Shape};

/// Logits, then input gradients, image by image, into a file.
fn run(
    network: &dyn Executor,
    images: &[f32],
    cotangents: &[f32],
    path: &str,
) -> Result<(), Box<dyn Error>> {
    let (mut logits, mut gradients) = (Vec::new(), Vec::new());
    let pixels = network.graph().input().len();
    let each = images
        .chunks(pixels)
        .zip(cotangents.chunks(network.graph().classes()));
    for (image, cotangent) in each {
        let (values, tape) = network.forward(image, Mode::Eval)?;
        gradients.extend(network.input_gradient(&tape, cotangent)?);
        logits.extend(values);
    }
    let values = logits.iter().chain(&gradients);
    let bytes: Vec<u8> = values.flat_map(|v| v.to_le_bytes()).collect();
    Ok(std::fs::write(path, bytes)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, inputs, out, rest @ ..] = words.as_slice() else {
        return Err("differentiate MODEL INPUTS.pt OUT [ARCH]".into());
    };
    let inputs = pytorch::read(&std::fs::read(inputs)?)?;
    let (images, cotangents) = (&inputs["images"], &inputs["cotangents"]);
    let mut options = LoadOptions::default();
    if let Some(architecture) = rest.first() {
        let [_, height, width, channels] = images.shape[..] else {
            return Err("images must be N x H x W x C".into());
        };
        let task = Task::new(Shape::new(height, width, channels), cotangents.shape[1]);
        options.architecture = Some((architecture.clone(), task));
    }
    let loaded = load(Path::new(model), &options)?;
    for note in &loaded.report.notes {
        eprintln!("{note}");
    }
    let model = loaded.model;
    let pool = rayon::ThreadPoolBuilder::new().build()?;
    let cpu = Cpu::new(&model, Arc::new(pool));
    let (images, cotangents) = (&images.values, &cotangents.values);
    run(&cpu, images, cotangents, &format!("{out}.cpu.f32"))?;
    let plain = Reference::<f64>::new(&model);
    run(&plain, images, cotangents, &format!("{out}.plain.f32"))?;
    for (kind, fold) in [("keep", Fold::Keep), ("fold", Fold::Fold)] {
        std::fs::write(format!("{out}.{kind}.onnx"), onnx::write(&model, fold))?;
    }
    Ok(())
}
