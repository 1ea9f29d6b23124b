//! `heatsmooth train`: the methods of the registry that look at labels.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command};
use heatsmooth::network::architecture;
use heatsmooth::settings::{Field, Settings, Values, settings};
use heatsmooth::{
    DataSource, Device, ImageSource as _, MethodEntry, ModelSource, Origin, Registry, Training,
    Weights, Workshop, presets,
};

use super::measure::{read, required};
use crate::Entry;
use crate::common::{Common, Shared, with_configuration};
use crate::ranks::together;
use crate::{options, output};

settings! {
    /// Where a model goes.
    pub struct RunFolder {
        /// The run folder.
        out: Option<PathBuf> = None,
    }
}

settings! {
    /// What a training run can be told besides its method and schedule.
    pub struct RunOptions {
        /// The network, by name; `--arch list` shows them.
        arch: Option<String> = None,
        /// Start from a model's weights instead of random ones: fine-tune it. Its
        /// network is kept; --arch is needed only for a file of weights alone.
        from: Option<PathBuf> = None,
        /// Input normalisation: imagenet, cifar10, cifar100, mnist, fashion-mnist,
        /// half or none, or mean and std for each channel, as
        /// 0.49,0.48,0.45/0.25,0.24,0.26; a network that is started from has its
        /// own [default: none].
        normalise: Option<String> = None,
        /// Shape to which images of a folder are brought, as 64x64x3; a network that
        /// is started from has its own [default: 224x224x3].
        input: Option<String> = None,
    }
}

/// `heatsmooth train`.
pub const ENTRY: Entry = Entry {
    name: "train",
    command,
    run,
};

fn labelled(registry: &Registry) -> impl Iterator<Item = &MethodEntry> {
    registry.methods.iter().filter(|entry| entry.labels)
}

fn command(command: Command, registry: &Registry) -> Command {
    let mut all = command
        .about("Train a model; running the same command again resumes")
        .arg_required_else_help(true)
        .subcommand_required(true);
    for entry in labelled(registry) {
        let name = entry.info.name.to_string();
        let fields = (entry.fields)();
        let sigma = match fields.iter().any(|field| field.name == "sigma") {
            true => " --sigma 0.25",
            false => "",
        };
        let example = format!(
            "Example: heatsmooth train {name} --data digits --arch smallcnn{sigma} --out \
             runs/{name}"
        );
        let own = own_fields()
            .into_iter()
            .map(|field| with_usual(entry, field));
        let own: Vec<Field> = own.collect();
        let one = Command::new(name)
            .about(entry.about)
            .args(options::arguments(&fields, None))
            .args(options::arguments(&own, None))
            .arg(preset_argument())
            .after_help(example);
        all = all.subcommand(with_configuration(one));
    }
    all
}

/// A field whose help names the defaults that the method has for the data set and the
/// network.
fn with_usual(entry: &MethodEntry, field: Field) -> Field {
    let usual = |data: &str, arch: Option<&str>| {
        let default = entry.usual(data, arch).write().get(&field.name).cloned();
        Field {
            default,
            ..field.clone()
        }
    };
    let words = |data, arch| usual(data, arch).default_text();
    let (digits, others) = (words("digits", None), words("", None));
    let (Some(digits), Some(others)) = (digits, others) else {
        return field;
    };
    let mut said = match digits == others {
        true => others.clone(),
        false => format!("{digits} for digits, else {others}"),
    };
    // One network stands for all with layer norms.
    let (bounded, small) = (
        words("", Some("vit_b_16")),
        words("digits", Some("smallvit")),
    );
    if let Some(bounded) = bounded.filter(|bounded| *bounded != others) {
        said += &format!("; {bounded} for networks with layer norms");
    } else if let Some(small) = small.filter(|small| *small != digits) {
        said += &format!("; {small} for smallvit on digits");
    }
    match said == others {
        true => usual("", None),
        false => Field {
            help: format!("{} [default: {said}]", field.help),
            ..field
        },
    }
}

