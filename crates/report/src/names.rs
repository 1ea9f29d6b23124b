//! Names, order and colours of models: the same throughout a report.

use std::collections::HashMap;

use record::{Manifest, MethodInfo};
use serde_json::Value;

use crate::load::LoadedLog;

/// A method's place in tables, and its name there. A method that is not known
/// comes last, under its own name.
pub fn method_name<'a>(methods: &'a [MethodInfo], method: &'a str) -> (usize, &'a str) {
    match methods.iter().find(|known| known.name == method) {
        Some(known) => (known.order, &known.display),
        None => (usize::MAX, method),
    }
}

/// Whether models of a method classify by an average over noise, so that one pass
/// without noise says nothing about them.
pub fn averages(methods: &[MethodInfo], method: &str) -> bool {
    methods
        .iter()
        .any(|known| known.name == method && known.stochastic)
}

/// Sorts logs as the paper's tables do: by method, then sigma, then path.
pub fn sort(methods: &[MethodInfo], logs: &mut [&LoadedLog]) {
    logs.sort_by(|a, b| {
        let key = |log: &LoadedLog| {
            (
                method_name(methods, &log.manifest.method).0,
                log.manifest.method.clone(),
            )
        };
        key(a)
            .cmp(&key(b))
            .then(
                a.manifest
                    .sigma
                    .unwrap_or(0.0)
                    .total_cmp(&b.manifest.sigma.unwrap_or(0.0)),
            )
            .then_with(|| a.path.cmp(&b.path))
    });
}

/// Names that tell the logs of one table apart: the label or method, and where
/// that is not enough the settings in which they differ.
pub fn names(methods: &[MethodInfo], logs: &[&LoadedLog]) -> Vec<String> {
    let base = logs.iter().map(|log| {
        let manifest = &log.manifest;
        manifest
            .label
            .clone()
            .unwrap_or_else(|| method_name(methods, &manifest.method).1.to_owned())
    });
    let details: Vec<Vec<(String, String)>> = logs
        .iter()
        .map(|log| details(&log.manifest, &log.path.display().to_string()))
        .collect();
    let details = with_short_paths(details);
    tell_apart(base.collect(), &details)
}

/// The same details with the ends of the paths alone, as many parts as it takes to
/// tell all of them apart.
fn with_short_paths(mut details: Vec<Vec<(String, String)>>) -> Vec<Vec<(String, String)>> {
    let mut paths: Vec<&mut String> = details
        .iter_mut()
        .flatten()
        .filter(|(key, _)| key == "path")
        .map(|(_, path)| path)
        .collect();
    let longest = paths.iter().map(|path| path.split('/').count()).max();
    let end = |path: &str, parts: usize| {
        let all: Vec<&str> = path.split('/').collect();
        all[all.len().saturating_sub(parts)..].join("/")
    };
    let parts = (1..longest.unwrap_or(1)).find(|&parts| {
        let ends: std::collections::BTreeSet<String> =
            paths.iter().map(|path| end(path, parts)).collect();
        ends.len() == paths.len()
    });
    if let Some(parts) = parts {
        for path in &mut paths {
            **path = end(path, parts);
        }
    }
    details
}

/// Appends to equal names the first details in which they differ.
pub fn tell_apart(mut names: Vec<String>, details: &[Vec<(String, String)>]) -> Vec<String> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in details.iter().flatten() {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    // The path tells any two apart, but only when nothing more telling does.
    keys.sort_by_key(|key| *key == "path");
    let value = |at: usize, key: &str| {
        details[at]
            .iter()
            .find(|(found, _)| found == key)
            .map(|(_, value)| value.as_str())
    };
    for key in keys {
        let mut equal: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, name) in names.iter().enumerate() {
            equal.entry(name.clone()).or_default().push(at);
        }
        for (_, members) in equal {
            if members
                .iter()
                .all(|&at| value(at, key) == value(members[0], key))
            {
                continue;
            }
            for at in members {
                let detail = match value(at, key) {
                    Some(value) if key == "path" => value.to_owned(),
                    Some(value) => format!("{key} = {value}"),
                    None => format!("no {key}"),
                };
                names[at] = format!("{}, {detail}", names[at]);
            }
        }
    }
    names
}

fn details(manifest: &Manifest, path: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut add = |key: &str, value: String| out.push((key.to_owned(), value));
    if let Some(sigma) = manifest.sigma {
        add("σ", sigma.to_string());
    }
    if let Some(smoothing) = manifest.smoothing {
        add("noise", smoothing.noise.to_string());
    }
    add("by", manifest.procedure.clone());
    if let Value::Object(settings) = &manifest.configuration {
        for (key, value) in settings {
            match value {
                Value::Object(_) | Value::Array(_) => {}
                Value::String(text) => add(key, text.clone()),
                value => add(key, value.to_string()),
            }
        }
    }
    add("seed", manifest.seed.to_string());
    add("model", manifest.model.key().chars().take(8).collect());
    add(
        "images",
        format!("{}..{}", manifest.selection.start, manifest.selection.end),
    );
    add("path", path.to_owned());
    out
}

/// Gives each model one style, wherever it appears.
#[derive(Debug, Default)]
pub struct Styles {
    slots: HashMap<String, usize>,
}

impl Styles {
    /// Slots in the order of the tables.
    pub fn new(logs: &[&LoadedLog]) -> Self {
        let mut styles = Self::default();
        for log in logs {
            styles.add(log.manifest.model.key());
        }
        styles
    }

    /// The slot of a model, a new one if it has none.
    pub fn add(&mut self, sha256: &str) -> usize {
        let next = self.slots.len();
        *self.slots.entry(sha256.to_owned()).or_insert(next)
    }

    /// The slot of a model.
    pub fn of(&self, log: &LoadedLog) -> usize {
        self.slots
            .get(log.manifest.model.key())
            .copied()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_point_19_names_hold_the_ends_of_paths_only() {
        let detail = |path: &str| vec![("path".to_owned(), path.to_owned())];
        let short = |paths: &[&str]| -> Vec<String> {
            let details = paths.iter().map(|path| detail(path)).collect();
            let details = with_short_paths(details);
            details.into_iter().map(|mut one| one.remove(0).1).collect()
        };
        assert_eq!(
            short(&["/home/me/a/x.tsv", "/home/me/a/y.tsv"]),
            ["x.tsv", "y.tsv"]
        );
        assert_eq!(
            short(&["/home/me/a/x.tsv", "/home/me/b/x.tsv"]),
            ["a/x.tsv", "b/x.tsv"]
        );
    }

    #[test]
    fn equal_names_get_what_differs() {
        let detail = |sigma: &str, n: &str, path: &str| {
            [("σ", sigma), ("n", n), ("path", path)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec()
        };
        let names = |details: &[Vec<(String, String)>]| {
            tell_apart(vec!["heat".into(); details.len()], details)
        };
        assert_eq!(names(&[detail("1", "5", "a")]), ["heat"]);
        assert_eq!(
            names(&[
                detail("1", "5", "a"),
                detail("2", "5", "b"),
                detail("2", "6", "c")
            ]),
            ["heat, σ = 1", "heat, σ = 2, n = 5", "heat, σ = 2, n = 6"]
        );
        assert_eq!(
            names(&[detail("1", "5", "a"), detail("1", "5", "b")]),
            ["heat, a", "heat, b"]
        );
    }
}
