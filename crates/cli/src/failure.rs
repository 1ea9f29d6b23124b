//! How a failure is told: `error: …`, then `hint: …`, then the exit code.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Error;
use heatsmooth::exchange::ImportError;
use heatsmooth::exchange::onnx::OnnxError;
use heatsmooth::settings::SettingError;

/// The work was done, but something in it failed: exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfinished(pub String);

/// Prints the error and its hint to stderr. That the reader of our output has
/// closed it is no failure.
pub fn report(error: &Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let ours = error.downcast_ref::<heatsmooth::Error>();
    let setting = ours.and_then(heatsmooth::Error::setting);
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "error: {}", told(error, setting));
    let hint = setting
        .and_then(flag_hint)
        .or_else(|| ours.and_then(lack_hint))
        .or_else(|| ours.and_then(heatsmooth::Error::hint));
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    let unfinished = error.chain().any(|e| e.is::<Unfinished>());
    ExitCode::from(if unfinished { 1 } else { 2 })
}

/// The chain of causes, without those that the message before already quotes;
/// settings by the names of their flags.
fn told(error: &Error, setting: Option<&SettingError>) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    match setting {
        // In a file the name has no dashes.
        Some(setting) if text == setting.to_string() => match setting {
            SettingError::Unknown { .. } => text,
            _ => format!("--{text}"),
        },
        _ => text,
    }
}

/// Advice about flags that the library cannot give.
fn flag_hint(setting: &SettingError) -> Option<String> {
    match setting {
        SettingError::Missing { name } if name == "arch" => Some(
            "give --arch, such as smallcnn (`--arch list` shows all), or a model to start from \
             with --from"
                .into(),
        ),
        SettingError::Missing { name } if name == "sigma" => Some(
            "give --sigma, in units of pixels scaled to [0, 1], such as 0.25; the model has none \
             stored"
                .into(),
        ),
        SettingError::Missing { name } => Some(format!(
            "give --{name}, or `{name} = ...` in the configuration file"
        )),
        SettingError::Ineffective { name, .. } => Some(format!("leave --{name} out")),
        _ => None,
    }
}

/// What a file or data set lacks, by the flag or command that gives it.
fn lack_hint(error: &heatsmooth::Error) -> Option<String> {
    match error {
        heatsmooth::Error::At { source, .. } => lack_hint(source),
        heatsmooth::Error::Import(ImportError::NoArchitecture { .. }) => Some(
            "name a built-in architecture with --arch, or export the whole network with \
             torch.onnx.export"
                .into(),
        ),
        heatsmooth::Error::Data(error) => {
            let name = error.to_fetch()?;
            Some(format!("run `heatsmooth data fetch {name}`"))
        }
        heatsmooth::Error::Import(ImportError::Onnx(OnnxError::OpenInput { .. })) => {
            Some("give the size of one image with --input, such as 32x32x3".into())
        }
        _ => None,
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
