//! No two public types of the workspace have one name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_two_public_types_have_one_name() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        // The binary has no types for others; every command has its `Flags`.
        if folder.ends_with("cli") {
            continue;
        }
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            // Tests may call their helpers as they like.
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in text.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                if let ["pub", "struct" | "enum" | "trait", name, ..] = words[..] {
                    let name = name.split(['<', '(', '{', ':', ';']).next().unwrap();
                    let place = file.strip_prefix(crates).unwrap().display().to_string();
                    places.entry(name.to_owned()).or_default().push(place);
                }
            }
        }
    }
    // A macro's own name is whatever it declares.
    places.retain(|name, places| places.len() > 1 && !name.starts_with('$'));
    assert!(places.is_empty(), "{places:#?}");
}
