//! Nothing silently wrong: one test for each point of the list of 2026, named by its
//! number. Others stand in the crates where they belong.

use std::path::{Path, PathBuf};

use heatsmooth::data::Shape;
use heatsmooth::network::{GraphBuilder, Model, ModelInfo, Op, Parameters};

use crate::cli::shown;
use crate::makings::{pets, picture, weights_alone};

/// Runs a command that must end so; what it said.
fn ends(folder: &Path, code: u8, arguments: &str) -> String {
    let text = shown(folder, arguments);
    assert!(text.contains(&format!("\nexit code {code}\n")), "{text}");
    text
}

/// Runs a command that must be refused with these words.
fn refused(folder: &Path, arguments: &str, words: &str) {
    let text = ends(folder, 2, arguments);
    assert!(text.contains(words), "{text}");
}

/// A small model of the digits in `run`.
fn trained(folder: &Path) {
    ends(
        folder,
        0,
        "train baseline --data digits --arch mlp --epochs 1 --out run",
    );
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/cifar10")
}

/// One linear layer from an image of 8x8x1 with these weights and biases.
fn linear(path: &Path, classes: &[&str], weights: Vec<f32>, biases: Vec<f32>) {
    let mut graph = GraphBuilder::new(Shape::new(8, 8, 1));
    graph.then("flatten", Op::Flatten);
    graph.then(
        "logits",
        Op::Linear {
            out_features: biases.len(),
            bias: true,
        },
    );
    let graph = graph.build().unwrap();
    let model = Model {
        parameters: Parameters::new(&graph, vec![weights, biases]),
        info: ModelInfo {
            classes: classes.iter().map(|&class| class.into()).collect(),
            ..ModelInfo::default()
        },
        graph,
    };
    std::fs::write(path, model.to_bytes()).unwrap();
}

#[test]
fn point_1_labels_of_a_folder_follow_the_model_s_class_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("one/cat")).unwrap();
    std::fs::copy(results().join("cat.png"), folder.join("one/cat/cat.png")).unwrap();
    let model = results().join("heat");
    let model = model.display();
    let text = ends(
        folder,
        0,
        &format!("certify --model {model} --data one --n 100 --out x.tsv"),
    );
    assert!(text.contains("cat is 3"), "{text}");
    let log = std::fs::read_to_string(folder.join("x.tsv")).unwrap();
    let row = log.lines().nth(1).unwrap();
    assert!(row.starts_with("0\t3\t3\t"), "{row}");
    std::fs::rename(folder.join("one/cat"), folder.join("one/lion")).unwrap();
    refused(
        folder,
        &format!("eval --model {model} --data one"),
        "one has images of \"lion\", but the model's classes are airplane",
    );
}

#[test]
fn point_3_options_without_effect_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    ends(folder, 0, "convert run run.onnx");
    ends(
        folder,
        0,
        "train baseline --data digits --arch mlp --epochs 1 --out other",
    );
    for (arguments, option) in [
        (
            "eval --model run --data digits --normalise 0.5/0.5",
            "normalise",
        ),
        ("eval --model run --data digits --classes 10", "classes"),
        ("eval --model run --data digits --arch mlp", "arch"),
        ("eval --model run --data digits --input 8x8x1", "input"),
        (
            "eval --model run.onnx --data digits --normalise 0.5/0.5",
            "normalise",
        ),
        (
            "eval --model run.onnx --data digits --classes 10",
            "classes",
        ),
        ("eval --model run.onnx --data digits --arch mlp", "arch"),
        ("eval --model run --data digits --root .", "root"),
        ("inspect run --classes 10", "classes"),
        ("convert run again.onnx --classes 10", "classes"),
        ("predict --model run --normalise 0.5/0.5 x.png", "normalise"),
        (
            "train baseline --from run --arch mlp --data digits --out x",
            "arch",
        ),
        (
            "train baseline --from run --normalise half --data digits --out x",
            "normalise",
        ),
        (
            "train baseline --arch mlp --input 8x8x1 --data digits --out x",
            "input",
        ),
        (
            "smooth --model run --data digits --sigma 0.1 --classes 10 --out x",
            "classes",
        ),
        (
            "certify --model run --data digits --sigma 0.1 --rule paper --out x.tsv",
            "rule",
        ),
        (
            "certify --model run --data digits --sigma 0.1 --select clean --n0 9 --out x.tsv",
            "n0",
        ),
        (
            "fidelity --model run --reference other --data digits --sigma 0.1 --arch mlp --out x.tsv",
            "arch",
        ),
    ] {
        refused(folder, arguments, &format!("--{option} has no effect"));
    }
    // What one of two files needs is no mistake.
    let model = std::fs::read(folder.join("run/model.safetensors")).unwrap();
    weights_alone(
        &Model::from_bytes(&model).unwrap(),
        &folder.join("w.safetensors"),
    );
    ends(
        folder,
        0,
        "fidelity --model run --reference w.safetensors --arch mlp --data digits --sigma 0.1 \
         --images 0..2 --samples 2 --out f.tsv",
    );
}

