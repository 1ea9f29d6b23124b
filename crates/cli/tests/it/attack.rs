//! Attacks as the user runs them: warnings, targets, pictures, configurations.

use std::path::Path;
use std::process::{Command, Output};

use heatsmooth::network::{GraphBuilder, Model, ModelInfo, Op, Parameters, Shape};
use serde_json::Value;

fn heatsmooth(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// Runs a command that must work; its stdout and stderr.
fn done(folder: &Path, arguments: &str) -> (String, String) {
    let output = heatsmooth(folder, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments}: {stderr}");
    (stdout, stderr)
}

fn trained(folder: &Path) {
    let arguments = "train baseline --data digits --arch smallcnn --epochs 3 --out run --quiet";
    done(folder, arguments);
}

const HIDDEN: usize = 4;

/// Digits -> 4 hidden units -> 10 logits, with these weights and biases.
fn model(path: &Path, values: [Vec<f32>; 4]) {
    let mut graph = GraphBuilder::new(Shape::new(8, 8, 1));
    let linear = |out_features| Op::Linear {
        out_features,
        bias: true,
    };
    graph.then("flatten", Op::Flatten);
    graph.then("hidden", linear(HIDDEN));
    graph.then("relu", Op::RELU);
    graph.then("logits", linear(10));
    let graph = graph.build().unwrap();
    let model = Model {
        parameters: Parameters::new(&graph, values.to_vec()),
        info: ModelInfo::default(),
        graph,
    };
    std::fs::write(path, model.to_bytes()).unwrap();
}

/// Different numbers around 0.
fn wavy(len: usize, size: f32) -> Vec<f32> {
    (0..len).map(|i| size * (i as f32 * 1.7).sin()).collect()
}

/// The warnings of a PGD attack on a few images.
fn warnings(folder: &Path, name: &str, values: [Vec<f32>; 4]) -> Vec<String> {
    let file = format!("{name}.safetensors");
    model(&folder.join(&file), values);
    let arguments =
        format!("attack pgd --model {file} --data digits --images 0..8 --out {name}.tsv");
    let stderr = heatsmooth(folder, &arguments).stderr;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let lines = stderr.lines().filter(|line| line.starts_with("warning: "));
    lines.map(String::from).collect()
}

/// A network here cannot be random (no layer is), so that warning is tested with
/// the attacks themselves.
#[test]
fn doubtful_networks_are_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ones = || vec![1.0; HIDDEN];
    let sound = [
        wavy(64 * HIDDEN, 0.1),
        ones(),
        wavy(10 * HIDDEN, 1.0),
        wavy(10, 1.0),
    ];
    assert_eq!(warnings(folder, "sound", sound.clone()), [""; 0]);

    let mut dead = sound.clone();
    dead[1] = vec![-1000.0; HIDDEN];
    let told = warnings(folder, "dead", dead);
    assert!(told.len() == 1 && told[0].contains("the gradient is 0 at 8 of 8 images"));
    assert!(told[0].contains("look for saturated"), "{told:?}");

    // The first pixel of every digit is 0: the logits are fine, the gradient is not.
    let mut infinite = sound.clone();
    (0..HIDDEN).for_each(|unit| infinite[0][64 * unit] = 3e38);
    infinite[2] = vec![0.0; 10 * HIDDEN];
    infinite[2][..HIDDEN].fill(1.0);
    let told = warnings(folder, "infinite", infinite);
    assert!(
        told.len() == 1 && told[0].contains("infinite or NaN"),
        "{told:?}"
    );
    assert!(told[0].contains("check the weights"), "{told:?}");

    // Weights that cancel over the classes keep the outputs' sum at 1.
    let mut softmax = sound;
    softmax[2] = wavy(10 * HIDDEN, 0.01);
    for unit in 0..HIDDEN {
        let sum: f32 = (0..9).map(|class| softmax[2][class * HIDDEN + unit]).sum();
        softmax[2][9 * HIDDEN + unit] = -sum;
    }
    softmax[3] = vec![0.1; 10];
    let told = warnings(folder, "softmax", softmax);
    assert!(
        told.len() == 1 && told[0].contains("look like probabilities"),
        "{told:?}"
    );
    assert!(
        told[0].contains("remove the network's last softmax"),
        "{told:?}"
    );
}

#[test]
fn distances_on_ddns_floor_are_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path());
    let ddn = "attack ddn --model run/model.safetensors --data digits --images 0..30";
    let (_, floor) = done(
        folder.path(),
        &format!("{ddn} --init-norm 5 --out floor.tsv"),
    );
    assert!(
        floor.contains("warning: ") && floor.contains("take more steps"),
        "{floor}"
    );
    let (_, enough) = done(
        folder.path(),
        &format!("{ddn} --steps 200 --out enough.tsv"),
    );
    assert!(!enough.contains("warning: "), "{enough}");
}

