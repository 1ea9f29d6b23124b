//! Files that are nearly right: readers refuse them or read them, and never panic.
//!
//! What `fuzz/` does for hours with coverage and sanitizers, done here for seconds on any
//! toolchain: seeds of every kind of text and array file are changed at random and read by
//! the entry points of the fuzz targets `values`, `log` and `config`.
//! `HEATSMOOTH_MUTATIONS=ROUNDS,SEED` takes more rounds than the tests do.

use std::path::Path;

use heatsmooth::data::{OpenOptions, Shape, Split, Targets, View, encode_png, open};
use heatsmooth::record::{
    AttackRow, CalibrationRow, CertifyRow, CleverRow, FidelityRow, Gallery, IntervalRow, LboundRow,
    Manifest, Row, RunManifest, Tsv, merge,
};
use heatsmooth::report;

use crate::cli::heatsmooth;

/// Uniform numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    /// One to four changes: bits, bytes, pieces cut, doubled or taken from elsewhere, and
    /// words that readers may stumble over.
    fn change(&mut self, seed: &[u8]) -> Vec<u8> {
        const WORDS: [&[u8]; 16] = [
            b"nan",
            b"-1",
            b"1e999",
            b"1e308",
            b"4294967296",
            b"18446744073709551616",
            b"",
            b"\t",
            b"\n",
            b"\r\n",
            b"\"",
            b"{",
            b"null",
            b"[]",
            b"\xff\xfe",
            b"-0",
        ];
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let piece = at..(at + self.below(24)).min(bytes.len());
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(piece)),
                4 => {
                    let copied = bytes[piece].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, copied);
                }
                5 => drop(bytes.splice(piece, WORDS[self.below(16)].iter().copied())),
                _ => {
                    // A word of its own in the place of another one.
                    let is_end = |byte: &u8| b"\t\n,: }]".contains(byte);
                    let rest = &bytes[at..];
                    let start = at + rest.iter().position(is_end).map_or(rest.len(), |p| p + 1);
                    let rest = &bytes[start..];
                    let end = start + rest.iter().position(is_end).unwrap_or(rest.len());
                    bytes.splice(start..end, WORDS[self.below(16)].iter().copied());
                }
            }
        }
        bytes
    }
}

/// Rounds and seed: as said, or a few.
fn rounds() -> (usize, Random) {
    let given = std::env::var("HEATSMOOTH_MUTATIONS").unwrap_or_default();
    let (rounds, seed) = given.split_once(',').unwrap_or((&given, "0"));
    (
        rounds.parse().unwrap_or(150),
        Random(seed.parse().unwrap_or(0)),
    )
}

fn npy(kind: &str, shape: &str, content: &[u8]) -> Vec<u8> {
    let mut head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while (head.len() + 11) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
    bytes.extend(content);
    bytes
}

/// A zip archive without compression.
fn zip(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
            })
        })
    }
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let mut entry = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        entry.extend(crc(content).to_le_bytes());
        entry.extend((content.len() as u32).to_le_bytes());
        entry.extend((content.len() as u32).to_le_bytes());
        entry.extend((name.len() as u16).to_le_bytes());
        entry.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&entry);
        directory.extend([0; 10]);
        directory.extend((bytes.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&entry);
        bytes.extend(name.as_bytes());
        bytes.extend(content);
    }
    let (start, count) = (bytes.len() as u32, files.len() as u16);
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\x00\x00\x00\x00");
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

/// Whether a data set can be opened; what opens is whole.
fn opens(file: &Path) -> bool {
    let options = OpenOptions {
        root: None,
        view: View::for_shape(Shape::new(2, 2, 1)),
        ..OpenOptions::default()
    };
    let Ok(dataset) = open(file.to_str().unwrap(), Split::Train, &options) else {
        return false;
    };
    assert!(!dataset.is_empty());
    assert!(dataset.values().iter().all(|value| value.is_finite()));
    match dataset.targets() {
        Targets::Values { names, values } => {
            assert_eq!(values.len(), dataset.len() * names.len());
        }
        Targets::Classes { names, labels } => {
            assert!(labels.iter().all(|&label| (label as usize) < names.len()));
        }
        Targets::Unknown => {}
    }
    let last = dataset.len() as u32 - 1;
    if let Ok(images) = dataset.images([0, last]) {
        let mut pixels = images.pixels.iter();
        assert!(pixels.all(|pixel| (0.0..=1.0).contains(pixel)));
    }
    true
}

#[test]
fn changed_files_of_values_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let picture = encode_png(Shape::new(2, 2, 1), &[0.5; 4]).unwrap();
    std::fs::write(folder.join("1.png"), picture).unwrap();
    let images = npy("|u1", "(2, 2, 2)", &[0, 1, 2, 3, 4, 5, 6, 255]);
    let floats = npy("<f4", "(2, 1)", &[0, 0, 0, 63, 0, 0, 128, 191]);
    let labels = npy(
        "<i8",
        "(2,)",
        &[0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
    );
    let seeds = [
        (
            "values.csv",
            b"path,angle,speed\n1.png,-0.5,30\n\"1.png\", 2e3 ,1\n".to_vec(),
        ),
        (
            "values.npz",
            zip(&[("images.npy", images.clone()), ("values.npy", floats)]),
        ),
        (
            "labels.npz",
            zip(&[("images.npy", images), ("labels.npy", labels)]),
        ),
    ];
    let (rounds, mut random) = rounds();
    for (name, seed) in seeds {
        let file = folder.join(name);
        std::fs::write(&file, &seed).unwrap();
        assert!(opens(&file), "the seed {name} does not open");
        let mut read = 0;
        for _ in 0..rounds {
            std::fs::write(&file, random.change(&seed)).unwrap();
            read += usize::from(opens(&file));
        }
        println!("{name}: {read} of {rounds} read");
        assert!(read < rounds, "{name}: nothing was refused");
    }
}

