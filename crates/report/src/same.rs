//! One name for one thing: models and data sets are what their hashes say, wherever
//! their files were.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use record::{DataId, ModelId};

/// Gives early records, which know the file of their model alone, the identity that
/// other records give for that file, if it is but one.
pub fn one_identity_each<'a>(models: impl IntoIterator<Item = &'a mut ModelId>) {
    let mut models: Vec<&mut ModelId> = models.into_iter().collect();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for model in &models {
        let identities = known.entry(model.sha256.clone()).or_default();
        identities.extend(model.identity.clone());
    }
    for model in models.iter_mut().filter(|model| model.identity.is_none()) {
        let identities = &known[&model.sha256];
        if identities.len() == 1 {
            model.identity = identities.first().cloned();
        }
    }
}

/// Gives data sets of equal content one name: the last parts of their paths, as many
/// as it takes to tell different ones apart.
pub fn one_name_each<'a>(data: impl IntoIterator<Item = &'a mut DataId>) {
    let mut data: Vec<&mut DataId> = data.into_iter().collect();
    // Published logs come without a hash: their names are all there is.
    data.retain(|one| !one.sha256.is_empty());
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    for one in &data {
        let path = paths
            .entry(one.sha256.clone())
            .or_insert_with(|| one.name.clone());
        if (one.name.len(), &one.name) < (path.len(), path) {
            path.clone_from(&one.name);
        }
    }
    let splits: BTreeMap<&str, &str> = data.iter().map(|one| (&*one.sha256, &*one.split)).collect();
    let mut names = BTreeMap::new();
    for (hash, path) in &paths {
        let split = splits.get(&**hash);
        let others = paths.iter().filter(|(other, _)| {
            // Train and test of one set differ by their splits.
            *other != hash && splits.get(&***other) == split
        });
        let others: Vec<&String> = others.map(|(_, path)| path).collect();
        let parts = (1..=path.split(['/', '\\']).count()).find(|&parts| {
            let short = end(path, parts);
            others.iter().all(|other| end(other, parts) != short)
        });
        names.insert(
            hash.clone(),
            parts.map_or(path.clone(), |parts| end(path, parts)),
        );
    }
    for one in data {
        one.name.clone_from(&names[&one.sha256]);
    }
}

/// The last so many parts of a path.
fn end(path: &str, parts: usize) -> String {
    let all: Vec<&str> = Path::new(path.trim_end_matches('/'))
        .iter()
        .filter_map(|part| part.to_str())
        .filter(|part| *part != ".")
        .collect();
    match all.len() {
        0 => path.to_owned(),
        len => all[len.saturating_sub(parts)..].join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(name: &str, split: &str, sha256: &str) -> DataId {
        let [name, split, sha256] = [name, split, sha256].map(str::to_owned);
        DataId {
            name,
            split,
            sha256,
        }
    }

    fn names(mut all: Vec<DataId>) -> Vec<String> {
        one_name_each(&mut all);
        all.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn issue_17_point_16_the_same_data_under_two_paths_are_one_data_set() {
        let same = vec![
            data("/home/a/pets", "test", "1"),
            data("./pets/", "test", "1"),
        ];
        assert_eq!(names(same), ["pets", "pets"]);
        let moved = vec![
            data("/old/pets", "test", "1"),
            data("/new/animals", "test", "1"),
        ];
        let moved = names(moved);
        assert_eq!(moved[0], moved[1]);
        let others = vec![data("a/pets", "test", "1"), data("b/pets", "test", "2")];
        assert_eq!(names(others), ["a/pets", "b/pets"]);
        let splits = vec![data("a/pets", "test", "1"), data("a/pets", "train", "2")];
        assert_eq!(names(splits), ["pets", "pets"]);
        assert_eq!(
            names(vec![data("medmnist/path", "test", "")]),
            ["medmnist/path"]
        );
    }

    #[test]
    fn issue_17_point_2_early_records_join_those_that_know_their_model() {
        let model = |sha256: &str, identity: Option<&str>| ModelId {
            sha256: sha256.into(),
            identity: identity.map(str::to_owned),
            path: None,
        };
        let mut all = [
            model("a", None),
            model("a", Some("x")),
            model("b", None),
            model("b", Some("y")),
            model("b", Some("z")),
            model("c", None),
        ];
        one_identity_each(&mut all);
        let keys: Vec<&str> = all.iter().map(ModelId::key).collect();
        assert_eq!(keys, ["x", "x", "b", "y", "z", "c"]);
    }
}
