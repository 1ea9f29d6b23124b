//! Calibration: how much of its one-pass radius v may promise.

use std::cell::RefCell;
use std::collections::VecDeque;

use network::logits::{argmax, softmax};
use network::{Calibration, CalibrationOrigin, Classify, Images};
use record::{CalibrationRow, Guarantee};
use settings::{SettingError, settings};

use crate::certify::{Certificate, CertifyOutcome, certify_all};
use crate::image::{check, finite, singles};
use crate::observer::{Mapped, OutcomeObserver};
use crate::one_pass::one_pass_radius;
use crate::plan::{Certify, CertifyParams, smallest};
use crate::smoothing::Smoothing;
use crate::statistics::clopper_pearson_upper;
use crate::{CertifyError, plan};

settings! {
    /// What can be said about a calibration; [`CalibrateParams::plan`] makes a
    /// [`Calibrate`] of it.
    pub struct CalibrateParams {
        /// Share of inputs that may get a radius that the smoothed reference does
        /// not have.
        miss: f64 = 0.05,
        /// Confidence that it is no more.
        confidence: f64 = 0.95,
        /// Samples of the reference that choose the class.
        n0: u32 = 100,
        /// Samples of the reference that estimate its probability; no larger
        /// radius is promised than they could certify.
        n: u32 = 2000,
        /// Failure probability of each of the reference's certificates; part of
        /// miss.
        alpha: f64 = 0.001,
    }
}

impl CalibrateParams {
    /// The plan for this noise of g.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn plan(&self, smoothing: Smoothing, seed: u64) -> Result<Calibrate, SettingError> {
        let certify = CertifyParams {
            n0: self.n0,
            n: self.n,
            alpha: self.alpha,
            ..CertifyParams::default()
        };
        Ok(Calibrate {
            certify: certify.plan(smoothing, seed)?,
            miss: self.miss,
            confidence: self.confidence,
        })
    }
}

/// Compares the one-pass radius r_v of v with the certified radius of g, the
/// smoothed reference, on images that training did not see, and chooses the
/// smallest `shrink` at which
///
/// ```text
/// r(x) = min(r_v(x) - shrink, cap),     no promise where it is not above 0
/// ```
///
/// exceeds what g has on at most `miss` of the inputs like these, with confidence
/// `confidence`. An image is a miss where there is a promise and g's certificate
/// is for another class, or none, or smaller. `cap` is the largest radius that g's
/// samples could certify.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrate {
    /// How g is certified.
    pub certify: Certify,
    /// Share of inputs that may get a radius that g does not have.
    pub miss: f64,
    /// Confidence that it is no more.
    pub confidence: f64,
}

impl Calibrate {
    /// Refuses what makes no sense for networks like this.
    ///
    /// # Errors
    /// As [`Certify::check`]; a miss rate or confidence out of range.
    pub fn check(&self, model: &(impl Classify + ?Sized)) -> Result<(), CertifyError> {
        self.certify.check(model)?;
        self.check_promise()
    }

    fn check_promise(&self) -> Result<(), CertifyError> {
        plan::check_alpha(self.certify.alpha)?;
        let alpha = self.certify.alpha;
        if !(self.miss > alpha && self.miss < 1.0) {
            let expected = format!("above alpha = {alpha} and below 1");
            return Err(SettingError::value("miss", self.miss, expected).into());
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            let expected = "strictly between 0 and 1";
            return Err(SettingError::value("confidence", self.confidence, expected).into());
        }
        Ok(())
    }

    /// What a calibrated radius promises.
    pub fn guarantee(&self) -> Guarantee {
        Guarantee::Calibrated {
            miss: self.miss,
            confidence: self.confidence,
        }
    }

    /// The largest radius that g's samples could certify of images with so many
    /// pixel values.
    pub fn cap(&self, pixels: usize) -> f64 {
        let n = self.certify.n;
        self.certify.proves(n, n, pixels, 1.0).1
    }

    /// Whether so many misses among so many images keep the promise: the upper
    /// bound on the rate of observed misses, and alpha on top for images whose
    /// certificate is itself wrong.
    fn keeps(&self, misses: u64, images: u64) -> bool {
        let upper = clopper_pearson_upper(misses, images, 1.0 - self.confidence);
        upper + self.certify.alpha <= self.miss
    }

    /// The most misses that so many images may have.
    ///
    /// # Errors
    /// A promise that makes no sense; too few images for it, even without a miss.
    pub fn allowed_misses(&self, images: u64) -> Result<u64, CertifyError> {
        self.check_promise()?;
        if images == 0 || !self.keeps(0, images) {
            let enough = |images: u32| images > 0 && self.keeps(0, images.into());
            return Err(CertifyError::TooFewImages {
                images,
                miss: self.miss,
                confidence: self.confidence,
                needed: smallest(u32::MAX, enough),
            });
        }
        let (mut kept, mut broken) = (0, images + 1);
        while broken - kept > 1 {
            let middle = kept + (broken - kept) / 2;
            if middle <= images && self.keeps(middle, images) {
                kept = middle;
            } else {
                broken = middle;
            }
        }
        Ok(kept)
    }

