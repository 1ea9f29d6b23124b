//! A given model's Gaussian average: by one method, or in two stages.

use std::fmt;
use std::path::PathBuf;

use data::Split;
use exchange::Loaded;
use network::logits::argmax;
use network::{Images, Noise, NoisyImage, Purpose, TaskKind};
use serde_json::{Value, json};
use settings::{Field, SettingError, Settings, Values, settings};
use train::Training;
use train::loss::deviations;

use crate::error::Error;
use crate::fit::{BASE_FILE, Fitted, Origin, Workshop};
use crate::measurements::{DistributionChoice, DistributionOptions, NoiseLevel, percent};
use crate::observer::Observer;
use crate::registry::{MethodEntry, Registry};
use crate::source::ModelSource;

settings! {
    /// How a model is smoothed.
    pub struct SmoothOptions {
        /// The way: heat (the paper's Algorithm 1), average (the noise on the
        /// teacher's side), or both: a base that is good under noise where the
        /// model is not, then the base's average [default: both; heat with a
        /// preset of it].
        by: Option<String> = None,
    }
}

/// Both stages, one after the other.
const BOTH: &str = "both";
/// What makes the base, and what averages it.
const STAGES: [&str; 2] = ["heat", "average"];
/// The setting of the second that is the first one's where both are made.
const PENALTY: &str = "lambda";
/// The run folder of the base.
const BASE_FOLDER: &str = "base";
/// A model that keeps its class under noise on so many images is good enough to
/// be averaged as it is.
const STEADY: f64 = 0.7;
/// Training images on which that is measured.
const TRIED: usize = 512;

/// The model whose average was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// Its file.
    pub file: PathBuf,
    /// On which share of some training images the given model keeps its class
    /// under noise; of real values, the share of their variance that they keep.
    pub steadiness: f64,
    /// What the model's outputs are.
    pub task: TaskKind,
    /// The stage that made it; `None`: the given model was good enough.
    pub made: Option<Fitted>,
}

/// A smoothed model.
#[derive(Clone, Debug, PartialEq)]
pub struct Smoothed {
    /// The base of the second stage; `None` after a single one.
    pub base: Option<Base>,
    /// The result.
    pub v: Fitted,
}

impl Smoothed {
    /// Everything but the models as JSON.
    pub fn to_json(&self) -> Value {
        let mut all = self.v.to_json();
        if let Some(base) = &self.base {
            all["base"] = json!({
                "model": base.file.display().to_string(), "steadiness": base.steadiness,
                "made_by": base.made.as_ref().map(|made| &made.method),
            });
        }
        all
    }
}

impl fmt::Display for Smoothed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(base) = &self.base {
            let (file, kept) = (base.file.display(), percent(base.steadiness));
            let how = match &base.made {
                Some(made) => format!("{}, since the given model keeps", made.method),
                None => "the given model, which keeps".into(),
            };
            let what = match base.task {
                TaskKind::Classification => format!("its class under noise on {kept} of"),
                TaskKind::Regression => format!("{kept} of its outputs' variance under noise on"),
            };
            writeln!(f, "{file}: {how} {what} the training images tried")?;
            writeln!(f, "  this is the model to certify by sampling")?;
        }
        write!(f, "{}", self.v)
    }
}

impl Registry {
    /// The methods that look at no labels: ways to smooth a given model.
    pub fn smoothers(&self) -> impl Iterator<Item = &MethodEntry> {
        self.methods.iter().filter(|entry| !entry.labels)
    }

    /// What can be set of all ways to smooth, each name once. One whose default
    /// depends on the way has none here.
    pub fn smoothing_fields(&self) -> Vec<Field> {
        let mut all: Vec<Field> = SmoothOptions::fields();
        for entry in self.smoothers() {
            for field in (entry.fields)() {
                match all.iter_mut().find(|known| known.name == field.name) {
                    Some(known) if known.default != field.default => {
                        let default = field.default_text().unwrap_or_else(|| "none".into());
                        let before = known.default_text();
                        if let Some(before) = before {
                            known.help = format!("{} [default: {before}", known.help);
                        }
                        let help = known.help.trim_end_matches(']');
                        known.help = format!("{help}; {}: {default}]", entry.info.name);
                        known.default = None;
                    }
                    Some(_) => {}
                    None => all.push(field),
                }
            }
        }
        all
    }

