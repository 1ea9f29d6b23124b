//! How long a log of a million images takes to load, to report on, and to write
//! the report of.
//!
//!     cargo bench -p heatsmooth-report

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use divan::Bencher;
use heatsmooth_report::{Options, build};
use record::{CertifyRow, Row, Tsv, format_number};

const ROWS: u64 = 1_000_000;

/// A log with all columns of a certification, in full precision. Making it is not
/// measured.
static LOG: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut text = CertifyRow::COLUMNS.join("\t") + "\n";
    let mut state = 1u64;
    for idx in 0..ROWS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let p = 0.5 + (state >> 11) as f64 / (1u64 << 54) as f64;
        let (radius, p) = (format_number(0.25 * (p - 0.5)), format_number(p));
        writeln!(
            text,
            "{idx}\t3\t3\t{radius}\t1\t0:00:15.147552\t9000\t10000\t{p}\t\t{radius}\t{radius}\t\
             10100\t0.005\t1"
        )
        .expect("writing to a string");
    }
    let path = folder().join("cifar10-sigma_0.25.tsv");
    std::fs::write(&path, text).expect("a folder for benches");
    path
});

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn load(bencher: Bencher<'_, '_>) {
    let path = LOG.as_path();
    bencher.bench(|| {
        let rows: Vec<CertifyRow> = Tsv::read(path).expect("our log").rows().expect("our log");
        assert_eq!(rows.len() as u64, ROWS);
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn load_and_build(bencher: Bencher<'_, '_>) {
    let paths = std::slice::from_ref(&*LOG);
    bencher.bench(|| build(paths, &Options::default()).expect("a report"));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn write(bencher: Bencher<'_, '_>) {
    let report = build(std::slice::from_ref(&*LOG), &Options::default()).expect("a report");
    let out = folder().join("report");
    bencher.bench(|| report.write(&out).expect("written"));
}
