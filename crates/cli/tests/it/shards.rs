//! Array jobs: shards are found in the environment, survive kills, and join to the
//! bytes of one run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::kill::without_times;

/// What schedulers set; none of it may leak into these tests.
const SCHEDULERS: &[&str] = &[
    "SLURM_ARRAY_TASK_ID",
    "SGE_TASK_ID",
    "PBS_ARRAY_INDEX",
    "PBS_ARRAYID",
    "JOB_COMPLETION_INDEX",
    "HEATSMOOTH_SHARDS",
    "RANK",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
];

fn heatsmooth(arguments: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heatsmooth"));
    command
        .args(arguments.split_whitespace())
        .current_dir(folder);
    for name in SCHEDULERS {
        command.env_remove(name);
    }
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn model(folder: &Path) {
    let train = "train baseline --data digits --arch mlp --epochs 1 --out base --quiet";
    assert!(output(&mut heatsmooth(train, folder)).status.success());
}

const CERTIFY: &str = "certify --model base --data digits --sigma 0.25 --n 300 --n0 20 \
                       --images 0..160 --threads 1";

/// Task `task` of a Slurm array that counts from 3 in steps of 2.
fn task(task: usize, folder: &Path) -> Command {
    let mut command = heatsmooth(&format!("{CERTIFY} --out parts/heat.tsv"), folder);
    let number = |n: usize| (3 + 2 * n).to_string();
    command
        .env("SLURM_ARRAY_TASK_ID", number(task))
        .env("SLURM_ARRAY_TASK_MIN", number(0))
        .env("SLURM_ARRAY_TASK_MAX", number(SHARDS - 1))
        .env("SLURM_ARRAY_TASK_STEP", "2")
        .env("SLURM_ARRAY_TASK_COUNT", SHARDS.to_string());
    command
}

const SHARDS: usize = 64;

/// Numbers that look random, the same in every run.
fn scrambled(n: usize) -> usize {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) >> 7
}

#[test]
fn shards_in_any_order_with_kills_join_to_the_bytes_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    model(folder);
    let whole = format!("{CERTIFY} --out whole.tsv --quiet");
    assert!(output(&mut heatsmooth(&whole, folder)).status.success());

    let mut queue: Vec<(usize, usize)> = (0..SHARDS).map(|shard| (shard, 0)).collect();
    queue.sort_by_key(|&(shard, _)| scrambled(shard));
    let queue = Mutex::new(queue);
    let kills = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let Some((shard, tries)) = queue.lock().unwrap().pop() else {
                        return;
                    };
                    let mut command = task(shard, folder);
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    let mut child = command.spawn().unwrap();
                    // Every other shard is killed once or twice before it may end.
                    if tries < 2 && scrambled(shard + 100 * tries).is_multiple_of(2) {
                        let patience = 5 + scrambled(shard + tries) % 60;
                        std::thread::sleep(Duration::from_millis(patience as u64));
                        if child.try_wait().unwrap().is_none() {
                            child.kill().unwrap();
                            child.wait().unwrap();
                            *kills.lock().unwrap() += 1;
                            // Somebody else goes on with it, later.
                            queue.lock().unwrap().insert(0, (shard, tries + 1));
                            continue;
                        }
                    }
                    assert!(child.wait().unwrap().success());
                }
            });
        }
    });
    assert!(*kills.lock().unwrap() > 0);

    let status = output(&mut heatsmooth("status parts", folder));
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        text.contains("64 of 64 shards done, 160 of 160 images (100.0 %)"),
        "{text}"
    );
    let mut merge = heatsmooth("merge --out merged.tsv", folder);
    let logs = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.extension()? == "tsv").then_some(path)
    };
    let logs: Vec<PathBuf> = std::fs::read_dir(folder.join("parts"))
        .unwrap()
        .filter_map(logs)
        .collect();
    assert_eq!(logs.len(), SHARDS);
    assert!(logs.contains(&folder.join("parts/heat.shard-07-of-64.tsv")));
    let merged = output(merge.args(&logs));
    assert!(merged.status.success(), "{}", stderr(&merged));
    assert_eq!(
        without_times(&folder.join("merged.tsv")),
        without_times(&folder.join("whole.tsv"))
    );
    let manifest = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert_eq!(manifest("merged.json"), manifest("whole.json"));
}