/// Reads the rows as one kind; what reads has one row a line.
fn rows<R: Row>(table: &Tsv) {
    if let Ok(rows) = table.rows::<R>() {
        assert_eq!(rows.len(), table.lines().count());
    }
}

/// Everything that reads a log or its manifest.
fn read_log(folder: &Path, log: &Path) {
    let manifest = log.with_extension("json");
    if let Ok(table) = Tsv::read(log) {
        rows::<CertifyRow>(&table);
        rows::<AttackRow>(&table);
        rows::<LboundRow>(&table);
        rows::<FidelityRow>(&table);
        rows::<CalibrationRow>(&table);
        rows::<CleverRow>(&table);
        rows::<IntervalRow>(&table);
        let _ = table.numbers();
    }
    let _ = RunManifest::read(&manifest);
    let _ = Gallery::read(&manifest);
    if let Ok(read) = Manifest::read(&manifest) {
        let again = folder.join("again.json");
        read.write(&again).expect("our own manifest");
        let again = Manifest::read(&again).expect("our own manifest");
        assert!(again.differences(&read).is_empty());
        let out = folder.join("merged.tsv");
        let _ = merge(&[log], &out);
        let _ = std::fs::remove_file(out.with_extension("json"));
        let _ = std::fs::remove_file(out);
        if let Ok(report) = report::build(&[log.to_path_buf()], &report::Options::default()) {
            let _ = report.to_html();
        }
    }
}

#[test]
fn changed_logs_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = |arguments: &str| {
        let output = heatsmooth(folder, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {errors}");
    };
    made("train gaussian --data digits --arch mlp --epochs 1 --sigma 0.25 --quiet --out run");
    let of = "--model run --data digits --images 0..4 --quiet --out";
    for (name, command) in [
        ("plain", "certify --n 50"),
        ("pilot", "certify --n 50 --pilot"),
        (
            "prior",
            "certify --n 50 --anytime --radius 0.01 --prior one-pass",
        ),
        ("clever", "clever --batches 3 --samples 4"),
        ("ddn", "attack ddn --steps 3"),
    ] {
        made(&format!("{command} {of} {name}.tsv"));
    }
    made(&format!(
        "fidelity --reference run --samples 3 {of} fidelity.tsv"
    ));
    made(
        "calibrate --model run --reference run --data digits --miss 0.5 --n 20 --images 0..30 --quiet --out calibrate.tsv",
    );
    let values = folder.join("values");
    std::fs::create_dir(&values).unwrap();
    let picture = encode_png(Shape::new(8, 8, 1), &[0.5; 64]).unwrap();
    std::fs::write(values.join("1.png"), picture).unwrap();
    std::fs::write(values.join("v.csv"), "path,v\n1.png,1\n1.png,2\n1.png,3\n").unwrap();
    made(
        "train baseline --data values/v.csv --input 8x8x1 --arch mlp --epochs 1 --quiet --out reg",
    );
    made(
        "certify --model reg --data values/v.csv --sigma 0.1 --eps 0.1 --n 100 --quiet --out intervals.tsv",
    );
    let (rounds, mut random) = rounds();
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "tsv") {
            let manifest = std::fs::read(path.with_extension("json")).unwrap();
            seeds.push((std::fs::read(&path).unwrap(), manifest));
        }
    }
    assert_eq!(seeds.len(), 8);
    seeds.sort();
    let log = folder.join("changed.tsv");
    for round in 0..rounds {
        let (tsv, json) = &seeds[round % seeds.len()];
        let (tsv, json) = match random.below(3) {
            0 => (random.change(tsv), json.clone()),
            1 => (tsv.clone(), random.change(json)),
            _ => (random.change(tsv), random.change(json)),
        };
        std::fs::write(&log, tsv).unwrap();
        std::fs::write(log.with_extension("json"), json).unwrap();
        read_log(folder, &log);
    }
}

#[test]
fn changed_configurations_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let seed = "model = \"m.onnx\"\ndata = \"digits\"\nout = \"o.tsv\"\nsigma = 0.25\nn = 100\n\
                alpha = 0.01\nseed = 3\n";
    let file = folder.path().join("config.toml");
    let (rounds, mut random) = rounds();
    for round in 0..rounds {
        std::fs::write(&file, random.change(seed.as_bytes())).unwrap();
        let command = ["certify", "calibrate", "clever", "smooth"][round % 4];
        let words = ["heatsmooth", command, "--config", file.to_str().unwrap()];
        let code = heatsmooth_cli::run(words.into_iter().chain(["--print-config"]));
        // Printed or refused; never the code of a failure on the way.
        assert!(code != std::process::ExitCode::from(1));
    }
}
