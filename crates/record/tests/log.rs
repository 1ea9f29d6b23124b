//! Logs as a run meets them: created, killed, resumed, refused, read by others.

mod common;

use std::fs;
use std::time::Duration;

use common::{columns, manifest, row, write};
use heatsmooth_record as record;
use record::{
    AttackRow, CertifyRow, Log, LogKind, Manifest, RecordError, Row, Tsv, TsvWriter, manifest_path,
};

#[test]
fn is_written_in_cohens_columns_and_full_precision() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs/F.tsv");
    write(&path, &manifest(2));
    let expected = "idx\tlabel\tpredict\tradius\tcorrect\ttime\tn_a\tn\tp_lower\tp_correct_l_bound\tsamples\n\
                    0\t3\t-1\t0\t0\t0:00:01.234567\t990\t1000\t0.98\t\t1100\n\
                    1\t3\t3\t0.24285714285714285\t1\t0:00:01.234567\t990\t1000\t0.98\t\t1100\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    assert_eq!(Manifest::read(&manifest_path(&path)).unwrap(), manifest(2));
}

/// Wherever a run is killed, running it again ends with the same bytes.
#[test]
fn killed_at_any_byte_it_resumes_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    write(&path, &manifest(3));
    let whole = fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        write(&path, &manifest(3));
        assert_eq!(fs::read(&path).unwrap(), whole, "cut at {length}");
    }
}

#[test]
fn reading_a_torn_log_stops_before_the_torn_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    write(&path, &manifest(3));
    let whole = fs::read(&path).unwrap();
    // The last cell loses a digit and the newline: it would still read as a row.
    fs::write(&path, &whole[..whole.len() - 2]).unwrap();
    let table = Tsv::read(&path).unwrap();
    assert_eq!(table.rows::<CertifyRow>().unwrap().len(), 2);
    let torn = table.torn().unwrap();
    assert_eq!(torn.line, 4);
    // The tear may also go through a character.
    fs::write(&path, [&whole[..], b"3\t\xc3"].concat()).unwrap();
    assert_eq!(Tsv::read(&path).unwrap().torn().unwrap().bytes, 3);
}

#[test]
fn another_runs_log_is_refused_with_the_difference_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    write(&path, &manifest(2));
    let before = fs::read(&path).unwrap();
    let other = Manifest {
        seed: 5,
        ..manifest(2)
    };
    let error = Log::<CertifyRow>::open(&path, &other, &columns()).unwrap_err();
    assert!(matches!(error, RecordError::Differs { .. }));
    assert!(
        error.to_string().ends_with("seed is 0, wanted 5"),
        "{error}"
    );

    let other = &CertifyRow::COLUMNS[..8];
    let error = Log::<CertifyRow>::open(&path, &manifest(2), other).unwrap_err();
    assert!(matches!(error, RecordError::Header { .. }), "{error}");

    fs::remove_file(manifest_path(&path)).unwrap();
    let error = Log::<CertifyRow>::open(&path, &manifest(2), &columns()).unwrap_err();
    assert!(matches!(error, RecordError::NoManifest { .. }), "{error}");
    assert!(!manifest_path(&path).exists());
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_log_may_grow_but_not_shrink() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    write(&path, &manifest(2));
    let before = fs::read_to_string(&path).unwrap();
    let (mut log, opened) = Log::<CertifyRow>::open(&path, &manifest(3), &columns()).unwrap();
    assert_eq!(opened.rows.len(), 2);
    let row = CertifyRow::default();
    log.append(&CertifyRow { idx: 2, ..row }).unwrap();
    log.finish().unwrap();
    let after = fs::read_to_string(&path).unwrap();
    assert!(
        after.starts_with(&before) && after.lines().count() == 4,
        "{after}"
    );
    assert_eq!(Manifest::read(&manifest_path(&path)).unwrap(), manifest(3));
    let error = Log::<CertifyRow>::open(&path, &manifest(2), &columns()).unwrap_err();
    assert!(
        error.to_string().ends_with("selection.end is 3, wanted 2"),
        "{error}"
    );
    let other = Manifest {
        seed: 5,
        ..manifest(9)
    };
    let error = Log::<CertifyRow>::open(&path, &other, &columns()).unwrap_err();
    assert!(matches!(error, RecordError::Differs { .. }), "{error}");
}

