//! Results on stdout: a short text, or JSON.

use std::io::Write;

use anyhow::Result;
use serde_json::Value;

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

/// `0.9173` as `91.73 %`.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}
