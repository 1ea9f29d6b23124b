//! Shards join to the bytes of a single run, or not at all.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{columns, manifest, write};
use heatsmooth_record::{
    CertifyRow, Log, LogKind, Manifest, Selection, Shard, manifest_path, merge,
};

const IMAGES: u64 = 10;

fn shard(index: u64, count: u64) -> Manifest {
    let shard = Some(Shard { index, count });
    Manifest {
        selection: Selection {
            shard,
            ..Selection::all(IMAGES)
        },
        ..manifest(IMAGES)
    }
}

fn write_shards(folder: &Path, count: u64) -> Vec<PathBuf> {
    (1..=count)
        .map(|index| {
            let path = folder.join(format!("{index}.tsv"));
            write(&path, &shard(index, count));
            path
        })
        .collect()
}

fn error(shards: &[PathBuf], out: &Path) -> String {
    let error = merge(shards, out).unwrap_err();
    assert!(!out.exists() && !manifest_path(out).exists());
    error.to_string()
}

#[test]
fn shards_join_to_the_bytes_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let single = folder.path().join("single.tsv");
    write(&single, &manifest(IMAGES));
    let mut shards = write_shards(folder.path(), 3);
    shards.reverse();
    let out = folder.path().join("merged.tsv");
    let merged = merge(&shards, &out).unwrap();
    assert_eq!((merged.rows, merged.mixed.len()), (10, 0));
    for path in [Path::to_path_buf, manifest_path] {
        assert_eq!(
            fs::read(path(&out)).unwrap(),
            fs::read(path(&single)).unwrap()
        );
    }
    // Again is harmless; over another run's log it is refused.
    merge(&shards, &out).unwrap();
    let other = folder.path().join("other.tsv");
    write(
        &other,
        &Manifest {
            seed: 9,
            ..manifest(IMAGES)
        },
    );
    assert!(
        merge(&shards, &other)
            .unwrap_err()
            .to_string()
            .ends_with("seed is 9, wanted 0")
    );
}

#[test]
fn what_is_missing_or_foreign_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let shards = write_shards(folder.path(), 4);
    let out = folder.path().join("merged.tsv");
    assert_eq!(error(&[], &out), "cannot merge: no shards given");
    let two = [shards[0].clone(), shards[2].clone()];
    assert_eq!(
        error(&two, &out),
        "cannot merge: of 4 shards, 2/4, 4/4 missing"
    );
    let twice = [&shards[..], &shards[1..2], &shards[3..]].concat();
    let said = error(&twice, &out);
    assert!(
        said.starts_with("cannot merge: shard 2/4 is given twice"),
        "{said}"
    );
    assert!(said.contains("; shard 4/4 is given twice"), "{said}");

    let whole = folder.path().join("whole.tsv");
    write(&whole, &manifest(IMAGES));
    assert!(error(&[whole], &out).ends_with("whole.tsv is a whole log, not a shard"));

    let foreign = folder.path().join("foreign.tsv");
    write(
        &foreign,
        &Manifest {
            sigma: Some(0.5),
            ..shard(2, 4)
        },
    );
    let other = folder.path().join("other.tsv");
    let another = Manifest {
        seed: 3,
        ..shard(3, 4)
    };
    write(&other, &another);
    let mixed = [shards[0].clone(), foreign, other];
    let said = error(&mixed, &out);
    assert!(
        said.contains("1.tsv: sigma is 0.5, wanted 0.25; "),
        "{said}"
    );
    assert!(said.ends_with("1.tsv: seed is 3, wanted 0"), "{said}");

    // Shard 2 of 4 covers images 1, 5 and 9; the last row is torn.
    let text = fs::read_to_string(&shards[1]).unwrap();
    fs::write(&shards[1], &text[..text.len() - 3]).unwrap();
    let found = merge(&shards, &out).unwrap_err();
    assert!(
        found
            .to_string()
            .ends_with("has 2 of 3 images; image 9 is missing"),
        "{found}"
    );
    assert!(
        found
            .hint()
            .unwrap()
            .contains("run that shard's command again")
    );
    fs::write(&shards[1], text.replace("\n9\t", "\n8\t")).unwrap();
    assert!(error(&shards, &out).ends_with("holds image 8, which is not its own"));
}