#[test]
fn point_4_numbers_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let certify = "certify --model m --data digits --sigma 0.1 --out x.tsv";
    let smooth = "smooth --model m --data digits --sigma 0.1 --out x";
    for (command, option) in [
        (certify, "alpha"),
        (smooth, "lambda"),
        (smooth, "lr"),
        ("attack pgd --model m --data digits --out x.tsv", "eps"),
    ] {
        for value in ["nan", "inf"] {
            let words = format!("--{option} is `{value}`, expected a finite number");
            refused(
                folder.path(),
                &format!("{command} --{option} {value}"),
                &words,
            );
        }
    }
}

#[test]
fn point_5_images_of_a_folder_become_the_size_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pets(&folder.join("pets"), 2);
    let train = "train baseline --data pets --arch smallcnn --epochs 1 --batch-size 3";
    let text = ends(folder, 0, &format!("{train} --input 12x12x3 --out run"));
    assert!(text.contains("pets: images become 12x12 RGB"), "{text}");
    let text = ends(folder, 0, "eval --model run --data pets");
    assert!(text.contains("pets: images become 12x12 RGB"), "{text}");
    let text = ends(folder, 0, &format!("{train} --out usual"));
    assert!(text.contains("resized until they cover 256x256"), "{text}");
    refused(
        folder,
        &format!("{train} --input 12x12 --out x"),
        "--input is `12x12`",
    );
}

#[test]
fn point_6_more_outputs_than_classes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pets(&folder.join("pets"), 1);
    linear(
        &folder.join("five.safetensors"),
        &[],
        vec![0.0; 5 * 64],
        vec![0.0; 5],
    );
    refused(
        folder,
        "eval --model five.safetensors --data pets",
        "the model has 5 classes without names, pets has 3",
    );
    // Places of classes without images can be held by empty folders.
    for class in ["dog", "eel"] {
        std::fs::create_dir_all(folder.join(format!("pets/train/{class}"))).unwrap();
    }
    let text = ends(folder, 0, "eval --model five.safetensors --data pets");
    assert!(
        text.contains("for the data's classes in order: ant, bee, cat, dog, eel"),
        "{text}"
    );
}

#[test]
fn point_7_outputs_that_are_not_finite_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Finite weights whose sums are not.
    let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
    let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
    linear(
        &folder.join("huge.safetensors"),
        &classes,
        vec![f32::MAX; 640],
        vec![0.0; 10],
    );
    picture(&folder.join("x.png"), 1, 0, Shape::new(8, 8, 1));
    for arguments in [
        "predict --model huge.safetensors x.png",
        "eval --model huge.safetensors --data digits",
        "eval --model huge.safetensors --data digits --sigma 0.1",
        "lbound --model huge.safetensors --data digits --sigma 0.1 --out x.tsv",
        "certify --model huge.safetensors --data digits --sigma 0.1 --out x.tsv",
        "attack pgd --model huge.safetensors --data digits --out x.tsv",
    ] {
        let text = ends(folder, 2, arguments);
        assert!(text.contains("finite"), "{text}");
        assert!(
            !text.contains("probability") && !text.contains("%"),
            "{text}"
        );
    }
}

#[test]
fn point_8_what_is_printed_as_configuration_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let arguments =
        "lbound --model m --data digits --out x.tsv --seed 3 --threads 2 --print-config";
    let text = ends(folder, 0, arguments);
    assert!(
        text.contains("\nseed = 3\n") && text.contains("\nthreads = 2\n"),
        "{text}"
    );
    let file = text.split_once("exit code 0\n").unwrap().1;
    std::fs::write(folder.join("c.toml"), file).unwrap();
    let again = ends(folder, 0, "lbound --config c.toml --print-config");
    assert_eq!(again.split_once("exit code 0\n").unwrap().1, file);
}

