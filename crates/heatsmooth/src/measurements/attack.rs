//! Adversarial distances.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use attack::{
    Aim, Attack, AttackDistances, AttackOutcome, AttackSummary, Challenge, Deterministic, Status,
    Target, checks,
};
use data::Dataset;
use network::{Distribution, Executor, Images, Noise, Purpose};
use record::{AttackRow, Guarantee, SmoothingId};
use serde_json::{Value, json};
use settings::{SettingError, settings};

use super::{float_noise, percent};
use crate::album::Album;
use crate::choice::AttackChoice;
use crate::error::Error;
use crate::measure::{Figures, Measurement};
use crate::subject::Subject;

settings! {
    /// What every attack can be told.
    pub struct AttackOptions {
        /// Drive every image to a class: its number or name, next (the one after
        /// the label) or random. Success is then that class predicted [default:
        /// away from the label].
        target: Option<String> = None,
        /// Judge by the top K classes: the label leaves them, or the target enters
        /// them.
        top_k: usize = 1,
        /// Attack the average over M noises: the stochastic model; 1: the network
        /// itself.
        samples: u32 = 1,
        /// Noise level of the stochastic model and of the noisy pictures that are
        /// saved; the report shows the log under it [default: the one stored in the
        /// model, if any].
        sigma: Option<f64> = None,
        /// Draw new noises in every step instead of M fixed ones; success is then
        /// checked on noises that the attack has not seen.
        fresh_noise: bool = false,
        /// Images attacked at once.
        batch_size: usize = 100,
        /// Save pictures of the first images here: original, noisy, adversarial,
        /// and the difference, amplified.
        save: Option<PathBuf> = None,
        /// How many images to save [default: 24].
        save_images: Option<usize> = None,
    }
}

impl AttackOptions {
    /// Refuses what contradicts itself.
    fn check(&self) -> Result<(), SettingError> {
        if self.samples == 0 {
            let expected = "1 for the network itself, more for its average over noise";
            return Err(SettingError::value("samples", 0, expected));
        }
        if let Some(sigma) = self.sigma.filter(|s| !(*s > 0.0 && s.is_finite())) {
            return Err(SettingError::value("sigma", sigma, "a positive number"));
        }
        if self.batch_size == 0 {
            return Err(SettingError::value("batch-size", 0, "at least 1"));
        }
        let ineffective = |name: &str, reason: &str| {
            Err(SettingError::Ineffective {
                name: name.into(),
                reason: reason.into(),
            })
        };
        if self.fresh_noise && self.samples == 1 {
            return ineffective(
                "fresh-noise",
                "only a stochastic model, samples above 1, has noise",
            );
        }
        if self.save.is_none() && self.save_images.is_some() {
            return ineffective("save-images", "save does not say where the pictures go");
        }
        Ok(())
    }
}

/// The targets that a text means, if there is one. A class may be called `next`, or by
/// another one's number: its name wins.
pub(super) fn aim(
    target: Option<&str>,
    data: &Dataset,
    seed: u64,
) -> Result<Option<Aim>, SettingError> {
    let names = data.classes();
    let Some(text) = target else {
        return Ok(None);
    };
    let named = names.iter().position(|name| name == text);
    let numbered = || text.parse().ok().filter(|&class| class < names.len());
    if let Some(class) = named.or_else(numbered) {
        return Ok(Some(Aim::Class(class as u32)));
    }
    match text {
        "next" => Ok(Some(Aim::Next)),
        "random" => Ok(Some(Aim::Random { seed })),
        _ => {
            let most = names.len().saturating_sub(1);
            let expected = format!("a class by its name or number (0 to {most}), next or random");
            Err(SettingError::value("target", text, expected))
        }
    }
}

/// The smallest perturbation that an attack finds for each image.
pub struct Attacked {
    attack: Box<dyn Attack>,
    settings: Value,
    options: AttackOptions,
    aim: Option<Aim>,
    /// The noise that the model was made for.
    noise: Distribution,
    seed: u64,
    /// Whether a result sits on the attack's floor is not in the log.
    at_floor: RefCell<Vec<AttackOutcome>>,
}

impl Attacked {
    /// Attacks a subject.
    ///
    /// # Errors
    /// Options that contradict themselves or the data.
    pub fn new(
        AttackChoice { attack, settings }: AttackChoice,
        options: AttackOptions,
        subject: &Subject,
        seed: u64,
    ) -> Result<Self, Error> {
        options.check()?;
        let mut options = options;
        if options.samples > 1 {
            options.sigma = Some(subject.sigma(options.sigma)?);
        }
        let aim = aim(options.target.as_deref(), &subject.dataset, seed)?;
        Ok(Self {
            attack,
            settings,
            options,
            aim,
            noise: subject.loaded.model.info.noise,
            seed,
            at_floor: RefCell::default(),
        })
    }

