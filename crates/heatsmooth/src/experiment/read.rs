//! Experiments from TOML.
//!
//! `title`, `data`, `sigma`, `images`, `skip` and `beside` say what it is about. `[[models]]` are
//! made in order: `name`, `method`, `arch` (and `normalise`) or `from`, `optional`, a
//! `preset`, `sigma` where it is not the experiment's, and settings of the method and of
//! its training. `[[measurements]]` are then taken in order of each of `models` (all, if
//! none are named), at the model's sigma: `what`, `log`, `reference`, `images`, and
//! settings of the measurement; those under `stochastic` and `deterministic` only for
//! models of such methods.

use settings::{SettingError, Settings, Values, settings};
use train::Training;

use super::{Experiment, FitStage, MeasureStage, Stage, StageStart};
use crate::config;
use crate::error::Error;
use crate::measurements::NoiseLevel;
use crate::presets::{preset, preset_text};
use crate::registry::Registry;
use crate::source::DataSource;
use crate::subject::ImageChoice;

settings! {
    /// What an experiment is about.
    pub struct ExperimentPart {
        /// Title of the report.
        title: String = String::new(),
        /// The data set.
        data: Option<String> = None,
        /// Noise level of everything.
        sigma: Option<f64> = None,
        /// Measure on so many test images [default: all].
        images: Option<u64> = None,
        /// Every so many-th test image.
        skip: u64 = 1,
        /// Published figures to show beside, as of `report --beside`.
        beside: Option<String> = None,
    }
}

settings! {
    /// A model that is made, besides the settings of its method.
    pub struct ModelPart {
        /// Name of its run folder.
        name: String = String::new(),
        /// The method.
        method: String = String::new(),
        /// Shipped settings to start from.
        preset: Option<String> = None,
        /// A built-in architecture.
        arch: Option<String> = None,
        /// Its input normalisation.
        normalise: Option<String> = None,
        /// The model of an earlier stage.
        from: Option<String> = None,
        /// Left out, with all that is measured of it, unless its weights are given.
        optional: bool = false,
        /// Noise level of the model and of what is measured of it [default: the
        /// experiment's].
        sigma: Option<f64> = None,
    }
}

settings! {
    /// A measurement, besides its settings.
    pub struct MeasurePart {
        /// The measurement or attack.
        what: String = String::new(),
        /// Name of the log [default: what]; of several models, theirs follow.
        log: Option<String> = None,
        /// The model compared with.
        reference: Option<String> = None,
    }
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// A text that is not TOML; names or values that there are not.
    pub fn read(text: &str, registry: &Registry) -> Result<Self, Error> {
        let mut table = config::parse(text)?;
        let models = tables(&mut table, "models")?;
        let measurements = tables(&mut table, "measurements")?;
        let about = ExperimentPart::read(&config::values(&table, &ExperimentPart::fields())?)?;
        let sigma = about.sigma.ok_or_else(|| SettingError::missing("sigma"))?;
        let beside = about.beside.as_deref().unwrap_or_default().split(',');
        let beside = beside.map(str::trim).filter(|name| !name.is_empty());
        let beside: Vec<String> = beside.map(Into::into).collect();
        report::PublishedResult::named(&beside)?;
        let mut stages = Vec::new();
        let mut made: Vec<Made> = Vec::new();
        for table in models {
            let (stage, sigma) = model(table, registry, (sigma, about.data.as_deref()))?;
            if let StageStart::From(name) = &stage.start {
                known("from", name, &made)?;
            }
            made.push(Made {
                name: stage.name.clone(),
                method: stage.method.clone(),
                sigma,
            });
            stages.push(Stage::Fit(stage));
        }
        for table in measurements {
            stages.extend(measurement(table, registry, &made)?);
        }
        Ok(Self {
            title: about.title,
            data: DataSource {
                data: about.data,
                ..DataSource::default()
            },
            sigma,
            images: about.images,
            skip: about.skip,
            input: None,
            beside,
            stages,
        })
    }

    /// A shipped experiment.
    ///
    /// # Errors
    /// A name that there is not.
    pub fn shipped(what: &str, name: &str, registry: &Registry) -> Result<Self, Error> {
        Self::read(preset_text(what, name)?, registry)
    }
}

/// A model that is made before.
struct Made {
    name: String,
    method: String,
    sigma: f64,
}