#[test]
fn a_log_of_an_earlier_version_goes_on_with_the_columns_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    write(&path, &manifest(2));
    let before = fs::read(&path).unwrap();
    let (log, opened) = Log::<CertifyRow>::open(&path, &manifest(2), CertifyRow::COLUMNS).unwrap();
    assert_eq!(opened.rows.len(), 2);
    log.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);

    // What it has no column for is left out of further rows.
    let newline = |byte: &u8| *byte == b'\n';
    let cut = before[..before.len() - 1].iter().rposition(newline);
    let cut = cut.unwrap() + 1;
    fs::write(&path, &before[..cut]).unwrap();
    let (mut log, opened) =
        Log::<CertifyRow>::open(&path, &manifest(2), CertifyRow::COLUMNS).unwrap();
    assert_eq!(opened.rows.len(), 1);
    let row = CertifyRow {
        clean_correct: Some(true),
        ..CertifyRow::default()
    };
    log.append(&CertifyRow { idx: 1, ..row }).unwrap();
    log.finish().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().last().unwrap().starts_with("1\t"), "{text}");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn rows_out_of_turn_and_second_writers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    let manifest = manifest(9);
    let (mut log, _) = Log::open(&path, &manifest, &columns()).unwrap();
    let error = Log::<CertifyRow>::open(&path, &manifest, &columns()).unwrap_err();
    assert!(matches!(error, RecordError::Locked { .. }), "{error}");
    log.append(&row(1)).unwrap();
    let error = log.append(&CertifyRow { li: 0.5, ..row(2) }).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("cannot append a row: the log has no column `li` for 0.5"),
        "{error}"
    );
    drop(log);
    let error = Log::<CertifyRow>::open(&path, &manifest, &columns()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("F.tsv:2: image 1 is out of turn, expected 0"),
        "{error}"
    );
}

#[test]
fn columns_and_kinds_that_do_not_fit_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    let refusal = |manifest: &Manifest, columns: &[&str]| {
        let error = Log::<CertifyRow>::open(&path, manifest, columns).unwrap_err();
        assert!(!path.exists() && !manifest_path(&path).exists());
        error.to_string()
    };
    let error = refusal(&manifest(2), &["idx", "label"]);
    assert!(
        error.contains("a certify log needs the column `predict`"),
        "{error}"
    );
    let attack = Manifest {
        kind: LogKind::Attack,
        ..manifest(2)
    };
    let error = refusal(&attack, CertifyRow::COLUMNS);
    assert!(
        error.contains("its manifest is of kind attack, its rows are of kind certify"),
        "{error}"
    );
    // A column that the rows do not fill.
    let more = [CertifyRow::COLUMNS, &["weather"]].concat();
    let (mut log, _) = Log::<CertifyRow>::open(&path, &manifest(2), &more).unwrap();
    let error = log.append(&row(0)).unwrap_err().to_string();
    assert!(error.ends_with("it has no cell for `weather`"), "{error}");
}

/// As printed by Cohen's `certify.py`: `{:.3}` radii, `str(timedelta)` times.
#[test]
fn cohens_published_logs_read_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sigma_0.25");
    let text = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n\
                0\t3\t3\t0.268\t1\t0:00:15.147552\n\
                20\t7\t-1\t0.0\t0\t0:00:15\n\
                40\t4\t6\t1.23\t0\t1 day, 0:00:15.1\n";
    fs::write(&path, text).unwrap();
    let rows: Vec<CertifyRow> = Tsv::read(&path).unwrap().rows().unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(
        (rows[0].radius, rows[0].correct, rows[0].predict),
        (0.268, true, Some(3))
    );
    assert_eq!(
        (rows[1].predict, rows[1].time),
        (None, Some(Duration::from_secs(15)))
    );
    assert_eq!(rows[2].time.unwrap().as_secs(), 86_415);
    assert!(rows[0].p_lower.is_nan() && rows[0].n.is_none());
}