    /// What always has an effect when a model is smoothed this way, with the defaults
    /// that it has there: said again, it changes nothing. Both stages have no training in
    /// common, and the first one's settings only matter where it is needed.
    ///
    /// # Errors
    /// A way that there is not.
    pub fn fields_of_smoothing(&self, by: Option<&str>, data: &str) -> Result<Vec<Field>, Error> {
        let by = by.unwrap_or(BOTH);
        let mut all = SmoothOptions::fields();
        if by == BOTH {
            let average = (self.method(STAGES[1])?.fields)();
            all.extend(average.into_iter().filter(|field| field.name != PENALTY));
            return Ok(all);
        }
        let entry = self.smoother(by)?;
        all.extend((entry.fields)());
        let usual = (entry.training)(data).write();
        all.extend(Training::fields().into_iter().map(|field| Field {
            default: usual.get(&field.name).cloned(),
            ..field
        }));
        Ok(all)
    }

    /// The way to smooth of that name.
    fn smoother(&self, by: &str) -> Result<&MethodEntry, Error> {
        let found = self.smoothers().find(|entry| entry.info.name == by);
        found.ok_or_else(|| {
            let names = self.smoothers().map(|entry| &*entry.info.name);
            let names: Vec<&str> = names.chain([BOTH]).collect();
            SettingError::value("by", by, names.join(", ")).into()
        })
    }

