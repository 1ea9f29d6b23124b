//! Sample records with the look of a real comparison: four models of different
//! strength on images of different difficulty, a fixed seed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use record::{
    About, AttackRow, CertifyRow, DataId, FidelityLevel, FidelityRow, Gallery, GalleryWriter,
    Guarantee, LboundRow, LevelDistance, Log, LogKind, Manifest, ModelId, Pictures, Row,
    RunManifest, Selection, SmoothingId, TsvWriter, Versions, format_duration, format_number,
};
use tiny_skia::{Pixmap, PremultipliedColorU8};

pub const SIGMA: f64 = 0.25;
pub const METHODS: [&str; 4] = ["heat", "smoothadv", "gaussian", "baseline"];
/// Mean and spread of the true radius of each model, in sigmas; clean accuracy.
const STRENGTH: [(f64, f64, f64); 4] = [
    (1.9, 1.1, 0.93),
    (1.7, 0.9, 0.88),
    (1.4, 1.0, 0.95),
    (0.3, 0.9, 0.97),
];

/// SplitMix64 and Box-Muller: enough for samples, the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    pub fn below(&mut self, end: u32) -> u32 {
        (self.uniform() * f64::from(end)) as u32
    }
}

pub fn manifest(kind: LogKind, procedure: &str, method: &str, images: u64) -> Manifest {
    Manifest {
        format: Manifest::FORMAT.into(),
        version: Manifest::VERSION,
        procedure: procedure.into(),
        method: method.into(),
        label: None,
        model: model(method),
        reference: (kind == LogKind::Fidelity).then(|| model("baseline")),
        data: data(),
        selection: Selection::all(images),
        sigma: (kind != LogKind::Attack).then_some(SIGMA),
        smoothing: (kind != LogKind::Attack).then(SmoothingId::default),
        seed: 0,
        guarantee: match kind {
            LogKind::Certify => Guarantee::SoundSmoothed {
                alpha: 0.001,
                about: About::TopOne,
                smoothing: SmoothingId::default(),
            },
            LogKind::Lbound => Guarantee::ApproximateIfAverage,
            _ => Guarantee::Empirical,
        },
        configuration: match kind {
            LogKind::Attack => serde_json::json!({"steps": 20, "eps": 4.0}),
            LogKind::Certify => serde_json::json!({"n0": 100, "n": 10000}),
            _ => serde_json::json!({}),
        },
        kind,
        versions: Versions {
            program: "0.1.0".into(),
            isa: "avx2".into(),
            threads: 2,
        },
    }
}

fn model(method: &str) -> ModelId {
    let sha256 = format!(
        "{:016x}",
        method
            .bytes()
            .fold(7u64, |h, b| h.wrapping_mul(0x100_0000_01b3) ^ u64::from(b))
    );
    ModelId {
        sha256,
        identity: None,
        path: Some(format!("runs/{method}/model.safetensors")),
    }
}

fn data() -> DataId {
    DataId {
        name: "digits".into(),
        split: "test".into(),
        sha256: "d1".repeat(32),
    }
}

fn write<R: Row>(
    path: &Path,
    manifest: &Manifest,
    columns: &[impl AsRef<str>],
    mut row: impl FnMut(u64) -> R,
) {
    let (mut log, opened) = Log::open(path, manifest, columns).unwrap();
    for idx in manifest.selection.indices().skip(opened.rows.len()) {
        log.append(&row(idx)).unwrap();
    }
    log.finish().unwrap();
}

/// Class and difficulty of an image, the same for all models.
fn image(idx: u64) -> (u32, f64) {
    let mut random = Random(1000 + idx);
    (random.below(10), random.normal())
}

/// Writes logs of every kind for four models, runs and galleries.
pub fn write_demo(folder: &Path, images: u64) {
    for (at, method) in METHODS.iter().enumerate() {
        let run = folder.join(method);
        let (mean, spread, clean) = STRENGTH[at];
        let z = |idx: u64| {
            let mut own = Random(7919 * (at as u64 + 1) + 31 * idx);
            mean + spread * (0.8 * image(idx).1 + 0.6 * own.normal())
        };
        certify(&run, method, images, &z);
        let right = |idx: u64| Random(17 + 13 * idx + at as u64).uniform() < clean || z(idx) > 1.0;
        attacks(&run, method, images, &z, &right);
        if *method != "baseline" {
            lbound(&run, method, images, &z, &right);
        }
        training(&run, method, at);
        gallery(&run, method, images.min(24), &z, &right);
    }
    fidelity(&folder.join("heat"), images);
}

