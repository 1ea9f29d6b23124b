//! `calibrate` keeps what one pass may promise in the model's file, and everything
//! that shows radii shows it.

use std::path::Path;
use std::process::Command;

use heatsmooth::data::encode_png;
use heatsmooth::{DataSource, ImageSource as _, Model, Split};
use serde_json::Value;

fn output(folder: &Path, arguments: &str) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn heatsmooth(folder: &Path, arguments: &str) -> String {
    let (success, said, errors) = output(folder, arguments);
    assert!(success, "{arguments}: {errors}");
    said
}

fn model(folder: &Path, name: &str) -> Model {
    Model::from_bytes(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

fn digit(folder: &Path) {
    let digits = DataSource::named("digits").open(Split::Test, None).unwrap();
    let image = digits.images([0]).unwrap();
    let png = encode_png(digits.shape(), &image.pixels).unwrap();
    std::fs::write(folder.join("digit.png"), png).unwrap();
}

const CALIBRATE: &str =
    "calibrate --model v --reference f --data digits --sigma 0.25 --n 200 --n0 20";

#[test]
fn a_calibrated_model_promises_and_stays_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let run = |arguments: &str| heatsmooth(folder, arguments);
    let json = |arguments: &str| -> Value { serde_json::from_str(&run(arguments)).unwrap() };
    let train = "train gaussian --data digits --arch mlp --sigma 0.25 --epochs 6 --quiet";
    run(&format!("{train} --hold-out 200 --out f"));
    run(&format!("{train} --hold-out 200 --seed 1 --out v"));
    digit(folder);

    // A log that is begun before goes on after.
    let certify = "certify --model v --data digits --sigma 0.25 --n 50 --n0 5 --quiet --out c.tsv";
    run(&format!("{certify} --images 0..20"));
    let rows = std::fs::read_to_string(folder.join("c.tsv")).unwrap();
    let cut: String = rows.split_inclusive('\n').take(9).collect();
    std::fs::write(folder.join("c.tsv"), cut).unwrap();

    let before = model(folder, "v/model.safetensors");
    let identity = json("inspect v --json")["sha256"].clone();
    assert!(before.info.calibration.is_none());
    let said = json(&format!("{CALIBRATE} --miss 0.1 --json --quiet"));
    let after = model(folder, "v/model.safetensors");
    assert_eq!(before.parameters, after.parameters);
    assert_eq!(before.graph, after.graph);
    let calibration = after.info.calibration.clone().unwrap();
    assert_eq!(said["calibration"]["shrink"], calibration.shrink);
    assert_eq!((calibration.images, calibration.miss), (360, 0.1));
    assert_eq!(calibration.origin.split, "test");
    let misses = said["calibrated_misses"].as_f64().unwrap();
    assert!(misses < 0.1 && misses <= said["misses"].as_f64().unwrap());
    let folder_of_run = folder.join("v/model.calibration.tsv");
    assert!(folder_of_run.exists());

    // The file has changed, the model has not.
    let inspected = json("inspect v --json");
    assert_eq!(inspected["sha256"], identity);
    assert_eq!(identity, after.uncalibrated_sha256());
    run(&format!("{certify} --images 0..20"));

    let predicted = &json("predict --model v --json digit.png")[0];
    let one_pass = predicted["one_pass"].as_f64().unwrap();
    let calibrated = predicted["calibrated"].as_f64().unwrap();
    assert_eq!(calibrated, calibration.radius(one_pass));
    let words = "for inputs drawn like the calibration images, with confidence 95 % at most 10 % \
                 of them get a radius that g, the smoothed reference, does not have; an attacked \
                 input is not such an input";
    assert_eq!(predicted["calibrated_guarantee"], words);
    assert!(run("predict --model v digit.png").contains(words));
    assert!(run("inspect v --brief").contains(words));
    let bounds = run("lbound --model v --data digits --images 0..20 --quiet --out l.tsv");
    assert!(
        bounds.contains("calibrated radius >= r") && bounds.contains(words),
        "{bounds}"
    );
    let other = output(folder, "predict --model v --sigma 0.5 digit.png");
    assert!(!other.1.contains("calibrated") && other.2.contains("calibrated for sigma 0.25 only"));

    // Another promise, from the rows that are there; the same one leaves the file.
    let log = std::fs::read(&folder_of_run).unwrap();
    let said = json(&format!("{CALIBRATE} --miss 0.2 --json --quiet"));
    assert!(said["calibration"]["shrink"].as_f64().unwrap() <= calibration.shrink);
    assert_eq!(log, std::fs::read(&folder_of_run).unwrap());
    let bytes = std::fs::read(folder.join("v/model.safetensors")).unwrap();
    run(&format!("{CALIBRATE} --miss 0.2 --quiet"));
    assert_eq!(
        bytes,
        std::fs::read(folder.join("v/model.safetensors")).unwrap()
    );

    // Smoothing or training it further starts without the promise.
    run("train gaussian --from v --data digits --sigma 0.25 --epochs 1 --quiet --out w");
    let further = model(folder, "w/model.safetensors");
    assert_eq!(further.info.calibration, None);
    assert_eq!(further.info.parent_sha256.as_deref(), identity.as_str());

    // The report shows all three radii, their guarantees, and the scatter.
    run("report v --out report --quiet");
    let page = std::fs::read_to_string(folder.join("report/report.html")).unwrap();
    for text in [
        "One-pass radii",
        "one pass, calibrated",
        "at most 20 % of them",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let figures = folder.join("report/figures");
    for name in ["one-pass", "one-pass-scatter"] {
        assert!(
            figures
                .join(format!("{name}-digits-test-sigma-0.25.svg"))
                .exists()
        );
    }
}

#[test]
fn images_of_training_are_refused_unless_they_were_held_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = "train gaussian --data digits --arch mlp --sigma 0.25 --epochs 1 --quiet";
    heatsmooth(folder, &format!("{train} --hold-out 300 --out f"));
    heatsmooth(folder, &format!("{train} --hold-out 200 --seed 1 --out v"));
    heatsmooth(folder, &format!("{train} --out all"));
    let calibrate =
        |more: &str| output(folder, &format!("{CALIBRATE} --split train --quiet {more}"));
    let (success, _, errors) = calibrate("");
    assert!(!success && errors.contains("the model was trained on these images of digits train"));
    assert!(errors.contains("held out, 1237..1437"), "{errors}");
    let (success, _, errors) = calibrate("--images 1236..1437");
    assert!(!success && errors.contains("was trained on"), "{errors}");
    let seen = CALIBRATE.replace("--reference f", "--reference all");
    let (success, _, errors) = output(
        folder,
        &format!("{seen} --split train --images 1237..1437 --quiet"),
    );
    assert!(
        !success && errors.contains("its reference was trained on"),
        "{errors}"
    );
    let (success, _, errors) = calibrate("--images 1237..1437");
    assert!(success, "{errors}");
    let kept = model(folder, "v/model.safetensors")
        .info
        .calibration
        .unwrap();
    assert_eq!((kept.images, kept.origin.split.as_str()), (200, "train"));

    heatsmooth(folder, "convert v/model.safetensors v.onnx");
    let onnx = "calibrate --model v.onnx --reference f --data digits --sigma 0.25 --quiet";
    let (success, _, errors) = output(folder, onnx);
    assert!(
        !success && errors.contains("v.onnx cannot keep a calibration"),
        "{errors}"
    );
}

#[test]
fn shards_calibrate_nothing_until_they_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = "train gaussian --data digits --arch mlp --sigma 0.25 --epochs 1 --quiet";
    heatsmooth(folder, &format!("{train} --out f"));
    heatsmooth(folder, &format!("{train} --seed 1 --out v"));
    for shard in 1..=2 {
        heatsmooth(
            folder,
            &format!("{CALIBRATE} --shard {shard}/2 --out {shard}.tsv --quiet"),
        );
    }
    assert_eq!(model(folder, "v/model.safetensors").info.calibration, None);
    heatsmooth(folder, "merge 1.tsv 2.tsv --out all.tsv");
    heatsmooth(folder, &format!("{CALIBRATE} --out all.tsv --quiet"));
    let merged = model(folder, "v/model.safetensors").info.calibration;
    heatsmooth(folder, &format!("{CALIBRATE} --out whole.tsv --quiet"));
    assert_eq!(
        merged,
        model(folder, "v/model.safetensors").info.calibration
    );
    assert!(merged.is_some());
}
