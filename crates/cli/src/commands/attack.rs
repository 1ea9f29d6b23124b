//! `heatsmooth attack`: the attacks of the registry.

use anyhow::Result;
use clap::{ArgMatches, Command};
use heatsmooth::Registry;

use super::measure;
use crate::Entry;

/// `heatsmooth attack`.
pub const ENTRY: Entry = Entry {
    name: "attack",
    command,
    run,
};

fn command(command: Command, registry: &Registry) -> Command {
    let mut all = command
        .about("Attack a model: the smallest perturbation found for each image")
        .arg_required_else_help(true)
        .subcommand_required(true);
    for attack in &registry.attacks {
        let name = attack.name;
        let example = format!(
            "Example: heatsmooth attack {name} --model runs/heat/model.safetensors --data digits \
             --out {name}.tsv"
        );
        let one = measure::command_of(Command::new(name), registry, name);
        all = all.subcommand(one.after_help(example));
    }
    all
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    match matches.subcommand() {
        Some((name, matches)) => measure::run(matches, registry, name),
        None => Ok(()),
    }
}
