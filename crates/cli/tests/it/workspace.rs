//! The crates depend on each other in one direction only.

use std::collections::BTreeMap;
use std::process::Command;

/// Crate to the crates of ours that it may use; tests may use more.
const ALLOWED: [(&str, &[&str]); 13] = [
    ("settings", &[]),
    ("kernels", &[]),
    ("record", &[]),
    ("data", &["kernels", "settings"]),
    ("network", &["kernels"]),
    ("exchange", &["network"]),
    ("gpu", &["network"]),
    ("attack", &["network", "settings"]),
    ("certify", &["network", "record", "settings"]),
    (
        "train",
        &["network", "data", "attack", "record", "settings"],
    ),
    ("report", &["record"]),
    (
        "library",
        &[
            "attack", "certify", "data", "exchange", "gpu", "network", "record", "report",
            "settings", "train",
        ],
    ),
    ("cli", &["library"]),
];

/// `heatsmooth-kernels` is `kernels`, `heatsmooth` is the library.
fn role(package: &str) -> Option<String> {
    match package {
        "heatsmooth" => Some("library".into()),
        _ => package.strip_prefix("heatsmooth-").map(Into::into),
    }
}

#[test]
fn dependencies_go_one_way() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut allowed: BTreeMap<&str, &[&str]> = ALLOWED.into_iter().collect();
    for package in metadata["packages"].as_array().unwrap() {
        let name = role(package["name"].as_str().unwrap()).expect("a crate of ours");
        let permitted = allowed
            .remove(name.as_str())
            .unwrap_or_else(|| panic!("{name} is new"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let development = dependency["kind"].as_str() == Some("dev");
            if let Some(used) = role(dependency["name"].as_str().unwrap()) {
                let fine = development || permitted.contains(&used.as_str());
                assert!(fine, "{name} must not use {used}");
            }
        }
    }
    assert!(allowed.is_empty(), "missing: {allowed:?}");
}
