//! What holds for every network, image and setting.

mod common;

use attack::{
    Attack, AttackError, Averaged, Batch, DdnParams, Deterministic, Outcome, PgdParams, Status,
    Target, maximise, run,
};
use common::{random_image, small_network};
use network::{Classify, Noise, Purpose, Reference};
use proptest::prelude::*;

const PIXELS: usize = 50;

fn noise(sigma: f32) -> Noise {
    Noise {
        seed: 9,
        purpose: Purpose::Prediction,
        sigma,
    }
}

fn images(seed: u64, count: u32) -> Vec<f32> {
    (0..count)
        .flat_map(|i| random_image(seed, i, PIXELS))
        .collect()
}

/// The network's own classes: nothing is wrong before the attack.
fn labels(network: &Reference<f32>, images: &[f32]) -> Vec<u32> {
    let mut logits = vec![0.0; images.len() / PIXELS * network.classes()];
    network.logits(images, &mut logits);
    let argmax = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let rows = logits.chunks_exact(network.classes());
    rows.map(|row| argmax(row).unwrap() as u32).collect()
}

fn go(attack: &dyn Attack, target: &dyn Target, batch: &Batch<'_>) -> Vec<Outcome> {
    run(attack, target, batch, &mut |_| {}).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn results_are_legal(
        seed in 0u64..1000,
        eps in 0.05f64..3.0,
        steps in 2u32..10,
        samples in 0u32..4,
        top_k in 1usize..3,
        targeted: bool,
    ) {
        let network = small_network(seed);
        let images = images(seed, 4);
        let labels = labels(&network, &images);
        let targets: Vec<u32> = labels.iter().map(|y| (y + 1) % 5).collect();
        let indices = [4, 8, 1, 0];
        let mut batch = Batch::new(&images, &indices, &labels).top_k(top_k);
        if targeted {
            batch = batch.targeted(&targets);
        }
        let plain = Deterministic::new(&network);
        let averaged = Averaged::new(&network, noise(0.1), samples.max(1)).unwrap();
        let target: &dyn Target = if samples == 0 { &plain } else { &averaged };
        let pgd = PgdParams { eps, steps, ..PgdParams::default() }.check().unwrap();
        let ddn = DdnParams { steps, max_norm: Some(eps), ..DdnParams::default() };
        let ddn = ddn.check().unwrap();
        for attack in [&pgd as &dyn Attack, &ddn] {
            for outcome in go(attack, target, &batch) {
                prop_assert!(outcome.image.iter().all(|v| (0.0..=1.0).contains(v)));
                prop_assert!(outcome.last_l2 <= eps);
                prop_assert_eq!(outcome.l2.is_some(), outcome.success());
                prop_assert!(outcome.linf.unwrap_or(0.0) <= outcome.l2.unwrap_or(0.0) + 1e-9);
                if top_k == 1 && outcome.success() {
                    match outcome.target {
                        Some(class) => prop_assert_eq!(outcome.adv_predict, class),
                        None => prop_assert!(outcome.adv_predict != outcome.label),
                    }
                }
            }
        }
    }

    /// To the bit: alone, with others, in another order, twice.
    #[test]
    fn an_image_is_attacked_the_same_in_any_company(seed in 0u64..1000, samples in 0u32..4) {
        let network = small_network(seed);
        let all = images(seed, 5);
        let labels = labels(&network, &all);
        let indices = [10, 11, 12, 13, 14];
        let plain = Deterministic::new(&network);
        let averaged = Averaged::new(&network, noise(0.2), samples.max(1)).unwrap();
        let target: &dyn Target = if samples == 0 { &plain } else { &averaged };
        let pgd = PgdParams { eps: 1.0, steps: 10, ..PgdParams::default() }.check().unwrap();
        let ddn = DdnParams { steps: 6, ..DdnParams::default() }.check().unwrap();
        for attack in [&pgd as &dyn Attack, &ddn] {
            let together = go(attack, target, &Batch::new(&all, &indices, &labels));
            let order = [3, 0, 4, 1, 2];
            let shuffled: Vec<f32> = order
                .iter()
                .flat_map(|&i| &all[i * PIXELS..(i + 1) * PIXELS])
                .copied()
                .collect();
            let other = go(
                attack,
                target,
                &Batch::new(&shuffled, &order.map(|i| indices[i]), &order.map(|i| labels[i])),
            );
            for (k, &i) in order.iter().enumerate() {
                prop_assert_eq!(&together[i], &other[k]);
                let alone = &all[i * PIXELS..(i + 1) * PIXELS];
                let alone = Batch::new(alone, &indices[i..=i], &labels[i..=i]);
                prop_assert_eq!(&go(attack, target, &alone)[0], &together[i]);
            }
        }
    }
}

/// An image that is done costs no more passes.
#[test]
fn done_images_leave_the_batch() {
    let network = small_network(3);
    let images = images(3, 8);
    let labels = labels(&network, &images);
    let indices: Vec<u32> = (0..8).collect();
    let batch = Batch::new(&images, &indices, &labels);
    let params = PgdParams {
        eps: 3.0,
        steps: 30,
        ..PgdParams::default()
    };
    let mut visits = [0; 8];
    let target = Deterministic::new(&network);
    let outcomes = run(&params.check().unwrap(), &target, &batch, &mut |visit| {
        visits[visit.index as usize] += 1;
    });
    let outcomes = outcomes.unwrap();
    assert!(outcomes.iter().any(|o| o.steps < 30));
    for (outcome, visits) in outcomes.iter().zip(visits) {
        assert_eq!(outcome.status, Status::Broken);
        // One look more than steps: the one that saw the success.
        assert_eq!(visits, (outcome.steps + 1).min(30));
    }
}

