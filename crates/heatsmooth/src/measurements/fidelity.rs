//! Is v the average of f over noise?

use std::ops::ControlFlow;

use certify::{
    AtLevel, Closeness, Fidelity, FidelityDistances, FidelityOutcome, FidelityParams,
    FidelitySummary, fidelity_all,
};
use network::{Distribution, Executor, Images, TaskKind};
use record::{FidelityLevel, FidelityRow, Guarantee, LevelDistance, ModelId, SmoothingId};
use serde_json::{Value, json};

use super::{agrees, float_noise, percent};
use crate::device::Device;
use crate::error::Error;
use crate::measure::{Figures, Measurement};
use crate::source::{ModelSource, model_id};
use crate::subject::Subject;

/// How close v(x) is to the Monte-Carlo average of f at x, beside the same
/// distance for f itself, and the sigma at which it fits best.
pub struct Compared {
    plan: Fidelity,
    task: TaskKind,
    reference: ModelId,
    f: Box<dyn Executor>,
}

impl Compared {
    /// Compares with the average of `reference` over this noise.
    ///
    /// # Errors
    /// A reference that cannot be read.
    pub fn new(
        (distribution, sigma): (Distribution, f64),
        params: &FidelityParams,
        reference: &ModelSource,
        subject: &Subject,
        seed: u64,
    ) -> Result<Self, Error> {
        let loaded = reference.load(Some(&subject.dataset))?;
        Ok(Self {
            plan: Fidelity {
                distribution,
                ..params.plan(sigma, seed)
            },
            task: subject.task(),
            reference: model_id(&loaded, &reference.path),
            f: load(&subject.device, &loaded)?,
        })
    }
}

fn load(device: &Device, loaded: &exchange::Loaded) -> Result<Box<dyn Executor>, Error> {
    Ok(device.load(&loaded.model)?)
}

impl Measurement for Compared {
    type Row = FidelityRow;
    type Figures = AverageFigures;

    fn procedure(&self) -> String {
        "fidelity".into()
    }

    fn sigma(&self) -> Option<f64> {
        Some(self.plan.sigma)
    }

    fn smoothing(&self) -> Option<SmoothingId> {
        Some(float_noise(self.plan.distribution))
    }

    fn seed(&self) -> u64 {
        self.plan.seed
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Empirical
    }

    fn settings(&self) -> Value {
        let mut settings = json!({"samples": self.plan.samples, "levels": self.plan.levels});
        if self.task == TaskKind::Regression {
            settings["task"] = json!(self.task);
        }
        settings
    }

    fn reference(&self) -> Option<ModelId> {
        Some(self.reference.clone())
    }

    fn columns(&self) -> Vec<String> {
        let levels = self.plan.all_levels();
        match self.task {
            TaskKind::Classification => FidelityRow::columns(&levels),
            TaskKind::Regression => FidelityRow::value_columns(&levels),
        }
    }

    fn check(&self, _: &Subject) -> Result<(), Error> {
        Ok(self.plan.check()?)
    }