/// Columns of a log by name, as numbers.
fn column(text: &str, name: &str) -> Vec<f64> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let at = head.iter().position(|column| *column == name).unwrap();
    let cells = lines.map(|line| line.split('\t').nth(at).unwrap());
    cells.map(|cell| cell.parse().unwrap_or(f64::NAN)).collect()
}

#[test]
fn targeted_attacks_say_so_in_log_summary_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let pgd = "attack pgd --model run/model.safetensors --data digits --images 0..60 --quiet";
    for target in ["3", "next", "random"] {
        let arguments = format!("{pgd} --target {target} --out {target}.tsv --json");
        let (summary, _) = done(folder, &arguments);
        let summary: Value = serde_json::from_str(&summary).unwrap();
        let log = std::fs::read_to_string(folder.join(format!("{target}.tsv"))).unwrap();
        let [label, wanted, success, predict] =
            ["label", "target", "success", "adv_predict"].map(|name| column(&log, name));
        let mut left_out = 0;
        for i in 0..60 {
            left_out += usize::from(wanted[i] == label[i]);
            let there = predict[i] == wanted[i] && wanted[i] != label[i];
            assert_eq!(success[i] == 1.0, there, "{target}, image {i}");
        }
        assert_eq!(left_out > 0, target == "3");
        assert_eq!(summary["left_out"], left_out);
        assert_eq!(summary["targeted"], true);
        assert!(summary["broken"].as_u64().unwrap() > 20, "{summary}");
        let counted = ["already_wrong", "broken", "failed", "left_out"];
        let counted = counted.map(|key| summary[key].as_u64().unwrap());
        assert_eq!(counted.iter().sum::<u64>(), 60);
        let json = std::fs::read_to_string(folder.join(format!("{target}.json"))).unwrap();
        let manifest: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(manifest["procedure"], "pgd-targeted");
        assert_eq!(manifest["configuration"]["target"], target);
    }
    // An interrupted log ends with the same bytes and the same summary.
    let log = std::fs::read_to_string(folder.join("3.tsv")).unwrap();
    let half: String = log.split_inclusive('\n').take(40).collect();
    std::fs::write(folder.join("3.tsv"), half).unwrap();
    let (again, _) = done(folder, &format!("{pgd} --target 3 --out 3.tsv"));
    let (whole, _) = done(folder, &format!("{pgd} --target 3 --out 3.tsv"));
    assert_eq!(again, whole);
    let without_time = |log: &str| -> Vec<String> {
        let time = log.lines().next().unwrap().split('\t');
        let time = time.into_iter().position(|c| c == "time").unwrap();
        let line = |line: &str| {
            let cells = line.split('\t').enumerate();
            let cells: Vec<&str> = cells.filter(|(i, _)| *i != time).map(|c| c.1).collect();
            cells.join("\t")
        };
        log.lines().map(line).collect()
    };
    let resumed = std::fs::read_to_string(folder.join("3.tsv")).unwrap();
    assert_eq!(without_time(&log), without_time(&resumed));

    done(folder, "report 3.tsv --out report --attacks paper");
    let (summary, _) = done(folder, &format!("{pgd} --target 3 --out 3.tsv --json"));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let paper = summary["paper_convention"]["median"].as_f64().unwrap();
    let tables = std::fs::read_dir(folder.join("report/tables")).unwrap();
    let mut tables = tables.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    assert!(tables.any(|table| table.contains(&format!("{paper:.4}"))));
    let page = std::fs::read_to_string(folder.join("report/report.html")).unwrap();
    assert!(page.contains("PGD-TARGETED") && page.contains("class are left out"));
}

#[test]
fn pictures_show_the_difference_and_by_how_much_it_is_amplified() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let arguments = "attack ddn --model run/model.safetensors --data digits --images 0..12 \
                     --sigma 0.1 --save pictures --save-images 5 --out ddn.tsv --quiet";
    done(folder, arguments);
    let json = std::fs::read(folder.join("pictures/gallery.json")).unwrap();
    let gallery: Value = serde_json::from_slice(&json).unwrap();
    let images = gallery["images"].as_array().unwrap();
    assert_eq!(images.len(), 5);
    let attacked: Vec<&Value> = images
        .iter()
        .filter(|i| !i["adversarial"].is_null())
        .collect();
    assert!(!attacked.is_empty());
    for image in attacked {
        let difference = &image["adversarial"]["difference"];
        let (name, factor) = (
            difference["picture"].as_str().unwrap(),
            &difference["factor"],
        );
        assert!(
            name.ends_with(&format!("-difference-x{factor}.png")),
            "{name}"
        );
        // Width and height stand at bytes 16 to 23 of a PNG file.
        let size = |name: &str| {
            let file = std::fs::read(folder.join("pictures").join(name)).unwrap();
            [16, 20].map(|at| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()))
        };
        assert_eq!(size(name), [8, 8]);
        let beside = name.replace("difference", "side-by-side");
        assert_eq!(size(&beside), [3 * 8 + 2 * 2, 8]);
    }
    done(folder, "report ddn.tsv pictures --out report");
    let page = std::fs::read_to_string(folder.join("report/report.html")).unwrap();
    assert!(page.contains("difference ×"));
}

