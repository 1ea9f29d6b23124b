//! Runs that are stopped by their observer go on and end with the same bytes, and
//! folders and logs of something else are refused.

use std::ops::ControlFlow;
use std::path::Path;

use heatsmooth::measurements::{Bounded, Certified};
use heatsmooth::{
    CertifyParams, DataSource, Device, Error, HeatParams, ImageChoice, ImageSource as _, Job,
    LBoundParams, MethodChoice, ModelSource, Observer, Quiet, Smoothing, Split, SplitChoice,
    StartFrom, Subject, Training, fit, measure,
};

/// Stops after so many reports of progress.
struct StopAfter(u32);

impl Observer for StopAfter {
    fn progress(&mut self, _: u64, _: &dyn Fn() -> String) -> ControlFlow<()> {
        self.0 -= 1;
        match self.0 {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn train(
    choice: MethodChoice,
    start: StartFrom<'_>,
    folder: &Path,
    observer: &mut dyn Observer,
) -> Result<Vec<u8>, Error> {
    let data = DataSource::named("digits").open(Split::Train, None)?;
    let training = Training {
        epochs: 2,
        lr: 0.02,
        clip: 1.0,
        ..Training::default()
    };
    let job = Job {
        start,
        train: &data,
        test: None,
        training: &training,
        folder,
        seed: 3,
        device: &Device::cpu(Some(1))?,
    };
    Ok(fit(choice, &job, observer)?.model.to_bytes())
}

fn mlp<'a>() -> StartFrom<'a> {
    StartFrom::Architecture {
        name: "mlp",
        normalise: None,
    }
}

#[test]
fn a_run_that_was_stopped_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let whole = train(MethodChoice::baseline(), mlp(), &whole, &mut Quiet).unwrap();
    let parts = folder.path().join("parts");
    for stop in [3, 11] {
        let choice = MethodChoice::baseline();
        let error = train(choice, mlp(), &parts, &mut StopAfter(stop)).unwrap_err();
        assert!(matches!(error, Error::Stopped), "{error}");
    }
    let end = train(MethodChoice::baseline(), mlp(), &parts, &mut Quiet).unwrap();
    assert!(whole == end);
    // A finished run is only read.
    let again = train(MethodChoice::baseline(), mlp(), &parts, &mut StopAfter(1)).unwrap();
    assert!(whole == again);
    // Another method does not fit into the folder.
    let other = MethodChoice::gaussian(0.1).unwrap();
    let error = train(other, mlp(), &parts, &mut Quiet).unwrap_err();
    assert!(error.to_string().contains("method"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_log_that_was_stopped_ends_with_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(MethodChoice::baseline(), mlp(), &run, &mut Quiet).unwrap();
    let source = ModelSource::new(&run);
    let loaded = source.load(None).unwrap();
    let start = StartFrom::Model {
        loaded: &loaded,
        path: &source.path,
    };
    let heat = MethodChoice::heat(0.25, HeatParams::default()).unwrap();
    let smoothed = folder.path().join("heat");
    train(heat, start, &smoothed, &mut Quiet).unwrap();

    let data = DataSource::named("digits");
    let (split, images) = (SplitChoice::default(), ImageChoice::first(12));
    let device = Device::cpu(Some(1)).unwrap();
    let v = ModelSource::new(&smoothed);
    let subject = Subject::open(&v, &data, &split, &images, &device).unwrap();
    // The noise level is the model's own.
    let sigma = subject.sigma(None).unwrap();
    assert_eq!(sigma, 0.25);
    let params = CertifyParams {
        n: 100,
        ..CertifyParams::default()
    };
    let smoothing = Smoothing::gaussian(sigma).unwrap();
    let certified = Certified::new(smoothing.clone(), params, 0).unwrap();
    let rows = |log: &Path| {
        let text = std::fs::read_to_string(log).unwrap();
        let cut = |line: &str| {
            let cells: Vec<&str> = line.split('\t').collect();
            // Columns 5 and 13 are times.
            [&cells[..5], &cells[6..13], &cells[14..]]
                .concat()
                .join(" ")
        };
        text.lines().map(cut).collect::<Vec<String>>()
    };
    let whole = folder.path().join("whole.tsv");
    measure(&certified, &subject, &whole, &mut Quiet).unwrap();
    let parts = folder.path().join("parts.tsv");
    let stopped = measure(&certified, &subject, &parts, &mut StopAfter(5));
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(rows(&parts).len(), 1 + 5);
    measure(&certified, &subject, &parts, &mut Quiet).unwrap();
    assert_eq!(rows(&whole), rows(&parts));

    // The same certificate with noise of another kind does not go into the log.
    let params = CertifyParams {
        n: 100,
        ..CertifyParams::default()
    };
    let exact = subject.smoothing(None, sigma).unwrap();
    assert_eq!(exact, Smoothing::exact(sigma, 16).unwrap());
    let exact = Certified::new(exact, params, 0).unwrap();
    let error = measure(&exact, &subject, &whole, &mut Quiet).err().unwrap();
    let words = "smoothing.noise is \"gaussian\", wanted \"exact\"";
    assert!(error.to_string().contains(words), "{error}");
    assert!(error.hint().unwrap().contains("the log's own noise"));
    let other = folder.path().join("exact.tsv");
    measure(&exact, &subject, &other, &mut Quiet).unwrap();
    assert_ne!(rows(&whole), rows(&other));

    // Nor does another measurement.
    let bounded = Bounded::new(smoothing, &LBoundParams::default(), 0);
    assert!(measure(&bounded, &subject, &whole, &mut Quiet).is_err());
    let error = measure(&bounded, &subject, Path::new("log.txt"), &mut Quiet).err();
    assert!(error.unwrap().to_string().contains("out is `log.txt`"));
}
