//! Batches change nothing but speed: results to the bit, order, memory, errors.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use heatsmooth_certify::{
    Certify, CertifyError, CertifyOutcome, CertifyParams, Select, Smoothing, StopRule, TopKRule,
};
use network::{Classify, DeviceError, Images, Noise, NoisyImage, Shape};
use settings::SettingError;

use crate::common::{Function, certify, gaussian, image, linear, pixels};

fn model() -> impl Classify {
    let weights = (0..5)
        .map(|c| pixels(c + 1, 6).iter().map(|w| w - 0.5).collect())
        .collect();
    linear(weights, vec![0.0; 5])
}

fn images(range: std::ops::Range<u32>) -> impl Iterator<Item = Images> {
    range.map(|i| image(i, i as usize % 5, &pixels(u64::from(i) + 50, 6)))
}

/// Without what a clock says.
fn timeless(outcomes: Vec<CertifyOutcome>) -> Vec<CertifyOutcome> {
    let timeless = |outcome| CertifyOutcome {
        seconds: 0.0,
        classify_seconds: 0.0,
        ..outcome
    };
    outcomes.into_iter().map(timeless).collect()
}

fn plans() -> Vec<Certify> {
    let base = Certify {
        n0: 20,
        n: 700,
        ..Certify::new(gaussian(0.3))
    };
    let anytime = |goal| Certify {
        anytime: Some(goal),
        ..base.clone()
    };
    vec![
        base.clone(),
        Certify {
            select: Select::Clean,
            ..base.clone()
        },
        Certify {
            top_k: 2,
            rule: TopKRule::Paper,
            ..base.clone()
        },
        Certify {
            top_k: 2,
            rule: TopKRule::Sound,
            ..base.clone()
        },
        anytime(StopRule::Radius(0.2)),
        anytime(StopRule::Tolerance(0.05)),
    ]
}

#[test]
fn results_depend_on_neither_batch_nor_shard_nor_neighbours() {
    let model = model();
    for plan in plans() {
        let expected = timeless(certify(&model, images(0..40), &plan, 256).unwrap());
        assert!(
            expected.iter().map(|outcome| outcome.index).eq(0..40),
            "in order"
        );
        for batch in [1, 7, 64, 100_000] {
            let got = timeless(certify(&model, images(0..40), &plan, batch).unwrap());
            assert_eq!(got, expected, "batch {batch}, {plan:?}");
        }
        let parts = [0..1, 1..17, 17..40].map(|part| certify(&model, images(part), &plan, 64));
        let joined = parts
            .into_iter()
            .flat_map(|part| timeless(part.unwrap()))
            .collect::<Vec<_>>();
        assert_eq!(joined, expected, "{plan:?}");
    }
}

/// Images may come one by one or many at a time.
#[test]
fn results_do_not_depend_on_how_images_are_grouped() {
    let model = model();
    for plan in plans() {
        let expected = timeless(certify(&model, images(0..40), &plan, 256).unwrap());
        let grouped = [0..3, 3..3, 3..4, 4..30, 30..30, 30..40].map(|range| {
            let mut group = Images::new(Shape::vector(6));
            for one in images(range) {
                group.push(one.indices[0], one.labels[0], &one.pixels);
            }
            group
        });
        let got = timeless(certify(&model, grouped, &plan, 64).unwrap());
        assert_eq!(got, expected, "{plan:?}");
    }
}

#[test]
fn the_seed_changes_the_noise() {
    let model = model();
    let plan = Certify {
        n: 700,
        ..Certify::new(gaussian(0.3))
    };
    let other = Certify {
        seed: 1,
        ..plan.clone()
    };
    let first = timeless(certify(&model, images(0..10), &plan, 64).unwrap());
    assert_ne!(
        first,
        timeless(certify(&model, images(0..10), &other, 64).unwrap())
    );
}

/// Counts calls and copies.
struct Counting<M> {
    model: M,
    calls: AtomicUsize,
    copies: AtomicUsize,
}

impl<M: Classify> Classify for Counting<M> {
    fn input(&self) -> Shape {
        self.model.input()
    }

    fn classes(&self) -> usize {
        self.model.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        self.model.logits(images, logits)
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.copies
            .fetch_add(logits.len() / self.classes(), Ordering::Relaxed);
        self.model.noisy_logits(noise, batch, logits)
    }

