//! Checkpoints and safetensors that PyTorch wrote; `goldens/checkpoints.py`
//! makes the files.

use std::path::{Path, PathBuf};

use exchange::pytorch::{self, CheckpointError};
use exchange::{ImportError, LoadOptions, StateDict, Tensor, assign, load, safetensors};
use network::architecture::{Task, build};
use network::{Classify, Reference, Shape};
use proptest::prelude::*;
use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(golden(name)).unwrap()
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&bytes(name)).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|v| v.as_f64().unwrap() as f32).collect()
}

fn options(architecture: &str, input: Shape, classes: usize) -> LoadOptions {
    LoadOptions {
        architecture: Some((architecture.into(), Task::new(input, classes))),
        ..LoadOptions::default()
    }
}

fn assert_logits(file: &str, options: &LoadOptions, expected: &str) {
    let loaded = load(&golden(file), options).unwrap();
    let expected = json(expected);
    let want = floats(&expected["logits"]);
    let mut logits = vec![0.0; want.len()];
    let reference = Reference::<f64>::new(&loaded.model);
    let images = floats(&expected["images"]);
    reference.logits(&images, &mut logits).unwrap();
    for (a, b) in logits.iter().zip(&want) {
        assert!((a - b).abs() < 1e-5, "{file}: {logits:?} {want:?}");
    }
    assert_eq!(loaded.model.info.parent_sha256, Some(loaded.sha256));
}

#[test]
fn a_legacy_checkpoint_gives_pytorchs_logits() {
    let options = options("smallcnn", Shape::new(8, 8, 1), 3);
    assert_logits("smallcnn-legacy.th", &options, "smallcnn.json");
    let loaded = load(&golden("smallcnn-legacy.th"), &options).unwrap();
    let matched = &loaded.report.matched;
    assert_eq!(matched.len(), 3 * 5 + 2);
    let pair = ("linear.weight".into(), "module.fc.weight".into());
    assert!(matched.contains(&pair), "{matched:?}");
    assert!(loaded.report.left_over.is_empty());
}

#[test]
fn wrapped_half_precision_weights_give_pytorchs_logits() {
    let options = options("mlp", Shape::new(2, 2, 1), 2);
    for file in ["mlp-f16.safetensors", "mlp-f16.pth.tar"] {
        assert_logits(file, &options, "mlp.json");
        let report = load(&golden(file), &options).unwrap().report;
        assert_eq!(report.left_over, ["0.mean"]);
        assert_eq!(report.notes[0], "prefix `1.` removed from the names");
        assert!(
            report.notes[1].contains("normalise its input"),
            "{report:?}"
        );
    }
}

