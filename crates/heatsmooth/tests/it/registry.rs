//! A method, an attack and a certificate of somebody else's: one row each, and
//! they work by name, in an experiment and in its report.

use std::ops::ControlFlow;

use heatsmooth::attack::{Attack, AttackError, AttackKind, Attempt, Challenge, Target, Visit};
use heatsmooth::measurements::NoiseLevel;
use heatsmooth::network::{Executor, Gradients, Images, Mode};
use heatsmooth::record::{CellError, Cells, Guarantee, Line, LogKind, MethodInfo, Row};
use heatsmooth::settings::{Settings, settings};
use heatsmooth::train::{Method, Minibatch, Position, TrainError, loss};
use heatsmooth::{
    AttackChoice, AttackEntry, Device, Error, Experiment, Figures, Laboratory, Measurement,
    MeasurementEntry, MethodChoice, MethodEntry, Quiet, Registry, StageResult, Subject, Training,
    measure,
};
use serde_json::{Value, json};

settings! {
    /// Settings of the toy method and of the toy attack.
    pub struct ToyParams {
        /// A factor.
        strength: f64 = 1.0,
    }
}

/// Cross-entropy, times a factor.
struct ToyMethod(f64);

impl Method for ToyMethod {
    fn columns(&self) -> &'static [&'static str] {
        &["loss"]
    }

    fn step(
        &mut self,
        network: &mut dyn Executor,
        images: &Minibatch<'_>,
        _: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let (logits, tape) = network.forward(&images.pixels, Mode::Train)?;
        let mut cotangent = vec![0.0; logits.len()];
        let classes = network.classes();
        let loss = loss::cross_entropy(
            classes,
            &logits,
            (&images.labels, images.of()),
            &mut cotangent,
        );
        cotangent.iter_mut().for_each(|c| *c *= self.0 as f32);
        network.parameter_gradient(&tape, &cotangent, gradients)?;
        network.update_running_statistics(&tape)?;
        Ok(vec![self.0 * loss])
    }
}

/// Paints every image grey.
struct ToyAttack;

impl Attack for ToyAttack {
    fn name(&self) -> &'static str {
        "grey"
    }

    fn kind(&self) -> AttackKind {
        AttackKind::FixedBudget { eps: 100.0 }
    }

    fn perturb(
        &self,
        _: &dyn Target,
        challenge: &Challenge<'_>,
        _: &mut dyn FnMut(&Visit<'_>),
    ) -> Result<Vec<Attempt>, AttackError> {
        let attempt = |place: usize| Attempt {
            image: vec![0.5; challenge.images.image(place).len()],
            steps: 1,
            at_floor: false,
        };
        Ok((0..challenge.len()).map(attempt).collect())
    }
}

/// "Certifies" a radius of 0 for every image.
struct ToyCertificate;

struct ToyRow(u64);

impl Row for ToyRow {
    const KIND: LogKind = LogKind::own("toy");
    const COLUMNS: &'static [&'static str] = &["idx", "toy_radius"];
    const REQUIRED: usize = 2;

    fn idx(&self) -> u64 {
        self.0
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        Ok(Self(cells.integer("idx")?))
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.0);
        line.number("toy_radius", 0.0);
    }
}

struct Count(usize);

impl Figures for Count {
    fn to_json(&self) -> Value {
        json!({"count": self.0})
    }

    fn to_text(&self) -> String {
        format!("  {} toys\n", self.0)
    }
}

impl Measurement for ToyCertificate {
    type Row = ToyRow;
    type Figures = Count;

    fn procedure(&self) -> String {
        "toy".into()
    }

    fn sigma(&self) -> Option<f64> {
        Some(0.1)
    }

    fn seed(&self) -> u64 {
        0
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Empirical
    }

    fn settings(&self) -> Value {
        json!({})
    }

    fn check(&self, _: &Subject) -> Result<(), Error> {
        Ok(())
    }

    fn run(
        &self,
        _: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(ToyRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        for image in images {
            if write(ToyRow(image.indices[0].into())).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn summary(&self, rows: &[ToyRow]) -> Count {
        Count(rows.len())
    }
}

fn registry() -> Registry {
    let mut registry = Registry::standard();
    registry.methods.push(MethodEntry {
        info: MethodInfo::deterministic("toy", "Toy Training", 9),
        about: "cross-entropy, times a factor",
        labels: true,
        fields: ToyParams::fields,
        training: |_| Training {
            epochs: 1,
            ..Training::default()
        },
        choose: |values, _| {
            let ToyParams { strength } = ToyParams::read(values)?;
            Ok(MethodChoice {
                name: "toy".into(),
                sigma: None,
                noise: Default::default(),
                labels: true,
                settings: json!({"strength": strength}),
                method: Box::new(ToyMethod(strength)),
            })
        },
        cost: |_| 5.0,
    });
    registry.attacks.push(AttackEntry {
        name: "grey",
        about: "paints images grey",
        fields: ToyParams::fields,
        choose: |_, _| {
            Ok(AttackChoice {
                attack: Box::new(ToyAttack),
                settings: json!({}),
            })
        },
    });
    registry.measurements.push(MeasurementEntry {
        name: "toy-certify",
        about: "a radius of 0",
        wants_reference: false,
        fields: NoiseLevel::fields,
        run: |_, _, subject, log, observer| measure(&ToyCertificate, subject, log, observer),
        cost: |_| 1.0,
    });
    registry
}

const EXPERIMENT: &str = r#"
title = "Toys"
data = "digits"
sigma = 0.1
images = 30

[[models]]
name = "mine"
method = "toy"
arch = "mlp"
strength = 0.5

[[measurements]]
what = "grey"

[[measurements]]
what = "toy-certify"

[[measurements]]
what = "lbound"
"#;

#[test]
fn toys_work_by_name_in_an_experiment_and_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, device) = (registry(), Device::cpu(Some(1)).unwrap());
    let experiment = Experiment::read(EXPERIMENT, &registry).unwrap();
    let laboratory = Laboratory {
        out: folder.path(),
        registry: &registry,
        device: &device,
        seed: 0,
    };
    let results = experiment.run(&laboratory, &mut Quiet).unwrap();
    assert_eq!(results.len(), 4);
    let StageResult::Measured(toys) = &results[2] else {
        panic!("a measurement");
    };
    assert_eq!(toys.to_json()["count"], 30);
    let StageResult::Measured(grey) = &results[1] else {
        panic!("a measurement");
    };
    assert_eq!(grey.to_json()["images"], 30);
    let (report, _) = experiment.report(&laboratory).unwrap();
    assert!(report.to_html().contains("Toy Training"));

    // Everything is there: a second run only reads.
    let again = experiment.run(&laboratory, &mut Quiet).unwrap();
    let StageResult::Fitted(model) = &again[0] else {
        panic!("a model");
    };
    assert!(model.already);
}
