//! One log per run: shards are joined, copies left out.

use std::collections::BTreeSet;

use record::{Manifest, Selection};

use crate::ReportWarning;
use crate::load::LoadedLog;

/// Joins the shards of a run and leaves out logs that stand twice.
pub fn join(mut logs: Vec<LoadedLog>, warnings: &mut Vec<ReportWarning>) -> Vec<LoadedLog> {
    // Whole logs first: a merged log makes its shards superfluous.
    logs.sort_by_key(|log| log.manifest.selection.shard.is_some());
    let mut kept: Vec<(LoadedLog, BTreeSet<u64>)> = Vec::new();
    for log in logs {
        let shard = log.manifest.selection.shard;
        let same = kept
            .iter_mut()
            .find(|(other, _)| same_run(&other.manifest, &log.manifest));
        match (same, shard) {
            (None, _) => {
                kept.push((log, shard.map(|shard| shard.index).into_iter().collect()));
            }
            (Some((whole, seen)), Some(shard))
                if !seen.is_empty() && !seen.contains(&shard.index) =>
            {
                seen.insert(shard.index);
                whole.join(log);
            }
            (Some((other, _)), _) => {
                warnings.push(ReportWarning::Duplicate {
                    path: log.path,
                    of: other.path.clone(),
                });
            }
        }
    }
    for (log, seen) in &kept {
        if let Some(shard) = log.manifest.selection.shard
            && (seen.len() as u64) < shard.count
        {
            let (path, found) = (log.path.clone(), seen.len());
            warnings.push(ReportWarning::ShardsMissing {
                path,
                found,
                of: shard.count,
            });
        }
    }
    let mut logs: Vec<LoadedLog> = kept.into_iter().map(|(log, _)| log).collect();
    logs.sort_by(|a, b| a.path.cmp(&b.path));
    logs
}

fn same_run(a: &Manifest, b: &Manifest) -> bool {
    let whole = |manifest: &Manifest| Manifest {
        selection: Selection {
            shard: None,
            ..manifest.selection
        },
        ..manifest.clone()
    };
    a.kind == b.kind && a.model.is(&b.model) && whole(a).differences(&whole(b)).is_empty()
}
