//! `heatsmooth completions` and `heatsmooth man`: what clap knows about the
//! command line, for shells and for readers.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use heatsmooth::Registry;

use crate::{Entry, output};

/// `heatsmooth completions`.
pub const COMPLETIONS: Entry = Entry {
    name: "completions",
    command: |command, _| {
        command
            .about("A completion script for a shell, on stdout")
            .arg(
                Arg::new("shell")
                    .value_name("SHELL")
                    .required(true)
                    .value_parser(value_parser!(Shell)),
            )
            .after_help("Example: heatsmooth completions bash > ~/.bash_completion.d/heatsmooth")
    },
    run: completions,
};

/// `heatsmooth man`.
pub const MAN: Entry = Entry {
    name: "man",
    command: |command: Command, _| {
        command
            .about("The manual page, on stdout")
            .after_help("Example: heatsmooth man | man -l -")
    },
    run: man,
};

fn completions(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    let shell = matches
        .get_one::<Shell>("shell")
        .copied()
        .unwrap_or(Shell::Bash);
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut crate::command(registry),
        "heatsmooth",
        &mut script,
    );
    output::print(&String::from_utf8_lossy(&script))
}

fn man(_: &ArgMatches, registry: &Registry) -> Result<()> {
    let mut page = Vec::new();
    let command = crate::command(registry);
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands() {
        let mut one = Vec::new();
        let name = format!("heatsmooth-{}", sub.get_name());
        clap_mangen::Man::new(sub.clone().name(name)).render(&mut one)?;
        page.extend(one);
    }
    output::print(&String::from_utf8_lossy(&page))
}
