//! `fidelity` tells about the whole log, whoever measured its first images.

use std::path::Path;
use std::process::Command;

fn heatsmooth(folder: &Path, arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_heatsmooth"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_summary_after_resuming_is_that_of_an_undisturbed_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| heatsmooth(folder.path(), arguments);
    run("train baseline --data digits --arch mlp --epochs 2 --out f --quiet");
    run("smooth --model f/model.safetensors --data digits --sigma 0.25 --epochs 1 --out v --quiet");
    let fidelity = "fidelity --model v/model.safetensors --reference f/model.safetensors \
                    --data digits --sigma 0.25 --samples 10 --images 0..40 --json --quiet --out";
    let whole = run(&format!("{fidelity} a.tsv"));
    for value in ["gap_closed", "effective_sigma", "agreement"] {
        let key = format!("\"{value}\":");
        assert_eq!(whole.matches(&key).count(), 3, "{whole}");
    }
    assert!(!whole.contains("null"), "{whole}");

    // As if killed after 13 images, in the middle of a line.
    let text = std::fs::read_to_string(folder.path().join("a.tsv")).unwrap();
    let kept: String = text.split_inclusive('\n').take(14).collect();
    std::fs::write(folder.path().join("b.tsv"), kept + "13\t").unwrap();
    let manifest = |name: &str| folder.path().join(name);
    std::fs::copy(manifest("a.json"), manifest("b.json")).unwrap();
    let resumed = run(&format!("{fidelity} b.tsv"));
    assert_eq!(resumed, whole.replace("a.tsv", "b.tsv"));
    let again = std::fs::read_to_string(folder.path().join("b.tsv")).unwrap();
    assert_eq!(text, again);
    // And once more, when all is done.
    assert_eq!(run(&format!("{fidelity} b.tsv")), resumed);
}
