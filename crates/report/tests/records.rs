//! What a report does with records that are not as they should be.

mod common;
mod methods;

use std::fs;
use std::path::PathBuf;

use common::{demo, manifest};
use heatsmooth_report::{Options, ReportError, ReportWarning, build};
use methods::options;
use record::{
    AttackRow, CalibrationRow, CertifyRow, CleverRow, Guarantee, LboundRow, Log, LogKind, Manifest,
    Row, Selection, Shard, manifest_path,
};

fn texts(warnings: &[ReportWarning]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_killed_runs_log_is_read_up_to_the_torn_line() {
    let (_folder, runs) = demo(20);
    let path = runs.join("heat/certify.tsv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 5]).unwrap();
    let report = build(&[runs], &options()).unwrap();
    let warnings = texts(report.warnings());
    assert!(
        warnings[0].ends_with(
            "heat/certify.tsv:21: the last line is torn (the run was killed); read up to there. Run \
             its command again to finish it"
        ),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("the logs cover different images"),
        "{warnings:?}"
    );
    assert!(report.to_html().contains("the last line is torn"));
    let table = report
        .tables()
        .find(|table| table.id.starts_with("certified"))
        .unwrap();
    assert!(table.to_csv().lines().nth(1).unwrap().ends_with(",19"));
}

#[test]
fn garbage_is_refused_with_file_line_and_reason() {
    let (_folder, runs) = demo(20);
    let path = runs.join("heat/pgd.tsv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\n7\t", "\nseven\t", 1)).unwrap();
    let error = build(&[runs], &options()).unwrap_err().to_string();
    let expected = format!(
        "{}:9: idx: expected a whole number, found `seven`",
        path.display()
    );
    assert_eq!(error, expected);
}

#[test]
fn bad_paths_and_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let build_at = |path: PathBuf| build(&[path], &options()).unwrap_err();
    let error = build_at(folder.path().join("none"));
    assert!(error.to_string().contains("none: cannot read"), "{error}");
    let error = build_at(folder.path().into());
    assert!(
        matches!(error, ReportError::Nothing { .. }) && error.hint().is_some(),
        "{error}"
    );
    let other = folder.path().join("other.tsv");
    fs::write(&other, "a\tb\n1\t2\n").unwrap();
    let error = build_at(other);
    assert!(
        error
            .to_string()
            .ends_with("not a log: its first line is \"a\\tb\""),
        "{error}"
    );
    assert!(
        error
            .hint()
            .unwrap()
            .contains("idx label predict radius correct time")
    );
    for options in [
        Options {
            rho: 0.0,
            ..options()
        },
        Options {
            published_alpha: 1.0,
            ..options()
        },
        Options {
            radii: vec![0.2, 0.1],
            ..options()
        },
        Options {
            radii: vec![f64::NAN],
            ..options()
        },
    ] {
        let error = build(&[folder.path().into()], &options).unwrap_err();
        assert!(matches!(error, ReportError::Option { .. }), "{error}");
    }
}

#[test]
fn published_logs_join_the_table_of_their_sigma() {
    let (_folder, runs) = demo(20);
    let path = runs.join("published/digits/resnet110/noise_0.25/test/sigma_0.25");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n\
                0\t3\t3\t0.268\t1\t0:00:15.147552\n\
                1\t7\t-1\t0.0\t0\t0:00:15\n\
                2\t4\t4\t0.4\t1\t0:00:14\n";
    fs::write(&path, text).unwrap();
    let report = build(&[runs], &options()).unwrap();
    let table = report
        .tables()
        .find(|table| table.id == "certified-digits-test-sigma-0.25")
        .unwrap();
    let csv = table.to_csv();
    let line = csv.lines().last().unwrap();
    // A radius of 0.4 counts at 0.4: the grid is of decimal numbers.
    assert!(
        line.starts_with("resnet110/noise_0.25/test/sigma_0.25,0.6666666666666666,"),
        "{line}"
    );
    let at = table
        .columns
        .iter()
        .position(|column| column.head == "0.4")
        .unwrap();
    assert_eq!(line.split(',').nth(at), Some("0.3333333333333333"));
    let warnings = texts(report.warnings());
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("alpha = 0.001 is assumed")),
        "{warnings:?}"
    );
}

