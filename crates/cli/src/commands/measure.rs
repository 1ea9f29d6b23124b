//! `heatsmooth certify`, `lbound`, `clever`, `fidelity` and `calibrate`: measurements of the
//! registry.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Command};
use heatsmooth::settings::{Field, SettingError, Settings, Values, settings};
use heatsmooth::{
    DataSource, Error, ImageChoice, ImageSource as _, MeasureContext, ModelSource, Observer,
    Registry, SplitChoice, Subject, Weights, calibration_log, shard_log, shard_of_environment,
};

use crate::Entry;
use crate::common::{Shared, with_configuration};
use crate::{options, output};

settings! {
    /// The model that is measured.
    pub struct ModelFile {
        /// The model: .safetensors (ours, or weights with --arch), .onnx, a PyTorch
        /// checkpoint (.pth, .pt, .th, .tar) with --arch, or a run folder.
        model: Option<PathBuf> = None,
    }
}

settings! {
    /// The model compared with.
    pub struct ReferenceFile {
        /// The model f that v is to average.
        reference: Option<PathBuf> = None,
    }
}

settings! {
    /// Where the log goes.
    pub struct LogFile {
        /// The log to write, F.tsv; F.json stands beside it.
        out: Option<PathBuf> = None,
    }
}

settings! {
    /// Where the log of a calibration goes.
    pub struct CalibrationLog {
        /// The log to write, F.tsv; F.json stands beside it [default: beside the
        /// model].
        out: Option<PathBuf> = None,
    }
}

settings! {
    /// How a certificate's passes compute.
    pub struct PassPrecision {
        /// What a GPU's passes compute in: f32, f16 or bf16; the certificate is then about
        /// the function that is computed so.
        precision: String = "f32".into(),
    }
}

/// Heading of the options of [`Weights`].
pub const WEIGHTS: &str = "Weights without a network";

/// `heatsmooth certify`.
pub const CERTIFY: Entry = Entry {
    name: "certify",
    command: |command, registry| {
        command_of(command, registry, "certify").after_help(
            "Example: heatsmooth certify --model runs/heat/model.safetensors --data digits \
             --sigma 0.25 --select clean --out heat.tsv",
        )
    },
    run: |matches, registry| run(matches, registry, "certify"),
};

/// `heatsmooth lbound`.
pub const LBOUND: Entry = Entry {
    name: "lbound",
    command: |command, registry| {
        command_of(command, registry, "lbound")
            .long_about(
                "The L-bound sigma * sqrt(pi/2) * (p_y - max p_i) for each image\n\n\
                 Approximate for a deterministic model: it holds if v is exactly a Gaussian \
                 average at sigma. With --samples the mean softmax over noise is used.",
            )
            .after_help(
                "Example: heatsmooth lbound --model runs/heat/model.safetensors --data digits \
                 --sigma 0.25 --out lbound.tsv",
            )
    },
    run: |matches, registry| run(matches, registry, "lbound"),
};

/// `heatsmooth clever`.
pub const CLEVER: Entry = Entry {
    name: "clever",
    command: |command, registry| {
        command_of(command, registry, "clever")
            .long_about(
                "CLEVER: an estimate, not a bound, of the distance to another class (Weng et \
                 al.)\n\n\
                 The largest gradient norms of batches of points around an image are fitted by a \
                 reverse Weibull distribution; its right end is taken for the largest slope there \
                 is, and the score is the difference of two classes' logits divided by it. Where \
                 the points miss the steepest place the score is too large: an attack may \
                 succeed within it, and the report marks where one does.",
            )
            .after_help(
                "Example: heatsmooth clever --model runs/heat/model.safetensors --data digits \
                 --images 0..100 --out clever.tsv",
            )
    },
    run: |matches, registry| run(matches, registry, "clever"),
};

/// `heatsmooth fidelity`.
pub const FIDELITY: Entry = Entry {
    name: "fidelity",
    command: |command, registry| {
        command_of(command, registry, "fidelity").after_help(
            "Example: heatsmooth fidelity --model runs/heat/model.safetensors --reference \
             runs/baseline/model.safetensors --data digits --sigma 0.25 --out fidelity.tsv",
        )
    },
    run: |matches, registry| run(matches, registry, "fidelity"),
};

/// `heatsmooth calibrate`.
pub const CALIBRATE: Entry = Entry {
    name: CALIBRATION,
    command: |command, registry| {
        command_of(command, registry, CALIBRATION)
            .long_about(
                "The one-pass radius that may be promised, kept in the model's file\n\n\
                 The radius sigma * Phi^-1(p) of one pass of v is compared with the certified \
                 radius of g, the smoothed reference, on images that training did not see, and \
                 shrunk until the promise can be made: for inputs drawn like these images, with \
                 the confidence given at most the share given gets a radius that g does not \
                 have. An attacked input is not such an input. Predict, eval and lbound then \
                 show the calibrated radius. The weights stay, and records go on to name the \
                 model by the same hash.",
            )
            .after_help(
                "Example: heatsmooth calibrate --model runs/v/model.safetensors --reference \
                 runs/v/base.safetensors --data digits --sigma 0.25 --miss 0.05 --confidence 0.95",
            )
    },
    run: |matches, registry| run(matches, registry, CALIBRATION),
};

