//! The ImageNet recipe on a stand-in of ImageNet's form: ten synsets, 300 JPEGs of
//! varying sizes, from folders, tar shards and Parquet tables alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use heatsmooth::Model;

use crate::checkpoint::{self, Layout};
use crate::kill::without_times;
use crate::parquet;

const SYNSETS: [&str; 10] = [
    "n01440764",
    "n01443537",
    "n01484850",
    "n01491361",
    "n01494475",
    "n01496331",
    "n01498041",
    "n01514668",
    "n01514859",
    "n01518878",
];

/// An image: its class, its file's name, its bytes.
type Image = (usize, String, Vec<u8>);

/// A JPEG whose colours and stripes depend on its class, whose size on its number.
fn jpeg(class: usize, number: usize) -> Vec<u8> {
    let (width, height) = (
        28 + (number * 7 + class) % 30,
        24 + (number * 11 + class * 3) % 40,
    );
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let wave = ((x * (1 + class % 3) + y * (1 + class / 3) + number * 5) % 24) as u8;
            let grain = ((x * 31 + y * 17 + number * 13) % 23) as u8;
            let colour = (class * 25) as u8;
            pixels.extend([
                colour + grain / 2,
                240 - colour + wave / 2,
                wave * 8 + grain,
            ]);
        }
    }
    let mut file = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut file, 90);
    let (width, height) = (width as u16, height as u16);
    encoder
        .encode(&pixels, width, height, jpeg_encoder::ColorType::Rgb)
        .unwrap();
    file
}

/// The images of a split, in the order of class folders.
fn images(first: usize, count: usize) -> Vec<Image> {
    let one = |class: usize, number: usize| {
        let name = format!("{}_{number:05}.JPEG", SYNSETS[class]);
        (class, name, jpeg(class, number))
    };
    let all = (0..SYNSETS.len()).flat_map(|class| (first..first + count).map(move |n| (class, n)));
    all.map(|(class, number)| one(class, number)).collect()
}

fn write_folder(root: &Path, images: &[Image]) {
    for (class, name, bytes) in images {
        let folder = root.join(SYNSETS[*class]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Shards in webdataset's naming, the label beside the image.
fn write_shards(root: &Path, split: &str, images: &[Image]) {
    std::fs::create_dir_all(root).unwrap();
    for (number, part) in images.chunks(images.len().div_ceil(2)).enumerate() {
        let path = root.join(format!("standin-{split}-{number:04}.tar"));
        let mut archive = tar::Builder::new(std::fs::File::create(path).unwrap());
        let mut put = |name: String, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            archive.append_data(&mut header, name, bytes).unwrap();
        };
        for (class, name, bytes) in part {
            put(name.clone(), bytes);
            let key = name.trim_end_matches(".JPEG");
            put(format!("{key}.cls"), class.to_string().as_bytes());
        }
        archive.finish().unwrap();
    }
}

fn recipe(data: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
    command.args([
        "reproduce",
        "imagenet",
        "--arch",
        "resnet20-cifar",
        "--input",
        "16x16x3",
    ]);
    command.arg("--data").arg(data).arg("--out").arg(out);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// On three images.
fn small(data: &Path, out: &Path) -> Command {
    let mut command = recipe(data, out);
    command.args(["--images", "3", "--skip", "20"]);
    command
}

/// All logs of a folder, without the columns of times.
fn rows(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let files = std::fs::read_dir(folder).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let logs = paths.filter(|path| path.extension().is_some_and(|ending| ending == "tsv"));
    logs.map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, without_times(&path))
    })
    .collect()
}