fn write_shard(path: &std::path::Path, manifest: &Manifest) {
    let (mut log, _) = Log::open(path, manifest, CertifyRow::COLUMNS).unwrap();
    for idx in manifest.selection.indices() {
        let row = CertifyRow {
            idx,
            predict: Some(0),
            radius: 0.1,
            correct: true,
            ..CertifyRow::default()
        };
        log.append(&row).unwrap();
    }
}

#[test]
fn shards_are_joined_and_copies_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let whole = manifest(LogKind::Certify, "cohen", "heat", 10);
    for index in [1, 3] {
        let shard = Some(Shard { index, count: 3 });
        let part = Manifest {
            selection: Selection {
                shard,
                ..whole.selection
            },
            ..whole.clone()
        };
        write_shard(&folder.path().join(format!("{index}.tsv")), &part);
    }
    let images = |folder: &std::path::Path| {
        let report = build(&[folder.into()], &options()).unwrap();
        let table = report.tables().next().unwrap().to_csv();
        assert_eq!(table.lines().count(), 2);
        (
            table.trim_end().rsplit(',').next().unwrap().to_owned(),
            texts(report.warnings()),
        )
    };
    let (count, warnings) = images(folder.path());
    assert_eq!(count, "7");
    assert!(
        warnings.len() == 1 && warnings[0].contains("2 of 3 shards"),
        "{warnings:?}"
    );
    write_shard(&folder.path().join("whole.tsv"), &whole);
    let (count, warnings) = images(folder.path());
    assert_eq!(count, "10");
    assert!(
        warnings.len() == 2 && warnings[0].contains("the same run as"),
        "{warnings:?}"
    );
}

/// Names from files reach Markdown, LaTeX, CSV, SVG and the page: none of them
/// may break out.
#[test]
fn names_are_text_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    let evil = "</script><img src=x onerror=alert(1)> & \"q\" | $x_1$ {{data}} \\ \u{1}";
    let label = Some(evil.to_owned());
    write_shard(
        &path,
        &Manifest {
            label,
            ..manifest(LogKind::Certify, "cohen", "heat", 30)
        },
    );
    let report = build(
        &[folder.path().into()],
        &Options {
            title: evil.into(),
            ..options()
        },
    )
    .unwrap();
    let page = report.to_html();
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(
        page.matches("{{data}}").count(),
        page.matches("$x_1$ {{data}}").count()
    );
    let figure = report.figures().next().unwrap();
    assert!(figure.to_svg().contains("&lt;/script&gt;") && !figure.to_svg().contains('\u{1}'));
    figure.to_png().unwrap();
    let table = report.tables().next().unwrap();
    assert!(
        table.to_markdown().contains("\\|")
            && table.to_latex().contains("\\$x\\_1\\$ \\{\\{data\\}\\}")
    );
    assert!(table.to_csv().contains("\"\"q\"\""));
}

#[test]
fn writing_leaves_every_file_and_is_repeatable() {
    let (folder, runs) = demo(20);
    let report = build(std::slice::from_ref(&runs), &options()).unwrap();
    assert_eq!(report.warnings(), []);
    let out = folder.path().join("out");
    let written = report.write(&out).unwrap();
    assert_eq!(written.page, out.join("report.html"));
    let (tables, figures) = (report.tables().count(), report.figures().count());
    assert_eq!(written.files.len(), 1 + 3 * tables + 3 * figures);
    let first: Vec<Vec<u8>> = written
        .files
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    // Built again, with the first report lying among the records.
    let again = build(&[runs, out.clone()], &options()).unwrap();
    assert_eq!(again.warnings(), []);
    again.write(&out).unwrap();
    let second: Vec<Vec<u8>> = written
        .files
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    assert!(first == second);
}

/// The page of a hundred thousand images is hardly larger than that of twenty.
#[test]
fn pages_hold_aggregates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    let manifest = manifest(LogKind::Certify, "cohen", "heat", 100_000);
    manifest.write(&manifest_path(&path)).unwrap();
    let mut text = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n".to_owned();
    for idx in 0..100_000u32 {
        let radius = f64::from(idx.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        text.push_str(&format!("{idx}\t1\t1\t{radius}\t1\t0:00:01.5\n"));
    }
    fs::write(&path, text).unwrap();
    let report = build(&[folder.path().into()], &options()).unwrap();
    assert!(
        report.to_html().len() < 100_000,
        "{}",
        report.to_html().len()
    );
}

