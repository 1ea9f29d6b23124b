//! Real values from end to end: data, training, smoothing, fidelity, attack,
//! certificate, report, prediction; and what is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use heatsmooth::data::{Shape, encode_png};
use heatsmooth::{Model, TaskKind};
use serde_json::Value;

use crate::makings;

fn run(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(arguments.split_whitespace())
        .args(["--quiet", "--threads", "1"])
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The summary of a command that must succeed.
fn heatsmooth(folder: &Path, arguments: &str) -> Value {
    let output = run(folder, &format!("{arguments} --json"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command says that must be refused.
fn refused(folder: &Path, arguments: &str) -> String {
    let output = run(folder, arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
    assert!(
        text.contains("hint: ") || text.contains("expected"),
        "{arguments}: {text}"
    );
    text
}

/// Pictures whose left half is brighter or darker than the right one. The values, in
/// different units: how steeply, and how bright they are.
fn pictures(folder: &Path, part: &str, count: u32) {
    let shape = Shape::new(8, 8, 1);
    std::fs::create_dir_all(folder.join(part)).unwrap();
    let mut list = String::from("path,tilt,light\n");
    let mut state = part.len() as u32 * 977 + 1;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    for number in 0..count {
        let (light, tilt) = (0.25 + 0.5 * random(), 0.4 * random() - 0.2);
        let pixels: Vec<f32> = (0..64)
            .map(|at| {
                let side = if at % 8 < 4 { 0.5 } else { -0.5 };
                let value = light + side * tilt + 0.1 * (random() - 0.5);
                (255.0 * value.clamp(0.0, 1.0)).round() / 255.0
            })
            .collect();
        let half = |left: bool| {
            let own = pixels.iter().enumerate();
            own.filter(|(at, _)| (at % 8 < 4) == left)
                .map(|(_, p)| p)
                .sum::<f32>()
                / 32.0
        };
        let (left, right) = (half(true), half(false));
        let name = format!("{part}/{number}.png");
        std::fs::write(folder.join(&name), encode_png(shape, &pixels).unwrap()).unwrap();
        list += &format!(
            "{name},{},{}\n",
            (10.0 * (left - right)).tanh(),
            500.0 * (left + right)
        );
    }
    std::fs::write(folder.join(format!("{part}.csv")), list).unwrap();
}

/// The rows of a log, by column.
fn rows(log: &Path) -> Vec<std::collections::HashMap<String, f64>> {
    let text = std::fs::read_to_string(log).unwrap();
    let mut lines = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    lines
        .map(|cells| {
            let pairs = names.iter().zip(cells);
            pairs
                .map(|(name, cell)| (name.to_string(), cell.parse().unwrap_or(f64::NAN)))
                .collect()
        })
        .collect()
}

#[test]
fn real_values_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pictures(&folder.join("drive"), "train", 192);
    pictures(&folder.join("drive"), "test", 24);

    let train = "--data drive --arch mlp --input 8x8x1 --epochs 30 --batch-size 16 --lr 0.05 \
                 --schedule cosine --clip 1";
    let base = heatsmooth(folder, &format!("train baseline {train} --out base"));
    assert!(base["test_rmse"].as_f64().unwrap() > 0.0, "{base}");
    assert!(base.get("test_accuracy").is_none());
    let epochs = std::fs::read_to_string(folder.join("base/epochs.tsv")).unwrap();
    assert!(
        epochs.starts_with("epoch\tlr\tloss\ttest_rmse\tseconds\n"),
        "{epochs}"
    );
    let bytes = std::fs::read(folder.join("base/model.safetensors")).unwrap();
    let model = Model::from_bytes(&bytes).unwrap();
    assert_eq!(model.info.task, TaskKind::Regression);
    assert_eq!(model.info.classes, ["tilt", "light"]);

    let eval = heatsmooth(folder, "eval --model base --data drive --sigma 0.1");
    for (level, least) in [(0, 0.8), (1, 0.4)] {
        for output in eval[level]["outputs"].as_array().unwrap() {
            let explained = output["explained"].as_f64().unwrap();
            assert!(explained > least, "{level}: {output}");
        }
    }

    // Good enough under noise: averaged as it is, and close to the average.
    let smoothed = heatsmooth(
        folder,
        "smooth --model base --data drive --sigma 0.1 --epochs 150 --batch-size 192 --out v",
    );
    assert!(smoothed["base"]["made_by"].is_null(), "{smoothed}");
    let run: Value =
        serde_json::from_slice(&std::fs::read(folder.join("v/run.json")).unwrap()).unwrap();
    assert_eq!(run["configuration"]["method"]["target"], "logits");
    let fidelity = heatsmooth(
        folder,
        "fidelity --model v --reference v/base.safetensors --data drive --images 0..12 --out \
         fidelity.tsv",
    );
    let values = &fidelity["values"];
    assert!(values["gap_closed"].as_f64().unwrap() > 0.2, "{fidelity}");
    assert!(values.get("agreement").is_none());
    // By heat, too.
    heatsmooth(
        folder,
        "smooth --by heat --model base --data drive --sigma 0.1 --epochs 1 --out heat",
    );

    let certified = heatsmooth(
        folder,
        "certify --model v/base.safetensors --data drive --sigma 0.1 --eps 0.1 --n 1000 --images 0..6 --out \
         certify.tsv",
    );
    assert!(
        certified["guarantee"]
            .as_str()
            .unwrap()
            .contains("the median of each output")
    );
    assert!(
        certified["guarantee"]
            .as_str()
            .unwrap()
            .contains("proven for what is computed")
    );
    heatsmooth(
        folder,
        "certify --model v/base.safetensors --data drive --sigma 0.1 --eps 0.1 --n 1000 --images 0..6 --low \
         -1 --high 1000 --out mean.tsv",
    );
    let attacked = heatsmooth(
        folder,
        "attack pgd --model v --data drive --eps 0.1 --steps 10 --images 0..6 --out pgd.tsv",
    );
    assert_eq!(attacked["guarantee"], "empirical");
    let (certified, mean, reached) = (
        rows(&folder.join("certify.tsv")),
        rows(&folder.join("mean.tsv")),
        rows(&folder.join("pgd.tsv")),
    );
    for ((certified, mean), reached) in certified.iter().zip(&mean).zip(&reached) {
        for output in 0..2 {
            let of = |row: &std::collections::HashMap<String, f64>, name: &str| {
                row[&format!("{name}@{output}")]
            };
            for row in [certified, mean] {
                assert!(of(row, "lower") < of(row, "centre"));
                assert!(of(row, "centre") < of(row, "upper"));
            }
            assert!(of(reached, "lower") < of(reached, "value"));
            assert!(of(reached, "value") < of(reached, "upper"));
            assert_eq!(of(certified, "target"), of(reached, "target"));
            assert!(of(certified, "target").is_finite());
            // The attack is on v, the certificate about the median of the base: they are
            // close, though nobody promises it.
            let width = |row| of(row, "upper") - of(row, "lower");
            assert!(
                width(reached) < 2.0 * width(certified),
                "{reached:?} {certified:?}"
            );
        }
    }
    // Running again changes nothing; more images are added.
    let before = std::fs::read(folder.join("certify.tsv")).unwrap();
    heatsmooth(
        folder,
        "certify --model v/base.safetensors --data drive --sigma 0.1 --eps 0.1 --n 1000 --images 0..8 --out \
         certify.tsv",
    );
    let after = std::fs::read(folder.join("certify.tsv")).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());

    heatsmooth(
        folder,
        "train gaussian --sigma 0.1 --data drive --arch mlp --input 8x8x1 --epochs 1 --batch-size 64 --out noisy",
    );
    heatsmooth(folder, "report . --out report");
    let page = std::fs::read_to_string(folder.join("report/report.html")).unwrap();
    assert!(page.contains("Intervals of real values") && page.contains("certified median"));
    let table = std::fs::read_to_string(folder.join("report/tables/intervals-drive-test.csv"));
    let table = table.unwrap();
    for words in [
        "certified median,tilt",
        "certified mean,light",
        "reached by PGD,light",
    ] {
        assert!(table.contains(words), "{table}");
    }
    let fidelity =
        std::fs::read_to_string(folder.join("report/tables/fidelity-drive-test-sigma-0.1.csv"));
    assert!(fidelity.unwrap().contains("gap closed"));

    let answer = heatsmooth(folder, "predict --model v drive/test/0.png");
    let named = &answer[0]["values"][1];
    assert_eq!(named["name"], "light");
    let one_pass = rows(&folder.join("pgd.tsv"))[0]["value@1"];
    assert!((named["value"].as_f64().unwrap() / one_pass - 1.0).abs() < 1e-5);

    // ONNX keeps what the outputs are; another program's ONNX is told.
    heatsmooth(folder, "convert v/model.safetensors v.onnx");
    let onnx = heatsmooth(folder, "eval --model v.onnx --data drive");
    let own = heatsmooth(folder, "eval --model v --data drive");
    let rmse = |eval: &Value| eval[0]["rmse"].as_f64().unwrap();
    assert!((rmse(&onnx) / rmse(&own) - 1.0).abs() < 1e-4);
    let resnet = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/own_model/resnet.onnx");
    let resnet = resnet.display();
    let test = PathBuf::from("drive/test");
    heatsmooth(
        folder,
        &format!(
            "certify --model {resnet} --task regression --data {} --sigma 0.1 --eps 0.1 --n 100 \
             --alpha 0.01 --images 0..1 --out onnx.tsv",
            test.display()
        ),
    );
    assert!(rows(&folder.join("onnx.tsv"))[0]["target@9"].is_nan());

    refusals(folder, &resnet.to_string());
}

fn refusals(folder: &Path, resnet: &str) {
    makings::pets(&folder.join("pets"), 2);
    let quick = "--arch mlp --input 8x8x1 --epochs 1 --batch-size 4";
    heatsmooth(
        folder,
        &format!("train baseline --data pets {quick} --out classes"),
    );
    let csv = folder.join("bad.csv");
    for (content, words) in [
        (
            "path,tilt,light\ndrive/test/0.png,1,nan\n",
            "bad.csv:2: light is \"nan\"",
        ),
        (
            "path,tilt,light\nnowhere.png,1,2\n",
            "nowhere.png is not a file",
        ),
        (
            "path,tilt,light\ndrive/test/0.png,1\n",
            "expected 3 columns, found 2",
        ),
        ("path,tilt\ndrive/test/0.png,cat\n", "tilt is \"cat\""),
        (
            "path,tilt\ndrive/test/0.png,1\n",
            "the model has 2 outputs, bad.csv has 1 values",
        ),
        (
            "path,tilt,speed\ndrive/test/0.png,1,2\n",
            "the model's outputs are tilt, light",
        ),
    ] {
        std::fs::write(&csv, content).unwrap();
        let text = refused(folder, "eval --model v --data bad.csv");
        assert!(text.contains(words), "{text}");
    }
    for (command, words) in [
        (
            "lbound --model v --data drive --out x.tsv",
            "lbound is about classes",
        ),
        (
            "attack ddn --model v --data drive --out x.tsv",
            "ddn is about classes",
        ),
        (
            "calibrate --model v --reference v/base.safetensors --data drive --out x.tsv",
            "calibrate is about classes",
        ),
        ("certify --model v --data drive --out x.tsv", "--eps"),
        (
            "certify --model v --data drive --eps 0 --out x.tsv",
            "--eps",
        ),
        (
            "certify --model v --data drive --eps 0.1 --low 1 --out x.tsv",
            "--high",
        ),
        (
            "certify --model v --data drive --eps 0.1 --top-k 2 --out x.tsv",
            "--top-k",
        ),
        (
            "certify --model v --data drive --eps 9 --out x.tsv",
            "samples can never",
        ),
        (
            "certify --model classes --data pets --sigma 0.1 --eps 0.1 --out x.tsv",
            "--eps",
        ),
        (
            "attack pgd --model v --data drive --samples 4 --out x.tsv",
            "--samples",
        ),
        (
            "attack pgd --model v --data drive --target next --out x.tsv",
            "--target",
        ),
        (
            "predict --model v --samples 10 drive/test/0.png",
            "--samples",
        ),
        ("eval --model v --data pets", "needs real values"),
        ("eval --model v --data drive/test", "needs real values"),
        ("eval --model classes --data drive/test", "needs a class"),
        ("eval --model classes --data drive", "drive has real values"),
        (
            "certify --model classes --data drive/test --sigma 0.1 --out x.tsv",
            "needs a class",
        ),
        (
            "smooth --by average --target votes --model base --data drive --sigma 0.1 --out x",
            "probabilities or votes",
        ),
        (
            "smooth --by heat --fit kl --model base --data drive --sigma 0.1 --out x",
            "compare probabilities",
        ),
        (
            "smooth --by heat --attack pgd --model base --data drive --sigma 0.1 --out x",
            "another class",
        ),
    ] {
        let text = refused(folder, command);
        assert!(text.contains(words), "{command}: {text}");
        assert!(
            !folder.join("x.tsv").exists() && !folder.join("x").exists(),
            "{command}"
        );
    }
    for method in ["smoothadv --sigma 0.1", "adversarial"] {
        let text = refused(
            folder,
            &format!("train {method} --data drive {quick} --out x"),
        );
        assert!(text.contains("looks for another class"), "{text}");
        assert!(!folder.join("x").exists());
    }
    let text = refused(
        folder,
        &format!("train baseline --data drive/test {quick} --out x"),
    );
    assert!(text.contains("needs a class"), "{text}");
    let text = refused(folder, "eval --model v --task classification --data drive");
    assert!(text.contains("--task has no effect"), "{text}");
    let text = refused(folder, &format!("eval --model {resnet} --data drive"));
    assert!(text.contains("the model has 10 outputs"), "{text}");

    // Whatever needs no labels takes images without.
    heatsmooth(
        folder,
        "smooth --by average --model base --data drive/test --sigma 0.1 --epochs 1 --out unlabelled",
    );
    heatsmooth(
        folder,
        "smooth --by average --model classes --data drive/test --sigma 0.1 --epochs 1 --out averaged",
    );
    heatsmooth(
        folder,
        "fidelity --model averaged --reference classes --data drive/test --samples 4 --images 0..2 \
         --out unlabelled.tsv",
    );
}
