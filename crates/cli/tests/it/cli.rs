//! Help texts and every error as the user sees them.

use std::path::Path;
use std::process::{Command, Output};

pub fn heatsmooth(folder: &Path, arguments: &str) -> Output {
    let root = folder.join("no-data-here");
    Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env("HEATSMOOTH_DATA", root)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// Exit code, stdout and stderr, without the folder's name.
pub fn shown(folder: &Path, arguments: &str) -> String {
    let output = heatsmooth(folder, arguments);
    let text = format!(
        "$ heatsmooth {arguments}\nexit code {}\n{}{}",
        output
            .status
            .code()
            .map_or("none".into(), |c| c.to_string()),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    text.replace(&folder.display().to_string(), "FOLDER")
}

#[test]
fn help_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for command in [
        "--help",
        "demo --help",
        "data --help",
        "data list --help",
        "data fetch --help",
        "data verify --help",
        "train --help",
        "train baseline --help",
        "train gaussian --help",
        "smooth --help",
        "calibrate --help",
        "eval --help",
        "predict --help",
        "certify --help",
        "lbound --help",
        "attack --help",
        "attack pgd --help",
        "attack ddn --help",
        "fidelity --help",
        "merge --help",
        "report --help",
        "inspect --help",
        "convert --help",
        "reproduce --help",
        "reproduce illustration --help",
        "reproduce cifar10 --help",
        "bench --help",
        "train smoothadv --help",
        "train adversarial --help",
    ] {
        all += &shown(folder.path(), command);
        all += "\n";
        let help = heatsmooth(folder.path(), command);
        let text = String::from_utf8_lossy(&help.stdout);
        assert!(help.status.success(), "{command}");
        let leaf = !text.contains("<COMMAND>");
        assert!(
            !leaf || text.contains("Example: heatsmooth"),
            "{command} has no example"
        );
        let common = ["--seed", "--threads", "--quiet", "--json"];
        assert!(
            !leaf || common.iter().all(|o| text.contains(o)),
            "{command}"
        );
    }
    insta::assert_snapshot!(all);
}

/// A small trained model in the folder, as `run/model.safetensors`.
fn trained(folder: &Path) {
    let output = heatsmooth(
        folder,
        "train baseline --data digits --arch mlp --epochs 1 --out run --quiet",
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn errors_of_usage_and_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(
        at("unknown.toml"),
        "data = 'digits'\narch = 'mlp'\nout = 'x'\nepoch = 3\n",
    )
    .unwrap();
    std::fs::write(at("broken.toml"), "data = \n").unwrap();
    std::fs::write(
        at("wrong.toml"),
        "data = 'digits'\narch = 'mlp'\nout = 'x'\nepochs = 'many'\n",
    )
    .unwrap();
    trained(folder.path());
    let mut all = String::new();
    for arguments in [
        "",
        "tarin",
        "train baseline --epochs many",
        "train baseline",
        "train baseline --data digits --arch mlp",
        "train baseline --data digits --out x",
        "train baseline --data digits --out x --from missing.safetensors",
        "train baseline --data digits --arch mlp --out x --hold-out 1437",
        "train baseline --data digits --arch resnet21 --out x",
        "train baseline --data nothing --arch mlp --out x",
        "train baseline --data cifar10 --arch mlp --out x",
        "train baseline --data digits --arch mlp --out x --epochs 0",
        "train baseline --data digits --arch mlp --out x --lr -1",
        "train baseline --data digits --arch mlp --out x --schedule sometimes",
        "train baseline --data digits --arch mlp --out x --normalise 0.5",
        "train baseline --data digits --arch mlp --out x --threads 0",
        "train baseline --data digits --arch mlp --out run --epochs 2",
        "train gaussian --data digits --arch mlp --out x",
        "train baseline --config unknown.toml",
        "train baseline --config broken.toml",
        "train baseline --config wrong.toml",
        "train baseline --config missing.toml",
        "smooth --model run/model.safetensors --data digits --out x",
        "smooth --model run/model.safetensors --data digits --sigma -1 --out x",
        "smooth --model run/model.safetensors --data digits --sigma 0.1 --kappa 0 --out x",
        "smooth --model run/model.safetensors --data digits --sigma 0.1 --preset best --out x",
        "eval --model run/model.safetensors --data digits --sigma 0",
        "certify --model run/model.safetensors --data digits --sigma 0.1 --out x",
        "certify --model run/model.safetensors --data digits --sigma 0.1 --alpha 2 --out x.tsv",
        "certify --model run/model.safetensors --data digits --sigma 0.1 --n 5 --out x.tsv",
        "certify --model run/model.safetensors --data digits --sigma 0 --out x.tsv",
        "certify --model run/model.safetensors --data digits --sigma 0.1 --images 9..3 --out x.tsv",
        "certify --model run/model.safetensors --data digits --sigma 0.1 --shard 3/2 --out x.tsv",
        "certify --model run/model.safetensors --data digits --sigma 0.1 --select best --out x.tsv",
        "calibrate --model run/model.safetensors --data digits --sigma 0.1 --out x.tsv",
        "calibrate --model run/model.safetensors --reference run/model.safetensors --data digits --out x.tsv",
        "calibrate --model run/model.safetensors --reference run/model.safetensors --data digits --sigma 0.1 --miss 0.001 --out x.tsv",
        "calibrate --model run/model.safetensors --reference run/model.safetensors --data digits --sigma 0.1 --images 0..50 --out x.tsv",
        "calibrate --model run/model.safetensors --reference run/model.safetensors --data digits --sigma 0.1 --split train --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --steps 0 --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --samples 4 --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --samples 0 --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --fresh-noise --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --target cat --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --top-k 10 --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --step-size 0 --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --gamma 0.1 --out x.tsv",
        "attack pgd --model run/model.safetensors --data digits --save-images 3 --out x.tsv",
        "attack ddn --model run/model.safetensors --data digits --gamma 1 --out x.tsv",
        "attack ddn --model run/model.safetensors --data digits --levels 1 --out x.tsv",
        "attack ddn --model run/model.safetensors --data digits --eps 0 --out x.tsv",
        "attack ddn --model run/model.safetensors --data digits --step-size 1 --out x.tsv",
        "train smoothadv --data digits --arch mlp --sigma 0.25 --attack-steps 0 --out x",
        "train adversarial --data digits --arch mlp --sigma 0.25 --out x",
        "train gaussian --data digits --arch mlp --preset best --out x",
        "reproduce cifar10 --out x --preset best",
        "reproduce cifar10 --out x",
        "data fetch imagenet",
        "data verify cifar10",
        "merge run/epochs.tsv --out x.tsv",
        "report nowhere --out x",
        "convert run/model.safetensors x.bin",
        "predict --model run/model.safetensors --samples 100 cat.png",
        "predict --model run/model.safetensors --sigma 0.1 --samples 3 cat.png",
    ] {
        let text = shown(folder.path(), arguments);
        assert!(text.contains("\nexit code 2\n"), "{text}");
        all += &text;
        all += "\n";
    }
    assert!(
        !at("x").exists() && !at("x.tsv").exists(),
        "something was left behind"
    );
    insta::assert_snapshot!(all);
}

/// What a damaged model file is called, region by region.
#[test]
fn errors_of_model_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    trained(folder.path());
    let sound = std::fs::read(at("run/model.safetensors")).unwrap();
    let header = u64::from_le_bytes(sound[..8].try_into().unwrap()) as usize;
    let text = String::from_utf8(sound[8..8 + header].to_vec()).unwrap();
    let with_header = |text: String| {
        // The header keeps its length: fill up with blanks.
        let mut bytes = sound.clone();
        let text = format!("{text:header$}");
        assert_eq!(text.len(), header);
        bytes[8..8 + header].copy_from_slice(text.as_bytes());
        bytes
    };
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is not in the header");
        with_header(text.replacen(from, to, 1))
    };
    let mut nan = sound.clone();
    let end = nan.len();
    nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let mut long = sound.clone();
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    for (name, bytes) in [
        ("empty", vec![]),
        ("short", sound[..5].to_vec()),
        ("truncated-header", sound[..8 + header / 2].to_vec()),
        ("truncated-tensors", sound[..sound.len() - 7].to_vec()),
        ("too-long", [sound.as_slice(), &[0; 16]].concat()),
        ("header-length", long),
        ("json", changed("{", "[")),
        ("graph", changed("\\\"linear\\\"", "\\\"magic!\\\"")),
        ("shape", changed("\"shape\":[10,64]", "\"shape\":[64,10]")),
        ("dtype", changed("\"dtype\":\"F32\"", "\"dtype\":\"I32\"")),
        ("nan", nan),
        ("text", b"not a model at all, just some text".to_vec()),
    ] {
        std::fs::write(at(&format!("{name}.safetensors")), bytes).unwrap();
    }
    std::fs::write(at("broken.png"), b"\x89PNG\r\n\x1a\nnothing").unwrap();
    let mut all = String::new();
    for arguments in [
        "inspect empty.safetensors",
        "inspect short.safetensors",
        "inspect truncated-header.safetensors",
        "inspect truncated-tensors.safetensors",
        "inspect too-long.safetensors",
        "inspect header-length.safetensors",
        "inspect json.safetensors",
        "inspect graph.safetensors",
        "inspect shape.safetensors",
        "inspect dtype.safetensors",
        "inspect nan.safetensors",
        "inspect text.safetensors",
        "inspect missing.safetensors",
        "predict --model run/model.safetensors broken.png",
        "predict --model run/model.safetensors missing.png",
    ] {
        let text = shown(folder.path(), arguments);
        assert!(text.contains("\nexit code 2\n"), "{text}");
        assert!(!text.contains("panicked"), "{text}");
        all += &text;
        all += "\n";
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_closed_pipe_is_no_error() {
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(["train", "baseline", "--arch", "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

/// What heat steps have moved must not be what averaging starts from: it refuses a student that
/// does not resemble its teacher.
#[test]
fn every_work_of_bench_has_a_network_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let command = "bench --arch smallcnn --batch 16 --kappa 1 --seconds 0.4 --threads 1";
    let said = shown(
        folder.path(),
        &format!("{command} --work heat --work average"),
    );
    assert!(
        said.contains("average") && said.contains("exit code 0"),
        "{said}"
    );
}

/// The README's example. Digits that rounding may move are left out.
#[test]
fn the_shipped_model_knows_a_cat() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/cifar10");
    let said = shown(&results, "predict --model heat cat.png");
    assert!(
        said.contains("cat.png: cat, probability 0.837")
            && said.contains("L-bound radius 0.10")
            && said.contains("approximate: holds if v is exactly a Gaussian average"),
        "{said}"
    );
}

/// The published tables of CIFAR-10 follow from the published logs, and the logs
/// from the published models.
#[test]
fn the_shipped_tables_follow_from_the_shipped_logs_and_models() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = root.join("results/cifar10");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let arguments = format!(
        "report results/cifar10 --radii 0,0.1,0.2,0.3 --out {}",
        out.display()
    );
    let said = shown(&root, &arguments);
    assert!(said.contains("exit code 0"), "{said}");
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder.join("tables")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let shipped = results.join("report");
    assert_eq!(names(&out), names(&shipped));
    for name in names(&out) {
        let text = |folder: &Path| std::fs::read_to_string(folder.join("tables").join(&name));
        assert_eq!(text(&out).unwrap(), text(&shipped).unwrap(), "{name:?}");
    }

    for model in ["baseline", "gaussian", "smoothadv", "heat", "heat-attacked"] {
        let weights = std::fs::read(results.join(model).join("model.safetensors")).unwrap();
        for log in ["certify", "lbound", "pgd", "ddn"] {
            let manifest = results.join(format!("{log}-{model}.json"));
            let manifest: serde_json::Value =
                serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
            assert_eq!(
                manifest["model"]["sha256"],
                heatsmooth::network::file::sha256(&weights)
            );
        }
    }
}

#[test]
fn a_model_is_fine_tuned_from_another_ones_weights() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path());
    let run = |arguments: &str| {
        let output = heatsmooth(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let from = "train gaussian --from run/model.safetensors --data digits --sigma 0.25";
    run(&format!("{from} --epochs 1 --lr 1e-9 --out tuned"));
    let accuracy = |model: &str| {
        let output = run(&format!(
            "eval --model {model}/model.safetensors --data digits --json"
        ));
        let value: serde_json::Value = serde_json::from_str(&output).unwrap();
        value[0]["top1"].as_f64().unwrap()
    };
    // With next to no learning rate it stays what it was, statistics aside.
    let (before, after) = (accuracy("run"), accuracy("tuned"));
    assert!((before - after).abs() < 0.1, "{before} {after}");
    let manifest = std::fs::read_to_string(folder.path().join("tuned/run.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let parent = std::fs::read_to_string(folder.path().join("run/run.json")).unwrap();
    let parent: serde_json::Value = serde_json::from_str(&parent).unwrap();
    assert_eq!(manifest["parent"]["sha256"], parent["model"]["sha256"]);
    assert_eq!(manifest["configuration"]["arch"], "mlp");
}

#[test]
fn the_configuration_printed_is_the_configuration_run() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        "train baseline --data digits --arch mlp --out x --epochs 3 --clip 2 --print-config";
    let first = heatsmooth(folder.path(), arguments);
    assert!(first.status.success());
    let printed = String::from_utf8_lossy(&first.stdout);
    assert!(printed.contains("\nmomentum = 0.9\n"), "{printed}");
    std::fs::write(folder.path().join("c.toml"), &first.stdout).unwrap();
    let again = heatsmooth(
        folder.path(),
        "train baseline --config c.toml --print-config",
    );
    assert_eq!(first.stdout, again.stdout);
    assert!(!folder.path().join("x").exists());
}

#[test]
fn the_configuration_printed_of_smoothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = "train baseline --data digits --arch mlp --epochs 1 --out run -q";
    assert!(heatsmooth(folder, train).status.success());
    for (by, has, has_not) in [
        ("--by heat", "\nkappa = 1\n", "draws"),
        ("--by average", "\ndraws = 2\n", "kappa"),
        ("", "\ndraws = 2\n", "kappa"),
    ] {
        let out = format!("smooth{}", by.replace(' ', "-"));
        let given = "--model run --data digits --sigma 0.25 --epochs 1";
        let shown = heatsmooth(
            folder,
            &format!("smooth {given} {by} --out {out} --print-config"),
        );
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(text.contains(has) && !text.contains(has_not), "{text}");
        std::fs::write(folder.join("c.toml"), &shown.stdout).unwrap();
        let again = heatsmooth(folder, "smooth --config c.toml --print-config");
        assert_eq!(shown.stdout, again.stdout);
        let ran = heatsmooth(folder, "smooth --config c.toml -q");
        assert!(ran.status.success(), "{by}: {ran:?}");
        assert!(folder.join(out).join("model.safetensors").exists());
    }
}

#[test]
fn models_are_called_by_their_labels_in_reports() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = "train baseline --data digits --arch mlp --epochs 1 -q";
    for (out, label) in [("a", "first"), ("b", "second")] {
        let seed = label.len();
        let made = heatsmooth(
            folder,
            &format!("{train} --seed {seed} --label {label} --out {out}"),
        );
        assert!(made.status.success(), "{made:?}");
        let certify = format!("certify --model {out} --data digits --images 0..5 --n 100 -q");
        let done = heatsmooth(
            folder,
            &format!("{certify} --sigma 0.25 --out certify-{out}.tsv"),
        );
        assert!(done.status.success(), "{done:?}");
    }
    // What it is called is no part of what was made.
    let other = heatsmooth(folder, &format!("{train} --seed 5 --label other --out a"));
    assert!(other.status.success(), "{other:?}");
    let nameless = shown(folder, &format!("{train} --label= --out c"));
    assert!(
        nameless.contains("--label is ``, expected a name of one line"),
        "{nameless}"
    );
    let done = heatsmooth(folder, "report . --out report -q");
    assert!(done.status.success(), "{done:?}");
    let page = std::fs::read_to_string(folder.join("report/report.html")).unwrap();
    for label in ["first", "second"] {
        assert!(page.contains(&format!(">{label}<")), "{label}");
    }
}