/// Numbers at the ends of what a float holds draw without panic or endless loop.
#[test]
fn extreme_numbers_draw() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = [
        "0",
        "5e-324",
        "1e-300",
        "1",
        "1e16",
        "1e300",
        "1.7976931348623157e308",
    ];
    let row =
        |at: usize, middle: &str, end: &str| format!("{at}\t1\t{middle}\t{}\t{end}\n", numbers[at]);
    let all = |middle: &str, end: &str| -> String {
        (0..numbers.len()).map(|at| row(at, middle, end)).collect()
    };
    for (name, header, rows) in [
        (
            "certify",
            "idx\tlabel\tpredict\tradius\tcorrect\ttime\n",
            all("1", "1\t0:00:01"),
        ),
        (
            "attack",
            "idx\tlabel\tclean_predict\tadv_predict\tsuccess\tl2\tlinf\tsteps\n",
            all("1\t0\t1", "1\t20"),
        ),
        (
            "fidelity",
            "idx\tlabel\tv_distance\tf_distance\tstandard_error\tagree\n",
            all("1", "0\t1"),
        ),
    ] {
        let path = folder.path().join(format!("{name}.tsv"));
        fs::write(&path, format!("{header}{rows}")).unwrap();
        for keep in [2, 4, numbers.len()] {
            let text = fs::read_to_string(&path).unwrap();
            let some: String = text
                .lines()
                .take(1 + keep)
                .flat_map(|line| [line, "\n"])
                .collect();
            let part = folder.path().join(format!("{name}-{keep}"));
            fs::write(&part, some).unwrap();
            let report = build(&[part], &options()).unwrap();
            report.write(&folder.path().join("out")).unwrap();
        }
    }
    let runs = folder.path().join("runs");
    common::write_demo(&runs, 3);
    let epochs = "epoch\tloss\terror\n1\t-1.7e308\t5e-324\n2\t1.7e308\t1e308\n";
    fs::write(runs.join("heat/epochs.tsv"), epochs).unwrap();
    build(&[runs], &options())
        .unwrap()
        .write(&folder.path().join("out"))
        .unwrap();
}

#[test]
fn a_log_that_decides_one_radius_stands_apart() {
    let folder = tempfile::tempdir().unwrap();
    common::write_demo(folder.path(), 20);
    let mut manifest = common::manifest(LogKind::Certify, "anytime", "heat", 20);
    manifest.configuration = serde_json::json!({"n": 100_000, "radius": 0.25});
    let path = folder.path().join("decided.tsv");
    let (mut log, _) = Log::open(&path, &manifest, CertifyRow::COLUMNS).unwrap();
    for idx in 0..20 {
        let radius = if idx < 5 { 0.26 } else { 0.1 };
        log.append(&CertifyRow {
            idx,
            predict: Some(0),
            radius,
            correct: true,
            samples: Some(if idx % 2 == 0 { 300 } else { 700 }),
            ..CertifyRow::default()
        })
        .unwrap();
    }
    log.finish().unwrap();
    let report = build(&[folder.path().to_path_buf()], &options()).unwrap();
    let table = |prefix: &str| report.tables().find(|t| t.id.starts_with(prefix)).unwrap();
    let certified = table("certified").to_csv();
    assert!(
        !certified.contains("0.26") && certified.lines().count() == 5,
        "{certified}"
    );
    let anytime = table("anytime").to_csv();
    let row = anytime.lines().nth(1).unwrap();
    // Radius asked, a quarter certified, samples, most, times fewer.
    assert!(row.ends_with(",0.25,0.25,500,100000,200"), "{anytime}");
}