#[test]
fn the_shard_is_said_and_a_flag_wins() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    model(folder);
    let lbound = "lbound --model base --data digits --sigma 0.25 --images 0..10";
    let rank = |arguments: &str| {
        let mut command = heatsmooth(arguments, folder);
        command
            .env("OMPI_COMM_WORLD_RANK", "1")
            .env("OMPI_COMM_WORLD_SIZE", "2");
        output(&mut command)
    };
    let found = rank(&format!("{lbound} --out lbound.tsv"));
    let said = stderr(&found);
    let words = "shard 2/2 (rank 1 of Open MPI): lbound.shard-2-of-2.tsv";
    assert!(found.status.success() && said.contains(words), "{said}");
    let rows = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        text.lines().count() - 1
    };
    assert_eq!(rows("lbound.shard-2-of-2.tsv"), 5);
    for (shard, log, images) in [("1/5", "flag.tsv", 2), ("none", "whole.tsv", 10)] {
        let found = rank(&format!("{lbound} --shard {shard} --out {log}"));
        assert!(!stderr(&found).contains("Open MPI"));
        assert_eq!(rows(log), images);
    }
    // What is half done is told.
    let status = output(&mut heatsmooth("status . --json", folder));
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("\"missing\": \"1/2\""), "{text}");
    assert!(text.contains("\"missing\": \"2/5 to 5/5\""), "{text}");

    let mut lost = heatsmooth(&format!("{lbound} --out lost.tsv"), folder);
    let lost = output(lost.env("JOB_COMPLETION_INDEX", "3"));
    assert_eq!(lost.status.code(), Some(2));
    assert!(stderr(&lost).contains("no HEATSMOOTH_SHARDS"));
    assert!(!folder.join("lost.tsv").exists());
}

#[test]
fn shards_of_eval_join_to_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    model(folder);
    let eval = "eval --model base --data digits --sigma 0.25";
    let text = |arguments: &str| {
        let found = output(&mut heatsmooth(arguments, folder));
        assert!(found.status.success(), "{}", stderr(&found));
        String::from_utf8_lossy(&found.stdout).into_owned()
    };
    let whole = text(eval);
    for task in (0..5).rev() {
        let mut command = heatsmooth(&format!("{eval} --out parts/e.tsv"), folder);
        command
            .env("JOB_COMPLETION_INDEX", task.to_string())
            .env("HEATSMOOTH_SHARDS", "5");
        let found = output(&mut command);
        assert!(found.status.success(), "{}", stderr(&found));
    }
    let mut merge = heatsmooth("merge --out merged.tsv", folder);
    let parts = std::fs::read_dir(folder.join("parts")).unwrap();
    let parts = parts.map(|part| part.unwrap().path());
    let parts = parts.filter(|part| part.extension().is_some_and(|end| end == "tsv"));
    assert!(output(merge.args(parts)).status.success());
    // The figures of all images at once, and the log of one process.
    assert_eq!(text(&format!("{eval} --out merged.tsv")), whole);
    assert_eq!(text(&format!("{eval} --out whole.tsv")), whole);
    let rows = |name: &str| without_times(&folder.join(name));
    assert_eq!(rows("merged.tsv"), rows("whole.tsv"));

    let refused = output(&mut heatsmooth(&format!("{eval} --shard 1/2"), folder));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("only logs can be merged"));
}

#[test]
fn two_writers_of_one_shard_cannot_both_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    model(folder);
    let one = format!("{CERTIFY} --n 60000 --shard 1/8 --out one.tsv").replace("--n 300", "");
    let both = [(); 2].map(|()| {
        let mut command = heatsmooth(&one, folder);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    let both = both.map(|child| child.wait_with_output().unwrap());
    let ended = both.iter().filter(|one| one.status.success()).count();
    assert!(ended <= 1, "one of them should have been refused");
    for refused in both.iter().filter(|one| !one.status.success()) {
        let said = stderr(refused);
        assert!(said.contains("another process is writing to it"), "{said}");
    }
    // Whatever happened, the log that is left goes on and ends well.
    let last = output(&mut heatsmooth(&one, folder));
    assert!(last.status.success(), "{}", stderr(&last));
}