#[test]
fn shards_of_different_machines_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut shards = Vec::new();
    for (index, isa) in [(1, "avx2"), (2, "portable")] {
        let mut manifest = shard(index, 2);
        manifest.versions.isa = isa.into();
        shards.push(folder.path().join(format!("{index}.tsv")));
        write(&shards[index as usize - 1], &manifest);
    }
    let out = folder.path().join("merged.tsv");
    let merged = merge(&shards, &out).unwrap();
    let isa: Vec<&str> = merged
        .mixed
        .iter()
        .map(|versions| versions.isa.as_str())
        .collect();
    assert_eq!(isa, ["avx2", "portable"]);
    // The joined log is a finished log: opening it finds nothing left to do.
    let (_, opened) = Log::<CertifyRow>::open(&out, &manifest(IMAGES), &columns()).unwrap();
    assert_eq!(opened.rows.len(), 10);
}

#[test]
fn logs_of_ones_own_kind_join_by_their_images() {
    let folder = tempfile::tempdir().unwrap();
    let mut shards = Vec::new();
    for (index, rows) in [(1, "0\tsoft\n2\thard\n"), (2, "1\tsoft\n3\tsoft\n")] {
        let own = Manifest {
            kind: LogKind::own("texture"),
            selection: Selection {
                shard: Some(Shard { index, count: 2 }),
                ..Selection::all(4)
            },
            ..manifest(4)
        };
        let path = folder.path().join(format!("{index}.tsv"));
        own.write(&manifest_path(&path)).unwrap();
        fs::write(&path, format!("idx\ttexture\n{rows}")).unwrap();
        shards.push(path);
    }
    let out = folder.path().join("merged.tsv");
    assert_eq!(merge(&shards, &out).unwrap().rows, 4);
    let joined = "idx\ttexture\n0\tsoft\n1\tsoft\n2\thard\n3\tsoft\n";
    assert_eq!(fs::read_to_string(&out).unwrap(), joined);
}

#[test]
fn gaps_are_named_as_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let shards = write_shards(folder.path(), 9);
    let out = folder.path().join("merged.tsv");
    let some = [1, 2, 7].map(|index: usize| shards[index - 1].clone());
    assert_eq!(
        error(&some, &out),
        "cannot merge: of 9 shards, 3/9 to 6/9, 8/9, 9/9 missing"
    );
}

fn range(folder: &Path, start: u64, end: u64, step: u64) -> PathBuf {
    let path = folder.join(format!("{start}-{end}.tsv"));
    let selection = Selection {
        start,
        end,
        step,
        shard: None,
    };
    let manifest = Manifest {
        selection,
        ..manifest(IMAGES)
    };
    write(&path, &manifest);
    path
}

#[test]
fn ranges_that_follow_each_other_join_to_the_bytes_of_one_run() {
    for step in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let single = range(folder, 1, 20, step);
        let parts = [range(folder, 7, 20, step), range(folder, 1, 7, step)];
        let out = folder.join("merged.tsv");
        assert_eq!(
            merge(&parts, &out).unwrap().rows as u64,
            19_u64.div_ceil(step)
        );
        for path in [Path::to_path_buf, manifest_path] {
            assert_eq!(
                fs::read(path(&out)).unwrap(),
                fs::read(path(&single)).unwrap()
            );
        }
    }
}

#[test]
fn ranges_with_a_gap_or_in_common_and_shards_among_them_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let out = folder.join("merged.tsv");
    let first = range(folder, 0, 4, 1);
    for start in [3, 5] {
        let said = error(&[first.clone(), range(folder, start, 9, 1)], &out);
        assert!(said.contains("image 4 comes next"), "{said}");
    }
    let said = error(&[first.clone(), first.clone()], &out);
    assert!(said.contains("does not follow"), "{said}");
    let shard = write_shards(folder, 1).remove(0);
    let said = error(&[first, shard], &out);
    assert!(said.contains("is a whole log, not a shard"), "{said}");
}
