//! What holds for every network, image and setting.

use attack::{
    Attack, AttackError, AttackOutcome, Averaged, Challenge, Ddn, DdnParams, Deterministic, Pgd,
    PgdParams, Status, Target, maximise, run,
};
use network::{Classify, Images, Noise, Purpose, Reference};
use proptest::prelude::*;

use crate::common::{images_for, random_image, small_network};

const PIXELS: usize = 50;

fn noise(sigma: f64) -> Noise {
    Noise::gaussian(9, Purpose::Prediction, sigma)
}

fn pixels(seed: u64, count: u32) -> Vec<f32> {
    (0..count)
        .flat_map(|i| random_image(seed, i, PIXELS))
        .collect()
}

/// The network's own classes: nothing is wrong before the attack.
fn labels(network: &Reference<f32>, images: &[f32]) -> Vec<u32> {
    let mut logits = vec![0.0; images.len() / PIXELS * network.classes()];
    network.logits(images, &mut logits).unwrap();
    let argmax = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let rows = logits.chunks_exact(network.classes());
    rows.map(|row| argmax(row).unwrap() as u32).collect()
}

/// Random images with the network's own classes.
fn own_images(network: &Reference<f32>, seed: u64, indices: &[u32]) -> Images {
    let pixels = pixels(seed, indices.len() as u32);
    let labels = labels(network, &pixels);
    images_for(network, &pixels, indices, &labels)
}

