//! Accuracy image by image, for a log whose shards can be merged.

use std::ops::ControlFlow;
use std::time::Instant;

use certify::{Smoothing, one_pass_radius};
use network::logits::{argmax, softmax};
use network::{Calibration, Images, NoisyImage, Purpose, TaskKind};
use record::{AccuracyRow, Guarantee, SmoothingId};
use serde_json::{Value, json};
use train::{Accuracy, rank};

use crate::error::Error;
use crate::evaluation::AccuracyFigures;
use crate::measure::{Figures, Measurement};
use crate::one_pass::OnePassFigures;
use crate::source::needs_targets;
use crate::subject::Subject;

/// The class of each image, clean and with one draw of noise, and its one-pass radius.
pub(crate) struct Rated {
    /// The noise of the copies, if there are some.
    pub noise: Option<Smoothing>,
    pub seed: u64,
    /// The noise level of one-pass radii, and the model's calibration there.
    pub one_pass: Option<(f64, Option<Calibration>)>,
    /// Model, data set and number of images, for people.
    pub title: String,
}

impl Measurement for Rated {
    type Row = AccuracyRow;
    type Figures = AccuracyFigures;

    fn procedure(&self) -> String {
        "eval".into()
    }

    fn sigma(&self) -> Option<f64> {
        self.noise.as_ref().map(Smoothing::sigma)
    }

    fn smoothing(&self) -> Option<SmoothingId> {
        self.noise.as_ref().map(Smoothing::id)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Empirical
    }

    fn settings(&self) -> Value {
        json!({"one_pass_sigma": self.one_pass.as_ref().map(|(sigma, _)| sigma)})
    }

    fn check(&self, subject: &Subject) -> Result<(), Error> {
        if subject.task() == TaskKind::Regression {
            return Err(Error::refused(
                "a log of accuracy is about classes, and the model predicts real values",
                "leave the log and the shard out: one process measures the errors of all images",
            ));
        }
        needs_targets(&subject.dataset, subject.task(), "accuracy")
    }

    fn check_row(&self, _: &Subject, row: &AccuracyRow) -> Result<(), String> {
        match (row.predict == row.label) == (row.rank == 0) {
            true => Ok(()),
            false => Err("`rank` contradicts label and class".into()),
        }
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(AccuracyRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let network = &*subject.network;
        let classes = network.classes();
        let noise = self.noise.as_ref();
        let noise = noise.map(|smoothing| smoothing.noise(self.seed, Purpose::Prediction));
        loop {
            let clock = Instant::now();
            let batch: Vec<Images> = images.take(network.batch()).collect();
            if batch.is_empty() {
                return Ok(());
            }
            let pixels: Vec<f32> = batch.iter().flat_map(|one| &one.pixels).copied().collect();
            let mut clean = vec![0.0; batch.len() * classes];
            network.logits(&pixels, &mut clean)?;
            let mut noisy = Vec::new();
            if let Some(noise) = &noise {
                let copies = batch.iter().map(|one| NoisyImage {
                    image: one.indices[0],
                    first_sample: 0,
                    count: 1,
                    pixels: &one.pixels,
                });
                noisy.resize(clean.len(), 0.0);
                network.noisy_logits(noise, &copies.collect::<Vec<_>>(), &mut noisy)?;
            }
            let logits = clean.chunks(classes).chain(noisy.chunks(classes));
            let wrong = logits.filter(|row| row.iter().any(|logit| !logit.is_finite()));
            let wrong = wrong.count() as u64;
            if wrong > 0 {
                return Err(Error::not_finite(wrong, batch.len() as u64));
            }
            let time = clock.elapsed() / batch.len() as u32;
            for (place, one) in batch.iter().enumerate() {
                let (logits, label) = (&clean[place * classes..][..classes], one.labels[0]);
                let noisy = noisy.chunks(classes).nth(place);
                let one_pass = self.one_pass.as_ref();
                let row = AccuracyRow {
                    idx: one.indices[0].into(),
                    label,
                    predict: argmax(logits) as u32,
                    rank: rank(logits, label) as u64,
                    noisy_predict: noisy.map(|logits| argmax(logits) as u32),
                    noisy_rank: noisy.map(|logits| rank(logits, label) as u64),
                    one_pass: one_pass.map_or(f64::NAN, |(sigma, _)| {
                        one_pass_radius(*sigma, &softmax(logits))
                    }),
                    time: Some(time),
                };
                if write(row).is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn summary(&self, rows: &[AccuracyRow]) -> AccuracyFigures {
        let of = |ranks: &[u64]| {
            let among = |first: u64| ranks.iter().filter(|rank| **rank < first).count() as u64;
            Accuracy {
                images: ranks.len() as u64,
                top1: among(1),
                top5: among(5),
                not_finite: 0,
            }
        };
        let clean: Vec<u64> = rows.iter().map(|row| row.rank).collect();
        let mut accuracies = vec![(None, of(&clean))];
        if let Some(sigma) = self.sigma() {
            let noisy: Vec<u64> = rows.iter().filter_map(|row| row.noisy_rank).collect();
            accuracies.push((Some(sigma), of(&noisy)));
        }
        let radii = self.one_pass.as_ref().map(|(sigma, calibration)| {
            let found = rows.iter().map(|row| (row.one_pass, row.rank == 0));
            let found: Vec<(f64, bool)> = found.collect();
            OnePassFigures::new(*sigma, calibration.clone(), &found)
        });
        AccuracyFigures {
            title: self.title.clone(),
            accuracies,
            errors: Vec::new(),
            names: Vec::new(),
            radii,
        }
    }
}

impl Figures for AccuracyFigures {
    fn to_json(&self) -> Value {
        json!({"levels": AccuracyFigures::to_json(self)})
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}