    fn check_row(&self, _: &Subject, row: &FidelityRow) -> Result<(), String> {
        let own = row
            .levels
            .iter()
            .find(|level| level.sigma == self.plan.sigma);
        match own {
            Some(own) => {
                let expected = own.logits.v_distance;
                agrees(
                    "v_distance",
                    row.v_distance,
                    expected,
                    "the columns at its sigma",
                )
            }
            None => Ok(()),
        }
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(FidelityRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let (v, f) = (&*subject.network, &*self.f);
        let mut observer = |outcome: FidelityOutcome| {
            let row = row(&outcome, &self.plan);
            write(match self.task {
                TaskKind::Classification => row,
                TaskKind::Regression => of_values(row),
            })
        };
        Ok(fidelity_all(
            v,
            f,
            images,
            &self.plan,
            f.batch(),
            &mut observer,
        )?)
    }

    /// From the rows alone, so that it covers what an earlier run measured.
    fn summary(&self, rows: &[FidelityRow]) -> AverageFigures {
        let mut summary = FidelitySummary::new(&self.plan);
        for row in rows {
            summary.add(&outcome(row));
        }
        let classes = self.task == TaskKind::Classification;
        AverageFigures {
            task: self.task,
            logits: summary.logits(),
            probabilities: classes.then(|| summary.probabilities()).flatten(),
            votes: classes.then(|| summary.votes()).flatten(),
        }
    }
}

/// One image as a row of the log.
fn row(outcome: &FidelityOutcome, plan: &Fidelity) -> FidelityRow {
    let own = outcome.at(plan.sigma).expect("the plan's own level");
    let distance = |d: &FidelityDistances| LevelDistance {
        v_distance: d.v,
        standard_error: d.standard_error,
        step: d.step,
    };
    let levels = outcome.levels.iter().map(|at| FidelityLevel {
        sigma: at.sigma,
        logits: distance(&at.logits),
        probabilities: distance(&at.probabilities),
        votes: distance(&at.votes),
    });
    FidelityRow {
        idx: outcome.index.into(),
        label: Some(outcome.label as u32),
        v_distance: own.logits.v,
        f_distance: own.logits.f,
        standard_error: own.logits.standard_error,
        agree: Some(own.logits.v_agrees),
        levels: levels.collect(),
        f_agree: Some(own.logits.f_agrees),
        p_f_distance: own.probabilities.f,
        p_agree: Some(own.probabilities.v_agrees),
        p_f_agree: Some(own.probabilities.f_agrees),
        votes_f_distance: own.votes.f,
        votes_agree: Some(own.votes.v_agrees),
        votes_f_agree: Some(own.votes.f_agrees),
    }
}

/// Real values have no classes, probabilities or votes.
fn of_values(row: FidelityRow) -> FidelityRow {
    let nothing = LevelDistance {
        v_distance: f64::NAN,
        standard_error: f64::NAN,
        step: f64::NAN,
    };
    let levels = row.levels.iter().map(|level| FidelityLevel {
        probabilities: nothing,
        votes: nothing,
        ..*level
    });
    FidelityRow {
        idx: row.idx,
        label: None,
        v_distance: row.v_distance,
        f_distance: row.f_distance,
        standard_error: row.standard_error,
        agree: None,
        levels: levels.collect(),
        ..FidelityRow::default()
    }
}

/// A row back as an outcome. Of f and of classes it knows what holds at the log's
/// own sigma, and a summary asks for no more.
fn outcome(row: &FidelityRow) -> FidelityOutcome {
    let distances = |at: &LevelDistance, f: f64, agree: [bool; 2]| FidelityDistances {
        v: at.v_distance,
        f,
        standard_error: at.standard_error,
        step: at.step,
        v_agrees: agree[0],
        f_agrees: agree[1],
    };
    let flag = |flag: Option<bool>| flag.unwrap_or_default();
    let at = |level: &FidelityLevel| AtLevel {
        sigma: level.sigma,
        logits: distances(
            &level.logits,
            row.f_distance,
            [flag(row.agree), flag(row.f_agree)],
        ),
        probabilities: distances(
            &level.probabilities,
            row.p_f_distance,
            [flag(row.p_agree), flag(row.p_f_agree)],
        ),
        votes: distances(
            &level.votes,
            row.votes_f_distance,
            [flag(row.votes_agree), flag(row.votes_f_agree)],
        ),
    };
    FidelityOutcome {
        index: row.idx as u32,
        label: row.label.unwrap_or_default() as usize,
        levels: row.levels.iter().map(at).collect(),
        seconds: 0.0,
    }
}

/// What distances to the average come to.
#[derive(Clone, Debug, PartialEq)]
pub struct AverageFigures {
    /// What the outputs are.
    pub task: TaskKind,
    /// Of logits, or of real values.
    pub logits: Option<Closeness>,
    /// Of softmax outputs.
    pub probabilities: Option<Closeness>,
    /// Of v's softmax outputs from f's vote shares.
    pub votes: Option<Closeness>,
}

/// Confidence of what is said about inputs like the images.
const CONFIDENCE: f64 = 0.95;

impl Figures for AverageFigures {
    fn to_json(&self) -> Value {
        let numbers = |c: Closeness| {
            let mut all = json!({
                "v_distance": c.v, "f_distance": c.f, "gap_closed": c.closed,
                "gap_closed_interval": c.closed_interval(),
                "effective_sigma": c.effective_sigma.map(|e| e.sigma),
            });
            if self.task == TaskKind::Classification {
                all["agreement"] = json!(c.v_agreement);
                all["agreement_at_least"] = json!(c.agreement_at_least(CONFIDENCE));
            }
            all
        };
        if self.task == TaskKind::Regression {
            return json!({"values": self.logits.map(numbers)});
        }
        json!({
            "logits": self.logits.map(numbers), "probabilities": self.probabilities.map(numbers),
            "votes": self.votes.map(numbers), "confidence": CONFIDENCE,
        })
    }

    fn to_text(&self) -> String {
        let line = |space: &str, c: &Closeness| {
            let sigma = match &c.effective_sigma {
                Some(effective) => format!("{:.4}", effective.sigma),
                None => "unknown".into(),
            };
            let [low, high] = c.closed_interval().map(|end| 100.0 * end);
            let closed = match (c.closed.is_finite(), (low + high).is_finite()) {
                (true, true) => {
                    let closed = percent(c.closed);
                    format!("{closed} of the gap closed ({low:.1} to {high:.1})")
                }
                (true, false) => format!("{} of the gap closed", percent(c.closed)),
                // The distance of f is within the error of the average.
                (false, _) => "these samples show no gap to close".into(),
            };
            let class = match self.task {
                TaskKind::Classification => format!("same class {}; ", percent(c.v_agreement)),
                TaskKind::Regression => String::new(),
            };
            format!(
                "  {space}: v is {:.4} from the average of f, f itself {:.4}: {closed}; \
                 {class}effective sigma {sigma}\n",
                c.v, c.f,
            )
        };
        let outputs = match self.task {
            TaskKind::Classification => "logits",
            TaskKind::Regression => "values",
        };
        let spaces = [
            (outputs, &self.logits),
            ("probabilities", &self.probabilities),
            ("votes", &self.votes),
        ];
        let mut text: String = spaces
            .iter()
            .filter_map(|(space, c)| Some(line(space, c.as_ref()?)))
            .collect();
        if let Some(votes) = &self.votes {
            text += &format!(
                "  with confidence {CONFIDENCE}, v names the class of the smoothed f (as these \
                 samples estimate it) on at least {} of inputs like these\n",
                percent(votes.agreement_at_least(CONFIDENCE))
            );
        }
        text
    }
}