    /// What is attacked: the network, or its average over noise.
    fn target<'a>(&self, network: &'a dyn Executor) -> Result<Box<dyn Target + 'a>, Error> {
        let Some(sigma) = self.options.sigma.filter(|_| self.options.samples > 1) else {
            return Ok(Box::new(Deterministic::new(network)));
        };
        let noise = Noise::float(self.seed, Purpose::Prediction, self.noise, sigma);
        let averaged = attack::Averaged::new(network, noise, self.options.samples)?;
        Ok(Box::new(if self.options.fresh_noise {
            averaged.fresh()
        } else {
            averaged
        }))
    }
}

impl Measurement for Attacked {
    type Row = AttackRow;
    type Figures = AttackFigures;

    fn procedure(&self) -> String {
        match self.aim {
            Some(_) => format!("{}-targeted", self.attack.name()),
            None => self.attack.name().into(),
        }
    }

    fn sigma(&self) -> Option<f64> {
        self.options.sigma
    }

    fn smoothing(&self) -> Option<SmoothingId> {
        self.options.sigma.map(|_| float_noise(self.noise))
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Empirical
    }

    fn settings(&self) -> Value {
        let mut all = self.settings.clone();
        let more = json!({
            "samples": self.options.samples, "top_k": self.options.top_k,
            "fresh_noise": self.options.fresh_noise, "target": self.options.target,
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
            all.retain(|_, value| !value.is_null());
        }
        all
    }

    fn columns(&self) -> Vec<String> {
        let columns = AttackRow::columns(self.aim.is_some());
        columns.into_iter().map(str::to_owned).collect()
    }

    fn check(&self, subject: &Subject) -> Result<(), Error> {
        let classes = subject.network.classes();
        Ok(Challenge::check_top_k(self.options.top_k, classes)?)
    }

    fn check_row(&self, _: &Subject, row: &AttackRow) -> Result<(), String> {
        if row.success != row.l2.is_finite() || row.l2.is_finite() != row.linf.is_finite() {
            return Err("a distance stands where an attack succeeded, and nowhere else".into());
        }
        // Distances are sums of f32.
        if row.success && row.linf > row.l2 * (1.0 + 1e-5) {
            return Err(format!("linf is {}, more than l2, {}", row.linf, row.l2));
        }
        let untargeted = self.aim.is_none() && self.options.top_k == 1;
        if untargeted && row.success && row.adv_predict == Some(row.label) {
            return Err("the attack succeeded, but the class is still the label".into());
        }
        Ok(())
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(AttackRow) -> ControlFlow<()>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let target = self.target(&*subject.network)?;
        let mut album = match &self.options.save {
            Some(folder) => {
                let (name, sigma) = (self.procedure(), self.options.sigma);
                Some(Album::open(folder, &name, sigma, subject, self.seed)?)
            }
            None => None,
        };
        let pictures = self.options.save_images.unwrap_or(24);
        let classes = subject.dataset.classes().len();
        let mut checked = false;
        loop {
            let mut chunk = Images::new(subject.dataset.shape());
            for image in images.take(self.options.batch_size) {
                chunk.push(image.indices[0], image.labels[0], &image.pixels);
            }
            if chunk.is_empty() {
                return Ok(());
            }
            let targets: Option<Vec<u32>> = self.aim.map(|aim| {
                let pairs = chunk.indices.iter().zip(&chunk.labels);
                pairs.map(|(&i, &y)| aim.target(i, y, classes)).collect()
            });
            let mut challenge = Challenge::new(&chunk).top_k(self.options.top_k);
            if let Some(targets) = &targets {
                challenge = challenge.targeted(targets);
            }
            if !std::mem::replace(&mut checked, true) {
                for warning in checks::before(target.as_ref(), &challenge)? {
                    warn(&warning.to_string());
                }
            }
            let clock = Instant::now();
            let done = attack::run(&*self.attack, &*target, &challenge, &mut |_| {})?;
            let each = clock.elapsed().as_secs_f64() / done.len() as f64;
            for (place, outcome) in done.iter().enumerate() {
                if write(row(outcome, each)).is_break() {
                    return Ok(());
                }
                if let Some(album) = &mut album
                    && album.len() < pictures
                {
                    album.add(subject, outcome, chunk.image(place))?;
                }
            }
            let kept = done
                .into_iter()
                .map(|o| AttackOutcome { image: vec![], ..o });
            self.at_floor.borrow_mut().extend(kept);
        }
    }

    fn summary(&self, rows: &[AttackRow]) -> AttackFigures {
        let outcomes: Vec<AttackOutcome> = rows.iter().map(recalled).collect();
        AttackFigures {
            targeted: self.aim.is_some(),
            summary: AttackSummary::new(&outcomes),
            paper: AttackDistances::paper_convention(&outcomes),
        }
    }

    fn warnings(&self, _: &[AttackRow]) -> Vec<String> {
        let outcomes = self.at_floor.borrow();
        let warnings = checks::after(&*self.attack, &outcomes);
        warnings.iter().map(ToString::to_string).collect()
    }
}

fn row(outcome: &AttackOutcome, seconds: f64) -> AttackRow {
    AttackRow {
        idx: outcome.index.into(),
        label: outcome.label,
        clean_predict: Some(outcome.clean_predict),
        adv_predict: Some(outcome.adv_predict),
        success: outcome.success(),
        l2: outcome.l2.unwrap_or(f64::NAN),
        linf: outcome.linf.unwrap_or(f64::NAN),
        steps: outcome.steps.into(),
        time: Duration::try_from_secs_f64(seconds).ok(),
        clean_correct: Some(outcome.clean_correct),
        last_l2: outcome.last_l2,
        target: outcome.target,
    }
}

/// A row as an outcome, for the summary: without the image, and without knowing
/// whether it sits on DDN's floor.
fn recalled(row: &AttackRow) -> AttackOutcome {
    // Only the image itself, which was not attacked, is at distance 0.
    let status = match (row.success, row.l2 > 0.0) {
        _ if row.target == Some(row.label) => Status::LeftOut,
        (true, true) => Status::Broken,
        (true, false) => Status::AlreadyWrong,
        (false, _) => Status::Failed,
    };
    AttackOutcome {
        index: row.idx as u32,
        label: row.label,
        target: row.target,
        clean_predict: row.clean_predict.unwrap_or_default(),
        clean_correct: row.clean_correct.unwrap_or_default(),
        adv_predict: row.adv_predict.unwrap_or_default(),
        status,
        l2: Some(row.l2).filter(|l2| l2.is_finite()),
        linf: Some(row.linf).filter(|linf| linf.is_finite()),
        last_l2: if row.last_l2.is_nan() {
            0.0
        } else {
            row.last_l2
        },
        steps: row.steps as u32,
        at_floor: false,
        image: vec![],
    }
}

/// What an attack comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackFigures {
    /// Whether it had targets.
    pub targeted: bool,
    /// Counts and distances.
    pub summary: AttackSummary,
    /// Distances by the paper's convention.
    pub paper: Option<AttackDistances>,
}

