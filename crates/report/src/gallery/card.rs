//! What is known about one image.

/// One image with everything that is known about it.
#[derive(Debug)]
pub struct Card {
    /// The data set.
    pub data: String,
    /// The image.
    pub idx: u64,
    /// Its class.
    pub label: String,
    /// The picture as a data URI.
    pub original: String,
    /// The noisy picture and its sigma.
    pub noisy: Option<(String, Option<f64>)>,
    /// What each model says.
    pub models: Vec<CardModel>,
}

/// What one model says about an image.
#[derive(Debug)]
pub struct CardModel {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub style: usize,
    /// Its class for the image, and whether that is right.
    pub clean: (String, bool),
    /// Its class for the noisy picture.
    pub noisy: Option<String>,
    /// The certificate.
    pub certificate: Option<CertificateFact>,
    /// The L-bound for the true class.
    pub l_bound: Option<f64>,
    /// The attack that changes the class within the L-bound, and at which distance.
    pub refuted: Option<(String, f64)>,
    /// What attacks made of it.
    pub adversarial: Vec<Adversarial>,
}

/// The certificate of an image.
#[derive(Debug)]
pub struct CertificateFact {
    /// The certified class; `None`: abstained.
    pub predict: Option<String>,
    /// Its radius.
    pub radius: f64,
    /// Whether the class is right.
    pub correct: bool,
}

/// An adversarial picture.
#[derive(Debug)]
pub struct Adversarial {
    /// The attack.
    pub attack: String,
    /// The picture as a data URI.
    pub picture: String,
    /// The class it is taken for.
    pub predict: String,
    /// Its L2 distance.
    pub l2: f64,
    /// The difference as a data URI, and by which factor it is amplified.
    pub difference: Option<(String, u32)>,
}

impl CardModel {
    /// The certified radius where the class is right, else 0.
    pub fn sound_radius(&self) -> Option<f64> {
        self.certificate
            .as_ref()
            .map(|found| if found.correct { found.radius } else { 0.0 })
    }

    /// Whether the model abstains.
    pub fn abstains(&self) -> bool {
        self.certificate
            .as_ref()
            .is_some_and(|found| found.predict.is_none())
    }

    /// Whether the certified class is wrong, or without certificate the plain one.
    pub fn is_wrong(&self) -> bool {
        match &self.certificate {
            Some(found) => found.predict.is_some() && !found.correct,
            None => !self.clean.1,
        }
    }
}

impl Card {
    /// Largest difference of certified radii between models.
    pub fn spread(&self) -> f64 {
        let radii = || self.models.iter().filter_map(CardModel::sound_radius);
        let (low, high) = (
            radii().fold(f64::INFINITY, f64::min),
            radii().fold(0.0, f64::max),
        );
        (high - low).max(0.0)
    }
}