#[test]
fn the_recipe_runs_on_folders_shards_and_tables_alike_killed_or_not() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let (train, test) = (images(0, 24), images(24, 6));
    write_folder(&at("folders/train"), &train);
    write_folder(&at("folders/val"), &test);
    write_shards(&at("shards"), "train", &train);
    write_shards(&at("shards"), "validation", &test);
    parquet::write(
        &at("tables/data/train-00000-of-00001.parquet"),
        &SYNSETS,
        &train,
    );
    parquet::write(
        &at("tables/data/validation-00000-of-00001.parquet"),
        &SYNSETS,
        &test,
    );

    assert!(
        small(&at("folders"), &at("one"))
            .status()
            .unwrap()
            .success()
    );
    let expected = rows(&at("one"));
    // Of the baseline, HeatSmoothing and its average: L-bound, PGD, DDN and both rules of
    // certification; fidelity of two.
    assert_eq!(expected.len(), 3 * 5 + 2, "{:?}", expected.keys());
    assert!(expected.values().all(|rows| rows.len() == 4));
    assert!(at("one/report/report.html").is_file());

    assert!(small(&at("shards"), &at("two")).status().unwrap().success());
    assert!(rows(&at("two")) == expected);

    let mut kills = 0;
    loop {
        let mut child = small(&at("tables"), &at("three")).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(2500 * (1 + kills)));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(kills < 50, "the run makes no progress");
    }
    assert!(kills > 0, "the run was over before it could be killed");
    assert!(rows(&at("three")) == expected, "{kills} kills");

    given_weights_are_taken_as_published(root.path(), &expected);

    // So they are by the price list.
    let given = at("one/baseline/model.safetensors");
    let mut command = small(&at("folders"), &at("priced"));
    command
        .args(["--price", "--json", "--baseline"])
        .arg(&given);
    command.arg("--gaussian").arg(&given).stdout(Stdio::piped());
    let output = command.output().unwrap();
    assert!(output.status.success());
    let price: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stages = price["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 4 + 4 * 5 + 2, "{price:#}");
    assert_eq!(stages[0]["stage"], "baseline: given weights");
    assert!(price["seconds"].as_f64().unwrap() > 0.0);
    assert!(!at("priced").exists());
}

/// The same weights in the files of torchvision, of Cohen and of Salman give the same
/// rows, and the comparators come in with them.
fn given_weights_are_taken_as_published(root: &Path, expected: &BTreeMap<String, Vec<String>>) {
    let at = |name: &str| root.join(name);
    let bytes = std::fs::read(at("one/baseline/model.safetensors")).unwrap();
    let model = Model::from_bytes(&bytes).unwrap();
    let mut command = small(&at("folders"), &at("given"));
    for (option, file, layout) in [
        ("--baseline", "resnet50-0676ba61.pth", Layout::Torchvision),
        ("--gaussian", "cohen.pth.tar", Layout::Cohen),
        ("--smoothadv", "salman.pth.tar", Layout::Cohen),
    ] {
        checkpoint::save(&model, &at(file), layout);
        command.arg(option).arg(at(file));
    }
    assert!(command.status().unwrap().success());
    let given = rows(&at("given"));
    assert_eq!(given.len(), 5 * 5 + 2, "{:?}", given.keys());
    for what in [
        "lbound",
        "pgd",
        "ddn",
        "certify-top-5-paper",
        "certify-top-5-sound",
    ] {
        let baseline = format!("{what}-baseline.tsv");
        assert!(given[&baseline] == expected[&baseline], "{baseline}");
    }
    // Clean answers are the baseline's; only the noise level is new.
    let sound = |name: &str| &given[&format!("certify-top-5-sound-{name}.tsv")];
    assert!(sound("gaussian") == sound("baseline") && sound("smoothadv") == sound("baseline"));
}

/// The paper's own settings, from random weights, on fewer images.
#[test]
fn the_paper_s_preset_runs_to_its_end() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("folders");
    write_folder(&data.join("train"), &images(0, 3));
    write_folder(&data.join("val"), &images(3, 2));
    let out = root.path().join("out");
    let mut command = recipe(&data, &out);
    command.args(["--preset", "paper", "--skip", "10", "--images", "2"]);
    assert!(command.status().unwrap().success());
    let logs = rows(&out);
    assert_eq!(logs.len(), 5 * 5 + 2, "{:?}", logs.keys());
    assert!(logs.values().all(|rows| rows.len() == 3));
    let made = |name: &str| {
        let text = std::fs::read_to_string(out.join(name).join("epochs.tsv")).unwrap();
        text.lines().count() - 1
    };
    let epochs = ["baseline", "gaussian", "smoothadv", "heat"].map(made);
    assert_eq!(epochs, [29, 90, 90, 5 * 15]);
    assert!(out.join("report/report.html").is_file());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let root = tempfile::tempdir().unwrap();
    let data: PathBuf = root.path().join("folders");
    write_folder(&data.join("train"), &images(0, 1));
    write_folder(&data.join("val"), &images(1, 2));
    for (options, words) in [
        (&["--skip", "21"][..], "--skip is `21`"),
        (&["--images", "2", "--skip", "20"], "--images is `2`"),
        (&["--preset", "fast"], "preset is `fast`"),
        (&["--baseline", "nowhere.pth"], "nowhere.pth"),
        (
            &["--arch", "resnet51", "--skip", "1", "--images", "2"],
            "resnet51",
        ),
        (&["--input", "16"], "input is `16`"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
        command.args(["reproduce", "imagenet", "--data"]).arg(&data);
        command
            .arg("--out")
            .arg(root.path().join("out"))
            .args(options);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{options:?}: {text}");
        assert!(!root.path().join("out").exists());
    }
}