#[test]
fn clean_accuracy_is_that_of_the_model_as_it_is_used() {
    let clean = |method: &str, samples: u32| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certify.tsv");
        let manifest = common::manifest(LogKind::Certify, "cohen", method, 4);
        let (mut log, _) = Log::open(&path, &manifest, CertifyRow::COLUMNS).unwrap();
        for idx in 0..4 {
            let row = CertifyRow {
                idx,
                clean_correct: Some(idx < 1),
                ..CertifyRow::default()
            };
            log.append(&row).unwrap();
        }
        log.finish().unwrap();
        let path = folder.path().join("lbound.tsv");
        let mut manifest = common::manifest(LogKind::Lbound, "lbound", method, 4);
        manifest.configuration = serde_json::json!({"samples": samples});
        let (mut log, _) = Log::open(&path, &manifest, LboundRow::COLUMNS).unwrap();
        for idx in 0..4 {
            let row = LboundRow {
                idx,
                correct: idx < 3,
                ..LboundRow::default()
            };
            log.append(&row).unwrap();
        }
        log.finish().unwrap();
        let report = build(&[folder.path().to_path_buf()], &options()).unwrap();
        let certified = report.tables().find(|t| t.id.starts_with("certified"));
        let csv = certified.unwrap().to_csv();
        let cells: Vec<&str> = csv.lines().nth(1).unwrap().rsplit(',').collect();
        cells[2].to_owned()
    };
    // One pass without noise is not how a stochastic model classifies.
    assert_eq!(clean("heat", 0), "0.25");
    assert_eq!(clean("gaussian", 100), "0.75");
    assert_eq!(clean("smoothadv", 0), "");
}

#[test]
fn a_log_of_another_programs_kind_is_left_out_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    write_shard(
        &folder.path().join("ours.tsv"),
        &manifest(LogKind::Certify, "cohen", "heat", 5),
    );
    let path = folder.path().join("theirs.tsv");
    let theirs = Manifest {
        kind: LogKind::own("ellipsoid"),
        ..manifest(LogKind::Certify, "cohen", "heat", 5)
    };
    theirs.write(&manifest_path(&path)).unwrap();
    fs::write(&path, CertifyRow::COLUMNS.join("\t") + "\n").unwrap();
    let report = build(&[folder.path().into()], &options()).unwrap();
    let warnings = texts(report.warnings());
    assert!(
        warnings.len() == 1 && warnings[0].contains("of the kind `ellipsoid`"),
        "{warnings:?}"
    );
}

#[test]
fn a_method_that_is_not_known_has_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    for method in ["heat", "mine"] {
        let manifest = manifest(LogKind::Certify, "cohen", method, 5);
        write_shard(&folder.path().join(format!("{method}.tsv")), &manifest);
    }
    let names = |options: &Options| {
        let report = build(&[folder.path().into()], options).unwrap();
        let table = report.tables().next().unwrap().to_csv();
        let rows = table.lines().skip(1);
        rows.map(|row| row.split(',').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&options()), ["HeatSmoothing", "mine"]);
    assert_eq!(names(&Options::default()), ["heat", "mine"]);
}

/// A log of a few rows.
fn write_rows<R: Row>(path: &std::path::Path, manifest: &Manifest, row: impl Fn(u64) -> R) {
    let (mut log, _) = Log::open(path, manifest, &R::COLUMNS[..R::REQUIRED]).unwrap();
    for idx in manifest.selection.indices() {
        log.append(&row(idx)).unwrap();
    }
}

#[test]
fn issue_17_point_13_l_bounds_that_an_attack_refutes_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    // Bounds of 0.1; attacks at 0.2, but for two images of `heat`.
    for (method, near) in [("heat", 2), ("gaussian", 0), ("baseline", 0)] {
        let run = folder.path().join(method);
        let lbound = manifest(LogKind::Lbound, "lbound", method, 10);
        let radius = if method == "baseline" { 0.15 } else { 0.1 };
        write_rows(&run.join("lbound.tsv"), &lbound, |idx| LboundRow {
            idx,
            correct: true,
            radius,
            ..LboundRow::default()
        });
        let attack = manifest(LogKind::Attack, "pgd", method, 10);
        write_rows(&run.join("pgd.tsv"), &attack, |idx| AttackRow {
            idx,
            clean_predict: Some(0),
            adv_predict: Some(1),
            success: true,
            l2: if idx < near { 0.05 } else { 0.2 },
            linf: 0.01,
            ..AttackRow::default()
        });
    }
    let report = build(&[folder.path().to_path_buf()], &options()).unwrap();
    let table = report
        .tables()
        .find(|table| table.id.starts_with("adversarial"));
    let text = table.unwrap().to_markdown();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(
        line("HeatSmoothing").contains("0.1000† | 0.1000† | 20.0"),
        "{text}"
    );
    assert!(
        line("RandomizedSmoothing").contains("| 0.1000 | 0.1000 | 0.0 |"),
        "{text}"
    );
    // Larger than the one that counts, but of a model that was never smoothed.
    assert!(
        line("baseline").contains("| 0.1500 | 0.1500 | 0.0 |"),
        "{text}"
    );
}