#[test]
fn the_inner_maximisation_raises_the_loss_on_its_own_noises() {
    let network = small_network(5);
    let images = images(5, 6);
    let labels = labels(&network, &images);
    let indices: Vec<u32> = (0..6).collect();
    let noise = Noise {
        purpose: Purpose::Training,
        ..noise(0.25)
    };
    let epoch = |epoch: u32| {
        let target = Averaged::new(&network, noise, 3).unwrap();
        target.first_sample(3 * epoch).unwrap()
    };
    let params = PgdParams {
        steps: 4,
        eps: 0.5,
        stop_at_success: false,
        ..PgdParams::default()
    };
    let pgd = params.check().unwrap();
    let batch = Batch::new(&images, &indices, &labels);
    let perturbation = maximise(&pgd, &epoch(2), &batch).unwrap();
    assert_ne!(perturbation, maximise(&pgd, &epoch(3), &batch).unwrap());
    let moved: Vec<f32> = images
        .iter()
        .zip(&perturbation)
        .map(|(x, p)| x + p)
        .collect();
    let losses = |images: &[f32]| {
        let points = attack::Points {
            images,
            indices: &indices,
            classes: &labels,
        };
        epoch(2).judge(&points, 0).unwrap().losses
    };
    for (i, (before, after)) in losses(&images).iter().zip(losses(&moved)).enumerate() {
        assert!(after > *before, "{after} {before}");
        let own = &perturbation[i * PIXELS..(i + 1) * PIXELS];
        let norm = own.iter().map(|p| p * p).sum::<f32>().sqrt();
        // No early stop: four steps of .25 end on the sphere, unless a bound
        // binds.
        assert!(norm < 0.5001 && norm > 0.4, "{norm}");
    }
}

#[test]
fn one_noise_of_sigma_zero_is_the_network_itself() {
    let network = small_network(8);
    let images = images(8, 3);
    let labels = labels(&network, &images);
    let batch = Batch::new(&images, &[0, 1, 2], &labels);
    let ddn = DdnParams::default().check().unwrap();
    let averaged = Averaged::new(&network, noise(0.0), 1).unwrap();
    let plain = go(&ddn, &Deterministic::new(&network), &batch);
    assert_eq!(plain, go(&ddn, &averaged, &batch));
}

#[test]
fn nonsense_is_refused_by_name() {
    let refused = |error: AttackError, text: &str| assert_eq!(error.to_string(), text);
    let pgd = |p: PgdParams| p.check().unwrap_err();
    let ddn = |p: DdnParams| p.check().unwrap_err();
    let d = PgdParams::default;
    refused(
        pgd(PgdParams { steps: 0, ..d() }),
        "steps: expected 1 to 10000, got 0",
    );
    refused(
        pgd(PgdParams {
            eps: f64::NAN,
            ..d()
        }),
        "eps: expected a positive number, got NaN",
    );
    let d = DdnParams::default;
    refused(
        ddn(DdnParams { gamma: 1.0, ..d() }),
        "gamma: expected between 0 and 1, got 1",
    );
    refused(
        ddn(DdnParams {
            levels: Some(1),
            ..d()
        }),
        "levels: expected 2 to 65536 grey levels, got 1",
    );

    let network = small_network(1);
    let mut images = images(1, 2);
    let target = Deterministic::new(&network);
    let attack = PgdParams::default().check().unwrap();
    let fail = |batch: &Batch<'_>| run(&attack, &target, batch, &mut |_| {}).unwrap_err();
    let good = Batch::new(&images, &[7, 8], &[0, 1]);
    refused(
        fail(&Batch::new(&images, &[7], &[0, 1])),
        "image numbers: expected 2, got 1",
    );
    refused(
        fail(&Batch::new(&images, &[7, 8, 9], &[0, 1, 2])),
        "pixels: expected 150, got 100",
    );
    refused(
        fail(&Batch::new(&images, &[7, 8], &[0, 5])),
        "image 8: label 5 is not one of the network's 5 classes",
    );
    refused(
        fail(&good.targeted(&[1, 7])),
        "image 8: target 7 is not one of the network's 5 classes",
    );
    refused(
        fail(&good.top_k(5)),
        "top_k: expected at least 1 and less than the number of classes, got 5",
    );
    images[60] = 1.5;
    let error = fail(&Batch::new(&images, &[7, 8], &[0, 1]));
    assert!(error.hint().unwrap().contains("scaled to [0, 1]"));
    refused(error, "image 8: expected pixels in [0, 1], got 1.5");
    let error = Averaged::new(&network, noise(0.1), 0).unwrap_err();
    refused(error, "samples: expected 1 to 100000 noises, got 0");

    let empty = Batch::new(&[], &[], &[]);
    assert_eq!(run(&attack, &target, &empty, &mut |_| {}), Ok(vec![]));
    assert_eq!(maximise(&attack, &target, &empty), Ok(vec![]));
}
