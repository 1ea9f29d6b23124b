//! Smooths a model and certifies it: `cargo run --release -p heatsmooth --example
//! smooth_and_certify`. Run again, it only reads what it made.

use std::path::Path;

use heatsmooth::measurements::Certified;
use heatsmooth::{
    CertifyParams, DataSource, Device, Error, HeatParams, ImageChoice, ImageSource as _, Job,
    MethodChoice, ModelSource, Quiet, Registry, Select, Split, SplitChoice, StartFrom, Subject,
    fit, measure,
};

fn main() -> Result<(), Error> {
    let (out, sigma) = (Path::new("example"), 0.25);
    let (device, registry) = (Device::cpu(None)?, Registry::standard());
    let digits = DataSource::named("digits");
    let (train, test) = (
        digits.open(Split::Train, None)?,
        digits.open(Split::Test, None)?,
    );
    let make = |choice: MethodChoice, start, training| {
        let job = Job {
            start,
            train: &train,
            test: Some(&test),
            training: &training,
            folder: &out.join(&choice.name),
            seed: 0,
            device: &device,
        };
        fit(choice, &job, &mut Quiet)
    };

    // A network as others train it ...
    let start = StartFrom::Architecture {
        name: "smallcnn",
        normalise: None,
    };
    let training = (registry.method("baseline")?.training)("digits");
    let baseline = make(MethodChoice::baseline(), start, training)?;
    print!("{baseline}");

    // ... becomes its own Gaussian average, without labels ...
    let source = ModelSource::new(&baseline.file);
    let start = StartFrom::Model {
        loaded: &source.load(None)?,
        path: &source.path,
    };
    let training = (registry.method("heat")?.training)("digits");
    let heat = MethodChoice::heat(sigma, HeatParams::default())?;
    let heat = make(heat, start, training)?;
    print!("{heat}");

    // ... and is certified.
    for model in [baseline.file, heat.file] {
        let log = model.with_file_name("certified.tsv");
        let model = ModelSource::new(model);
        let (split, images) = (SplitChoice::default(), ImageChoice::first(100));
        let subject = Subject::open(&model, &digits, &split, &images, &device)?;
        let params = CertifyParams {
            n: 1000,
            select: Select::Clean,
            ..CertifyParams::default()
        };
        let certified = Certified::new(subject.smoothing(None, sigma)?, params, 0)?;
        print!("{}", measure(&certified, &subject, &log, &mut Quiet)?);
    }
    Ok(())
}
