//! Certificates as people work: one picture's, several noise levels, some time, a
//! prior, ranges of images.

use std::path::Path;

use serde_json::Value;

use crate::cli::heatsmooth;
use crate::makings;

fn said(folder: &Path, arguments: &str) -> String {
    let output = heatsmooth(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(folder: &Path, arguments: &str) -> String {
    let output = heatsmooth(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

fn json(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&said(folder, &format!("{arguments} --json"))).unwrap()
}

/// The rows of a log without what a clock says.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split('\t'));
    let head: Vec<&str> = lines.next().unwrap().collect();
    let keep = |at: usize| !head[at].ends_with("time");
    lines
        .map(|cells| {
            let cells = cells.enumerate().filter(|(at, _)| keep(*at));
            cells.map(|(_, cell)| cell.to_owned()).collect()
        })
        .collect()
}

#[test]
fn issue_25_points_3_and_6_one_trained_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    makings::pets(&folder.join("pets"), 4);
    let train = "train gaussian --data pets --arch smallcnn --input 8x8x1 --epochs 20";
    said(
        folder,
        &format!("{train} --batch-size 4 --sigma 0.1 --quiet --out run"),
    );
    let certify = "certify --model run --data pets --select clean --quiet";

    // One picture; sigma is the model's own.
    let picture = "predict --model run --certify --n 500 pets/test/cat/0.png";
    let found = &json(folder, picture)[0];
    let certificate = &found["certificate"];
    let whole = format!("{certify} --n 500 --out whole.tsv");
    said(folder, &whole);
    let radius = certificate["radius"].as_f64().unwrap();
    let (hits, n) = (certificate["hits"].as_u64(), certificate["n"].as_u64());
    assert_eq!((n, found["sigma"].as_f64()), (Some(500), Some(0.1)));
    assert!(radius >= 0.0 && hits <= n, "{found}");
    let words = certificate["guarantee"].as_str().unwrap();
    assert!(words.contains("proven for what is computed"), "{words}");
    assert!(said(folder, picture).contains("of 500 noisy copies"));
    let decided = json(folder, &picture.replace("--n 500", "--radius 0.001"));
    assert!(decided[0]["certificate"]["n"].as_u64() < Some(100_000));
    for (extra, name) in [("--n 500", "n"), ("--radius 0.1", "radius")] {
        let error = refused(
            folder,
            &format!("predict --model run {extra} pets/test/cat/0.png"),
        );
        assert!(
            error.contains(name) && error.contains("certificate"),
            "{error}"
        );
    }

    // A little time: fewer rows, the same ones, and the rest on the next run.
    let short = format!("{certify} --n 500 --out short.tsv");
    said(folder, &format!("{short} --time-budget 0.000001s"));
    let first = rows(&folder.join("short.tsv"));
    assert_eq!(first.len(), 1);
    said(folder, &short);
    assert_eq!(
        rows(&folder.join("short.tsv")),
        rows(&folder.join("whole.tsv"))
    );
    let error = refused(folder, &format!("{short} --time-budget soon"));
    assert!(error.contains("time-budget"), "{error}");

    // Ranges join to the whole.
    for range in ["0..5", "5..12"] {
        let out = range.replace("..", "-");
        said(
            folder,
            &format!("{certify} --n 500 --images {range} --out {out}.tsv"),
        );
    }
    said(folder, "merge 5-12.tsv 0-5.tsv --out joined.tsv");
    assert_eq!(
        rows(&folder.join("joined.tsv")),
        rows(&folder.join("whole.tsv"))
    );

    // Several levels: a log each, and the envelope.
    let levels = format!("{certify} --n 200 --sigma 0.05,0.1 --out levels.tsv");
    let found = json(folder, &levels);
    assert_eq!(found["levels"].as_array().unwrap().len(), 2);
    let meaning = found["envelope_means"].as_str().unwrap();
    assert!(meaning.contains("no classifier's certificate"), "{meaning}");
    for level in ["0.05", "0.1"] {
        assert_eq!(
            rows(&folder.join(format!("levels-sigma-{level}.tsv"))).len(),
            12
        );
    }
    assert!(!folder.join("levels.tsv").exists());
    said(
        folder,
        "report levels-sigma-0.05.tsv levels-sigma-0.1.tsv --out report --beside cohen-cifar10",
    );
    let tables: Vec<String> = std::fs::read_dir(folder.join("report/tables"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for start in ["envelope-", "beside-cifar10", "p-a-"] {
        assert!(
            tables.iter().any(|name| name.starts_with(start)),
            "{tables:?}"
        );
    }
    let error = refused(folder, "report whole.tsv --out report --beside cohen");
    assert!(error.contains("cohen-cifar10"), "{error}");
    let error = refused(
        folder,
        &format!("{certify} --sigma 0.1,0.1 --out twice.tsv"),
    );
    assert!(error.contains("sigma"), "{error}");

    // A pilot chooses n for each image; its rows are checked against it on resuming.
    for goal in ["--radius 0.02", "--tolerance 0.01"] {
        let log = folder.join("pilot.tsv");
        let asked = format!("{certify} --pilot --n0 30 --n 3000 {goal} --out pilot.tsv");
        said(folder, &format!("{asked} --images 0..3"));
        let begun = rows(&log);
        said(folder, &asked);
        let grown = rows(&log);
        assert_eq!(grown[..3], begun[..]);
        let text = std::fs::read_to_string(&log).unwrap();
        let head: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
        let column = |name: &str| head.iter().position(|found| *found == name).unwrap();
        let first: Vec<&str> = text.lines().nth(1).unwrap().split('\t').collect();
        assert!(first[column("n")].parse::<u32>().unwrap() < 3000, "{text}");
        let mut other: Vec<String> = first.iter().map(|&cell| cell.into()).collect();
        other[column("prior")] = "0.1".into();
        let changed = text.replacen(&first.join("\t"), &other.join("\t"), 1);
        std::fs::write(&log, changed).unwrap();
        let error = refused(folder, &asked);
        assert!(error.contains("samples cannot be"), "{error}");
        std::fs::remove_file(&log).unwrap();
        std::fs::remove_file(folder.join("pilot.json")).unwrap();
    }
    for (options, words) in [
        ("--pilot --anytime", "--pilot has no effect"),
        ("--pilot --prior one-pass", "--prior has no effect"),
        ("--pilot --sides both", "expected one, with a pilot"),
        (
            "--pilot --certificate mean-softmax",
            "expected votes, with a pilot",
        ),
        ("--pilot --top-k 2 --rule paper", "expected 1, with a pilot"),
        ("--pilot --radius 9", "can never certify a radius of 9"),
        ("--tolerance 0.1", "--tolerance has no effect"),
    ] {
        let error = refused(folder, &format!("{certify} {options} --out no.tsv"));
        assert!(error.contains(words), "{options}: {error}");
    }

    // With a prior: recorded, checked and resumed.
    for prior in ["one-pass", "pilot"] {
        let asked = format!("{certify} --anytime --radius 0.02 --prior {prior} --out {prior}.tsv");
        said(folder, &format!("{asked} --images 0..5"));
        let begun = rows(&folder.join(format!("{prior}.tsv")));
        said(folder, &format!("{asked} --images 0..12"));
        let grown = rows(&folder.join(format!("{prior}.tsv")));
        assert_eq!(grown[..5], begun);
        let expected: f64 = grown[0].last().unwrap().parse().unwrap();
        assert!((0.0..=1.0).contains(&expected));
    }
    let error = refused(folder, &format!("{certify} --prior one-pass --out no.tsv"));
    assert!(error.contains("anytime"), "{error}");
}