#[test]
fn every_layout_and_element_type_is_read() {
    let expected = json("tiny.json");
    for (file, precision) in [
        ("tiny-f32.pt", 0.0),
        ("tiny-legacy.pt", 0.0),
        ("tiny-protocol4.pt", 0.0),
        ("tiny-f64.pt", 0.0),
        ("tiny-f16.pt", 1e-3),
        ("tiny-bf16.pt", 1e-2),
    ] {
        let state_dict = pytorch::read(&bytes(file)).unwrap();
        assert_eq!(state_dict.len(), 8, "{file}");
        for (name, tensor) in &state_dict {
            let shape = floats(&expected[name]["shape"]);
            let shape: Vec<usize> = shape.iter().map(|&d| d as usize).collect();
            assert_eq!(tensor.shape, shape, "{file} {name}");
            for (a, b) in tensor.values.iter().zip(floats(&expected[name]["values"])) {
                assert!(
                    (a - b).abs() <= precision * b.abs(),
                    "{file} {name} {a} {b}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_executed_and_unknown_names_are_refused() {
    for (file, name) in [
        ("evil.pt", ".system"),
        ("module.pt", "torch.nn.modules.linear.Linear"),
    ] {
        match pytorch::read(&bytes(file)).unwrap_err() {
            CheckpointError::Global { name: found } => assert!(found.ends_with(name), "{found}"),
            error => panic!("{error}"),
        }
    }
    let error = pytorch::read(&bytes("script.pt")).unwrap_err();
    assert!(matches!(error, CheckpointError::TorchScript), "{error}");
    assert!(error.hint().is_some());
    let error = load(&golden("plain.pkl"), &LoadOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("not one that torch.save wrote"),
        "{error}"
    );
}

#[test]
fn errors_say_what_is_wrong_and_what_to_do() {
    let path = golden("smallcnn-legacy.th");
    let shape = Shape::new(8, 8, 1);
    let error = load(&path, &options("smallcnn", shape, 10)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the weights are for 3 classes (`module.fc.weight`), not for 10"
    );
    let error = load(&path, &options("mlp", shape, 3)).unwrap_err();
    assert!(matches!(error, ImportError::Mismatch { .. }));
    let text = error.to_string();
    assert!(text.contains("missing: fc1.weight, fc2.weight"), "{text}");
    assert!(
        text.contains("`module.bn1.weight` is [16] instead of [128]"),
        "{text}"
    );
    let error = load(&path, &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("17 tensors"), "{error}");
    assert!(error.hint().unwrap().contains("built-in architecture"));
    let error = load(&golden("smallcnn.json"), &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no known format"), "{error}");
}

/// torchvision's and timm's words, and a 1x1 convolution for the last layer.
#[test]
fn the_usual_names_are_understood() {
    let graph = build("resnet18", &Task::new(Shape::new(64, 64, 3), 4)).unwrap();
    let state_dict = |rename: &dyn Fn(&str) -> String| -> StateDict {
        let specs = graph.parameters().iter();
        specs
            .map(|spec| {
                let values = vec![0.5; spec.len()];
                let shape = spec.shape.clone();
                (rename(&spec.name), Tensor { shape, values })
            })
            .collect()
    };
    for rename in [
        &|name: &str| name.replace("fc.", "head.fc.") as String,
        &|name: &str| format!("module.{}", name.replace("fc.", "linear.")),
        &|name: &str| name.replace("downsample", "shortcut"),
        &|name: &str| format!("encoder.backbone.{name}"),
        &|name: &str| format!("_orig_mod.{name}"),
    ] as [&dyn Fn(&str) -> String; 5]
    {
        let (_, report) = assign(state_dict(rename), &graph, None).unwrap();
        assert!(report.left_over.is_empty());
    }
    let mut squeezed = state_dict(&|name| name.into());
    squeezed.get_mut("fc.weight").unwrap().shape = vec![4, 512, 1, 1];
    assert!(assign(squeezed.clone(), &graph, None).is_ok());
    squeezed.get_mut("bn1.running_var").unwrap().values[3] = -1.0;
    let error = assign(squeezed, &graph, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor `bn1.running_var` holds -1 at position 3"
    );
}

#[test]
fn a_file_of_ours_needs_no_options_and_round_trips() {
    let options = options("mlp", Shape::new(2, 2, 1), 2);
    let loaded = load(&golden("mlp-f16.safetensors"), &options).unwrap();
    let folder = std::env::temp_dir().join(format!("heatsmooth-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.safetensors");
    std::fs::write(&path, loaded.model.to_bytes()).unwrap();
    let again = load(&path, &LoadOptions::default()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(again.model, loaded.model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Damaged files give errors or other numbers, never a panic.
    #[test]
    fn damaged_checkpoints_are_survived(
        file in prop::sample::select(vec!["tiny-f32.pt", "tiny-legacy.pt", "tiny-protocol4.pt"]),
        changes in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..6),
        keep in 0.5..2.0f64,
    ) {
        let mut bytes = bytes(file);
        for (position, value) in changes {
            let at = (position * bytes.len() as f64) as usize;
            bytes[at] = value;
        }
        bytes.truncate((keep * bytes.len() as f64) as usize);
        let _ = pytorch::read(&bytes);
        let _ = safetensors::read(&bytes);
    }
}

/// Names of other people's weights: attention's, torchvision's older ones, and
/// shortcuts of Cohen et al. behind their normalisation.
#[test]
fn networks_of_today_take_their_usual_names() {
    let weights = |name: &str, task: &Task, rename: &dyn Fn(&str) -> String| -> StateDict {
        let graph = build(name, task).unwrap();
        let specs = graph.parameters().iter().enumerate();
        let tensor = |(i, spec): (usize, &network::ParameterSpec)| {
            let values = (0..spec.len())
                .map(|k| ((i + k) % 7) as f32 / 7.0)
                .collect();
            let shape = spec.shape.clone();
            (rename(&spec.name), Tensor { shape, values })
        };
        let kept = specs.filter(|(_, spec)| spec.role != network::Role::Mask);
        kept.map(tensor).collect()
    };
    let small = Task::new(Shape::new(32, 32, 3), 10);
    let vit = |name: &str| {
        name.replace("in_proj.", "in_proj_")
            .replace("mlp.0.", "mlp.linear_1.")
            .replace("mlp.3.", "mlp.linear_2.")
    };
    let swin = Task::new(Shape::new(56, 56, 3), 10);
    for (name, task, rename) in [
        ("vit_b_16", &small, &vit as &dyn Fn(&str) -> String),
        ("vit_tiny_patch16_224", &small, &|name: &str| {
            format!("module.{name}")
        }),
        ("convnext_tiny", &small, &|name: &str| name.to_string()),
        ("wide_resnet28_10", &small, &|name: &str| name.to_string()),
        (
            "swin_t",
            &Task::new(Shape::new(224, 224, 3), 10),
            &|name: &str| name.to_string(),
        ),
    ] {
        let given = weights(name, task, rename);
        let graph = build(name, task).unwrap();
        let (_, report) = assign(given, &graph, None).unwrap();
        assert!(
            report.missing.is_empty() && report.left_over.is_empty(),
            "{name}: {report:?}"
        );
    }
    // Windows that do not fit are refused by name.
    let error = build("swin_t", &swin).unwrap_err().to_string();
    assert!(
        error.contains("swin_t") && error.contains("56x56x3"),
        "{error}"
    );
    let cohen = weights("resnet110-cifar-projection", &small, &|name| {
        format!("1.{name}")
    });
    let file = tempfile::NamedTempFile::with_suffix(".safetensors").unwrap();
    let bytes = safetensors_file(&cohen);
    std::fs::write(file.path(), bytes).unwrap();
    let loaded = load(file.path(), &options("resnet110-cifar", small.input, 10)).unwrap();
    assert_eq!(
        loaded.model.info.architecture.as_deref(),
        Some("resnet110-cifar-projection")
    );
}

/// Tensors as a file of another program.
fn safetensors_file(tensors: &StateDict) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = vec![];
    for (name, tensor) in tensors {
        let start = data.len();
        data.extend(tensor.values.iter().flat_map(|v| v.to_le_bytes()));
        let entry = serde_json::json!({
            "dtype": "F32", "shape": tensor.shape, "data_offsets": [start, data.len()],
        });
        header.insert(name.clone(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    bytes
}