    fn batch(&self) -> usize {
        self.model.batch()
    }
}

/// Images end anywhere in a batch, and anytime images after any number of samples; the
/// batches are full all the same, with few images held.
#[test]
fn batches_are_full_and_few_images_are_held() {
    for (plan, batch) in plans().into_iter().zip([256, 256, 256, 256, 512, 512]) {
        let model = Counting {
            model: model(),
            calls: AtomicUsize::new(0),
            copies: AtomicUsize::new(0),
        };
        let (pulled, delivered, held) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let images = images(0..400).inspect(|_| {
            pulled.set(pulled.get() + 1);
            held.set(held.get().max(pulled.get() - delivered.get()));
        });
        heatsmooth_certify::certify_all(&model, images, &plan, batch, &mut |_: CertifyOutcome| {
            delivered.set(delivered.get() + 1);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(delivered.get(), 400);
        // Selection and estimation are two calls.
        let kinds = if plan.select == Select::Noise { 2 } else { 1 };
        let full = model.copies.into_inner() as f64 / (model.calls.into_inner() * batch) as f64;
        println!("{full:.2} full, {} held", held.get());
        assert!(full > 0.85 / f64::from(kinds), "{full}: {plan:?}");
        assert!(held.get() <= 60, "{}: {plan:?}", held.get());
    }
}

#[test]
fn a_bad_image_is_refused_after_those_before_it() {
    let model = model();
    let plan = Certify {
        n: 100,
        ..Certify::new(gaussian(0.3))
    };
    let bad = |value: f32| {
        let mut pixels = pixels(1, 6);
        pixels[4] = value;
        image(12, 0, &pixels)
    };
    for (image, expected, hint) in [
        (
            bad(f32::NAN),
            "image 12 has the value NaN at position 4",
            "damaged",
        ),
        (
            bad(1.001),
            "image 12 has the value 1.001 at position 4",
            "scale pixels to [0, 1]",
        ),
        (
            bad(-0.1),
            "image 12 has the value -0.1 at position 4",
            "scale pixels to [0, 1]",
        ),
        (
            image(12, 0, &[0.5; 7]),
            "image 12 has 7 values, the network takes 6",
            "belong together",
        ),
        (
            image(12, 5, &[0.5; 6]),
            "image 12 has label 5, the network has 5 classes",
            "labels",
        ),
    ] {
        for batch in [1, 5000] {
            let all = images(0..12).chain([image.clone()]).chain(images(13..20));
            let mut seen = 0;
            let error = heatsmooth_certify::certify_all(
                &model,
                all,
                &plan,
                batch,
                &mut |_: CertifyOutcome| {
                    seen += 1;
                    std::ops::ControlFlow::Continue(())
                },
            )
            .unwrap_err();
            assert_eq!(seen, 12);
            assert!(error.to_string().starts_with(expected), "{error}");
            assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
        }
    }
}

#[test]
fn a_network_that_overflows_is_refused() {
    let plan = Certify {
        n: 100,
        ..Certify::new(gaussian(0.3))
    };
    let clean = Function {
        pixels: 1,
        classes: 2,
        logits: |_: &[f32], l: &mut [f32]| l.fill(f32::NAN),
    };
    // Finite in [0, 1], not outside.
    let noisy = Function {
        pixels: 1,
        classes: 2,
        logits: |x: &[f32], l: &mut [f32]| {
            l[0] = 0.0;
            l[1] = if x[0] > 1.0 { f32::INFINITY } else { 1.0 };
        },
    };
    let of = |error: Result<Vec<CertifyOutcome>, CertifyError>| error.unwrap_err();
    let one = || [image(7, 1, &[0.9])];
    assert_eq!(
        of(certify(&clean, one(), &plan, 64)),
        CertifyError::Output { image: 7 }
    );
    assert_eq!(
        of(certify(&noisy, one(), &plan, 64)),
        CertifyError::Output { image: 7 }
    );
}

#[test]
fn noise_levels_that_make_no_sense_are_refused_with_a_hint() {
    for (sigma, message) in [
        (0.0, "sigma is `0`, expected a positive number"),
        (-1.0, "sigma is `-1`, expected a positive number"),
        (f64::NAN, "sigma is `NaN`, expected a positive number"),
    ] {
        let error = Smoothing::gaussian(sigma).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.hint().unwrap().contains("usual"));
    }
}

#[test]
fn plans_that_make_no_sense_are_refused_with_a_hint() {
    let plan = Certify::new(gaussian(0.25));
    let anytime = |goal| Certify {
        anytime: Some(goal),
        ..plan.clone()
    };
    for (plan, message, hint) in [
        (
            Certify {
                alpha: 0.0,
                ..plan.clone()
            },
            "alpha is `0`, expected strictly between 0 and 1",
            "0.001",
        ),
        (
            Certify {
                alpha: 1.0,
                ..plan.clone()
            },
            "alpha is `1`, expected strictly between 0 and 1",
            "0.001",
        ),
        (
            Certify {
                n: 9,
                ..plan.clone()
            },
            "n = 9 samples can never certify anything at alpha = 0.001: 10 are needed",
            "use n = 10 or more",
        ),
        (
            Certify {
                n: 0,
                ..plan.clone()
            },
            "n = 0 samples can never",
            "use n = 10 or more",
        ),
        (
            Certify {
                n: 12,
                ..anytime(StopRule::Tolerance(0.1))
            },
            "n = 12 samples can never",
            "use n = 13",
        ),
        (
            anytime(StopRule::Radius(1.0)),
            "n = 10000 samples can never certify a radius of 1 at alpha = 0.001: 441370 are needed",
            "use n = 441370 or more",
        ),
        (
            anytime(StopRule::Radius(20.0)),
            "n = 10000 samples can never",
            "larger sigma",
        ),
        (
            Certify {
                top_k: 5,
                ..plan.clone()
            },
            "top-k is `5`, expected 1 to 4",
            "every image would be right",
        ),
        (
            Certify {
                top_k: 0,
                ..plan.clone()
            },
            "top-k is `0`, expected 1 to 4",
            "every image would be right",
        ),
    ] {
        let error = plan.check(&model()).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
        let of_run = certify(&model(), images(0..1), &plan, 64).unwrap_err();
        assert_eq!(of_run.to_string(), error.to_string());
    }
    for plan in [
        Certify {
            n0: 0,
            ..plan.clone()
        },
        anytime(StopRule::Radius(-0.5)),
        anytime(StopRule::Radius(f64::NAN)),
        anytime(StopRule::Tolerance(0.0)),
    ] {
        plan.check(&model()).unwrap_err();
    }
    assert_eq!(
        certify(&model(), images(0..1), &plan, 0).unwrap_err(),
        CertifyError::Setting(SettingError::value("batch", 0, "at least 1"))
    );
    // What is refused is exactly what could not work.
    Certify {
        n: 10,
        ..plan.clone()
    }
    .check(&model())
    .unwrap();
    Certify {
        n: 1,
        alpha: 0.6,
        ..plan.clone()
    }
    .check(&model())
    .unwrap();
    Certify {
        n0: 0,
        select: Select::Clean,
        ..plan.clone()
    }
    .check(&model())
    .unwrap();
}

#[test]
fn settings_without_effect_are_refused() {
    let params = |anytime, radius, tolerance| CertifyParams {
        anytime,
        radius,
        tolerance,
        ..CertifyParams::default()
    };
    for (params, name) in [
        (params(false, Some(0.5), None), "radius"),
        (params(false, Some(0.5), Some(0.1)), "radius"),
        (params(false, None, Some(0.1)), "tolerance"),
        (params(true, Some(0.5), Some(0.1)), "tolerance"),
    ] {
        let error = params.plan(gaussian(0.25), 0).unwrap_err();
        assert!(matches!(error, SettingError::Ineffective { .. }), "{error}");
        assert_eq!(error.name(), name);
    }
    let rule = |params: CertifyParams| params.plan(gaussian(0.25), 0).unwrap().anytime;
    assert_eq!(rule(params(false, None, None)), None);
    let radius = Some(StopRule::Radius(0.5));
    assert_eq!(rule(params(true, Some(0.5), None)), radius);
    let tolerance = Some(StopRule::Tolerance(0.1));
    assert_eq!(rule(params(true, None, Some(0.1))), tolerance);
    let default = Some(StopRule::Tolerance(0.25 / 50.0));
    assert_eq!(rule(params(true, None, None)), default);
}