    /// Smooths the workshop's model with what was said, the rest being defaults.
    /// Run again, it goes on where it stopped.
    ///
    /// # Errors
    /// As [`Registry::fit`]; a setting that the chosen way does not have.
    pub fn smooth(
        &self,
        said: &Values,
        workshop: &Workshop<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Smoothed, Error> {
        let by = SmoothOptions::read(said)?.by;
        let by = by.as_deref().unwrap_or(BOTH);
        if by == BOTH {
            return self.smooth_twice(said, workshop, observer);
        }
        self.smoother(by)?;
        let values = self.own_values(said, by, &[])?;
        self.refuse_unused(said, &[&values], &format!("{by} has no such setting"))?;
        let v = self.fit(by, &values, workshop, observer)?;
        Ok(Smoothed { base: None, v })
    }

    /// First a base that is good under noise, unless the model is one; then the
    /// base's average.
    fn smooth_twice(
        &self,
        said: &Values,
        workshop: &Workshop<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Smoothed, Error> {
        let Origin::Model(source) = workshop.origin else {
            return Err(SettingError::missing("model").into());
        };
        let (loaded, train) = source.load_with(workshop.data, Split::Train)?;
        let sigma = NoiseLevel::read(said)?.sigma.or(loaded.model.info.sigma);
        let sigma = sigma.ok_or_else(|| SettingError::missing("sigma"))?;
        let noise = DistributionOptions::read(said)?.noise;
        let noise = noise.map_or(loaded.model.info.noise, DistributionChoice::distribution);
        let noise = certify::Smoothing::with(noise, sigma, None)?;
        let noise = noise.noise(workshop.seed, Purpose::Prediction);
        let images = train.images(0..train.len().min(TRIED) as u32)?;
        let steadiness = steadiness(&loaded, &images, &noise, workshop)?;
        let [heat, average] = STAGES;
        let first = self.own_values(said, heat, &["label"])?;
        let second = self.own_values(said, average, &[PENALTY])?;
        let (kept, count) = (percent(steadiness), images.len());
        let task = loaded.model.info.task;
        let what = match task {
            TaskKind::Classification => "its class",
            TaskKind::Regression => "the variance of its outputs",
        };
        let made = if steadiness >= STEADY {
            observer.note(&format!(
                "the model keeps {what} under noise of sigma {sigma} on {kept} of {count} \
                 training images: it is averaged as it is"
            ));
            let reason = "the model is good enough under noise to be averaged as it is, and \
                          averaging does not use it; say by what to smooth";
            self.refuse_unused(said, &[&second], reason)?;
            None
        } else {
            observer.note(&format!(
                "the model keeps {what} under noise of sigma {sigma} on only {kept} of {count} \
                 training images: first a base that is good under noise, then its average"
            ));
            let reason = format!("{heat} and then {average} has no such setting");
            self.refuse_unused(said, &[&first, &second], &reason)?;
            let base = Workshop {
                folder: &workshop.folder.join(BASE_FOLDER),
                ..*workshop
            };
            Some(self.fit(heat, &first, &base, observer)?)
        };
        let file = workshop.folder.join(BASE_FILE);
        let bytes = match &made {
            Some(made) => network::file::read_bytes(&made.file)?,
            None => loaded.model.to_bytes(),
        };
        let writes = workshop.device.writes();
        let fresh = writes && !file.exists();
        if fresh {
            record::atomic::write(&file, &bytes)?;
        } else if writes && network::file::read_bytes(&file)? != bytes {
            return Err(Error::refused(
                format!("{} is the base of another run", file.display()),
                "use another run folder, or remove this one",
            ));
        }
        // All ranks read it.
        workshop.device.ranks().barrier()?;
        let origin = Origin::Model(ModelSource::new(&file));
        let averaging = Workshop {
            origin: &origin,
            ..*workshop
        };
        let v = self.fit(average, &second, &averaging, observer);
        if fresh && v.is_err() && !workshop.folder.join(record::RunManifest::FILE).exists() {
            // Refused before it began: nothing is left of it.
            let _ = std::fs::remove_file(&file);
            let _ = std::fs::remove_dir(workshop.folder);
        }
        let v = v?;
        let base = Some(Base {
            file,
            steadiness,
            task,
            made,
        });
        Ok(Smoothed { base, v })
    }

    /// What was said of a method and its training, except for these names.
    fn own_values(&self, said: &Values, method: &str, except: &[&str]) -> Result<Values, Error> {
        let mut fields = (self.method(method)?.fields)();
        fields.retain(|field| !except.contains(&&*field.name));
        fields.extend(Training::fields());
        let mut own = Values::default();
        for (name, value) in said.iter() {
            if fields.iter().any(|field| field.name == name) {
                own.set(&fields, name, value)?;
            }
        }
        Ok(own)
    }

    /// Refuses what was said of another way to smooth: it would have no effect.
    fn refuse_unused(&self, said: &Values, used: &[&Values], reason: &str) -> Result<(), Error> {
        let known = self.smoothing_fields();
        let unused = said.iter().map(|(name, _)| name).find(|name| {
            *name != "by"
                && known.iter().any(|field| field.name == *name)
                && !used.iter().any(|values| values.has(name))
        });
        match unused {
            None => Ok(()),
            Some(name) => Err(SettingError::Ineffective {
                name: name.to_owned(),
                reason: reason.to_owned(),
            }
            .into()),
        }
    }
}

/// On which share of the images the model keeps its class under noise; of real
/// values, 1 - the mean square of their change over their variance, in the mean over
/// the outputs.
fn steadiness(
    loaded: &Loaded,
    images: &Images,
    noise: &Noise,
    workshop: &Workshop<'_>,
) -> Result<f64, Error> {
    let network = workshop.device.load(&loaded.model)?;
    let classes = network.classes();
    let mut same = 0;
    let mut both = (Vec::new(), Vec::new());
    let places: Vec<usize> = (0..images.len()).collect();
    for places in places.chunks(network.batch()) {
        let batch = images.select(places);
        let (mut clean, mut noisy) = (vec![0.0; places.len() * classes], vec![]);
        noisy.resize(clean.len(), 0.0);
        network.logits(&batch.pixels, &mut clean)?;
        let copies = NoisyImage::copies_of(&batch, 0, 1);
        network.noisy_logits(noise, &copies, &mut noisy)?;
        let pairs = clean.chunks_exact(classes).zip(noisy.chunks_exact(classes));
        same += pairs.filter(|(a, b)| argmax(a) == argmax(b)).count();
        both.0.append(&mut clean);
        both.1.append(&mut noisy);
    }
    Ok(match loaded.model.info.task {
        TaskKind::Classification => same as f64 / images.len() as f64,
        TaskKind::Regression => {
            let spreads = deviations(classes, &both.0);
            let squares = both.0.iter().zip(&both.1).enumerate().map(|(at, (a, b))| {
                let (_, std) = spreads[at % classes];
                (f64::from(a - b) / std).powi(2)
            });
            (1.0 - squares.sum::<f64>() / both.0.len() as f64).max(0.0)
        }
    })
}
