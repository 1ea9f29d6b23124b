//! A certificate of one's own: the radius in the largest change of a pixel that
//! Cohen's L2 radius implies. `cargo run --release -p heatsmooth --example
//! own_certificate`, after the example `smooth_and_certify`.
//!
//! A certificate is a row for its log and a type that implements
//! [`Measurement`]; manifest, resume, shards and the summary come with
//! [`measure`].

use std::ops::ControlFlow;
use std::path::Path;

use heatsmooth::certify::{Certify, CertifyOutcome, certify_all};
use heatsmooth::network::Images;
use heatsmooth::record::{CellError, Cells, Guarantee, Line, LogKind, Row, SmoothingId};
use heatsmooth::{
    DataSource, Device, Error, Figures, ImageChoice, Measurement, ModelSource, Quiet, SplitChoice,
    Subject, measure,
};
use serde_json::{Value, json};

/// One image's certificate.
struct LinfRow {
    idx: u64,
    label: u32,
    predict: Option<u32>,
    radius: f64,
}

impl Row for LinfRow {
    const KIND: LogKind = LogKind::own("linf-certify");
    const COLUMNS: &'static [&'static str] = &["idx", "label", "predict", "linf_radius"];
    const REQUIRED: usize = 4;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        Ok(Self {
            idx: cells.integer("idx")?,
            label: cells.integer("label")?,
            predict: cells.class("predict")?,
            radius: cells.at_least_zero("linf_radius")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("label", self.label);
        line.class("predict", self.predict);
        line.number("linf_radius", self.radius);
    }
}

/// A perturbation of at most `r` a pixel has an L2 norm of at most `r sqrt(d)`.
struct Linf {
    plan: Certify,
}

impl Measurement for Linf {
    type Row = LinfRow;
    type Figures = MeanRadius;

    fn procedure(&self) -> String {
        "cohen-linf".into()
    }

    fn sigma(&self) -> Option<f64> {
        Some(self.plan.smoothing.sigma())
    }

    fn smoothing(&self) -> Option<SmoothingId> {
        Some(self.plan.smoothing.id())
    }

    fn seed(&self) -> u64 {
        self.plan.seed
    }

    fn guarantee(&self) -> Guarantee {
        self.plan.guarantee()
    }

    fn settings(&self) -> Value {
        json!({"n0": self.plan.n0, "n": self.plan.n})
    }

    fn check(&self, subject: &Subject) -> Result<(), Error> {
        Ok(self.plan.check(&*subject.network)?)
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(LinfRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let network = &*subject.network;
        let dimension = network.input().len() as f64;
        let mut observer = |outcome: CertifyOutcome| {
            write(LinfRow {
                idx: outcome.index.into(),
                label: outcome.label as u32,
                predict: outcome.certificate.predict.map(|class| class as u32),
                radius: outcome.certificate.radius / dimension.sqrt(),
            })
        };
        let batch = network.batch();
        Ok(certify_all(
            network,
            images,
            &self.plan,
            batch,
            &mut observer,
        )?)
    }

    fn summary(&self, rows: &[LinfRow]) -> MeanRadius {
        let right = rows.iter().filter(|row| row.predict == Some(row.label));
        let sum: f64 = right.map(|row| row.radius).sum();
        MeanRadius(sum / rows.len().max(1) as f64)
    }
}

/// The mean of radius * correct.
struct MeanRadius(f64);

impl Figures for MeanRadius {
    fn to_json(&self) -> Value {
        json!({"average_linf_radius": self.0})
    }

    fn to_text(&self) -> String {
        format!(
            "  average certified radius in the largest change of a pixel {:.4}\n",
            self.0
        )
    }
}

fn main() -> Result<(), Error> {
    let model = ModelSource::new("example/heat");
    let digits = DataSource::named("digits");
    let (split, images) = (SplitChoice::default(), ImageChoice::first(100));
    let subject = Subject::open(&model, &digits, &split, &images, &Device::cpu(None)?)?;
    let smoothing = subject.smoothing(None, subject.sigma(None)?)?;
    let plan = Certify {
        n: 1000,
        ..Certify::new(smoothing)
    };
    let log = Path::new("example/linf.tsv");
    print!("{}", measure(&Linf { plan }, &subject, log, &mut Quiet)?);
    Ok(())
}