#[test]
fn point_9_a_folder_without_splits_has_no_test_accuracy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pets(&folder.join("parts"), 2);
    std::fs::rename(folder.join("parts/train"), folder.join("pets")).unwrap();
    let text = ends(
        folder,
        0,
        "train baseline --data pets --arch smallcnn --input 8x8x1 --epochs 1 --batch-size 3 --out run",
    );
    assert!(text.contains("pets has no parts train and test"), "{text}");
    assert!(!text.contains("clean test accuracy"), "{text}");
    let epochs = std::fs::read_to_string(folder.join("run/epochs.tsv")).unwrap();
    assert!(!epochs.contains("test_accuracy"), "{epochs}");
    let text = ends(folder, 0, "eval --model run --data pets");
    assert!(text.contains("run on pets all, 6 images"), "{text}");
    assert!(
        text.contains("warning: the model was trained on these images"),
        "{text}"
    );
    refused(
        folder,
        "eval --model run --data pets --split train",
        "--split has no effect: pets has no parts train and test",
    );
}

#[test]
fn point_10_a_missing_normalisation_is_guessed_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ends(
        folder,
        0,
        "train baseline --data digits --arch mlp --epochs 4 --normalise half --out run",
    );
    let model = std::fs::read(folder.join("run/model.safetensors")).unwrap();
    weights_alone(
        &Model::from_bytes(&model).unwrap(),
        &folder.join("w.safetensors"),
    );
    let eval = "eval --model w.safetensors --arch mlp --data digits";
    let text = ends(folder, 0, eval);
    assert!(
        text.contains("seems to miss its input normalisation"),
        "{text}"
    );
    assert!(text.contains("normalise = half"), "{text}");
    let text = ends(folder, 0, &format!("{eval} --normalise half"));
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn point_21_more_threads_than_any_machine_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path());
    refused(
        folder.path(),
        "eval --model run --data digits --threads 99999",
        "--threads is `99999`, expected 1 to 1024",
    );
}

#[test]
fn point_24_quiet_hides_progress_but_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = "train gaussian --data digits --arch mlp --epochs 1 --sigma 0.1 --out run --quiet";
    ends(folder, 0, train);
    let text = ends(
        folder,
        0,
        "lbound --model run --data digits --sigma 0.5 --images 0..2 --out x.tsv --quiet",
    );
    assert!(
        text.contains("warning: the model was made for sigma 0.1, not 0.5"),
        "{text}"
    );
}

#[test]
fn point_28_a_run_folder_is_a_model() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path());
    let text = ends(folder.path(), 0, "inspect run --brief");
    assert!(text.contains("architecture  mlp"), "{text}");
}

#[test]
fn point_29_sigma_is_the_model_s_own_where_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ends(
        folder,
        0,
        "train gaussian --data digits --arch mlp --epochs 1 --sigma 0.125 --out run",
    );
    for command in ["certify --n 100", "lbound"] {
        let text = ends(
            folder,
            0,
            &format!(
                "{command} --model run --data digits --images 0..2 --out {}.tsv",
                command.len()
            ),
        );
        assert!(text.contains("sigma 0.125"), "{text}");
    }
}

#[test]
fn point_12_rows_that_contradict_their_counts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let of = "--model run --data digits --images 0..3";
    for (command, columns) in [
        (
            "certify --sigma 0.1 --n 100",
            &["radius", "p_lower", "n_a", "n"][..],
        ),
        ("lbound --sigma 0.1", &["radius", "p_label"]),
        ("attack ddn --steps 3", &["l2", "linf"]),
    ] {
        let command = format!("{command} {of} --out x.tsv");
        ends(folder, 0, &command);
        let log = folder.join("x.tsv");
        let sound = std::fs::read_to_string(&log).unwrap();
        let header: Vec<&str> = sound.lines().next().unwrap().split('\t').collect();
        for column in columns {
            let at = header.iter().position(|name| name == column).unwrap();
            let mut lines: Vec<String> = sound.lines().map(str::to_owned).collect();
            // The first row that has a number there.
            let row = (1..lines.len()).find(|&row| {
                let cell = lines[row].split('\t').nth(at).unwrap();
                cell.parse::<f64>().is_ok_and(|value| value != 0.0)
            });
            let Some(row) = row else { continue };
            let mut cells: Vec<&str> = lines[row].split('\t').collect();
            cells[at] = if *column == "l2" { "" } else { "9.99" };
            if column.starts_with('n') {
                cells[at] = "7";
            }
            lines[row] = cells.join("\t");
            std::fs::write(&log, lines.join("\n") + "\n").unwrap();
            refused(folder, &command, &format!("x.tsv:{}: ", row + 1));
        }
        std::fs::write(&log, &sound).unwrap();
        ends(folder, 0, &command);
        std::fs::remove_file(&log).unwrap();
        std::fs::remove_file(folder.join("x.json")).unwrap();
    }
}