fn own_fields() -> Vec<Field> {
    let mut fields = DataSource::fields();
    fields.extend(RunFolder::fields());
    fields.extend(RunOptions::fields());
    fields.extend(Training::fields());
    fields
}

/// `--preset NAME`.
pub fn preset_argument() -> Arg {
    Arg::new("preset")
        .long("preset")
        .value_name("NAME")
        .help_heading("Common options")
        .help(
            "Start from shipped settings; `--preset list` shows them. A configuration file and \
             flags win over them",
        )
}

/// What `--preset list` prints: each name with the comment of its file.
pub fn preset_list(method: &str) -> Vec<(String, String)> {
    let presets = presets::presets_of(method).map(|(name, text)| {
        let about = text.lines().map_while(|line| line.strip_prefix("# "));
        let about: Vec<&str> = about.collect();
        (name.to_owned(), about.join("\n"))
    });
    presets.collect()
}

/// Defaults of a method for the data set said, under its preset, under what was
/// said.
pub fn resolved(entry: &MethodEntry, fields: &[Field], matches: &ArgMatches) -> Result<Values> {
    let said = options::said(fields, matches)?;
    let data = read::<DataSource>(&said)?.data.unwrap_or_default();
    let mut over = Values::default();
    if let Some(name) = matches.get_one::<String>("preset") {
        over = presets::preset(&entry.info.name, name, fields)?;
        if said.has("from") {
            // The network that is started from has its own.
            over.remove("arch");
            over.remove("normalise");
        }
    }
    over.lay(said);
    let fresh = read::<RunOptions>(&over)?;
    let arch = fresh.arch.filter(|_| fresh.from.is_none());
    let mut values = entry.usual(&data, arch.as_deref()).write();
    values.lay(over);
    Ok(values)
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    let Some((name, matches)) = matches.subcommand() else {
        return Ok(());
    };
    let entry = registry.method(name)?;
    if matches
        .get_one::<String>("arch")
        .is_some_and(|arch| arch == "list")
    {
        let all = architecture::ARCHITECTURES.iter();
        let all: Vec<_> = all
            .map(|(name, about)| (name.to_string(), about.to_string()))
            .collect();
        return output::list(matches.get_flag("json"), false, &all);
    }
    if matches
        .get_one::<String>("preset")
        .is_some_and(|preset| preset == "list")
    {
        return output::list(matches.get_flag("json"), true, &preset_list(name));
    }
    let mut fields = (entry.fields)();
    fields.extend(own_fields());
    fields.extend(Shared::fields());
    let values = resolved(entry, &fields, matches)?;
    let Some((values, common)) = options::configured(&fields, values, matches)? else {
        return Ok(());
    };
    let (data, folder, device) = workshop(&values, &common)?;
    let options = read::<RunOptions>(&values)?;
    let weights = Weights {
        arch: options.arch,
        normalise: options.normalise.filter(|text| text != "none"),
        input: options.input,
        ..Weights::default()
    };
    let origin = match options.from {
        Some(path) => Origin::Model(ModelSource::with(path, weights)),
        None => Origin::Architecture(weights),
    };
    together(|ranks| {
        let workshop = Workshop {
            origin: &origin,
            data: &data,
            folder: &folder,
            seed: common.seed(),
            device: &ranks.on(device),
        };
        let fitted = registry.fit(name, &values, &workshop, &mut *ranks.observer(&common))?;
        match ranks.leads() {
            true => output::summary(&common, &fitted.to_json(), &fitted.to_string()),
            false => Ok(()),
        }
    })
}

/// Where a run happens: data, folder and device.
pub fn workshop(values: &Values, common: &Common) -> Result<(DataSource, PathBuf, Device)> {
    let data = read::<DataSource>(values)?;
    data.name()?;
    let folder = required(read::<RunFolder>(values)?.out, "out")?;
    Ok((data, folder, common.device()?))
}