#[test]
fn garbage_is_refused_with_file_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    let header = CertifyRow::COLUMNS[..6].join("\t");
    let good = "0\t3\t3\t0.2\t1\t0:00:01\n";
    for (bad, line, reason) in [
        ("1\t3\t3\t0.2\t1\n", 3, "expected 6 cells, found 5"),
        ("1\t3\t3\tx\t1\t0:00:01\n", 3, "radius: `x` is not a number"),
        ("1\t3\t3\t-1\t1\t0:00:01\n", 3, "radius: -1 is below zero"),
        (
            "1\t3\t3\tnan\t1\t0:00:01\n",
            3,
            "radius: expected a finite number, found `nan`",
        ),
        (
            "1\t3\t3\t\t1\t0:00:01\n",
            3,
            "radius: expected a finite number, found ``",
        ),
        (
            "1\t3\t3\t0.2\t2\t0:00:01\n",
            3,
            "correct: expected 0 or 1, found `2`",
        ),
        (
            "1\t3\t-2\t0.2\t1\t0:00:01\n",
            3,
            "predict: expected a class or -1, found `-2`",
        ),
        (
            "1.5\t3\t3\t0.2\t1\t0:00:01\n",
            3,
            "idx: expected a whole number, found `1.5`",
        ),
        (
            "1\t3\t3\t0.2\t1\tsoon\n",
            3,
            "time: expected h:mm:ss.ffffff, found `soon`",
        ),
        (
            "0\t3\t3\t0.2\t1\t0:00:01\n",
            3,
            "image 0 stands here a second time",
        ),
        ("\n", 3, "expected 6 cells, found 1"),
    ] {
        fs::write(&path, format!("{header}\n{good}{bad}")).unwrap();
        let error = Tsv::read(&path)
            .unwrap()
            .rows::<CertifyRow>()
            .unwrap_err()
            .to_string();
        assert_eq!(error, format!("{}:{line}: {reason}", path.display()));
    }
    for (bytes, line, reason) in [
        (&b""[..], 1, "expected a header line"),
        (b"no newline", 1, "expected a header line"),
        (b"a\ta\n", 1, "column `a` stands twice"),
        (b"a\tb\n1\t2\n\xff\xfe\t1\n", 3, "not text"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = Tsv::read(&path).unwrap_err().to_string();
        assert!(
            error.contains(&format!("F.tsv:{line}: {reason}")),
            "{error}"
        );
    }
    fs::write(&path, "a\tb\n1\t2\n").unwrap();
    let error = Tsv::read(&path)
        .unwrap()
        .rows::<AttackRow>()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("an attack log needs the column `idx`, the header is `a b`"),
        "{error}"
    );
}

#[test]
fn open_ended_tables_keep_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs.tsv");
    let (mut writer, reopened) = TsvWriter::open(&path, &["epoch", "loss", "time"]).unwrap();
    assert_eq!(reopened.table.lines().count(), 0);
    writer.append(&["0", "1.5", "0:01:00.5"]).unwrap();
    writer.append(&["1", "", "0:02:00"]).unwrap();
    assert!(
        writer
            .append(&["1"])
            .unwrap_err()
            .to_string()
            .contains("expected 3 cells, got 1")
    );
    assert!(
        writer
            .append(&["1", "a\tb", ""])
            .unwrap_err()
            .to_string()
            .contains("a tab")
    );
    writer.finish().unwrap();
    let numbers = Tsv::read(&path).unwrap().numbers().unwrap();
    assert_eq!(numbers[0], [0.0, 1.0]);
    assert_eq!(numbers[2], [60.5, 120.0]);
    assert!(numbers[1][1].is_nan());
}
