//! Logs and manifests: what `merge`, `report` and resuming read.
//!
//! The input is a manifest (JSON), a zero byte, and a log (tab-separated).
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::{
    AttackRow, CalibrationRow, CertifyRow, CleverRow, FidelityRow, Gallery, IntervalRow, LboundRow,
    Manifest, Row, RunManifest, Tsv, merge,
};

mod scratch;

/// Reads the rows as one kind; what reads has one row a line.
fn rows<R: Row>(table: &Tsv) {
    if let Ok(rows) = table.rows::<R>() {
        assert_eq!(rows.len(), table.lines().count());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == 0);
    let (json, tsv) = bytes.split_at(end.unwrap_or(bytes.len()));
    let tsv = tsv.get(1..).unwrap_or_default();
    let folder = scratch::folder();
    let (manifest, log) = (folder.join("log.json"), folder.join("log.tsv"));
    std::fs::write(&manifest, json).expect("scratch");
    std::fs::write(&log, tsv).expect("scratch");

    if let Ok(table) = Tsv::read(&log) {
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
        // What can be read can be written and read again.
        let again = folder.join("again.json");
        read.write(&again).expect("our own manifest");
        let again = Manifest::read(&again).expect("our own manifest");
        assert!(again.differences(&read).is_empty());
        let out = folder.join("merged.tsv");
        let _ = merge(&[&log], &out);
        let _ = std::fs::remove_file(out.with_extension("json"));
        let _ = std::fs::remove_file(out);
        if let Ok(report) = report::build(&[log], &report::Options::default()) {
            let _ = report.to_html();
        }
    }
});