/// The measurement whose passes may have another precision.
const CERTIFICATION: &str = "certify";

/// The measurement whose log has a place of its own.
const CALIBRATION: &str = "calibrate";

/// What the subject of a measurement can be told.
fn subject_fields(what: &str) -> Vec<Field> {
    let mut fields = ModelFile::fields();
    fields.extend(DataSource::fields());
    fields.extend(SplitChoice::fields());
    fields.extend(match what {
        CALIBRATION => CalibrationLog::fields(),
        _ => LogFile::fields(),
    });
    fields.extend(ImageChoice::fields());
    if what == CERTIFICATION {
        fields.extend(PassPrecision::fields());
    }
    fields
}

fn fields_of(registry: &Registry, what: &str) -> Result<Vec<Field>> {
    let mut fields = subject_fields(what);
    let compared = registry
        .measurement(what)
        .is_ok_and(|entry| entry.wants_reference);
    if compared {
        fields.extend(ReferenceFile::fields());
    }
    fields.extend(registry.fields_of(what)?);
    Ok(fields)
}

/// The command of a measurement or attack.
pub fn command_of(command: Command, registry: &Registry, what: &str) -> Command {
    let about = match registry.attack(what) {
        Ok(attack) => attack.about,
        Err(_) => registry.measurement(what).map_or("", |entry| entry.about),
    };
    let fields = fields_of(registry, what).unwrap_or_default();
    let command = command
        .about(format!("{about}; running again resumes"))
        .args(options::arguments(&fields, None))
        .args(options::arguments(&Weights::fields(), Some(WEIGHTS)));
    with_configuration(command)
}

/// Runs a measurement or attack.
pub fn run(matches: &ArgMatches, registry: &Registry, what: &str) -> Result<()> {
    let mut fields = fields_of(registry, what)?;
    fields.extend(Weights::fields());
    fields.extend(Shared::fields());
    let values = options::said(&fields, matches)?;
    let Some((values, common)) = options::configured(&fields, values, matches)? else {
        return Ok(());
    };
    let model = required(read::<ModelFile>(&values)?.model, "model")?;
    let data = read::<DataSource>(&values)?;
    data.name()?;
    let weights = read::<Weights>(&values)?;
    let reference = match fields.iter().any(|field| field.name == "reference") {
        true => Some(required(
            read::<ReferenceFile>(&values)?.reference,
            "reference",
        )?),
        false => None,
    };
    // Options about weights are for whichever of the two files needs them.
    let (model, reference) = match reference {
        Some(reference) => {
            let [one, other] = weights.shared_by([&model, &reference])?;
            let reference = ModelSource::with(reference, other);
            (ModelSource::with(model, one), Some(reference))
        }
        None => (ModelSource::with(model, weights), None),
    };
    let mut log = match read::<LogFile>(&values)?.out {
        None if what == CALIBRATION => calibration_log(&model),
        out => required(out, "out")?,
    };
    let (split, mut images) = (read::<SplitChoice>(&values)?, read::<ImageChoice>(&values)?);
    let mut terminal = common.terminal();
    // A calibration is about all images at once.
    if what != CALIBRATION {
        take_shard(&mut images.shard, &mut log, &mut terminal)?;
    }
    let mut device = common.device()?;
    if what == CERTIFICATION {
        let wrong = |given: String| SettingError::value("precision", given, "f32, f16 or bf16");
        let precision = read::<PassPrecision>(&values)?.precision.parse();
        device = device.with_precision(precision.map_err(wrong).map_err(Error::from)?)?;
    }
    let subject = Subject::open(&model, &data, &split, &images, &device)?;
    let context = MeasureContext {
        seed: common.seed(),
        reference: reference.as_ref(),
    };
    let measured = registry.measure(what, &values, &context, &subject, &log, &mut terminal)?;
    output::summary(&common, &measured.to_json(), &measured.to_string())
}

/// The shard that the environment asks for, unless one is said, and the log beside its
/// own that it writes to.
pub fn take_shard(
    shard: &mut Option<String>,
    log: &mut PathBuf,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    if shard.is_none()
        && let Some(found) = shard_of_environment()?
    {
        *shard = Some(found.shard.to_string());
        *log = shard_log(log, found.shard);
        observer.note(&format!("{found}: {}", log.display()));
    }
    Ok(())
}

/// Settings from resolved values.
pub fn read<S: Settings>(values: &Values) -> Result<S, Error> {
    Ok(S::read(values)?)
}

/// A value that must be given.
pub fn required<T>(value: Option<T>, name: &str) -> Result<T, Error> {
    value.ok_or_else(|| SettingError::missing(name).into())
}