#[test]
fn issue_17_point_14_runs_of_different_n_show_it_and_are_not_ranked() {
    let bold = |other: &str, n: u64| {
        let folder = tempfile::tempdir().unwrap();
        for (method, procedure, n) in [("heat", "cohen", 1000), ("gaussian", other, n)] {
            let mut one = manifest(LogKind::Certify, procedure, method, 5);
            one.configuration = serde_json::json!({"n": n});
            let path = folder.path().join(method).join("certify.tsv");
            write_rows(&path, &one, |idx| CertifyRow {
                idx,
                predict: Some(0),
                radius: if method == "heat" { 0.2 } else { 0.3 },
                correct: true,
                ..CertifyRow::default()
            });
        }
        let report = build(&[folder.path().to_path_buf()], &options()).unwrap();
        let table = report
            .tables()
            .find(|table| table.id.starts_with("certified"));
        table.unwrap().to_markdown()
    };
    let text = bold("cohen", 1000);
    assert!(
        text.contains("**0.300**") && text.contains("| 1000 | 5 |"),
        "{text}"
    );
    let text = bold("anytime", 10_000);
    assert!(
        !text.contains("**0.300**") && text.contains("| ≤ 10000 | 5 |"),
        "{text}"
    );
    assert!(
        text.contains("Runs of different n are not ranked"),
        "{text}"
    );
}

#[test]
fn issue_17_point_19_many_warnings_are_folded_away() {
    let folder = tempfile::tempdir().unwrap();
    let page = |logs: usize| {
        for number in 0..logs {
            let path = folder.path().join(format!("{number}/sigma_0.25"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.2\t1\t0:00:15\n";
            fs::write(&path, text).unwrap();
        }
        build(&[folder.path().to_path_buf()], &options())
            .unwrap()
            .to_html()
    };
    assert!(page(2).contains("<details class=\"warnings\" open>"));
    assert!(page(9).contains("<details class=\"warnings\">"));
}

/// Ten images: on each, one pass says 0.1 more than g has; on the last, another
/// class.
#[test]
fn a_calibration_log_shows_three_radii_and_what_each_guarantees() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calibrate.tsv");
    let guarantee = Guarantee::Calibrated {
        miss: 0.05,
        confidence: 0.95,
    };
    let manifest = Manifest {
        guarantee,
        configuration: serde_json::json!({
            "n": 1000, "calibration": {"shrink": 0.2, "cap": 0.3},
        }),
        ..common::manifest(LogKind::Calibrate, "calibrate", "heat", 10)
    };
    let (mut log, _) = Log::open(&path, &manifest, CalibrationRow::COLUMNS).unwrap();
    for idx in 0..10 {
        let g_radius = 0.05 * (idx + 1) as f64;
        let row = CalibrationRow {
            idx,
            predict: u32::from(idx == 9),
            one_pass: g_radius + 0.1,
            g_predict: Some(0),
            g_radius,
            ..CalibrationRow::default()
        };
        log.append(&row).unwrap();
    }
    log.finish().unwrap();
    let options = Options {
        radii: vec![0.0, 0.2, 0.3],
        ..options()
    };
    let report = build(&[folder.path().to_path_buf()], &options).unwrap();
    assert_eq!(report.warnings(), []);
    let table = |id: &str| {
        let mut tables = report.tables();
        let table = tables.find(|table| table.id == id).unwrap();
        (table.to_csv(), table.guarantee.clone())
    };
    let (radii, words) = table("one-pass-digits-test-sigma-0.25");
    let lines: Vec<&str> = radii.lines().collect();
    assert!(lines[1].starts_with("\"g, sampled\",1,0.7,0.5,"), "{radii}");
    assert!(lines[2].starts_with("one pass,0.9,0.8,0.6,"), "{radii}");
    // 0.05 to 0.45, less 0.1: above 0 on the last seven of nine that are right.
    assert!(
        lines[3].starts_with("\"one pass, calibrated\",0.7,"),
        "{radii}"
    );
    assert!(
        words.contains("sound for the smoothed reference"),
        "{words}"
    );
    assert!(words.contains("approximate: holds if v is exactly a Gaussian average"));
    assert!(words.ends_with(&guarantee.to_string()), "{words}");
    let (promises, _) = table("calibration-digits-test-sigma-0.25");
    let line = promises.lines().nth(1).unwrap();
    // Nine of one class, all of which say too much; calibrated only the last does.
    assert!(
        line.starts_with("HeatSmoothing,0.05,0.95,0.9,1,0.1,0.8,0.2,0.3,1000,10"),
        "{line}"
    );
    let scatter = report.panels().next().unwrap();
    assert_eq!(scatter.panels[0].marks.len(), 10);
    assert_eq!(scatter.panels[0].marks[9].at.0, 0.0);
    let written = report.write(&folder.path().join("report")).unwrap();
    let names: Vec<String> = written
        .files
        .iter()
        .map(|f| f.display().to_string())
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.ends_with("one-pass-scatter-digits-test-sigma-0.25.png"))
    );
    assert!(report.to_html().contains("One pass against samples"));
}

