//! `reproduce illustration` tells the paper's story, and tells it again to the
//! byte.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const FILES: [&str; 6] = [
    "figure-1.svg",
    "figure-1.png",
    "figure-2.svg",
    "figure-2.png",
    "curves.tsv",
    "illustration.json",
];

fn illustrate(out: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(["reproduce", "illustration", "--json", "--quiet", "--out"])
        .arg(out)
        .args(more)
        .output()
        .unwrap()
}

fn done(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn smoothing_moves_the_boundary_away_and_gives_the_average() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    let value = done(&illustrate(&first, &["--threads", "1"]));
    assert_eq!(value["guarantee"], "empirical");
    let iterate = |k: usize| &value["iterates"][k];
    let number = |k: usize, name: &str| iterate(k)[name].as_f64().unwrap();

    // The paper: about 0.10 before, about 0.35 after.
    let distance = |k| number(k, "adversarial_distance");
    assert!((distance(0) - 0.10).abs() < 0.02, "{}", distance(0));
    assert!((distance(5) - 0.35).abs() < 0.03, "{}", distance(5));
    assert!(distance(5) > 2.0 * distance(0));
    assert_eq!(
        [iterate(0), iterate(5)].map(|f| f["outlier_class"].as_str().unwrap()),
        ["red", "blue"]
    );
    assert!((0..=5).all(|k| iterate(k)["point_class"] == "blue"));

    // f5 is nearly the exact average, f0 is not.
    let far = |k| number(k, "rms_to_average");
    assert!(far(5) < far(0) / 3.0, "{} {}", far(0), far(5));
    let average = value["average"]["adversarial_distance"].as_f64().unwrap();
    assert!((distance(5) - average).abs() < 0.02, "{average}");

    let again = done(&illustrate(&second, &["--threads", "3"]));
    assert_eq!(value, again);
    for file in FILES {
        let read = |folder: &Path| std::fs::read(folder.join(file)).unwrap();
        assert_eq!(read(&first), read(&second), "{file}");
        assert!(!read(&first).is_empty(), "{file}");
    }
    assert_eq!(std::fs::read_dir(&first).unwrap().count(), FILES.len());
}

/// The averages of curves.tsv, computed here once more from its own f0: by plain
/// sums over the drawn points, for x far from the ends.
#[test]
fn the_averages_are_those_of_the_curve() {
    let folder = tempfile::tempdir().unwrap();
    done(&illustrate(folder.path(), &["--sigma", "0.05"]));
    let text = std::fs::read_to_string(folder.path().join("curves.tsv")).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let rows: Vec<Vec<f64>> = lines
        .map(|line| line.split('\t').map(|v| v.parse().unwrap()).collect())
        .collect();
    let column = |name: &str| names.iter().position(|n| *n == name).unwrap();
    let (x, f, average) = (column("x"), column("f0"), column("average5"));
    for row in rows.iter().filter(|row| row[x].abs() < 0.6) {
        let weight = |other: &&Vec<f64>| (-0.5 * ((other[x] - row[x]) / 0.05).powi(2)).exp();
        let total: f64 = rows.iter().map(|other| weight(&other)).sum();
        let sum: f64 = rows.iter().map(|other| weight(&other) * other[f]).sum();
        assert!((sum / total - row[average]).abs() < 1e-3, "{}", row[x]);
    }
}

#[test]
fn nonsense_is_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (name, value, told) in [
        ("--sigma", "-0.1", "sigma"),
        ("--sigma", "NaN", "sigma"),
        ("--sigma", "10", "sqrt(2 lambda) sigma"),
        ("--sigma", "0.0001", "sqrt(2 lambda) sigma"),
        ("--lambda", "0", "lambda"),
        ("--threads", "0", "--threads"),
    ] {
        let output = illustrate(&out, &[name, value]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name} {value}: {errors}");
        assert!(errors.contains(told), "{name} {value}: {errors}");
        assert!(!out.exists());
    }
    std::fs::write(&out, "in the way").unwrap();
    let output = illustrate(&out, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read(&out).unwrap(), b"in the way");
}
