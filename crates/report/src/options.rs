//! What a user can choose about a report.

use record::MethodInfo;

use crate::ReportError;

/// What certified accuracy is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denominator {
    /// All images (Cohen; the default).
    #[default]
    All,
    /// The images not abstained on (the paper's notebook).
    NonAbstained,
}

/// Which distances an attack's median and mean are taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttackConvention {
    /// Successful attacks on images that the model gets right.
    #[default]
    Successes,
    /// All images, as in the paper: 0 where the model is wrong anyway; a failure
    /// counts as the distance tried (PGD) or as 0 (DDN).
    Paper,
}

/// Options of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Title of the page.
    pub title: String,
    /// Radii of the certified-accuracy tables; empty: a round grid that fits.
    pub radii: Vec<f64>,
    /// What certified accuracy is divided by.
    pub denominator: Denominator,
    /// Which distances an attack's median and mean are taken over.
    pub attacks: AttackConvention,
    /// Failure probability of the high-probability accuracy over the data set.
    pub rho: f64,
    /// Alpha of logs without a manifest (Cohen's published ones used .001).
    pub published_alpha: f64,
    /// Published figures to show beside the logs: `cohen-cifar10`, or all of a data set
    /// (`cifar10`); see [`PublishedResult`](crate::PublishedResult).
    pub beside: Vec<String>,
    /// Most images in the page's gallery.
    pub gallery: usize,
    /// The training methods that are known: how they are called, in which order
    /// tables have them, and which of them classify by an average over noise. Any
    /// other method comes after these, under the name that its manifest gives.
    pub methods: Vec<MethodInfo>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            title: "heatsmooth report".into(),
            radii: Vec::new(),
            denominator: Denominator::All,
            attacks: AttackConvention::Successes,
            rho: 0.001,
            published_alpha: 0.001,
            beside: Vec::new(),
            gallery: 48,
            methods: Vec::new(),
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), ReportError> {
        let probability = |name, value: f64| {
            if value > 0.0 && value < 1.0 {
                return Ok(());
            }
            let expected = "a probability between 0 and 1";
            Err(ReportError::Option {
                name,
                expected,
                got: value.to_string(),
            })
        };
        probability("rho", self.rho)?;
        probability("published alpha", self.published_alpha)?;
        let ascending = self.radii.windows(2).all(|pair| pair[0] < pair[1]);
        let sound = self
            .radii
            .iter()
            .all(|&radius| radius.is_finite() && radius >= 0.0);
        if ascending && sound && self.radii.len() <= 50 {
            return Ok(());
        }
        Err(ReportError::Option {
            name: "radii",
            expected: "at most 50 ascending numbers from 0 on",
            got: format!("{:?}", self.radii),
        })
    }
}