/// Three images with scores of 0.4; an attack breaks two of them, one within its score,
/// and a third that the model gets wrong anyway.
#[test]
fn a_clever_score_that_an_attack_undercuts_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Manifest {
        guarantee: Guarantee::Estimate,
        sigma: None,
        smoothing: None,
        configuration: serde_json::json!({"norm": "l2", "radius": 2.0}),
        ..common::manifest(LogKind::Clever, "clever", "heat", 4)
    };
    let path = folder.path().join("clever.tsv");
    let (mut log, _) = Log::open(&path, &manifest, CleverRow::COLUMNS).unwrap();
    for idx in 0..4 {
        let row = CleverRow {
            idx,
            label: 0,
            predict: u32::from(idx == 3),
            correct: idx != 3,
            target: 2,
            score: 0.4,
            margin: 4.0,
            slope: 10.0,
            shape: 3.0,
            scale: 1.0,
            ks: 0.1,
            time: None,
        };
        log.append(&row).unwrap();
    }
    log.finish().unwrap();
    let manifest = common::manifest(LogKind::Attack, "ddn", "heat", 4);
    let path = folder.path().join("ddn.tsv");
    let (mut log, _) = Log::open(&path, &manifest, AttackRow::COLUMNS).unwrap();
    for (idx, l2) in [(0, 0.3), (1, 0.5), (2, f64::NAN), (3, 0.0)] {
        let row = AttackRow {
            idx,
            label: 0,
            clean_predict: Some(u32::from(idx == 3)),
            adv_predict: Some(u32::from(l2.is_finite())),
            success: l2.is_finite(),
            l2,
            linf: l2,
            steps: 20,
            time: None,
            clean_correct: Some(idx != 3),
            last_l2: 1.0,
            target: None,
        };
        log.append(&row).unwrap();
    }
    log.finish().unwrap();
    let report = build(&[folder.path().to_path_buf()], &options()).unwrap();
    let table = |id: &str| {
        let mut tables = report.tables();
        tables.find(|table| table.id == id).unwrap()
    };
    let scores = table("clever-digits-test-l2");
    let line = scores.to_csv();
    let line = line.lines().nth(1).unwrap();
    assert!(line.starts_with("HeatSmoothing,0.4,0.4"), "{line}");
    assert!(line.ends_with(",3,0.4,2,0.5"), "{line}");
    assert!(scores.to_markdown().contains("0.4000†"));
    assert!(scores.guarantee.starts_with("estimate, not a bound"));
    let marked = table("clever-undercut-digits-test-l2").to_csv();
    let line = marked.lines().nth(1).unwrap();
    assert_eq!(line, "HeatSmoothing,0,0.4,0.3,DDN");
    assert_eq!(marked.lines().count(), 2, "{marked}");
}
