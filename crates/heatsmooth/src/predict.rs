//! Single images: class, probability, radius, and the vote of noisy copies; or real
//! values.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use certify::{
    Certificate, Certify, CertifyOutcome, CertifyParams, Decision, NoiseChoice, Predict,
    PredictParams, Prediction, Prior, Select, Smoothing, certify_all, lbound_radius,
    one_pass_radius, predict_all,
};
use network::logits::{softmax, top_k};
use network::{Calibration, Distribution, Executor, Images, Model, ModelInfo, Shape, TaskKind};
use record::{About, Guarantee};
use serde_json::{Value, json};
use settings::{SettingError, Settings as _, settings};

use crate::device::Device;
use crate::error::Error;
use crate::measurements::{fixed, smoothing_for};
use crate::one_pass::calibration_at;
use crate::source::ModelSource;
use crate::subject::Subject;

settings! {
    /// What noisy copies say: their vote, and a certificate.
    pub struct VoteOptions {
        /// Let N noisy copies vote as well, and abstain if the vote is too close.
        samples: Option<u32> = None,
        /// Certify the class of one pass by counting noisy copies (Cohen et al.).
        certify: bool = false,
        /// With certify: noisy copies that are counted; at most so many with radius
        /// [default: 10000; 100000 with radius].
        n: Option<u32> = None,
        /// With certify: stop when "radius >= R" is decided, or given up.
        radius: Option<f64> = None,
        /// Failure probability of the vote, and of the certificate, for each image
        /// [default: 0.001].
        alpha: Option<f64> = None,
        /// Their noise: exact or float (Gaussian), uniform or laplace [default: what the
        /// model was made for, exactly].
        noise: Option<NoiseChoice> = None,
    }
}

impl VoteOptions {
    /// What is asked for on pictures of 8 bits: a vote, a certificate, both or none.
    fn plans(
        &self,
        info: &ModelInfo,
        sigma: Option<f64>,
        seed: u64,
    ) -> Result<(Option<Predict>, Option<Certify>), Error> {
        let votes = self.samples.is_some() || self.certify;
        let certificate = "it is about a certificate, and none is asked for";
        let noise = "no samples vote and no certificate is asked for";
        for (name, said, effective, reason) in [
            ("n", self.n.is_some(), self.certify, certificate),
            ("radius", self.radius.is_some(), self.certify, certificate),
            ("alpha", self.alpha.is_some(), votes, noise),
            ("noise", self.noise.is_some(), votes, noise),
        ] {
            if said && !effective {
                return Err(SettingError::Ineffective {
                    name: name.into(),
                    reason: reason.into(),
                }
                .into());
            }
        }
        if !votes {
            return Ok((None, None));
        }
        let sigma = sigma.ok_or_else(|| SettingError::missing("sigma"))?;
        let smoothing = smoothing_for(self.noise, info, sigma, Some(255))?;
        let alpha = self.alpha.unwrap_or(PredictParams::default().alpha);
        let vote = self.samples.map(|samples| {
            let params = PredictParams { samples, alpha };
            params.plan(smoothing.clone(), seed)
        });
        let decides = self.radius.is_some();
        let usual = CertifyParams::default();
        let certify = CertifyParams {
            n: self.n.unwrap_or(if decides { 100_000 } else { usual.n }),
            alpha,
            select: Select::Clean,
            anytime: decides,
            radius: self.radius,
            prior: if decides { Prior::OnePass } else { Prior::Flat },
            ..usual
        };
        let certify = match self.certify {
            true => Some(certify.plan(smoothing, seed)?),
            false => None,
        };
        Ok((vote, certify))
    }
}

/// A model that answers for pictures.
pub struct Predictor {
    model: Model,
    network: Box<dyn Executor>,
    sigma: Option<f64>,
    plan: Option<Predict>,
    certify: Option<Certify>,
}

