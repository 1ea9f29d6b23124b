//! Options that every command has, and what they set up.

use std::path::PathBuf;
use std::sync::Once;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use heatsmooth::Device;
use heatsmooth::settings::{Settings, Values, settings};

use crate::options;
use crate::progress::Terminal;

const HEADING: &str = "Common options";

settings! {
    /// Options of every command that may stand in a configuration file.
    pub struct Shared {
        /// Seed of everything random: same seed, same answer, to the bit.
        seed: u64 = 0,
        /// Threads; results do not depend on it [default: all cores].
        threads: Option<usize> = None,
        /// Where networks run: cpu, gpu, or gpu:N.
        device: String = "cpu".into(),
    }
}

/// Options of every command.
#[derive(Clone, Debug)]
pub struct Common {
    /// Seed, threads, device.
    pub shared: Shared,
    /// No progress on stderr.
    pub quiet: bool,
    /// The summary on stdout as JSON.
    pub json: bool,
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .help(help)
        .help_heading(HEADING)
        .action(ArgAction::SetTrue)
}

/// Adds the options of every command, and of its subcommands.
pub fn with_common(command: Command) -> Command {
    let shared = options::arguments(&Shared::fields(), Some(HEADING));
    command
        .args(shared.into_iter().map(|arg| arg.global(true)))
        .arg(
            flag("quiet", "No progress on stderr")
                .short('q')
                .global(true),
        )
        .arg(flag("json", "The summary on stdout as JSON").global(true))
}

/// Adds the options of commands that take a configuration.
pub fn with_configuration(command: Command) -> Command {
    with_common(command)
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE.toml")
                .help("Any option of this command from a TOML file; flags win over it")
                .help_heading(HEADING)
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(flag(
            "print-config",
            "Show the resolved configuration and stop",
        ))
}

impl Common {
    /// From the flags alone.
    pub fn of(matches: &ArgMatches) -> Result<Self> {
        Self::with(matches, &options::given(&Shared::fields(), matches)?)
    }

    /// From resolved values; quiet and json are flags only.
    pub fn with(matches: &ArgMatches, values: &Values) -> Result<Self> {
        Ok(Self {
            shared: Shared::read(values).map_err(heatsmooth::Error::from)?,
            quiet: matches.get_flag("quiet"),
            json: matches.get_flag("json"),
        })
    }

    /// Seed of everything random.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// Where networks run. The threads that decode images are as many.
    pub fn device(&self) -> Result<Device> {
        let device = Device::named(&self.shared.device, self.shared.threads)?;
        static DECODERS: Once = Once::new();
        DECODERS.call_once(|| {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(device.threads());
            // Somebody else's threads will do as well.
            let _ = threads.build_global();
        });
        Ok(device)
    }

    /// Where progress is shown.
    pub fn terminal(&self) -> Terminal {
        Terminal::new(self.quiet)
    }
}
