//! How far logs are is read from the logs alone.

mod common;

use std::fs;

use common::{manifest, write};
use heatsmooth_record::{Manifest, Selection, Shard, manifest_path, status};

fn shard(index: u64) -> Manifest {
    let shard = Some(Shard { index, count: 6 });
    Manifest {
        selection: Selection {
            shard,
            ..Selection::all(20)
        },
        ..manifest(20)
    }
}

#[test]
fn shards_of_one_run_are_counted_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("1.tsv"), &shard(1));
    write(&at("deep/down/2.tsv"), &shard(2));
    write(&at("again.tsv"), &shard(2));
    write(&at("6.tsv"), &shard(6));
    // Killed in its last row.
    let text = fs::read_to_string(at("6.tsv")).unwrap();
    fs::write(at("6.tsv"), &text[..text.len() - 3]).unwrap();
    let other = Manifest {
        seed: 7,
        ..shard(3)
    };
    write(&at("other.tsv"), &other);
    write(&at("whole.tsv"), &manifest(5));
    fs::write(at("epochs.tsv"), "epoch\n1\n").unwrap();

    let (runs, unreadable) = status(folder.path()).unwrap();
    assert!(unreadable.is_empty());
    let run = runs.iter().find(|run| run.parts.len() == 4).unwrap();
    assert_eq!((run.shards, run.images), (Some(6), 20));
    // 20 images: shards 1 and 2 have 4, shard 6 has 3, one of them torn.
    assert_eq!(run.rows(), 4 + 4 + 4 + 2);
    assert_eq!(run.missing(), "3/6 to 5/6");
    assert_eq!(run.doubles(), [2]);
    assert!(!run.is_done());
    let last = run.parts.last().unwrap();
    assert_eq!((last.rows, last.images, last.is_done()), (2, 3, false));
    assert!(last.changed.is_some());

    let other = runs
        .iter()
        .find(|run| run.images == 20 && run.parts.len() == 1);
    assert_eq!(other.unwrap().missing(), "1/6, 2/6, 4/6 to 6/6");
    let whole = runs.iter().find(|run| run.shards.is_none()).unwrap();
    assert!(whole.is_done() && whole.missing().is_empty());
    assert_eq!(runs.len(), 3);
}

#[test]
fn what_cannot_be_read_is_told_beside_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("good.tsv"), &manifest(5));
    write(&at("bad.tsv"), &manifest(5));
    fs::write(manifest_path(&at("bad.tsv")), "{").unwrap();
    let (runs, unreadable) = status(folder.path()).unwrap();
    assert_eq!((runs.len(), unreadable.len()), (1, 1));
    assert!(unreadable[0].to_string().contains("bad.json"));
    assert!(status(&at("nowhere")).is_err());
}