/// What is said about a picture.
pub enum PictureAnswer {
    /// By a classifier.
    Class(Box<ClassAnswer>),
    /// By a model of real values.
    Values {
        /// The picture.
        name: String,
        /// What each value is called, and one pass of v.
        values: Vec<(String, f64)>,
    },
}

/// What a classifier says about a picture.
pub struct ClassAnswer {
    /// By one pass.
    pub answer: Answer,
    /// By the vote of noisy copies, if one was asked for.
    pub votes: Option<Prediction>,
    /// The certificate of the class, if one was asked for.
    pub certificate: Option<Certificate>,
    name: String,
    class: String,
    voted: Option<String>,
    certified: Option<String>,
    sigma: Option<f64>,
    guarantees: [Option<Guarantee>; 4],
}

impl Predictor {
    /// Loads a model; without a noise level, that of its calibration, or the one it
    /// was made for.
    ///
    /// # Errors
    /// A model that cannot be read; settings that make no sense.
    pub fn open(
        source: &ModelSource,
        sigma: Option<f64>,
        votes: &VoteOptions,
        (device, seed): (&Device, u64),
    ) -> Result<Self, Error> {
        let model = source.load(None)?.model;
        if model.info.task == TaskKind::Regression {
            refuse_of_values(sigma, votes)?;
        }
        let sigma = sigma.or(one_pass_level(&model));
        if let Some(sigma) = sigma {
            Smoothing::gaussian(sigma)?;
        }
        let (plan, certify) = votes.plans(&model.info, sigma, seed)?;
        // One-pass radii are those of Gaussian averages.
        let sigma = sigma.filter(|_| model.info.noise == Distribution::Gaussian);
        let network = device.load(&model)?;
        if let Some(plan) = &plan {
            plan.check(&*network)?;
        }
        if let Some(plan) = &certify {
            plan.check(&*network)?;
        }
        Ok(Self {
            model,
            network,
            sigma,
            plan,
            certify,
        })
    }

    /// What may be promised at the noise level, if that is known.
    fn calibration(&self) -> Option<&Calibration> {
        calibration_at(&self.model.info, self.sigma?)
    }

    /// What a user should know before the answers.
    pub fn warning(&self) -> Option<String> {
        let other = self.model.info.calibration.as_ref()?;
        self.calibration().is_none().then(|| {
            let sigma = other.sigma;
            format!("the model is calibrated for sigma {sigma} only")
        })
    }

    /// Whether it answers with real values.
    fn predicts_values(&self) -> bool {
        self.model.info.task == TaskKind::Regression
    }

    /// What is guaranteed of an L-bound or one-pass radius, of a calibrated radius,
    /// of a vote and of a certificate, where there are such.
    fn guarantees(&self) -> [Option<Guarantee>; 4] {
        if self.predicts_values() {
            return [None; 4];
        }
        [
            self.sigma.map(|_| LBOUND_GUARANTEE),
            self.calibration().map(calibrated_guarantee),
            self.plan.as_ref().map(vote_guarantee),
            self.certify.as_ref().map(Certify::guarantee),
        ]
    }

    /// The guarantees in words, a line each.
    pub fn guarantees_in_words(&self) -> String {
        if self.predicts_values() {
            return format!("guarantee: {VALUE_WORDS}\n");
        }
        let names = ["radius", "calibrated radius", "vote", "certified radius"];
        let lines = names.iter().zip(self.guarantees());
        let lines = lines.filter_map(|(name, words)| Some((name, words?)));
        lines
            .map(|(name, words)| format!("guarantee of the {name}: {words}\n"))
            .collect()
    }

    /// Answers for a picture, whose number decides the noise of its vote.
    ///
    /// # Errors
    /// A file that is no picture; a device that fails; logits that are not finite.
    pub fn picture(&self, number: u32, path: &Path) -> Result<PictureAnswer, Error> {
        let pixels = data::decode_image(path, self.model.graph.input())?;
        self.pixels(number, &path.display().to_string(), &pixels)
    }