fn go(attack: &dyn Attack, target: &dyn Target, challenge: &Challenge<'_>) -> Vec<AttackOutcome> {
    run(attack, target, challenge, &mut |_| {}).unwrap()
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
        let images = own_images(&network, seed, &[4, 8, 1, 0]);
        let targets: Vec<u32> = images.labels.iter().map(|y| (y + 1) % 5).collect();
        let mut challenge = Challenge::new(&images).top_k(top_k);
        if targeted {
            challenge = challenge.targeted(&targets);
        }
        let plain = Deterministic::new(&network);
        let averaged = Averaged::new(&network, noise(0.1), samples.max(1)).unwrap();
        let target: &dyn Target = if samples == 0 { &plain } else { &averaged };
        let pgd = Pgd::new(PgdParams { eps, steps, ..PgdParams::default() }, 0).unwrap();
        let ddn = DdnParams { steps, eps: Some(eps), ..DdnParams::default() };
        let ddn = Ddn::new(ddn, 0).unwrap();
        for attack in [&pgd as &dyn Attack, &ddn] {
            for outcome in go(attack, target, &challenge) {
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
        let all = own_images(&network, seed, &[10, 11, 12, 13, 14]);
        let plain = Deterministic::new(&network);
        let averaged = Averaged::new(&network, noise(0.2), samples.max(1)).unwrap();
        let target: &dyn Target = if samples == 0 { &plain } else { &averaged };
        let pgd = PgdParams { eps: 1.0, steps: 10, ..PgdParams::default() };
        let pgd = Pgd::new(pgd, 0).unwrap();
        let ddn = Ddn::new(DdnParams { steps: 6, ..DdnParams::default() }, 0).unwrap();
        for attack in [&pgd as &dyn Attack, &ddn] {
            let together = go(attack, target, &Challenge::new(&all));
            let order = [3, 0, 4, 1, 2];
            let other = go(attack, target, &Challenge::new(&all.select(&order)));
            for (k, &i) in order.iter().enumerate() {
                prop_assert_eq!(&together[i], &other[k]);
                let alone = all.select(&[i]);
                prop_assert_eq!(&go(attack, target, &Challenge::new(&alone))[0], &together[i]);
            }
        }
    }
}

/// An image that is done costs no more passes.
#[test]
fn done_images_leave_the_batch() {
    let network = small_network(3);
    let images = own_images(&network, 3, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let params = PgdParams {
        eps: 3.0,
        steps: 30,
        ..PgdParams::default()
    };
    let mut visits = [0; 8];
    let target = Deterministic::new(&network);
    let pgd = Pgd::new(params, 0).unwrap();
    let outcomes = run(&pgd, &target, &Challenge::new(&images), &mut |visit| {
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
    let images = own_images(&network, 5, &[0, 1, 2, 3, 4, 5]);
    let noise = Noise {
        purpose: Purpose::Training,
        ..noise(0.25)
    };
    let epoch = |epoch: u32| {
        let target = Averaged::new(&network, noise.clone(), 3).unwrap();
        target.first_sample(3 * epoch).unwrap()
    };
    let params = PgdParams {
        steps: 4,
        eps: 0.5,
        ..PgdParams::default()
    };
    let pgd = Pgd::new(params, 0).unwrap().without_stopping();
    let challenge = Challenge::new(&images);
    let perturbation = maximise(&pgd, &epoch(2), &challenge).unwrap();
    assert_ne!(perturbation, maximise(&pgd, &epoch(3), &challenge).unwrap());
    let mut moved = images.clone();
    let pairs = moved.pixels.iter_mut().zip(&perturbation);
    pairs.for_each(|(x, p)| *x += p);
    let losses = |images: &Images| epoch(2).judge(images, 0).unwrap().losses;
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
    let images = own_images(&network, 8, &[0, 1, 2]);
    let challenge = Challenge::new(&images);
    let ddn = Ddn::new(DdnParams::default(), 0).unwrap();
    let averaged = Averaged::new(&network, noise(0.0), 1).unwrap();
    let plain = go(&ddn, &Deterministic::new(&network), &challenge);
    assert_eq!(plain, go(&ddn, &averaged, &challenge));
}

#[test]
fn nonsense_is_refused_by_name() {
    let refused = |error: AttackError, text: &str| assert_eq!(error.to_string(), text);
    let pgd = |p: PgdParams| Pgd::new(p, 0).unwrap_err().into();
    let ddn = |p: DdnParams| Ddn::new(p, 0).unwrap_err().into();
    let d = PgdParams::default;
    refused(
        pgd(PgdParams { steps: 0, ..d() }),
        "steps is `0`, expected 1 to 10000",
    );
    refused(
        pgd(PgdParams {
            eps: f64::NAN,
            ..d()
        }),
        "eps is `NaN`, expected a positive number",
    );
    let d = DdnParams::default;
    refused(
        ddn(DdnParams { gamma: 1.0, ..d() }),
        "gamma is `1`, expected between 0 and 1",
    );
    refused(
        ddn(DdnParams { levels: 1, ..d() }),
        "levels is `1`, expected 0, or 2 to 65536 grey levels",
    );

    let network = small_network(1);
    let mut pixels = pixels(1, 2);
    let target = Deterministic::new(&network);
    let attack = Pgd::new(PgdParams::default(), 0).unwrap();
    let fail =
        |challenge: &Challenge<'_>| run(&attack, &target, challenge, &mut |_| {}).unwrap_err();
    let fail_on = |pixels: &[f32], indices: &[u32], labels: &[u32]| {
        fail(&Challenge::new(&images_for(
            &network, pixels, indices, labels,
        )))
    };
    refused(
        fail_on(&pixels, &[7], &[0, 1]),
        "image numbers: expected 2, got 1",
    );
    refused(
        fail_on(&pixels, &[7, 8, 9], &[0, 1, 2]),
        "pixels: expected 150, got 100",
    );
    refused(
        fail_on(&pixels, &[7, 8], &[0, 5]),
        "image 8: label 5 is not one of the network's 5 classes",
    );
    let images = images_for(&network, &pixels, &[7, 8], &[0, 1]);
    let good = Challenge::new(&images);
    refused(
        fail(&good.targeted(&[1, 7])),
        "image 8: target 7 is not one of the network's 5 classes",
    );
    refused(
        fail(&good.top_k(5)),
        "top-k is `5`, expected 1 to 4, less than the number of classes",
    );
    pixels[60] = 1.5;
    let error = fail_on(&pixels, &[7, 8], &[0, 1]);
    assert!(error.hint().unwrap().contains("scaled to [0, 1]"));
    refused(error, "image 8: expected pixels in [0, 1], got 1.5");
    let error = Averaged::new(&network, noise(0.1), 0).err().unwrap();
    refused(error.into(), "samples is `0`, expected 1 to 100000 noises");

    let nothing = images_for(&network, &[], &[], &[]);
    let empty = Challenge::new(&nothing);
    assert_eq!(run(&attack, &target, &empty, &mut |_| {}), Ok(vec![]));
    assert_eq!(maximise(&attack, &target, &empty), Ok(vec![]));
}