#[test]
fn point_20_nothing_half_written_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
    let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
    linear(
        &folder.join("huge.safetensors"),
        &classes,
        vec![f32::MAX; 640],
        vec![0.0; 10],
    );
    for arguments in [
        "lbound --model huge.safetensors --data digits --sigma 0.1 --out x.tsv",
        "attack ddn --model huge.safetensors --data digits --out x.tsv",
        "smooth --model huge.safetensors --data digits --sigma 0.1 --out x",
        "train baseline --from huge.safetensors --data digits --out x",
    ] {
        ends(folder, 2, arguments);
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{arguments}: {left:?}");
    }
    // What killed processes left is swept up by the next one.
    trained(folder);
    std::fs::write(folder.join("run/.tmp-killed"), "half").unwrap();
    trained(folder);
    assert!(!folder.join("run/.tmp-killed").exists());
}

#[test]
fn a_finished_model_that_changed_is_no_finished_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let file = folder.join("run/model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let train = "train baseline --data digits --arch mlp --epochs 1 --out run";
    for arguments in [train, "eval --model run --data digits"] {
        refused(folder, arguments, "it is not the model that its run wrote");
    }
}

#[test]
fn point_22_a_folder_is_no_image() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path());
    refused(
        folder.path(),
        "predict --model run .",
        ". is a folder, not an image file",
    );
}

#[test]
fn point_23_no_result_is_minus_zero() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    // A shard without images.
    let text = ends(
        folder,
        0,
        "certify --model run --data digits --sigma 0.1 --images 0..1 --shard 2/2 --out x.tsv",
    );
    assert!(
        text.contains(" 0 noisy passes") && !text.contains("-0"),
        "{text}"
    );
}

#[test]
fn point_25_line_ends_of_windows_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let command = "lbound --model run --data digits --sigma 0.1 --images 0..2 --out x.tsv";
    ends(folder, 0, command);
    let log = folder.join("x.tsv");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replace('\n', "\r\n")).unwrap();
    refused(folder, command, "x.tsv: its lines end in CR LF");
    // They can be reported on, though.
    ends(folder, 0, "report x.tsv --out report");
}

#[test]
fn point_26_few_steps_are_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pets(&folder.join("pets"), 3);
    let train = "train baseline --data pets --arch smallcnn --input 8x8x1 --epochs 30 --out run";
    let text = ends(folder, 0, &format!("{train} --batch-size 2"));
    assert!(!text.contains("warning"), "{text}");
    let text = ends(
        folder,
        0,
        "smooth --model run --data pets --sigma 0.1 --out heat",
    );
    assert!(
        text.contains("warning: 9 images make only 5 steps; take more epochs"),
        "{text}"
    );
}

#[test]
fn point_30_lists_and_configurations_are_json_where_json_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        "train baseline --arch list --json",
        "train gaussian --preset list --json",
        "smooth --preset list --json",
        "train baseline --data digits --arch mlp --out x --print-config --json",
        "certify --print-config --json",
        "reproduce cifar10 --out x --print-config --json",
        "data list --json",
    ] {
        let text = ends(folder.path(), 0, arguments);
        let json = text.split_once("exit code 0\n").unwrap().1;
        let value: serde_json::Value = serde_json::from_str(json).expect(arguments);
        assert!(value.is_array() || value.is_object(), "{value}");
    }
}

#[cfg(unix)]
#[test]
fn point_30_paths_that_are_not_text_are_refused_or_work() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let odd = OsStr::from_bytes(b"caf\xe9.png");
    picture(&folder.join(odd), 1, 0, Shape::new(8, 8, 1));
    let run = |arguments: &[&OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
        let output = command
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let words = |text: &'static str| text.split(' ').map(OsStr::new);
    let predict: Vec<&OsStr> = words("predict --model run --json").chain([odd]).collect();
    assert_eq!(run(&predict).0, Some(0));
    for option in ["--out", "--model", "--data"] {
        let eval: Vec<&OsStr> = words("lbound --sigma 0.1")
            .chain([OsStr::new(option), odd])
            .collect();
        let (code, text) = run(&eval);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("UTF-8"), "{text}");
    }
}