    /// Shape of the images that are answered for.
    pub fn input(&self) -> Shape {
        self.model.graph.input()
    }

    /// Answers for the pixels of an image, between 0 and 1, row by row, channels last.
    ///
    /// # Errors
    /// Pixels that are not as many as the network needs, or not between 0 and 1; a
    /// device that fails; logits that are not finite.
    pub fn pixels(&self, number: u32, name: &str, pixels: &[f32]) -> Result<PictureAnswer, Error> {
        if let Some(beyond) = pixels.iter().find(|pixel| !(0.0..=1.0).contains(*pixel)) {
            return Err(Error::refused(
                format!("{name}: a pixel is {beyond}, expected a number between 0 and 1"),
                "divide pixels of 8 bits by 255",
            ));
        }
        Ok(match self.predicts_values() {
            true => PictureAnswer::Values {
                name: name.into(),
                values: self.values(pixels)?,
            },
            false => PictureAnswer::Class(Box::new(self.classify(number, name, pixels)?)),
        })
    }

    /// The real values of an image, with their names.
    fn values(&self, pixels: &[f32]) -> Result<Vec<(String, f64)>, Error> {
        let mut outputs = vec![0.0; self.network.classes()];
        self.network.logits(pixels, &mut outputs)?;
        if outputs.iter().any(|output| !output.is_finite()) {
            return Err(Error::not_finite(1, 1));
        }
        let each = outputs.iter().enumerate();
        Ok(each
            .map(|(k, &output)| (self.model.class_name(k), output.into()))
            .collect())
    }

    fn classify(&self, number: u32, name: &str, pixels: &[f32]) -> Result<ClassAnswer, Error> {
        let answer = answer(&*self.network, pixels, self.sigma, self.calibration())?;
        let votes = match &self.plan {
            Some(plan) => Some(vote(&*self.network, plan, number, pixels)?),
            None => None,
        };
        let voted = votes.as_ref().zip(self.plan.as_ref()).map(|(votes, plan)| {
            let verdict = match votes.predict {
                Some(class) => format!("is {}", self.model.class_name(class)),
                None => "abstains".into(),
            };
            let (hits, n) = (votes.n_a, plan.n);
            format!("; the smoothed classifier {verdict} ({hits} of {n} votes)")
        });
        let certificate = match &self.certify {
            Some(plan) => Some(certificate(&*self.network, plan, number, pixels)?),
            None => None,
        };
        let certified = certificate.as_ref().map(|found| {
            let verdict = match (found.decision, found.predict) {
                (_, None) => "not certified".into(),
                (Some(Decision::Undecided | Decision::GivenUp), _) => {
                    format!("certified radius {:.4}, more is not decided", found.radius)
                }
                _ => format!("certified radius {:.4}", found.radius),
            };
            format!("; {verdict} ({} of {} noisy copies)", found.n_a, found.n)
        });
        Ok(ClassAnswer {
            name: name.into(),
            class: self.model.class_name(answer.class),
            voted,
            certified,
            certificate,
            sigma: self.sigma,
            guarantees: self.guarantees(),
            answer,
            votes,
        })
    }
}

impl PictureAnswer {
    /// Names and values.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Class(answer) => answer.to_json(),
            Self::Values { name, values } => {
                let named = values.iter();
                let named = named.map(|(name, value)| json!({"name": name, "value": value}));
                json!({
                    "image": name, "values": named.collect::<Vec<_>>(),
                    "guarantee": VALUE_WORDS,
                })
            }
        }
    }
}

impl fmt::Display for PictureAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(answer) => answer.fmt(f),
            Self::Values { name, values } => {
                let values: Vec<String> = values
                    .iter()
                    .map(|(name, value)| format!("{name} {value:.6}"))
                    .collect();
                write!(f, "{name}: {}", values.join(", "))
            }
        }
    }
}