/// Takes a list of tables out of a table.
fn tables(table: &mut toml::Table, name: &str) -> Result<Vec<toml::Table>, Error> {
    let wrong = || SettingError::value(name, "something else", "a list of tables");
    let list = match table.remove(name) {
        None => return Ok(vec![]),
        Some(toml::Value::Array(list)) => list,
        Some(_) => return Err(wrong().into()),
    };
    let tables = list.into_iter().map(|entry| match entry {
        toml::Value::Table(table) => Ok(table),
        _ => Err(wrong().into()),
    });
    tables.collect()
}

/// A model's stage, and its noise level.
fn model(
    table: toml::Table,
    registry: &Registry,
    (sigma, data): (f64, Option<&str>),
) -> Result<(FitStage, f64), Error> {
    let method = table.get("method").and_then(toml::Value::as_str);
    let entry = registry.method(method.unwrap_or_default())?;
    let own = (entry.fields)();
    let mut fields = ModelPart::fields();
    fields.extend(own.iter().cloned());
    fields.extend(Training::fields());
    let given = config::values(&table, &fields)?;
    let part = ModelPart::read(&given)?;
    let sigma = part.sigma.unwrap_or(sigma);
    let chosen = match part.preset {
        Some(name) => preset(&entry.info.name, &name, &fields)?,
        None => Values::default(),
    };
    let arch = match (&part.from, part.arch) {
        (Some(_), _) => None,
        (None, None) => ModelPart::read(&chosen)?.arch,
        (None, arch) => arch,
    };
    let usual = entry.usual(data.unwrap_or_default(), arch.as_deref());
    let mut values = usual.write();
    values.lay(chosen);
    values.lay(given);
    let part = ModelPart::read(&values)?;
    let normalise = part.normalise.filter(|text| text != "none");
    let start = match (part.from, part.arch) {
        (Some(from), _) => StageStart::From(from),
        (None, Some(arch)) => StageStart::Architecture(arch, normalise),
        (None, None) => return Err(SettingError::missing("arch").into()),
    };
    let training = Training::read(&values)?;
    let mut own_values = Values::default();
    for (name, value) in values.iter() {
        if own.iter().any(|field| field.name == name) {
            own_values.set(&own, name, value)?;
        }
    }
    if own.iter().any(|field| field.name == "sigma") {
        own_values.put("sigma", &sigma);
    }
    let stage = FitStage {
        name: part.name,
        method: part.method,
        start,
        values: own_values,
        training,
        optional: part.optional,
    };
    Ok((stage, sigma))
}

