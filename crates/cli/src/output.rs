//! Results on stdout: a short text, or JSON.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use crate::common::Common;

/// Prints to stdout; a closed pipe is an error that ends the program quietly.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    Ok(stdout.flush()?)
}

/// Prints the summary as JSON or as text, as the options say.
pub fn summary(common: &Common, value: &Value, text: &str) -> Result<()> {
    if common.json {
        print(&serde_json::to_string_pretty(value)?)
    } else {
        print(text)
    }
}

/// Prints a list of names, each with a line about it beside it, or lines below it.
pub fn list(json: bool, below: bool, entries: &[(String, String)]) -> Result<()> {
    if json {
        let entries = entries.iter();
        let entries = entries.map(|(name, about)| json!({"name": name, "about": about}));
        return print(&serde_json::to_string_pretty(&entries.collect::<Vec<_>>())?);
    }
    let lines = entries.iter().map(|(name, about)| match below {
        true => format!("{name}\n    {}", about.replace('\n', "\n    ")),
        false => format!("{name:20} {about}"),
    });
    print(&lines.collect::<Vec<_>>().join("\n"))
}
