//! A run killed with SIGKILL at any moment ends, when started again, with the
//! bytes of an undisturbed one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn heatsmooth() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn train(out: &Path, threads: &str) -> Command {
    let mut command = heatsmooth();
    command.args([
        "train", "baseline", "--data", "digits", "--arch", "mlp", "--epochs", "4",
    ]);
    // Checkpoints after every step: a kill may hit the middle of one.
    command.args(["--checkpoint-seconds", "0", "--threads", threads, "--out"]);
    command.arg(out);
    command
}

fn smooth(model: &Path, (by, options): (&str, &str), out: &Path, threads: &str) -> Command {
    let mut command = heatsmooth();
    command.args([
        "smooth", "--data", "digits", "--sigma", "0.25", "--epochs", "2", "--by", by,
    ]);
    command.args(options.split_whitespace());
    command
        .args(["--checkpoint-seconds", "0", "--threads", threads, "--model"])
        .arg(model)
        .arg("--out")
        .arg(out);
    command
}

fn certify(model: &Path, out: &Path, threads: &str) -> Command {
    let mut command = heatsmooth();
    command.args([
        "certify", "--data", "digits", "--sigma", "0.25", "--n", "500", "--n0", "20",
    ]);
    command.args(["--images", "0..60", "--threads", threads, "--model"]);
    command.arg(model).arg("--out").arg(out);
    command
}

/// Kills the command after longer and longer times until it ends by itself;
/// returns how often it was killed.
fn run_with_kills(make: impl Fn() -> Command) -> usize {
    let mut kills = 0;
    loop {
        let mut child = make().spawn().unwrap();
        let patience = Duration::from_millis(25 + 35 * kills as u64);
        std::thread::sleep(patience);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return kills;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(kills < 200, "the run makes no progress");
    }
}

fn finish(mut command: Command) {
    assert!(command.status().unwrap().success());
}

#[test]
fn killed_runs_end_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let model = |run: &str| at(run).join("model.safetensors");

    finish(train(&at("base"), "1"));
    let expected = std::fs::read(model("base")).unwrap();
    for threads in ["1", "2"] {
        let out = at(&format!("killed-{threads}"));
        let kills = run_with_kills(|| train(&out, threads));
        assert!(kills > 0, "the run was over before it could be killed");
        let got = std::fs::read(out.join("model.safetensors")).unwrap();
        assert!(got == expected, "{threads} threads, {kills} kills");
    }

    for way in [
        ("heat", "--timesteps 2 --kappa 2"),
        ("average", ""),
        ("both", ""),
    ] {
        let by = way.0;
        finish(smooth(&model("base"), way, &at(by), "2"));
        let out = at(&format!("{by}-killed"));
        let kills = run_with_kills(|| smooth(&model("base"), way, &out, "1"));
        assert!(kills > 0, "the run was over before it could be killed");
        let (got, expected) = (
            std::fs::read(out.join("model.safetensors")),
            std::fs::read(model(by)),
        );
        assert!(got.unwrap() == expected.unwrap(), "{by}, {kills} kills");
    }

    finish(certify(&model("base"), &at("whole.tsv"), "2"));
    let kills = run_with_kills(|| certify(&model("base"), &at("killed.tsv"), "1"));
    let (whole, killed) = (
        without_times(&at("whole.tsv")),
        without_times(&at("killed.tsv")),
    );
    assert_eq!(whole, killed, "certify, {kills} kills");
}

/// A log without its two columns of times.
pub(crate) fn without_times(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let header: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
    let timed = |i: usize| header[i].contains("time");
    let cells = |line: &str| {
        let cells = line.split('\t').enumerate().filter(|(i, _)| !timed(*i));
        cells.map(|(_, c)| c).collect::<Vec<_>>().join("\t")
    };
    text.lines().map(cells).collect()
}
