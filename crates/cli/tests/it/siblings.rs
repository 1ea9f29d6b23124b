//! Nothing silently wrong, continued: what a second look by about 270 bad inputs found,
//! one test each, named after it.

use std::path::Path;

use crate::cli::shown;
use crate::makings::picture;
use heatsmooth::data::Shape;

/// Runs a command that must end so; what it said.
fn ends(folder: &Path, code: u8, arguments: &str) -> String {
    let text = shown(folder, arguments);
    assert!(text.contains(&format!("\nexit code {code}\n")), "{text}");
    text
}

fn trained(folder: &Path) {
    let train = "train gaussian --data digits --arch mlp --epochs 1 --sigma 0.25 --out run";
    ends(folder, 0, train);
}

/// Three pictures with values.
fn values(folder: &Path) {
    for number in 0..3 {
        let path = folder.join(format!("values/{number}.png"));
        picture(&path, number, number, Shape::new(8, 8, 1));
    }
    let csv = "path,v\n0.png,0\n1.png,1\n2.png,2\n";
    std::fs::write(folder.join("values/v.csv"), csv).unwrap();
}

#[test]
fn help_of_train_names_the_defaults_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let help = ends(folder.path(), 0, "train baseline --help");
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    for default in [
        "Passes over the data. [default: 20 for digits, else 200; 60 for smallvit on digits]",
        "Images a step. [default: 64 for digits, else 128]",
        "[default: one-cycle for digits, else piecewise:60,120,160@0.2]",
        "Learning rate. [default: 0.1]",
    ] {
        assert!(help.contains(default), "{default}: {help}");
    }
}

#[test]
fn whole_numbers_below_zero_and_too_large_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let certify = "certify --model run --data digits --sigma 0.1 --out x.tsv";
    for (option, value, words) in [
        ("n", "-5", "expected a whole number of at least 0"),
        ("seed", "-1", "expected a whole number of at least 0"),
        (
            "n",
            "4294967296",
            "expected a whole number of at most 4294967295",
        ),
    ] {
        let text = ends(folder, 2, &format!("{certify} --{option} {value}"));
        let words = format!("--{option} is `{value}`, {words}");
        assert!(text.contains(&words), "{text}");
    }
}

#[test]
fn noise_that_single_precision_does_not_see_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    for (sigma, words) in [
        (
            "1e-300",
            "--sigma is `1e-300`, expected 0.000001 to 1000000",
        ),
        ("1e300", "--sigma is `1e300`, expected 0.000001 to 1000000"),
    ] {
        let text = ends(
            folder,
            2,
            &format!("certify --model run --data digits --noise float --sigma {sigma} --out x.tsv"),
        );
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn intervals_are_refused_in_the_user_s_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    values(folder);
    let text = ends(
        folder,
        0,
        "train baseline --data values/v.csv --input 8x8x1 --arch mlp --epochs 1 --batch-size 3 --out reg",
    );
    assert!(
        text.contains("3 images make only 1 step;")
            && text.contains("name a folder of the files train.csv and test.csv instead"),
        "{text}"
    );
    let certify = "certify --model reg --data values/v.csv --n 200 --out x.tsv";
    for (options, words) in [
        ("--sigma 0.1 --eps 5", "ask for a smaller radius or eps"),
        (
            "--sigma 0.1,0.2 --eps 0.1",
            "--sigma is `0.1,0.2`, expected one number",
        ),
        (
            "--sigma 0.1 --eps 0.1 --noise uniform",
            "--noise is `uniform`, expected Gaussian",
        ),
        (
            "--sigma 0.1 --eps 0.1 --low -1.7e308 --high 1.7e308",
            "--low is `-1.7e308`, expected between -3.4e38 and 3.4e38",
        ),
    ] {
        let text = ends(folder, 2, &format!("{certify} {options}"));
        assert!(text.contains(words), "{options}: {text}");
    }
    assert!(!folder.join("x.tsv").exists());
}

#[test]
fn one_image_is_too_few_to_train_on_and_the_error_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    values(folder);
    std::fs::write(folder.join("values/v.csv"), "path,v\n0.png,0\n").unwrap();
    let text = ends(
        folder,
        2,
        "train baseline --data values/v.csv --input 8x8x1 --arch mlp --out reg",
    );
    assert!(
        text.contains("expected to leave 2 or more of the training images (1)"),
        "{text}"
    );
}

#[test]
fn a_vote_promises_no_radius() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    picture(&folder.join("x.png"), 1, 0, Shape::new(8, 8, 1));
    let text = ends(folder, 0, "predict --model run --samples 50 x.png");
    let vote = text
        .lines()
        .find(|line| line.starts_with("guarantee of the vote"));
    let vote = vote.unwrap_or_default();
    assert!(
        vote.contains("about x itself, not about perturbations of it") && !vote.contains("radius"),
        "{text}"
    );
}

#[test]
fn a_file_is_named_once_in_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text.safetensors"), "hello").unwrap();
    for model in ["text.safetensors", "nothere.safetensors"] {
        let text = ends(folder.path(), 2, &format!("inspect {model}"));
        let error = text.lines().find(|line| line.starts_with("error")).unwrap();
        assert_eq!(error.matches(model).count(), 1, "{text}");
    }
}

#[test]
fn a_model_is_not_converted_onto_itself() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    for from in ["run", "run/model.safetensors"] {
        let text = ends(folder, 2, &format!("convert {from} run/model.safetensors"));
        assert!(text.contains("is the model itself"), "{text}");
    }
    ends(folder, 0, "eval --model run --data digits");
}

#[test]
fn the_same_sigma_twice_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let text = ends(
        folder,
        2,
        "certify --model run --data digits --sigma 0.1,0.1 --out x.tsv",
    );
    assert!(text.contains("several different ones"), "{text}");
}

#[test]
fn a_gap_that_cannot_be_measured_is_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    values(folder);
    ends(
        folder,
        0,
        "train baseline --data values/v.csv --input 8x8x1 --arch mlp --epochs 1 --out reg",
    );
    let text = ends(
        folder,
        0,
        "fidelity --model reg --reference reg --data values/v.csv --sigma 0.001 --samples 2 \
         --out f.tsv",
    );
    assert!(!text.contains("NaN"), "{text}");
}

#[test]
fn a_foreign_log_of_unknown_sigma_is_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let log = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n";
    std::fs::write(folder.join("theirs.tsv"), log).unwrap();
    let text = ends(folder, 0, "report theirs.tsv --out report");
    assert!(
        text.contains("sigma is unknown, and alpha = 0.001 is assumed"),
        "{text}"
    );
}
