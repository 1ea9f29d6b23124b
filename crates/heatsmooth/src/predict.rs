//! Single images: class, probability, radius, and the vote of noisy copies.

use std::ops::ControlFlow;

use certify::{Predict, Prediction, lbound_radius, one_pass_radius, predict_all};
use network::logits::{softmax, top_k};
use network::{Calibration, Executor, Images};
use record::{About, Guarantee};

use crate::error::Error;
use crate::subject::Subject;

/// What one pass says about an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The class with the largest probability.
    pub class: usize,
    /// Its probability.
    pub probability: f64,
    /// The L-bound radius sigma * sqrt(pi/2) * (p1 - p2), at the noise level given.
    pub lbound: Option<f64>,
    /// The one-pass radius sigma * Phi^-1(p1), at the noise level given.
    pub one_pass: Option<f64>,
    /// The calibrated radius, 0 where nothing is promised; `None` without a
    /// calibration at the noise level given.
    pub calibrated: Option<f64>,
}

/// What an [`Answer`]'s L-bound and one-pass radius guarantee.
pub const LBOUND_GUARANTEE: Guarantee = Guarantee::ApproximateIfAverage;

/// What a calibrated radius guarantees.
pub fn calibrated_guarantee(calibration: &Calibration) -> Guarantee {
    Guarantee::Calibrated {
        miss: calibration.miss,
        confidence: calibration.confidence,
    }
}

/// What a vote guarantees.
pub fn vote_guarantee(plan: &Predict) -> Guarantee {
    Guarantee::SoundSmoothed {
        alpha: plan.alpha,
        about: About::TopOne,
        smoothing: plan.smoothing.id(),
    }
}

/// One pass of an image; with the calibration of the network's model, what it may
/// promise.
///
/// # Errors
/// A device that fails; logits that are not finite.
pub fn answer(
    network: &dyn Executor,
    pixels: &[f32],
    sigma: Option<f64>,
    calibration: Option<&Calibration>,
) -> Result<Answer, Error> {
    let mut logits = vec![0.0; network.classes()];
    network.logits(pixels, &mut logits)?;
    if logits.iter().any(|logit| !logit.is_finite()) {
        return Err(Error::not_finite(1, 1));
    }
    let p = softmax(&logits);
    let order = top_k(&p, 2);
    let runner_up = order.get(1).map_or(0.0, |&second| p[second]);
    let one_pass = sigma.map(|sigma| one_pass_radius(sigma, &p));
    let calibration = calibration.filter(|c| sigma.is_some_and(|s| (c.sigma - s).abs() <= 1e-9));
    Ok(Answer {
        class: order[0],
        probability: p[order[0]],
        lbound: sigma.map(|sigma| lbound_radius(sigma, p[order[0]], runner_up)),
        one_pass,
        calibrated: calibration.and_then(|c| Some(c.radius(one_pass?))),
    })
}

/// The votes on one image, whose noise its number decides.
///
/// # Errors
/// A plan or image that makes no sense; a device that fails.
pub fn vote(
    network: &dyn Executor,
    plan: &Predict,
    index: u32,
    pixels: &[f32],
) -> Result<Prediction, Error> {
    let mut image = Images::new(network.input());
    image.push(index, 0, pixels);
    let mut votes = None;
    let mut observer = |found: Prediction| {
        votes = Some(found);
        ControlFlow::Continue(())
    };
    predict_all(network, [image], plan, network.batch(), &mut observer)?;
    votes.ok_or_else(|| Error::refused("no votes were counted", "give at least one sample"))
}

/// PREDICT on every image of a subject: the shares right, wrong, abstained.
///
/// # Errors
/// A plan or image that makes no sense; a device that fails.
pub fn vote_shares(subject: &Subject, plan: &Predict) -> Result<[f64; 3], Error> {
    let mut counts = [0u32; 3];
    let mut observer = |vote: Prediction| {
        counts[match vote.predict {
            Some(class) if class == vote.label => 0,
            Some(_) => 1,
            None => 2,
        }] += 1;
        ControlFlow::Continue(())
    };
    let mut images = subject.images(0);
    let network = &*subject.network;
    predict_all(network, &mut images, plan, network.batch(), &mut observer)?;
    images.result()?;
    let all = counts.iter().sum::<u32>().max(1);
    Ok(counts.map(|count| f64::from(count) / f64::from(all)))
}