    /// The calibration that these images, with so many pixel values each, give;
    /// whose they are is left open.
    ///
    /// The shrink is chosen on the same images that bound its miss rate, yet no
    /// correction for trying many values is needed. The rate of misses falls as
    /// the shrink grows, over the images and in truth. Let s be the smallest
    /// shrink whose true rate is low enough: a fixed number, which no image
    /// decides. A choice that breaks the promise lies below s; then so few images
    /// miss that the bound holds there, hence also for all larger shrinks up to s,
    /// where the true rate is still too high. That is one event about one fixed
    /// number, and Clopper and Pearson give it a probability of at most
    /// `1 - confidence`.
    ///
    /// # Errors
    /// As [`Self::allowed_misses`].
    pub fn choose(
        &self,
        rows: &[CalibrationRow],
        pixels: usize,
    ) -> Result<Calibration, CertifyError> {
        let images = rows.len() as u64;
        let allowed = self.allowed_misses(images)?;
        let cap = self.cap(pixels);
        // Below which shrink an image is a miss.
        let threshold = |row: &CalibrationRow| match row.same_class() {
            true if row.g_radius >= cap => f64::NEG_INFINITY,
            true => row.one_pass - row.g_radius,
            false => row.one_pass,
        };
        let mut thresholds: Vec<f64> = rows.iter().map(threshold).collect();
        thresholds.sort_unstable_by(|a, b| b.total_cmp(a));
        let first_kept = thresholds.get(allowed as usize).copied();
        let mut calibration = Calibration {
            sigma: self.certify.smoothing.sigma(),
            shrink: first_kept.unwrap_or(0.0).max(0.0),
            cap,
            miss: self.miss,
            confidence: self.confidence,
            alpha: self.certify.alpha,
            n: self.certify.n,
            images,
            origin: CalibrationOrigin::default(),
        };
        // Rounding may leave the image that decides a hair above its radius.
        while misses(&calibration, rows) > allowed {
            calibration.shrink = calibration.shrink.next_up();
        }
        Ok(calibration)
    }
}

/// How many of these images get a radius that g does not have.
fn misses(calibration: &Calibration, rows: &[CalibrationRow]) -> u64 {
    let missed = |row: &&CalibrationRow| row.misses(calibration.radius(row.one_pass));
    rows.iter().filter(missed).count() as u64
}

/// What one pass of v says about an image, and what the samples of g prove.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationOutcome {
    /// The image.
    pub index: u32,
    /// Its class.
    pub label: usize,
    /// The class of v.
    pub predict: usize,
    /// Its probability.
    pub probability: f64,
    /// The one-pass radius of v.
    pub one_pass: f64,
    /// The certificate of g.
    pub certificate: Certificate,
    /// Wall-clock seconds in all.
    pub seconds: f64,
}

/// What one pass says.
struct Answered {
    predict: usize,
    probability: f64,
    one_pass: f64,
}

/// Compares all images, in order.
///
/// # Errors
/// As [`certify_all`]; networks of different shape.
pub fn calibrate_all(
    v: &(impl Classify + ?Sized),
    f: &(impl Classify + ?Sized),
    images: impl IntoIterator<Item = Images>,
    plan: &Calibrate,
    batch: usize,
    observer: &mut (impl OutcomeObserver<CalibrationOutcome> + ?Sized),
) -> Result<(), CertifyError> {
    plan.check(v)?;
    if (v.input(), v.classes()) != (f.input(), f.classes()) {
        return Err(CertifyError::Networks {
            first: (v.input().to_string(), v.classes()),
            second: (f.input().to_string(), f.classes()),
        });
    }
    // Images are certified in the order in which they are pulled, so the answers
    // of v wait in a queue.
    let waiting = RefCell::new(VecDeque::new());
    let mut failed = None;
    let sigma = plan.certify.smoothing.sigma();
    let answered = images.into_iter().map_while(|images| {
        for image in singles([images.clone()]) {
            match answer(v, &image, sigma) {
                Ok(answer) => waiting.borrow_mut().push_back(answer),
                Err(error) => {
                    failed = Some(error);
                    return None;
                }
            }
        }
        Some(images)
    });
    let map = |outcome: CertifyOutcome| {
        let answer = waiting.borrow_mut().pop_front();
        let answer = answer.expect("an image is answered before it is certified");
        CalibrationOutcome {
            index: outcome.index,
            label: outcome.label,
            predict: answer.predict,
            probability: answer.probability,
            one_pass: answer.one_pass,
            certificate: outcome.certificate,
            seconds: outcome.seconds,
        }
    };
    let mut observer = Mapped { observer, map };
    certify_all(f, answered, &plan.certify, batch, &mut observer)?;
    failed.map_or(Ok(()), Err)
}

fn answer(
    v: &(impl Classify + ?Sized),
    image: &crate::image::Image,
    sigma: f64,
) -> Result<Answered, CertifyError> {
    check(image, v)?;
    let mut logits = vec![0.0; v.classes()];
    v.logits(&image.pixels, &mut logits)?;
    finite(&logits, image.index)?;
    let p = softmax(&logits);
    let predict = argmax(&p);
    Ok(Answered {
        predict,
        probability: p[predict],
        one_pass: one_pass_radius(sigma, &p),
    })
}