/// What one pass of a model of real values says, and does not.
const VALUE_WORDS: &str = "empirical: one pass of v; certify gives intervals of its smoothed \
                           outputs";

/// Refuses what is about classes.
fn refuse_of_values(sigma: Option<f64>, votes: &VoteOptions) -> Result<(), SettingError> {
    let votes = votes.write();
    let usual = VoteOptions::default().write();
    let fields = VoteOptions::fields();
    let mut names = fields.iter().map(|field| &*field.name);
    let said = names.find(|name| votes.get(name) != usual.get(name));
    match said.or(sigma.map(|_| "sigma")) {
        None => Ok(()),
        Some(name) => Err(SettingError::Ineffective {
            name: name.into(),
            reason: "the model predicts real values, which have no radius and no vote".into(),
        }),
    }
}

impl ClassAnswer {
    /// Names and values.
    pub fn to_json(&self) -> Value {
        let [radius, calibrated, vote, certified] = &self.guarantees;
        let certificate = self.certificate.as_ref().map(|c| {
            json!({
                "class": c.predict, "radius": c.radius, "hits": c.n_a, "n": c.n,
                "p_lower": c.p_lower, "guarantee": certified.map(|words| words.to_string()),
            })
        });
        let votes = self.votes.as_ref().map(|v| {
            json!({
                "class": v.predict, "first": v.first, "votes": v.n_a, "runner_up_votes": v.n_b,
                "guarantee": vote.map(|words| words.to_string()),
            })
        });
        let found = &self.answer;
        json!({
            "image": self.name, "class": found.class, "name": self.class,
            "probability": found.probability, "lbound": found.lbound, "sigma": self.sigma,
            "one_pass": found.one_pass, "calibrated": found.calibrated,
            "guarantee": radius.map(|words| words.sentence()),
            "calibrated_guarantee": calibrated.map(|words| words.to_string()),
            "smoothed": votes, "certificate": certificate,
        })
    }
}

impl fmt::Display for ClassAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, class, found) = (&self.name, &self.class, &self.answer);
        write!(f, "{name}: {class}, probability {:.4}", found.probability)?;
        if let (Some(one_pass), Some(lbound), Some(sigma)) =
            (found.one_pass, found.lbound, self.sigma)
        {
            let lbound = fixed(lbound, 4);
            write!(
                f,
                ", one-pass radius {one_pass:.4}, L-bound radius {lbound} (sigma {sigma})"
            )?;
        }
        match found.calibrated {
            Some(radius) if radius > 0.0 => write!(f, ", calibrated radius {radius:.4}")?,
            Some(_) => write!(f, ", no calibrated radius")?,
            None => {}
        }
        f.write_str(self.voted.as_deref().unwrap_or_default())?;
        f.write_str(self.certified.as_deref().unwrap_or_default())
    }
}

/// The noise level at which a model's radii are shown if none is given: that of its
/// calibration, or the one it was made for.
pub fn one_pass_level(model: &Model) -> Option<f64> {
    let calibrated = model.info.calibration.as_ref();
    calibrated.map(|c| c.sigma).or(model.info.sigma)
}

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
        about: About::Vote,
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

/// The certificate of one image, whose noise its number decides.
///
/// # Errors
/// A plan or image that makes no sense; a device that fails.
pub fn certificate(
    network: &dyn Executor,
    plan: &Certify,
    index: u32,
    pixels: &[f32],
) -> Result<Certificate, Error> {
    let mut image = Images::new(network.input());
    image.push(index, 0, pixels);
    let mut found = None;
    let mut observer = |outcome: CertifyOutcome| {
        found = Some(outcome.certificate);
        ControlFlow::Continue(())
    };
    certify_all(network, [image], plan, network.batch(), &mut observer)?;
    found.ok_or_else(|| Error::refused("no copies were counted", "give at least one sample"))
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