fn certify(run: &Path, method: &str, images: u64, z: &dyn Fn(u64) -> f64) {
    let manifest = manifest(LogKind::Certify, "cohen", method, images);
    let path = run.join("certify.tsv");
    write(&path, &manifest, CertifyRow::COLUMNS, |idx| {
        let (label, _) = image(idx);
        let z = z(idx);
        let wrong = z < -1.0;
        let certified = z.abs().min(3.2 + 0.02 * (idx % 7) as f64);
        let abstains = certified < 0.08;
        // The logistic curve is close enough to the normal one for a sample.
        let p = 1.0 / (1.0 + (-1.702 * certified).exp());
        let radius = if abstains || (z < 0.0 && !wrong) {
            0.0
        } else {
            SIGMA * certified
        };
        let predict = match (radius == 0.0, wrong) {
            (true, _) => None,
            (_, true) => Some((label + 3) % 10),
            (_, false) => Some(label),
        };
        CertifyRow {
            idx,
            label,
            predict,
            radius,
            correct: predict == Some(label),
            time: Some(Duration::from_micros(90_000 + 700 * (idx % 13))),
            n_a: Some((10_000.0 * p) as u64),
            n: Some(10_000),
            p_lower: p,
            samples: Some((10_100.0 / (1.0 + 4.0 * certified)).round() as u64),
            lecuyer: SIGMA * (2.0 * p - 1.0) * 0.45,
            li: SIGMA * (2.0 * p - 1.0).powi(2) * 1.6,
            ..CertifyRow::default()
        }
    });
}

fn attacks(
    run: &Path,
    method: &str,
    images: u64,
    z: &dyn Fn(u64) -> f64,
    right: &dyn Fn(u64) -> bool,
) {
    for (attack, scale) in [("pgd", 1.35), ("ddn", 1.0)] {
        let manifest = manifest(LogKind::Attack, attack, method, images);
        let path = run.join(format!("{attack}.tsv"));
        write(&path, &manifest, AttackRow::COLUMNS, |idx| {
            let (label, _) = image(idx);
            let success = !right(idx) || z(idx) < 3.4;
            let l2 = if right(idx) {
                scale * (0.18 + 0.33 * z(idx).abs())
            } else {
                0.0
            };
            AttackRow {
                idx,
                label,
                clean_predict: Some(if right(idx) { label } else { (label + 1) % 10 }),
                adv_predict: Some(if success { (label + 1) % 10 } else { label }),
                success,
                l2: if success { l2 } else { f64::NAN },
                linf: if success { l2 / 9.0 } else { f64::NAN },
                steps: 20,
                time: Some(Duration::from_millis(40)),
                ..AttackRow::default()
            }
        });
    }
}

fn lbound(
    run: &Path,
    method: &str,
    images: u64,
    z: &dyn Fn(u64) -> f64,
    right: &dyn Fn(u64) -> bool,
) {
    let manifest = manifest(LogKind::Lbound, "lbound", method, images);
    let path = run.join("lbound.tsv");
    write(&path, &manifest, LboundRow::COLUMNS, |idx| {
        let (label, _) = image(idx);
        let gap = (z(idx).abs() / 2.0).tanh() * if right(idx) { 1.0 } else { -1.0 };
        LboundRow {
            idx,
            label,
            predict: if right(idx) { label } else { (label + 1) % 10 },
            correct: right(idx),
            radius: SIGMA * (std::f64::consts::PI / 2.0).sqrt() * gap,
            p_label: 0.5 + gap / 2.0,
            p_other: 0.5 - gap / 2.0,
            time: Some(Duration::from_micros(if method == "heat" {
                420
            } else {
                41_000
            })),
            ..LboundRow::default()
        }
    });
}

fn fidelity(run: &Path, images: u64) {
    let sigmas = [0.0, 0.1, 0.2, 0.3, 0.4];
    let columns = FidelityRow::columns(&sigmas);
    let manifest = manifest(LogKind::Fidelity, "fidelity", "heat", images);
    write(&run.join("fidelity.tsv"), &manifest, &columns, |idx| {
        let mut random = Random(99 + idx);
        let v = 0.6 + 0.3 * random.normal().abs();
        let nothing = LevelDistance {
            v_distance: f64::NAN,
            standard_error: f64::NAN,
            step: f64::NAN,
        };
        FidelityRow {
            idx,
            label: Some(image(idx).0),
            v_distance: v,
            f_distance: 1.6 + 0.8 * random.normal().abs(),
            standard_error: 0.02,
            agree: Some(random.uniform() < 0.9),
            levels: sigmas
                .iter()
                .map(|&sigma| FidelityLevel {
                    sigma,
                    logits: LevelDistance {
                        v_distance: v + 9.0 * (sigma - 0.22f64).powi(2),
                        ..nothing
                    },
                    probabilities: nothing,
                    votes: nothing,
                })
                .collect(),
            ..FidelityRow::default()
        }
    });
}

