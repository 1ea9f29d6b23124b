//! What can be wrong with a request, and what to do about it.

use thiserror::Error;

/// A plan that makes no sense, or an image or network that cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Error {
    /// Sigma is not a positive number.
    #[error("sigma must be a number above 0, got {got}")]
    Sigma {
        /// What was given.
        got: f64,
    },
    /// Alpha is not a probability.
    #[error("alpha must lie strictly between 0 and 1, got {got}")]
    Alpha {
        /// What was given.
        got: f64,
    },
    /// Even if every sample is a hit, the bound stays too low.
    #[error(
        "n = {n} samples can never {purpose} at alpha = {alpha}: {}",
        needed.map_or("no number of samples can".to_owned(), |needed| format!("{needed} are needed"))
    )]
    TooFewSamples {
        /// What was given.
        n: u32,
        /// What the samples are for, as a verb with its object.
        purpose: String,
        /// The failure probability.
        alpha: f64,
        /// The smallest sufficient n, if there is one.
        needed: Option<u32>,
    },
    /// No samples where some are needed.
    #[error("{name} must be at least 1, got 0")]
    Zero {
        /// The parameter.
        name: &'static str,
    },
    /// A mean over fewer than 2 samples has no standard error.
    #[error("an average needs at least 2 samples, got {got}")]
    FewSamplesToAverage {
        /// What was given.
        got: u32,
    },
    /// A radius, tolerance or noise level is not a usable number.
    #[error("the {name} must be a number {at_least} 0, got {got}")]
    Number {
        /// What it is.
        name: &'static str,
        /// "of at least" or "above".
        at_least: &'static str,
        /// What was given.
        got: f64,
    },
    /// k is 0 or not below the number of classes.
    #[error("top-k needs k between 1 and {}, got {got}", classes.saturating_sub(1))]
    TopK {
        /// What was given.
        got: usize,
        /// Classes of the network.
        classes: usize,
    },
    /// Two networks that should see the same images and classes do not.
    #[error("the networks differ: one has input {} and {} classes, the other {} and {}", first.0, first.1, second.0, second.1)]
    Networks {
        /// Input shape and classes of the first.
        first: (String, usize),
        /// Input shape and classes of the second.
        second: (String, usize),
    },
    /// An image of another size than the network's input.
    #[error("image {image} has {got} values, the network takes {expected}")]
    Size {
        /// The image.
        image: u32,
        /// Values of the network's input.
        expected: usize,
        /// Values of the image.
        got: usize,
    },
    /// A pixel that is not a number in [0, 1].
    #[error("image {image} has the value {got} at position {position}, not a number in [0, 1]")]
    Pixel {
        /// The image.
        image: u32,
        /// Index of the value.
        position: usize,
        /// The value.
        got: f32,
    },
    /// A label that the network has no class for.
    #[error("image {image} has label {label}, the network has {classes} classes")]
    Label {
        /// The image.
        image: u32,
        /// Its label.
        label: usize,
        /// Classes of the network.
        classes: usize,
    },
    /// The network gave an infinite or undefined logit.
    #[error("the network's output for image {image} is not finite")]
    Output {
        /// The image.
        image: u32,
    },
}

impl Error {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Sigma { .. } => "sigma is the standard deviation of the noise in units of \
                pixels scaled to [0, 1]; usual values are 0.1 to 1"
                .to_owned(),
            Self::Alpha { .. } => {
                "alpha is the probability that a certificate is wrong; 0.001 is usual".to_owned()
            }
            Self::TooFewSamples {
                needed: Some(needed),
                ..
            } => {
                format!("use n = {needed} or more, or a larger alpha")
            }
            Self::TooFewSamples { needed: None, .. } => {
                "ask for a smaller radius, or use a larger sigma".to_owned()
            }
            Self::FewSamplesToAverage { .. } => {
                "100 samples are usual; the standard error falls with their square root".to_owned()
            }
            Self::Zero { .. } | Self::Number { .. } => return None,
            Self::TopK { classes, .. } => {
                format!("with k = {classes} every image would be right")
            }
            Self::Networks { .. } => {
                "compare a network with the one it was smoothed from".to_owned()
            }
            Self::Size { .. } => "the data set and the network do not belong together".to_owned(),
            Self::Pixel { got, .. } if got.is_nan() => {
                "the image is damaged; leave it out".to_owned()
            }
            Self::Pixel { .. } => "scale pixels to [0, 1]; normalisation (mean, standard \
                deviation) belongs inside the network, so that sigma and radii keep their meaning"
                .to_owned(),
            Self::Label { .. } => {
                "the network was made for another data set, or the labels do not start at 0"
                    .to_owned()
            }
            Self::Output { .. } => {
                "the network has overflowed or holds NaN weights; was its training stable?"
                    .to_owned()
            }
        })
    }
}