impl Figures for AttackFigures {
    fn to_json(&self) -> Value {
        let s = &self.summary;
        json!({
            "targeted": self.targeted, "already_wrong": s.already_wrong, "broken": s.broken,
            "failed": s.failed, "left_out": s.left_out, "success_rate": s.success_rate,
            "median": s.distances.map(|d| d.median), "mean": s.distances.map(|d| d.mean),
            "paper_convention": self.paper.map(|d| json!({"median": d.median, "mean": d.mean})),
        })
    }

    fn to_text(&self) -> String {
        let s = &self.summary;
        let distances = |d: Option<AttackDistances>| match d {
            Some(d) => format!("median {:.4}, mean {:.4}", d.median, d.mean),
            None => "none".into(),
        };
        let rate = s.success_rate.map_or("-".into(), percent);
        let mut text = if self.targeted {
            format!(
                "  already at the target {}, driven there {}, attack failed {}; success rate {rate}\n  \
                 left out, as the target is their label: {}\n  distances of successes: {}\n",
                s.already_wrong,
                s.broken,
                s.failed,
                s.left_out,
                distances(s.distances)
            )
        } else {
            format!(
                "  already wrong {}, broken {}, attack failed {}; success rate {rate}\n  \
                 distances of successes on images the model gets right: {}\n",
                s.already_wrong,
                s.broken,
                s.failed,
                distances(s.distances)
            )
        };
        text += &format!(
            "  the paper's convention (all images): {}\n",
            distances(self.paper)
        );
        text
    }
}
