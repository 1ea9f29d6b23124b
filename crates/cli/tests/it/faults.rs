//! Faults, by numbers: commands are killed, run out of disk, find their files cut or
//! flipped, and run twice at once. `docs/reliability.md` says what is promised;
//! `bench/faults` runs many of these, the tests a few.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Uniform numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}

/// The commands, without where they write to.
const COMMANDS: [(&str, &str); 5] = [
    (
        "train",
        "train baseline --data digits --arch mlp --epochs 3 --checkpoint-seconds 0",
    ),
    (
        "smooth",
        "smooth --model base/model.safetensors --data digits --sigma 0.25 --epochs 1 --timesteps 2 \
         --checkpoint-seconds 0",
    ),
    (
        "certify",
        "certify --model base/model.safetensors --data digits --sigma 0.25 --n 300 --images 0..50",
    ),
    (
        "attack",
        "attack pgd --model base/model.safetensors --data digits --images 0..60 --batch-size 5",
    ),
    (
        "fidelity",
        "fidelity --model base/model.safetensors --reference base/model.safetensors --data digits \
         --sigma 0.25 --samples 10 --images 0..40",
    ),
];

const FAULTS: [&str; 5] = ["kill", "full disk", "cut", "flip", "two writers"];

/// A command in a folder of its own.
struct Bench<'a> {
    root: &'a Path,
    command: &'static str,
    out: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(root: &'a Path, command: usize, name: &str) -> Self {
        let (kind, command) = COMMANDS[command];
        let folder = root.join(name);
        let out = match kind {
            "train" | "smooth" => folder.join("run"),
            _ => folder.join("log.tsv"),
        };
        Self { root, command, out }
    }

    fn folder(&self) -> &Path {
        self.out.parent().unwrap()
    }

    fn program(&self) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
        program.args(self.command.split_whitespace());
        program
            .args(["--quiet", "--threads", "1", "--out"])
            .arg(&self.out);
        program.current_dir(self.root).stdin(Stdio::null());
        program
    }

    fn run(&self) -> Output {
        self.program().output().unwrap()
    }

    /// The command on a disk on which no file can grow beyond so many blocks.
    fn run_with_little_disk(&self, blocks: u64) -> Output {
        let words: Vec<String> = std::iter::once(env!("CARGO_BIN_EXE_heatsmooth"))
            .chain(self.command.split_whitespace())
            .chain(["--quiet", "--threads", "1", "--out"])
            .map(str::to_owned)
            .chain([self.out.display().to_string()])
            .collect();
        // Ignored, the signal becomes an error of `write`, as on a full disk.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script, "sh"])
            .args(words)
            .current_dir(self.root);
        shell.output().unwrap()
    }

    /// Everything that the command made, without times, by name.
    fn result(&self) -> BTreeMap<String, Vec<u8>> {
        let files = match self.out.is_dir() {
            true => vec![self.out.join("model.safetensors")],
            false => vec![self.out.clone(), self.out.with_extension("json")],
        };
        let read = |file: PathBuf| {
            let bytes = std::fs::read(&file).unwrap_or_default();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, without_times(&file, bytes))
        };
        files.into_iter().map(read).collect()
    }

    /// All files below the folder.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found.sort();
        found
    }
}

/// A log without its columns of times.
fn without_times(file: &Path, bytes: Vec<u8>) -> Vec<u8> {
    if file.extension().is_none_or(|extension| extension != "tsv") {
        return bytes;
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let header: Vec<&str> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split('\t')
        .collect();
    let timed = |at: usize| header.get(at).is_some_and(|name| name.contains("time"));
    let kept = |line: &str| {
        let cells = line.split('\t').enumerate().filter(|(at, _)| !timed(*at));
        cells.map(|(_, cell)| cell).collect::<Vec<_>>().join("\t")
    };
    let lines: Vec<String> = text.lines().map(kept).collect();
    lines.join("\n").into_bytes()
}

/// A command may end well or refuse; it may neither panic nor die.
fn is_orderly(status: ExitStatus, stderr: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stderr);
    matches!(status.code(), Some(0..=2)) && !text.contains("panicked")
}

