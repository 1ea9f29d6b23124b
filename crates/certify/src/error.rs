//! What can be wrong with a request, and what to do about it.

use network::DeviceError;
use settings::SettingError;
use thiserror::Error;

/// A plan that makes no sense, or an image or network that cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CertifyError {
    /// A parameter makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
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
    /// Even without a single miss the bound on the miss rate stays too high.
    #[error(
        "{images} images cannot promise a miss rate of {miss} with confidence {confidence}: {}",
        needed.map_or("no number of images can".to_owned(), |needed| format!("{needed} are needed"))
    )]
    TooFewImages {
        /// What was given.
        images: u64,
        /// The miss rate.
        miss: f64,
        /// The confidence.
        confidence: f64,
        /// The smallest sufficient number, if there is one.
        needed: Option<u32>,
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
    /// A pixel between the grid points of exact noise.
    #[error(
        "image {image} has the value {got} at position {position}, not a multiple of 1/{levels}"
    )]
    OffGrid {
        /// The image.
        image: u32,
        /// Index of the value.
        position: usize,
        /// The value.
        got: f32,
        /// Steps from 0 to 1.
        levels: u32,
    },
    /// Exact noise for images of which no grid is known.
    #[error("the images are on no grid of pixel values, which exact noise needs")]
    NoGrid,
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

impl CertifyError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Setting(error) => return setting_hint(error),
            Self::Device(error) => return error.hint(),
            Self::TooFewSamples {
                needed: Some(needed),
                ..
            } => {
                format!("use n = {needed} or more, or a larger alpha")
            }
            Self::TooFewSamples { needed: None, .. } => {
                "ask for a smaller radius or eps, or use a larger sigma".to_owned()
            }
            Self::TooFewImages {
                needed: Some(needed),
                ..
            } => format!(
                "calibrate on {needed} or more images that training did not see (ten times as \
                 many leave room for misses), or promise a larger miss rate"
            ),
            Self::TooFewImages { needed: None, .. } => {
                "promise a larger miss rate, or less confidence".to_owned()
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
            Self::OffGrid { .. } | Self::NoGrid => {
                "choose noise in single precision (float); its certificates leave out rounding"
                    .to_owned()
            }
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

fn setting_hint(error: &SettingError) -> Option<String> {
    let hint = match error.name() {
        "sigma" => {
            "sigma is the standard deviation of the noise in units of pixels scaled to [0, 1]; \
             usual values are 0.1 to 1"
        }
        "alpha" => "alpha is the probability that a certificate is wrong; 0.001 is usual",
        "miss" => {
            "miss is the share of inputs that may get a radius that the smoothed reference does \
             not have; alpha is part of it; 0.05 is usual"
        }
        "confidence" => "confidence is the probability that the promise holds; 0.95 is usual",
        "top-k" => "with all classes in the top k every image would be right",
        _ => return error.hint(),
    };
    Some(hint.into())
}