fn training(run: &Path, method: &str, at: usize) {
    let columns = ["epoch", "loss", "test_accuracy", "time"];
    let (mut writer, _) = TsvWriter::open(&run.join("epochs.tsv"), &columns).unwrap();
    let mut random = Random(5 + at as u64);
    for epoch in 0..30 {
        let progress = 1.0 - (-f64::from(epoch) / 8.0).exp();
        let loss = 2.3 * (1.0 - 0.85 * progress) + 0.03 * random.normal();
        let accuracy = 0.1 + (STRENGTH[at].2 - 0.1) * progress + 0.006 * random.normal();
        let time = format_duration(Duration::from_millis(1500));
        writer
            .append(&[
                epoch.to_string(),
                format_number(loss),
                format_number(accuracy),
                time,
            ])
            .unwrap();
    }
    writer.finish().unwrap();
    RunManifest {
        format: RunManifest::FORMAT.into(),
        version: RunManifest::VERSION,
        command: if method == "heat" { "smooth" } else { "train" }.into(),
        method: method.into(),
        label: None,
        sigma: (method != "baseline").then_some(SIGMA),
        configuration: serde_json::json!({"epochs": 30}),
        seed: 0,
        data: data(),
        parent: None,
        model: Some(model(method)),
        versions: Versions::default(),
        ranks: None,
        started: None,
        finished: None,
    }
    .write(&run.join(RunManifest::FILE))
    .unwrap();
}

fn gallery(
    run: &Path,
    method: &str,
    images: u64,
    z: &dyn Fn(u64) -> f64,
    right: &dyn Fn(u64) -> bool,
) {
    let header = Gallery {
        format: Gallery::FORMAT.into(),
        version: Gallery::VERSION,
        method: method.into(),
        label: None,
        model: model(method),
        data: data(),
        sigma: Some(SIGMA),
        attack: Some("pgd".into()),
        seed: 0,
        classes: (0..10).map(|class| class.to_string()).collect(),
        images: vec![],
    };
    let mut writer = GalleryWriter::open(&run.join("gallery"), header).unwrap();
    for idx in 0..images {
        let (label, _) = image(idx);
        let original = png(label, idx, 0.0);
        let noisy = png(label, idx, SIGMA);
        let adversarial = png(label, idx + 999, 0.07);
        let difference = png(8, idx + 999, 0.3);
        let predict = Some(if right(idx) { label } else { (label + 1) % 10 });
        let distance = 0.3 + 0.4 * z(idx).abs();
        let pictures = Pictures {
            original: &original,
            noisy: Some((&noisy, predict)),
            adversarial: Some((&adversarial, Some((label + 1) % 10), distance)),
            difference: Some((&difference, 20)),
            side_by_side: None,
        };
        writer.add(idx, label, predict, &pictures).unwrap();
    }
}

/// A 16 x 16 picture of seven segments.
fn png(digit: u32, seed: u64, noise: f64) -> Vec<u8> {
    const SEGMENTS: [u8; 10] = [
        0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110, 0b1101011, 0b1111011, 0b0100101,
        0b1111111, 0b1101111,
    ];
    let lit = |bit: u32| SEGMENTS[digit as usize] >> bit & 1 == 1;
    let mut random = Random(seed * 2 + 1);
    let mut pixels = Pixmap::new(16, 16).unwrap();
    for (at, pixel) in pixels.pixels_mut().iter_mut().enumerate() {
        let (x, y) = (at as u32 % 16, at as u32 / 16);
        let across = (5..=10).contains(&x);
        let on = (lit(0) && across && (1..=2).contains(&y))
            || (lit(3) && across && (7..=8).contains(&y))
            || (lit(6) && across && (13..=14).contains(&y))
            || (lit(1) && (3..=4).contains(&x) && (2..=7).contains(&y))
            || (lit(2) && (11..=12).contains(&x) && (2..=7).contains(&y))
            || (lit(4) && (3..=4).contains(&x) && (8..=13).contains(&y))
            || (lit(5) && (11..=12).contains(&x) && (8..=13).contains(&y));
        let value = (f64::from(u8::from(on)) * 0.9 + noise * random.normal()).clamp(0.0, 1.0);
        let grey = (255.0 * value) as u8;
        *pixel = PremultipliedColorU8::from_rgba(grey, grey, grey, 255).unwrap();
    }
    pixels.encode_png().unwrap()
}

/// The demo's records in a new folder.
pub fn demo(images: u64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs");
    write_demo(&path, images);
    (folder, path)
}
