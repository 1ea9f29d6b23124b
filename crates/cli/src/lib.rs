//! The `heatsmooth` command line as a library: parse, run, print. Everything
//! that it does is a function of the library `heatsmooth`; the binary is [`run`]
//! on the process's arguments.
//!
//! Exit codes: 0 done, 1 finished but something failed, 2 bad usage, input or
//! configuration.
//!
//! ```
//! let code = heatsmooth_cli::run(["heatsmooth", "data", "list", "--quiet"]);
//! assert_eq!(code, std::process::ExitCode::SUCCESS);
//! ```

mod commands;
mod common;
mod failure;
mod options;
mod output;
mod progress;
mod ranks;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command};

use heatsmooth::Registry;

/// A command: its name, its arguments, and what it does.
pub(crate) struct Entry {
    name: &'static str,
    command: fn(Command, &Registry) -> Command,
    run: fn(&ArgMatches, &Registry) -> Result<()>,
}

/// All commands, in the order of the help.
const COMMANDS: &[Entry] = &[
    commands::demo::ENTRY,
    commands::data::ENTRY,
    commands::train::ENTRY,
    commands::smooth::ENTRY,
    commands::measure::CALIBRATE,
    commands::eval::ENTRY,
    commands::predict::ENTRY,
    commands::measure::CERTIFY,
    commands::measure::LBOUND,
    commands::attack::ENTRY,
    commands::measure::CLEVER,
    commands::measure::FIDELITY,
    commands::status::ENTRY,
    commands::merge::ENTRY,
    commands::report::ENTRY,
    commands::reproduce::ENTRY,
    commands::inspect::ENTRY,
    commands::convert::ENTRY,
    commands::bench::ENTRY,
    commands::devices::ENTRY,
    commands::completions::COMPLETIONS,
    commands::completions::MAN,
];

/// The whole command line: what completions, the manual and tests walk through.
pub fn command(registry: &Registry) -> Command {
    let mut all = Command::new("heatsmooth")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "Turn an image classifier into its own Gaussian average: after training, one forward \
             pass answers what randomized smoothing needs thousands of noisy passes for",
        )
        .max_term_width(100)
        .arg_required_else_help(true)
        .subcommand_required(true);
    for entry in COMMANDS {
        all = all.subcommand((entry.command)(Command::new(entry.name), registry));
    }
    all
}

/// Runs a command line, the program's name first.
pub fn run<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> ExitCode {
    let registry = Registry::standard();
    let matches = match command(&registry).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version go to stdout and are no failure.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let Some((name, matches)) = matches.subcommand() else {
        return ExitCode::from(2);
    };
    let entry = COMMANDS.iter().find(|entry| entry.name == name);
    let result = entry.map_or(Ok(()), |entry| (entry.run)(matches, &registry));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
