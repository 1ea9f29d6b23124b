//! The `heatsmooth` command line as a library: parse, plan, run, report. The
//! binary is [`run`] on the process's arguments.
//!
//! Exit codes: 0 done, 1 finished but something failed, 2 bad usage, input or
//! configuration.

mod bench;
mod commands;
mod common;
mod config;
mod failure;
mod measure;
mod output;
mod picture;
mod pipeline;
mod plan;
mod preset;
mod progress;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Turn an image classifier into its own Gaussian average: after training, one
/// forward pass answers what randomized smoothing needs thousands of noisy
/// passes for.
#[derive(Parser)]
#[command(name = "heatsmooth", version, about, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Flags),
    Data(commands::data::Flags),
    Train(commands::train::Flags),
    Smooth(commands::smooth::Flags),
    Eval(commands::eval::Flags),
    Predict(commands::predict::Flags),
    Certify(commands::certify::Flags),
    Lbound(commands::lbound::Flags),
    Attack(commands::attack::Flags),
    Fidelity(commands::fidelity::Flags),
    Merge(commands::merge::Flags),
    Report(commands::report::Flags),
    Reproduce(commands::reproduce::Flags),
    Inspect(commands::inspect::Flags),
    Convert(commands::convert::Flags),
    Bench(bench::Flags),
}

/// Runs a command line, the program's name first.
pub fn run<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> ExitCode {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no failure.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let result = match cli.command {
        Command::Demo(flags) => commands::demo::run(flags),
        Command::Data(flags) => commands::data::run(flags),
        Command::Train(flags) => commands::train::run(flags),
        Command::Smooth(flags) => commands::smooth::run(flags),
        Command::Eval(flags) => commands::eval::run(flags),
        Command::Predict(flags) => commands::predict::run(flags),
        Command::Certify(flags) => commands::certify::run(flags),
        Command::Lbound(flags) => commands::lbound::run(flags),
        Command::Attack(flags) => commands::attack::run(flags),
        Command::Fidelity(flags) => commands::fidelity::run(flags),
        Command::Merge(flags) => commands::merge::run(flags),
        Command::Report(flags) => commands::report::run(flags),
        Command::Reproduce(flags) => commands::reproduce::run(flags),
        Command::Inspect(flags) => commands::inspect::run(flags),
        Command::Convert(flags) => commands::convert::run(flags),
        Command::Bench(flags) => bench::run(flags),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