/// Every option can stand in a file, under its name; those of the other attack,
/// or of another training method, cannot.
#[test]
fn configurations_know_their_own_method_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let attack = "model = 'm.safetensors'\ndata = 'digits'\nout = 'a.tsv'\nsteps = 7\n\
                  samples = 4\nsigma = 0.2\nfresh-noise = true\ntop-k = 2\nbatch-size = 9\n\
                  save = 'pictures'\nsave-images = 3\n";
    let train = "data = 'digits'\narch = 'mlp'\nout = 'x'\n";
    let adversarial = "eps = 0.25\nattack = 'ddn'\nattack-steps = 3\neps-warmup = 2\n";
    let smooth = format!("sigma = 0.2\nsamples = 3\n{adversarial}");
    for (command, text, own) in [
        (
            "attack pgd",
            attack,
            "eps = 2.0\nstep-size = 0.3\ntarget = 3\n",
        ),
        (
            "attack ddn",
            attack,
            "eps = 2.0\ninit-norm = 0.5\ngamma = 0.1\nlevels = 0\ntarget = 'next'\n",
        ),
        ("train baseline", train, ""),
        ("train gaussian", train, "sigma = 0.2\n"),
        ("train smoothadv", train, &smooth),
        ("train adversarial", train, adversarial),
    ] {
        let whole = format!("{text}{own}");
        std::fs::write(folder.join("c.toml"), &whole).unwrap();
        let (printed, _) = done(folder, &format!("{command} --config c.toml --print-config"));
        let printed: toml::Table = toml::from_str(&printed).unwrap();
        for (key, value) in toml::from_str::<toml::Table>(&whole).unwrap() {
            // A class may be given as a number; it is kept as the text that it is.
            let text = |value: &toml::Value| value.to_string().replace(['"', '\''], "");
            let printed = printed.get(&key).map(text);
            assert_eq!(printed, Some(text(&value)), "{command}: {key}");
        }
    }
    for (command, text, foreign) in [
        ("attack pgd", attack, "gamma = 0.1"),
        ("attack ddn", attack, "step-size = 0.1"),
        ("train baseline", train, "eps = 0.5"),
        ("train baseline", train, "sigma = 0.5"),
        ("train gaussian", train, "sigma = 0.5\nsamples = 2"),
        ("train adversarial", train, "sigma = 0.5"),
    ] {
        std::fs::write(folder.join("c.toml"), format!("{text}{foreign}\n")).unwrap();
        let output = heatsmooth(folder, &format!("{command} --config c.toml"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let key = foreign.lines().last().unwrap().split(' ').next().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {told}");
        let wanted = format!("c.toml: unknown option `{key}`");
        assert!(told.contains(&wanted), "{command}: {told}");
    }
}

/// Each preset is found, and every key of it is known to its command.
#[test]
fn presets_are_listed_and_fit_their_commands() {
    let folder = tempfile::tempdir().unwrap();
    let presets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../heatsmooth/presets");
    let mut files = 0;
    for command in [
        "smooth",
        "train baseline",
        "train gaussian",
        "train smoothadv",
        "train adversarial",
    ] {
        let (list, _) = done(folder.path(), &format!("{command} --preset list"));
        for name in list.lines().filter(|line| !line.starts_with(' ')) {
            files += 1;
            let method = match command {
                "smooth" => "heat",
                command => command.trim_start_matches("train "),
            };
            let file = format!("{method}-{name}.toml");
            let text = std::fs::read_to_string(presets.join(&file)).unwrap();
            let needed = if command == "smooth" {
                "--model m.onnx"
            } else {
                ""
            };
            let sigma = match text.contains("sigma = ") || command.ends_with("baseline") {
                false if command != "train adversarial" => "--sigma 0.25",
                _ => "",
            };
            let arguments = format!(
                "{command} --preset {name} --data cifar10 --out x {needed} {sigma} --print-config"
            );
            let (printed, _) = done(folder.path(), &arguments);
            let printed: toml::Table = toml::from_str(&printed).unwrap();
            for (key, value) in toml::from_str::<toml::Table>(&text).unwrap() {
                assert_eq!(value, printed[&key], "{file}: {key}");
            }
        }
    }
    let shipped = std::fs::read_dir(presets).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        let name = name.to_string_lossy();
        !name.starts_with("reproduce-")
    });
    assert_eq!(files, shipped.count());
}
