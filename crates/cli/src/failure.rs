//! How a failure is told: `error: …`, then `hint: …`, then the exit code.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Error;

/// A failure with advice of its own, for what only the binary knows.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Advised {
    message: String,
    hint: String,
}

/// An error with a hint.
pub fn advised(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::new(Advised {
        message: message.into(),
        hint: hint.into(),
    })
}

/// The work was done, but something in it failed: exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfinished(pub String);

/// Prints the error and its hint to stderr; a reader that went away is none.
pub fn report(error: &Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "error: {}", told(error));
    if let Some(hint) = error.chain().find_map(hint) {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    let unfinished = error.chain().any(|e| e.is::<Unfinished>());
    ExitCode::from(if unfinished { 1 } else { 2 })
}

/// The chain of causes, without those that the message before already quotes.
fn told(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The advice of any error of ours.
fn hint(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(advised) = error.downcast_ref::<Advised>() {
        return Some(advised.hint.clone());
    }
    macro_rules! hint_of {
        ($($kind:ty),*) => {
            $(if let Some(error) = error.downcast_ref::<$kind>() {
                return error.hint().map(Into::into);
            })*
        };
    }
    hint_of!(
        attack::AttackError,
        certify::Error,
        data::DataError,
        network::FileError,
        network::ImportError,
        record::RecordError,
        report::ReportError,
        train::TrainError
    );
    None
}