/// What a run of faults came to: how often, by fault and outcome.
type Counts = BTreeMap<(&'static str, &'static str, &'static str), u64>;

/// What went wrong with a fault, or how it ended.
fn fault(
    bench: &Bench<'_>,
    fault: &str,
    random: &mut Random,
    whole: &BTreeMap<String, Vec<u8>>,
    usual: Duration,
) -> Result<&'static str, String> {
    let mut noticed = "same end";
    match fault {
        "kill" => {
            // Several times, at any moment of its work.
            for _ in 0..1 + random.below(3) {
                let mut child = bench.program();
                let mut child = child
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                std::thread::sleep(usual.mul_f64(random.below(1000) as f64 / 1000.0));
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        "full disk" => {
            // Logs are small, models are not.
            let most = if bench.out.extension().is_some() {
                20
            } else {
                300
            };
            let output = bench.run_with_little_disk(random.below(most));
            if !is_orderly(output.status, &output.stderr) {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
            if !output.status.success() {
                noticed = "refused, then same end";
                for file in bench.files() {
                    let name = file.file_name().unwrap().to_string_lossy().into_owned();
                    if name.starts_with(".tmp-") {
                        return Err(format!("{} is left", file.display()));
                    }
                }
            }
        }
        "two writers" => {
            let quiet = |mut program: Command| {
                program
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            };
            let both = [quiet(bench.program()), quiet(bench.program())];
            for child in both {
                let output = child.wait_with_output().unwrap();
                if !is_orderly(output.status, &output.stderr) {
                    return Err(String::from_utf8_lossy(&output.stderr).into_owned());
                }
                if !output.status.success() {
                    noticed = "one refused, same end";
                }
            }
        }
        _ => return damage(bench, fault, random, whole, usual),
    }
    let output = bench.run();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    if bench.result() != *whole {
        return Err("another end".into());
    }
    let left = bench.files().into_iter().find(|file| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(".tmp-")
    });
    match left {
        Some(left) => Err(format!("{} is left", left.display())),
        None => Ok(noticed),
    }
}

/// Cuts or flips one file of a finished or unfinished run.
fn damage(
    bench: &Bench<'_>,
    fault: &str,
    random: &mut Random,
    whole: &BTreeMap<String, Vec<u8>>,
    usual: Duration,
) -> Result<&'static str, String> {
    if random.below(2) == 0 {
        let mut child = bench.program();
        let mut child = child
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(usual.mul_f64(random.below(1000) as f64 / 1000.0));
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        bench.run();
    }
    let files = bench.files();
    let Some(file) = files.get(random.below(files.len() as u64) as usize) else {
        return Ok("nothing to damage");
    };
    let mut bytes = std::fs::read(file).unwrap();
    let at = random.below(bytes.len() as u64) as usize;
    match fault {
        "cut" => bytes.truncate(at),
        _ if bytes.is_empty() => {}
        _ => bytes[at] ^= 1 << random.below(8),
    }
    std::fs::write(file, &bytes).unwrap();
    let output = bench.run();
    if !is_orderly(output.status, &output.stderr) {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    if !output.status.success() {
        return Ok("refused");
    }
    let log = file.extension().is_some_and(|extension| extension == "tsv");
    let sound = |name: &str| bench.result().get(name) == whole.get(name);
    match bench.result() == *whole {
        true => Ok("same end"),
        // Names, versions and words of a manifest decide nothing.
        false if file.extension().is_some_and(|e| e == "json") && sound("log.tsv") => {
            Ok("same rows")
        }
        // A cell that is still a possible value: nothing can tell.
        false if log && fault == "flip" => Ok("a cell changed unseen"),
        false => Err(format!("another end after a {fault} of {}", file.display())),
    }
}

/// Runs so many faults; how they ended, and what went wrong.
fn run(runs: u64, seed: u64) -> (Counts, Vec<String>) {
    let root = tempfile::tempdir().unwrap();
    let base = "train baseline --data digits --arch mlp --epochs 1 --quiet --out base";
    let mut program = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
    let output = program
        .args(base.split(' '))
        .current_dir(root.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // What undisturbed runs give, and how long they take.
    let wholes: Vec<_> = (0..COMMANDS.len())
        .map(|command| {
            let bench = Bench::new(root.path(), command, &format!("whole-{command}"));
            let clock = Instant::now();
            let output = bench.run();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            (bench.result(), clock.elapsed())
        })
        .collect();
    let (mut counts, mut wrong) = (Counts::new(), Vec::new());
    for number in 0..runs {
        let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let command = (number % COMMANDS.len() as u64) as usize;
        let kind = FAULTS[(number / COMMANDS.len() as u64) as usize % FAULTS.len()];
        let bench = Bench::new(root.path(), command, &format!("run-{number}"));
        let (whole, usual) = &wholes[command];
        let ended = match fault(&bench, kind, &mut random, whole, *usual) {
            Ok(ended) => ended,
            Err(error) => {
                wrong.push(format!(
                    "run {number}, {kind} of {}: {error}",
                    COMMANDS[command].0
                ));
                "wrong"
            }
        };
        *counts
            .entry((kind, COMMANDS[command].0, ended))
            .or_default() += 1;
        let _ = std::fs::remove_dir_all(bench.folder());
    }
    (counts, wrong)
}

/// A few runs, or `HEATSMOOTH_FAULTS=RUNS,SEED`; prints a table of how they ended.
#[test]
fn faults_lose_nothing_and_end_the_same() {
    let given = std::env::var("HEATSMOOTH_FAULTS").unwrap_or_default();
    let (runs, seed) = given.split_once(',').unwrap_or((&given, "0"));
    let (runs, seed) = (runs.parse().unwrap_or(25), seed.parse().unwrap_or(0));
    let (counts, wrong) = run(runs, seed);
    println!("| fault | command | ended | runs |\n|---|---|---|---|");
    for ((fault, command, ended), count) in &counts {
        println!("| {fault} | {command} | {ended} | {count} |");
    }
    println!("\n{runs} runs, seed {seed}: {} went wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
