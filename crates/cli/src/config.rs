//! Options from defaults, a configuration file and flags, in this order.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::advised;

/// Lays flags over a TOML file over defaults and reads the result as the
/// command's configuration `C`; a key that `C` does not have is an error.
pub fn resolve<C: DeserializeOwned + Serialize>(
    defaults: impl Serialize,
    file: Option<&Path>,
    flags: impl Serialize,
) -> Result<C> {
    let mut options = object(&defaults);
    if let Some(path) = file {
        options.extend(read(path)?);
    }
    options.extend(object(&flags));
    let keys: Vec<String> = options.keys().cloned().collect();
    let defaults = object(&defaults);
    let config: C = serde_json::from_value(Value::Object(options.clone())).map_err(|error| {
        let message = error.to_string();
        if let Some(rest) = message.strip_prefix("missing field `") {
            let name = rest.trim_end_matches('`');
            let hint = format!("give --{name}, or `{name} = ...` in the configuration file");
            return advised(format!("--{name} is required"), hint);
        }
        let culprit = culprit::<C>(&options, &defaults);
        let culprit = culprit.map_or(String::new(), |key| format!("{key}: "));
        match file {
            Some(path) => anyhow!("{}: {culprit}{message}", path.display()),
            None => anyhow!("{culprit}{message}"),
        }
    })?;
    let known = serde_json::to_value(&config)?;
    if let Some(key) = keys.iter().find(|key| known.get(key).is_none()) {
        let known: Vec<&String> = known.as_object().into_iter().flat_map(Map::keys).collect();
        let known = known.into_iter().cloned().collect::<Vec<_>>().join(", ");
        let place = file.map_or(String::new(), |path| format!("{}: ", path.display()));
        return Err(advised(
            format!("{place}unknown option `{key}`"),
            format!("this command knows {known}"),
        ));
    }
    Ok(config)
}

/// The option without which everything could be read, to be named in an error.
fn culprit<C: DeserializeOwned>(
    options: &Map<String, Value>,
    defaults: &Map<String, Value>,
) -> Option<String> {
    let heals = |key: &&String| {
        let mut healed = options.clone();
        match defaults.get(*key) {
            Some(value) => healed.insert((*key).clone(), value.clone()),
            None => healed.remove(*key),
        };
        serde_json::from_value::<C>(Value::Object(healed)).is_ok()
    };
    options.keys().find(heals).cloned()
}

/// One option of the file or the flags before everything is resolved: what
/// other defaults depend on.
pub fn peek(key: &str, file: Option<&Path>, flags: impl Serialize) -> Result<Option<String>> {
    let mut options = match file {
        Some(path) => read(path)?,
        None => Map::new(),
    };
    options.extend(object(&flags));
    Ok(options.get(key).and_then(Value::as_str).map(String::from))
}

/// A struct as a map without what is not set.
fn object(value: &impl Serialize) -> Map<String, Value> {
    let value = serde_json::to_value(value).expect("options are plain data");
    let Value::Object(map) = value else {
        unreachable!("options are a struct");
    };
    map.into_iter().filter(|(_, v)| !v.is_null()).collect()
}

fn read(path: &Path) -> Result<Map<String, Value>> {
    let name = || format!("cannot read the configuration file {}", path.display());
    let text = std::fs::read_to_string(path).with_context(name)?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        advised(
            format!("{}: {error}", path.display()),
            "the file must be TOML: `key = value` lines",
        )
    })?;
    let value = serde_json::to_value(table).with_context(name)?;
    let Value::Object(map) = value else {
        unreachable!("a TOML document is a table");
    };
    Ok(map)
}

/// Lays `more` over `all`.
pub fn extend(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        all.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }
}

/// What would run, as a configuration file.
pub fn print(config: &impl Serialize) -> Result<String> {
    // TOML has no null: leave out what is not set.
    let value = Value::Object(object(config));
    Ok(toml::to_string(&value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::io::Write;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Config {
        data: String,
        epochs: u32,
        #[serde(default)]
        clip: Option<f32>,
    }

    #[derive(Serialize, Default)]
    struct Flags {
        data: Option<String>,
        epochs: Option<u32>,
    }

    #[derive(Serialize)]
    struct Defaults {
        epochs: u32,
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn resolved(text: &str, flags: Flags) -> Result<Config> {
        let file = file(text);
        resolve(Defaults { epochs: 7 }, Some(file.path()), flags)
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let flags = || Flags {
            data: Some("digits".into()),
            epochs: None,
        };
        assert_eq!(resolved("", flags()).unwrap().epochs, 7);
        assert_eq!(resolved("epochs = 8", flags()).unwrap().epochs, 8);
        let both = Flags {
            epochs: Some(9),
            ..flags()
        };
        assert_eq!(resolved("epochs = 8\nclip = 1.5", both).unwrap().epochs, 9);
    }

    #[test]
    fn what_is_printed_reads_back() {
        let config = Config {
            data: "digits".into(),
            epochs: 3,
            clip: None,
        };
        let again = resolved(&print(&config).unwrap(), Flags::default()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn unknown_missing_and_wrong_keys_are_told() {
        let error = resolved("data = 'x'\nepoch = 3", Flags::default()).unwrap_err();
        assert!(
            error.to_string().ends_with("unknown option `epoch`"),
            "{error}"
        );
        let error = resolved("", Flags::default()).unwrap_err();
        assert_eq!(error.to_string(), "--data is required");
        let error = resolved("data = 'x'\nepochs = 'many'", Flags::default()).unwrap_err();
        assert!(
            error.to_string().contains("epochs: invalid type"),
            "{error}"
        );
        assert!(resolved("data = ", Flags::default()).is_err());
    }
}
