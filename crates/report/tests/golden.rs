//! Tables and figures against values computed by an independent program
//! (`goldens/generate.py`), and their looks against snapshots.

mod methods;

use std::path::{Path, PathBuf};

use heatsmooth_report::{AttackConvention, Cell, Denominator, Options, Report, Table, build};
use methods::options;
use serde_json::Value;

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

fn report(options: &Options) -> Report {
    let report = build(&[goldens().join("logs")], options).unwrap();
    assert_eq!(report.warnings(), []);
    report
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(goldens().join("expected.json")).unwrap())
        .unwrap()
}

fn table<'a>(report: &'a Report, id: &str) -> &'a Table {
    report
        .tables()
        .find(|table| table.id == id)
        .unwrap_or_else(|| panic!("no table {id}"))
}

fn check(found: &Table, expected: &Value) {
    let flat = |row: &[Cell]| -> Vec<Value> {
        row.iter()
            .flat_map(|cell| match cell {
                Cell::Text(text) => vec![text.as_str().into()],
                Cell::Number(value) | Cell::Unranked(value) | Cell::Refuted(value) => {
                    vec![(*value).into()]
                }
                Cell::Interval(interval) => {
                    vec![
                        interval.value.into(),
                        interval.low.into(),
                        interval.high.into(),
                    ]
                }
                Cell::Missing => vec![Value::Null],
            })
            .collect()
    };
    let expected = expected.as_array().unwrap();
    assert_eq!(found.rows.len(), expected.len(), "{}", found.id);
    for (row, expected) in found.rows.iter().zip(expected) {
        let (row, expected) = (flat(row), expected.as_array().unwrap());
        assert_eq!(row.len(), expected.len(), "{}", found.id);
        for (found, expected) in row.iter().zip(expected) {
            match (found.as_f64(), expected.as_f64()) {
                (Some(a), Some(b)) => {
                    assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} and {b}");
                }
                _ => assert_eq!(found, expected),
            }
        }
    }
}

#[test]
fn every_table_has_the_values_of_the_independent_program() {
    let report = report(&options());
    let expected = expected();
    for (id, key) in [
        ("certified-digits-test-sigma-0.25", "certified"),
        (
            "high-probability-digits-test-sigma-0.25",
            "high-probability",
        ),
        ("difference-digits-test-sigma-0.25", "difference"),
        ("adversarial-digits-test", "adversarial"),
        ("timing-digits-test-sigma-0.25", "timing"),
        ("fidelity-digits-test-sigma-0.25", "fidelity"),
    ] {
        check(table(&report, id), &expected["tables"][key]);
    }
    let heads: Vec<&str> = table(&report, "certified-digits-test-sigma-0.25").columns[1..6]
        .iter()
        .map(|column| column.head.as_str())
        .collect();
    assert_eq!(heads, ["0", "0.2", "0.4", "0.6", "0.8"]);
}

#[test]
fn the_papers_conventions_are_an_option() {
    let options = Options {
        denominator: Denominator::NonAbstained,
        attacks: AttackConvention::Paper,
        ..options()
    };
    let report = report(&options);
    let expected = expected();
    let certified = table(&report, "certified-digits-test-sigma-0.25");
    check(certified, &expected["tables"]["certified-paper"]);
    assert!(
        certified
            .caption
            .contains("the images not abstained on (the paper's convention)")
    );
    let adversarial = table(&report, "adversarial-digits-test");
    check(adversarial, &expected["tables"]["adversarial-paper"]);
    assert!(
        adversarial
            .caption
            .contains("a failed PGD at the distance it tried")
    );
}

#[test]
fn figures_draw_the_values_of_the_independent_program() {
    let report = report(&options());
    let expected = &expected()["figures"];
    let series = |id: &str, name: &str| {
        let figure = report.figures().find(|figure| figure.id == id).unwrap();
        figure
            .series
            .iter()
            .find(|series| series.name == name)
            .unwrap()
            .points
            .clone()
    };
    let close = |a: f64, b: &Value| (a - b.as_f64().unwrap()).abs() < 1e-9;
    for name in ["HeatSmoothing", "RandomizedSmoothing"] {
        let points = series("certified-digits-test-sigma-0.25", name);
        for probe in expected["certified"][name].as_array().unwrap() {
            let found = points
                .iter()
                .find(|point| close(point.0, &probe[0]))
                .unwrap();
            assert!(close(found.1, &probe[1]), "{found:?} and {probe}");
        }
        assert_eq!(points.last().unwrap().1, 0.0);
        let points = series("attack-pgd-digits-test", name);
        assert!(close(points[0].1, &expected["attack-pgd"][name]["at_zero"]));
        assert!(close(
            points[points.len() - 1].1,
            &expected["attack-pgd"][name]["at_end"]
        ));
        let points = series("samples-digits-test-sigma-0.25", name);
        assert!(close(
            points[points.len() - 1].0,
            &expected["samples"][name]["most"]
        ));
        assert_eq!(points[points.len() - 1].1, 100.0);
    }
    let points = series("fidelity-sigma-digits-test-sigma-0.25", "HeatSmoothing");
    for (found, probe) in points.iter().zip(
        expected["fidelity-sigma"]["HeatSmoothing"]
            .as_array()
            .unwrap(),
    ) {
        assert!(
            close(found.0, &probe[0]) && close(found.1, &probe[1]),
            "{found:?} and {probe}"
        );
    }
    assert_eq!(points.len(), 4);
}

#[test]
fn tables_in_every_language() {
    let report = report(&options());
    for id in [
        "certified-digits-test-sigma-0.25",
        "difference-digits-test-sigma-0.25",
        "adversarial-digits-test",
    ] {
        let table = table(&report, id);
        let all = [
            table.to_markdown(),
            table.to_latex(),
            table.to_csv(),
            table.to_html(),
        ]
        .join("\n");
        insta::assert_snapshot!(format!("table-{id}"), all);
    }
    for id in [
        "high-probability-digits-test-sigma-0.25",
        "timing-digits-test-sigma-0.25",
        "fidelity-digits-test-sigma-0.25",
    ] {
        insta::assert_snapshot!(format!("table-{id}"), table(&report, id).to_markdown());
    }
}

/// The drawing without the course of its lines: how many points each has.
fn structure(svg: &str) -> String {
    let mut out = String::new();
    let mut rest = svg;
    while let Some((before, (path, after))) = rest
        .split_once(" d=\"")
        .and_then(|(before, rest)| Some((before, rest.split_once('"')?)))
    {
        out.push_str(before);
        match path.matches('L').count() {
            0..2 => out.push_str(&format!(" d=\"{path}\"")),
            lines => out.push_str(&format!(" d=({} points)", lines + 1)),
        }
        rest = after;
    }
    out + rest
}

#[test]
fn drawings_keep_their_structure() {
    let report = report(&options());
    let ids: Vec<&str> = report.figures().map(|figure| figure.id.as_str()).collect();
    insta::assert_debug_snapshot!("figures", ids);
    for figure in report.figures() {
        if figure.id.starts_with("certified") || figure.id.starts_with("fidelity-sigma") {
            insta::assert_snapshot!(format!("svg-{}", figure.id), structure(&figure.to_svg()));
        }
        let png = figure.to_png().unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        // Text is drawn (our font is found): a drawing without is much smaller.
        let mut mute = figure.clone();
        mute.title.clear();
        for series in &mut mute.series {
            series.name.clear();
        }
        assert!(
            png.len() > mute.to_png().unwrap().len() + 500,
            "{}",
            figure.id
        );
    }
}
