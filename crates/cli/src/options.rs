//! Settings as flags: from their fields to arguments, and back to values.

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches};
use heatsmooth::config;
use heatsmooth::settings::{Field, FieldKind, Values};
use heatsmooth::{Error, settings::SettingError};

use crate::common::Common;
use crate::output;

/// One argument for each field.
pub fn arguments(fields: &[Field], heading: Option<&'static str>) -> Vec<Arg> {
    fields
        .iter()
        .map(|field| argument(field, heading))
        .collect()
}

fn argument(field: &Field, heading: Option<&'static str>) -> Arg {
    let mut arg = Arg::new(field.name.clone())
        .long(field.name.clone())
        .help(field.help_with_default().trim_end_matches('.').to_owned())
        .help_heading(heading);
    if is_flag(field) {
        return arg.action(ArgAction::SetTrue);
    }
    arg = match field.kind {
        FieldKind::Number => arg.value_name("X").allow_negative_numbers(true),
        // Negative ones are refused by name.
        FieldKind::Whole => arg.value_name("N").allow_negative_numbers(true),
        FieldKind::Switch => arg.value_name("BOOL"),
        FieldKind::Text => arg.value_name("TEXT"),
        FieldKind::Path => arg
            .value_name("PATH")
            .value_parser(clap::value_parser!(PathBuf)),
        FieldKind::Choice(names) => arg
            .value_name("NAME")
            .hide_possible_values(true)
            .value_parser(PossibleValuesParser::new(names)),
    };
    arg
}

/// A switch that is off by default takes no value.
fn is_flag(field: &Field) -> bool {
    field.kind == FieldKind::Switch && field.default == Some(false.into())
}

/// The values that were given as flags.
pub fn given(fields: &[Field], matches: &ArgMatches) -> Result<Values> {
    let mut values = Values::default();
    for field in fields {
        let name = field.name.as_str();
        if is_flag(field) {
            if matches.get_flag(name) {
                set(&mut values, fields, name, "true")?;
            }
        } else if field.kind == FieldKind::Path {
            if let Some(path) = matches.get_one::<PathBuf>(name) {
                let text = path.to_str().ok_or_else(|| not_text(name, path))?;
                set(&mut values, fields, name, text)?;
            }
        } else if let Some(text) = matches.get_one::<String>(name) {
            set(&mut values, fields, name, text)?;
        }
    }
    Ok(values)
}

fn set(values: &mut Values, fields: &[Field], name: &str, text: &str) -> Result<(), Error> {
    Ok(values.set_text(fields, name, text)?)
}

fn not_text(name: &str, path: &std::path::Path) -> Error {
    let expected = "a path that is text (UTF-8), since records name it";
    SettingError::value(name, path.display(), expected).into()
}

/// Lays flags over a configuration file over `defaults`.
pub fn resolve(fields: &[Field], defaults: Values, matches: &ArgMatches) -> Result<Values> {
    let mut values = defaults;
    if let Some(file) = matches.get_one::<PathBuf>("config") {
        values.lay(config::read_file(file, fields)?);
    }
    values.lay(given(fields, matches)?);
    Ok(values)
}

/// The values of a configured command and the options of every command; `None` if
/// only the configuration was to be shown, which then has been.
pub fn configured(
    fields: &[Field],
    values: Values,
    matches: &ArgMatches,
) -> Result<Option<(Values, Common)>> {
    if matches.get_flag("print-config") {
        let all = configuration(fields, &values)?;
        output::print(&match matches.get_flag("json") {
            true => serde_json::to_string_pretty(&all)?,
            false => config::to_toml(&all)?,
        })?;
        return Ok(None);
    }
    let common = Common::with(matches, &values)?;
    Ok(Some((values, common)))
}

/// What was said before defaults: the file, and over it the flags.
pub fn said(fields: &[Field], matches: &ArgMatches) -> Result<Values> {
    resolve(fields, Values::default(), matches)
}

/// What would run: what was said, and every default.
fn configuration(fields: &[Field], values: &Values) -> Result<Values> {
    let mut all = Values::default();
    for field in fields {
        if let Some(default) = &field.default {
            all.set(fields, &field.name, default).map_err(Error::from)?;
        }
    }
    all.lay(values.clone());
    Ok(all)
}
