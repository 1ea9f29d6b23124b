//! `heatsmooth reproduce`: the paper's experiments, each as one recipe.

mod cifar10;
mod illustration;

use anyhow::Result;
use clap::{Args, Subcommand};

/// The paper's experiments, each as one recipe.
#[derive(Args, Debug)]
pub struct Flags {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand, Debug)]
enum Experiment {
    Illustration(illustration::Flags),
    Cifar10(cifar10::Flags),
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    match flags.experiment {
        Experiment::Illustration(flags) => illustration::run(flags),
        Experiment::Cifar10(flags) => cifar10::run(flags),
    }
}
