//! How long a log of a million images takes to load and to report.
//!
//!     cargo run --release -p heatsmooth-report --example million_rows
//!
//! The log (our columns and three more, full precision) is written to a
//! temporary folder first; writing it is not measured.

use std::fmt::Write;
use std::time::Instant;

use heatsmooth_report::{Options, build};
use record::{CertifyRow, Row, Table, format_number};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cifar10-sigma_0.25.tsv");
    let mut text = format!("{}\tsamples\tlecuyer\tli\n", CertifyRow::COLUMNS.join("\t"));
    let mut state = 1u64;
    for idx in 0..1_000_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let p = 0.5 + (state >> 11) as f64 / (1u64 << 54) as f64;
        let (radius, p) = (format_number(0.25 * (p - 0.5)), format_number(p));
        writeln!(
            text,
            "{idx}\t3\t3\t{radius}\t1\t0:00:15.147552\t9000\t10000\t{p}\t\t10100\t{radius}\t{radius}"
        )?;
    }
    std::fs::write(&path, &text)?;
    println!("log: {} rows, {} MB", 1_000_000, text.len() >> 20);

    let start = Instant::now();
    let rows: Vec<CertifyRow> = Table::read(&path)?.rows()?;
    println!(
        "load {} rows: {:.2} s",
        rows.len(),
        start.elapsed().as_secs_f64()
    );

    let start = Instant::now();
    let report = build(&[path], &Options::default())?;
    println!("load and build: {:.2} s", start.elapsed().as_secs_f64());

    let start = Instant::now();
    let written = report.write(&folder.path().join("out"))?;
    let size = std::fs::metadata(&written.page)?.len() >> 10;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "write {} files, the page {size} kB: {seconds:.2} s",
        written.files.len()
    );
    Ok(())
}
