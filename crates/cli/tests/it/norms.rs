//! Other noises, other norms, and CLEVER.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn output(folder: &Path, arguments: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(arguments.split_whitespace())
        .arg("--quiet")
        .current_dir(folder)
        .output()
        .unwrap();
    let said = match output.status.success() {
        true => output.stdout,
        false => output.stderr,
    };
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

fn run(folder: &Path, arguments: &str) -> String {
    let (success, said) = output(folder, arguments);
    assert!(success, "{arguments}: {said}");
    said
}

fn refused(folder: &Path, arguments: &str, words: &str) {
    let (success, said) = output(folder, arguments);
    assert!(!success && said.contains(words), "{arguments}: {said}");
}

fn json(folder: &Path, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap()
}

/// Cells of a column.
fn column(folder: &Path, file: &str, name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let mut lines = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let at = heads.iter().position(|head| *head == name).unwrap();
    lines
        .map(|cells| cells[at].parse().unwrap_or(f64::NAN))
        .collect()
}

#[test]
fn noise_and_norm_travel_from_training_to_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = "train gaussian --data digits --arch mlp --sigma 0.25 --epochs 6";
    run(folder, &format!("{train} --out gaussian"));
    run(folder, &format!("{train} --noise uniform --out uniform"));
    let manifest = json(folder, "uniform/run.json");
    assert_eq!(manifest["method"], "uniform");
    assert_eq!(manifest["configuration"]["method"]["noise"], "uniform");
    assert!(run(folder, "inspect uniform").contains("uniform"));

    // What the model was made for is what it is certified with.
    let certify = "certify --data digits --n 200 --n0 20 --images 0..40";
    let said = run(
        folder,
        &format!("{certify} --model uniform --out logs/uniform.tsv"),
    );
    assert!(
        said.contains("perturbation of L1 norm below the radius"),
        "{said}"
    );
    assert!(
        said.contains("the rounded uniform noise is drawn exactly"),
        "{said}"
    );
    let smoothing = &json(folder, "logs/uniform.json")["smoothing"];
    assert_eq!(smoothing["noise"], "uniform");
    assert_eq!(
        (&smoothing["levels"], &smoothing["norm"]),
        (&16.into(), &"l1".into())
    );
    let half_width = 0.25 * 3f64.sqrt();
    let radii = column(folder, "logs/uniform.tsv", "radius");
    assert!(radii.iter().any(|r| *r > 0.3) && radii.iter().all(|r| *r <= half_width));
    // A log is never continued with other noise or in another norm.
    for other in ["--noise laplace", "--norm l2"] {
        let again = format!("{certify} --model uniform --out logs/uniform.tsv {other}");
        refused(folder, &again, "smoothing");
    }

    // Gaussian certificates, and the same in other norms.
    run(
        folder,
        &format!("{certify} --model gaussian --out logs/gaussian.tsv"),
    );
    let own = column(folder, "logs/gaussian.tsv", "radius");
    for (norm, factor) in [("l1", 1.0), ("linf", 1.0 / 8.0)] {
        let log = format!("{norm}.tsv");
        run(
            folder,
            &format!("{certify} --model gaussian --norm {norm} --out {log}"),
        );
        let read = column(folder, &log, "radius");
        assert!(
            own.iter()
                .zip(&read)
                .all(|(own, read)| (own * factor - read).abs() < 1e-12)
        );
    }
    run(folder, "report logs --out report --radii 0,0.2,0.4");
    let table = "report/tables/certified-digits-test-sigma-0.25-l1.csv";
    let table = std::fs::read_to_string(folder.join(table)).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(
        lines[1].starts_with("\"RandomizedSmoothing, uniform noise\","),
        "{table}"
    );
    assert!(lines[1].contains("uniform, exact on 1/16"), "{table}");
    assert!(
        lines[2].starts_with("\"RandomizedSmoothing, L2 read as L1\","),
        "{table}"
    );

    // The average over uniform noise, named for what it is.
    let smooth = "smooth --model uniform --data digits --by average --epochs 1 --out average";
    run(folder, smooth);
    assert_eq!(
        json(folder, "average/run.json")["method"],
        "uniform-average"
    );
    let fidelity = "fidelity --model average --reference uniform --data digits --samples 4 \
                    --images 0..4 --out fidelity.tsv";
    run(folder, fidelity);
    assert_eq!(
        json(folder, "fidelity.json")["smoothing"]["noise"],
        "uniform"
    );

    // What is about Gaussian averages is refused.
    let lbound = "lbound --model uniform --data digits --out lbound.tsv";
    refused(folder, lbound, "made for uniform noise");
    let calibrate = "calibrate --reference gaussian --data digits --sigma 0.25";
    refused(
        folder,
        &format!("{calibrate} --model average"),
        "made for uniform noise",
    );
    refused(
        folder,
        &format!("{calibrate} --model gaussian --noise laplace"),
        "exact or float",
    );
}

#[test]
fn clever_is_an_estimate_that_resumes_and_stands_beside_attacks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(
        folder,
        "train baseline --data digits --arch mlp --epochs 6 --out base",
    );
    let clever = "clever --model base --data digits --images 0..12 --batches 8 --samples 8";
    let said = run(folder, &format!("{clever} --out logs/clever.tsv"));
    assert!(said.contains("guarantee: estimate, not a bound"), "{said}");
    assert_eq!(
        json(folder, "logs/clever.json")["guarantee"]["kind"],
        "estimate"
    );
    let untimed = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let lines = text
            .lines()
            .map(|line| line.rsplit_once('\t').unwrap().0.to_owned());
        lines.collect::<Vec<_>>()
    };
    let whole = untimed("logs/clever.tsv");
    let text = std::fs::read_to_string(folder.join("logs/clever.tsv")).unwrap();
    let cut: String = text.split_inclusive('\n').take(5).collect();
    std::fs::write(folder.join("logs/clever.tsv"), cut).unwrap();
    run(folder, &format!("{clever} --out logs/clever.tsv"));
    assert_eq!(untimed("logs/clever.tsv"), whole);

    run(
        folder,
        &format!("{clever} --norm linf --target next --out logs/linf.tsv"),
    );
    refused(
        folder,
        &format!("{clever} --norm l1 --out l1.tsv"),
        "l2 or linf",
    );
    refused(
        folder,
        &format!("{clever} --target 3 --runner-ups 2 --out t.tsv"),
        "runner-ups",
    );
    run(
        folder,
        "attack ddn --model base --data digits --images 0..12 --out logs/ddn.tsv",
    );
    run(folder, "report logs --out report");
    let table = std::fs::read_to_string(folder.join("report/tables/clever-digits-test-l2.md"));
    let table = table.unwrap();
    assert!(table.contains("an estimate"), "{table}");
    assert!(
        folder
            .join("report/tables/clever-digits-test-linf-targeted.csv")
            .exists()
    );
}
