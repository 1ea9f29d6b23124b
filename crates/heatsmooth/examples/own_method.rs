//! A training method of one's own: cross-entropy with smoothed labels. `cargo run
//! --release -p heatsmooth --example own_method`.
//!
//! The method is a type that implements [`Method`]; its row in the registry is
//! all that the binary, experiments and reports need to know about it.

use std::path::Path;

use heatsmooth::network::logits::log_softmax;
use heatsmooth::network::{Executor, Gradients, Mode};
use heatsmooth::record::MethodInfo;
use heatsmooth::settings::{SettingError, Settings, settings};
use heatsmooth::train::{Method, Minibatch, Position, TrainError};
use heatsmooth::{
    DataSource, Device, Error, ImageSource as _, Job, MethodChoice, MethodEntry, Quiet, Registry,
    Split, StartFrom, Training, fit,
};
use serde_json::json;

settings! {
    /// Hyper-parameters of label smoothing.
    pub struct LabelSmoothingParams {
        /// Probability that is spread over all classes, 0 to 1.
        spread: f64 = 0.1,
    }
}

/// `mean of -sum_c t_c log softmax(f(x))_c`, the label's `t` being `1 - spread`
/// more than the others'.
struct LabelSmoothing {
    spread: f64,
}

impl Method for LabelSmoothing {
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
        let (classes, count) = (network.classes(), images.of() as f64);
        let (mut loss, mut cotangent) = (0.0, Vec::new());
        for (z, &label) in logits.chunks_exact(classes).zip(&images.labels) {
            for (class, log_p) in log_softmax(z).into_iter().enumerate() {
                let own = if class == label as usize {
                    1.0 - self.spread
                } else {
                    0.0
                };
                let target = own + self.spread / classes as f64;
                loss -= target * log_p / count;
                cotangent.push(((log_p.exp() - target) / count) as f32);
            }
        }
        network.parameter_gradient(&tape, &cotangent, gradients)?;
        network.update_running_statistics(&tape)?;
        Ok(vec![loss])
    }
}

fn main() -> Result<(), Error> {
    let mut registry = Registry::standard();
    registry.methods.push(MethodEntry {
        info: MethodInfo::deterministic("label-smoothing", "label smoothing", 9),
        about: "Cross-entropy with smoothed labels",
        labels: true,
        fields: LabelSmoothingParams::fields,
        training: |_| Training {
            epochs: 5,
            batch_size: 64,
            ..Training::default()
        },
        choose: |values, _| {
            let LabelSmoothingParams { spread } = LabelSmoothingParams::read(values)?;
            if !(0.0..=1.0).contains(&spread) {
                return Err(SettingError::value("spread", spread, "0 to 1").into());
            }
            Ok(MethodChoice {
                name: "label-smoothing".into(),
                sigma: None,
                noise: Default::default(),
                labels: true,
                settings: json!({"spread": spread}),
                method: Box::new(LabelSmoothing { spread }),
            })
        },
        cost: |_| 5.0,
    });

    let entry = registry.method("label-smoothing")?;
    let digits = DataSource::named("digits");
    let job = Job {
        start: StartFrom::Architecture {
            name: "smallcnn",
            normalise: None,
        },
        train: &digits.open(Split::Train, None)?,
        test: Some(&digits.open(Split::Test, None)?),
        training: &(entry.training)("digits"),
        folder: Path::new("example/label-smoothing"),
        seed: 0,
        device: &Device::cpu(None)?,
    };
    let choice = (entry.choose)(&Default::default(), None)?;
    print!("{}", fit(choice, &job, &mut Quiet)?);
    Ok(())
}