/// Refuses the name of a model that is not among those `made` before.
fn known(what: &str, name: &str, made: &[Made]) -> Result<(), SettingError> {
    if made.iter().any(|made| made.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = made.iter().map(|made| made.name.as_str()).collect();
    let expected = format!("a model made before: {}", names.join(", "));
    Err(SettingError::value(what, name, expected))
}

fn measurement(
    mut table: toml::Table,
    registry: &Registry,
    made: &[Made],
) -> Result<Vec<Stage>, Error> {
    let what = table.get("what").and_then(toml::Value::as_str);
    let own = registry.fields_of(what.unwrap_or_default())?;
    let mut only = |kind: &str| match table.remove(kind) {
        Some(toml::Value::Table(table)) => config::values(&table, &own),
        _ => Ok(Values::default()),
    };
    let (stochastic, deterministic) = (only("stochastic")?, only("deterministic")?);
    let models: Option<Vec<String>> = match table.remove("models") {
        Some(list) => Some(
            list.try_into()
                .map_err(|_| SettingError::value("models", "something else", "a list of names"))?,
        ),
        None => None,
    };
    for name in models.iter().flatten() {
        known("models", name, made)?;
    }
    let mut fields = MeasurePart::fields();
    fields.extend(ImageChoice::fields());
    fields.extend(own.iter().cloned());
    let given = config::values(&table, &fields)?;
    let part = MeasurePart::read(&given)?;
    if let Some(name) = &part.reference {
        known("reference", name, made)?;
    }
    let images = ImageChoice::read(&given)?;
    let mut shared = Values::default();
    for (name, value) in given.iter() {
        if own.iter().any(|field| field.name == name) {
            shared.set(&own, name, value)?;
        }
    }
    let wanted = made.iter().filter(|made| match &models {
        Some(models) => models.contains(&made.name),
        None => true,
    });
    let several = models.as_ref().is_none_or(|models| models.len() > 1);
    Ok(wanted
        .map(|made| {
            let Made {
                name: model,
                method,
                sigma,
            } = made;
            let sigma = Some(*sigma);
            let mut values = NoiseLevel { sigma }.write();
            values.lay(shared.clone());
            values.lay(match registry.is_stochastic(method) {
                true => stochastic.clone(),
                false => deterministic.clone(),
            });
            let log = part.log.as_ref().map(|log| match several {
                true => format!("{log}-{model}"),
                false => log.clone(),
            });
            Stage::Measure(MeasureStage {
                model: model.clone(),
                what: part.what.clone(),
                log: log.unwrap_or_else(|| format!("{}-{model}", part.what)),
                reference: part.reference.clone(),
                values,
                images: images.clone(),
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_experiments_read() {
        let registry = Registry::standard();
        for (what, name, stages) in [
            ("reproduce", "demo", 5 + 3 * 5 + 2 + 1 + 5 + 4),
            ("reproduce-cifar10", "quick", 12 + 6 + 3 + 3 * 11 + 6),
            ("reproduce-cifar10", "larger-noise", 8 + 2 + 2 + 2 + 4),
            ("reproduce-cifar10", "paper", 4 + 3 * 4 + 1 + 4),
            ("reproduce-imagenet", "quick", 5 + 3 * 5 + 2 + 2 * 5),
            ("reproduce-imagenet", "paper", 5 + 3 * 5 + 2 + 2 * 5),
        ] {
            let experiment = Experiment::shipped(what, name, &registry).unwrap();
            assert_eq!(experiment.stages.len(), stages, "{name}");
        }
    }

    /// What both recipes have is made once, in one folder.
    #[test]
    fn larger_noise_goes_on_from_the_models_of_quick() {
        let registry = Registry::standard();
        let fits = |name: &str| {
            let shipped = Experiment::shipped("reproduce-cifar10", name, &registry).unwrap();
            let stages = shipped.stages.into_iter().filter_map(|stage| match stage {
                Stage::Fit(stage) => Some((stage.name.clone(), stage)),
                _ => None,
            });
            stages.collect::<std::collections::BTreeMap<_, _>>()
        };
        let (quick, larger) = (fits("quick"), fits("larger-noise"));
        let shared: Vec<&String> = larger.keys().filter(|&k| quick.contains_key(k)).collect();
        assert_eq!(shared, ["baseline", "start"]);
        for name in shared {
            assert_eq!(quick[name], larger[name]);
        }
    }

    #[test]
    fn a_model_has_its_own_sigma_and_its_measurements_have_it_too() {
        let registry = Registry::standard();
        let text = "data = 'digits'\nsigma = 0.1\n\
            [[models]]\nname = 'a'\nmethod = 'gaussian'\narch = 'smallcnn'\n\
            [[models]]\nname = 'b'\nmethod = 'gaussian'\narch = 'smallcnn'\nsigma = 0.5\n\
            [[measurements]]\nwhat = 'certify'\n";
        let experiment = Experiment::read(text, &registry).unwrap();
        let sigmas = experiment.stages.iter().map(|stage| match stage {
            Stage::Fit(FitStage { values, .. }) | Stage::Measure(MeasureStage { values, .. }) => {
                values.get("sigma").and_then(|sigma| sigma.as_f64())
            }
            Stage::Import(_) => None,
        });
        let sigmas: Vec<Option<f64>> = sigmas.collect();
        assert_eq!(sigmas, [Some(0.1), Some(0.5), Some(0.1), Some(0.5)]);
    }

    #[test]
    fn stochastic_models_get_their_own_settings() {
        let registry = Registry::standard();
        let demo = Experiment::shipped("reproduce", "demo", &registry).unwrap();
        let samples = |log: &str| {
            let stage = demo.stages.iter().find_map(|stage| match stage {
                Stage::Measure(stage) if stage.log == log => Some(stage),
                _ => None,
            });
            let value = stage.unwrap().values.get("samples").cloned();
            value.and_then(|value| value.as_u64())
        };
        assert_eq!(samples("pgd-gaussian"), Some(16));
        assert_eq!(samples("pgd-heat"), None);
    }

    /// The paper's ImageNet experiment, number by number.
    #[test]
    fn the_paper_s_imagenet_settings_are_the_paper_s() {
        let registry = Registry::standard();
        let paper = Experiment::shipped("reproduce-imagenet", "paper", &registry).unwrap();
        assert_eq!(
            (paper.sigma, paper.images, paper.skip),
            (0.25, Some(500), 100)
        );
        let heat = paper.stages.iter().find_map(|stage| match stage {
            Stage::Fit(stage) if stage.name == "heat" => Some(stage),
            _ => None,
        });
        let heat = heat.unwrap();
        assert_eq!(heat.start, StageStart::From("baseline".into()));
        let method = train::methods::HeatParams::read(&heat.values).unwrap();
        assert_eq!(
            (method.lambda, method.timesteps, method.kappa),
            (100.0, 5, 6)
        );
        assert_eq!(
            (method.fit, method.scale),
            (train::methods::Fit::Kl, train::methods::Scale::Paper)
        );
        assert_eq!((method.noisy_share, method.scale_free), (0.0, false));
        assert_eq!(
            heat.values.get("sigma").and_then(|v| v.as_f64()),
            Some(0.25)
        );
        let how = &heat.training;
        assert_eq!((how.epochs, how.batch_size, how.momentum), (15, 48, 0.9));
        assert_eq!((how.lr, how.weight_decay, how.clip), (0.1, 1e-4, 0.0));
        // .1, .01 and .001, five epochs each.
        let rates =
            [0.0, 4.9, 5.0, 9.9, 10.0, 14.9].map(|epoch| how.lr * how.schedule.factor(epoch, 15.0));
        let expected = [0.1, 0.1, 0.01, 0.01, 0.001, 0.001];
        for (rate, expected) in rates.into_iter().zip(expected) {
            assert!(
                (rate - expected).abs() < 1e-12,
                "{rate} instead of {expected}"
            );
        }

        let mut seen = std::collections::BTreeSet::new();
        for stage in &paper.stages {
            let Stage::Measure(stage) = stage else {
                continue;
            };
            let number = |name: &str| stage.values.get(name).and_then(|v| v.as_f64());
            let stochastic = ["gaussian", "smoothadv"].contains(&stage.model.as_str());
            seen.insert((
                stage.model.clone(),
                stage.log.replace(&format!("-{}", stage.model), ""),
            ));
            if stage.what != "fidelity" {
                // PGD and DDN go on until the label has left the top 5.
                assert_eq!(number("top-k"), Some(5.0), "{}", stage.log);
            }
            match stage.what.as_str() {
                "certify" => {
                    assert_eq!((number("n"), number("alpha")), (Some(1000.0), Some(0.001)));
                    let by_noise = stochastic && stage.log.contains("paper");
                    assert_eq!(number("n0"), by_noise.then_some(25.0), "{}", stage.log);
                }
                "lbound" | "pgd" | "ddn" => {
                    assert_eq!(
                        number("samples"),
                        stochastic.then_some(25.0),
                        "{}",
                        stage.log
                    );
                }
                _ => {}
            }
        }
        for model in ["baseline", "gaussian", "smoothadv", "heat"] {
            for log in [
                "lbound",
                "pgd",
                "ddn",
                "certify-top-5-paper",
                "certify-top-5-sound",
            ] {
                assert!(seen.contains(&(model.into(), log.into())), "{model}: {log}");
            }
        }
    }

    #[test]
    fn what_there_is_not_is_refused_by_name() {
        let registry = Registry::standard();
        let head = "data = 'digits'\nsigma = 0.1\n";
        for (text, words) in [
            ("data = 'digits'", "sigma is required"),
            (&format!("{head}what = 1"), "unknown option `what`"),
            (
                &format!("{head}[[models]]\nname = 'a'\nmethod = 'magic'"),
                "method is `magic`",
            ),
            (
                &format!("{head}[[models]]\nname = 'a'\nmethod = 'baseline'\nkappa = 3"),
                "unknown option `kappa`",
            ),
            (
                &format!("{head}[[models]]\nname = 'a'\nmethod = 'heat'\nfrom = 'b'"),
                "from is `b`",
            ),
            (
                &format!("{head}[[measurements]]\nwhat = 'certify'\nmodels = ['b']"),
                "models is `b`",
            ),
            (
                &format!("{head}[[measurements]]\nwhat = 'fidelity'\nreference = 'b'"),
                "reference is `b`",
            ),
            (&format!("{head}beside = 'magic'"), "magic"),
            (
                &format!("{head}[[measurements]]\nwhat = 'magic'"),
                "measurement is `magic`",
            ),
        ] {
            let error = Experiment::read(text, &registry).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
