//! What is expected of an image before its votes are counted.
//!
//! A confidence sequence holds for every prior that was fixed before the samples
//! ([`ConfidenceSequence`](crate::statistics::ConfidenceSequence)); a good one takes
//! fewer of them to the same answer. What is known beforehand is an answer `c` about
//! the probability of the class, the model's own or that of a pilot, the radius in
//! question, and alpha. A model's own probabilities may be far from its votes: an
//! undefended network is sure of images that it loses under noise, and one whose last
//! layer is a batch norm never says .9 of images that it never loses. So the answer
//! has one part of the mixture to itself and moves weight between the others.

use settings::choices;

use crate::plan::{Certify, StopRule};
use crate::statistics::{BetaMixture, normal_cdf, normal_quantile};

choices! {
    /// What an anytime certificate expects of an image.
    pub enum Prior {
        /// Nothing: Beta(1/2, 1/2).
        Flat = "flat",
        /// What one pass of v over the clean image says, its probability of the class.
        OnePass = "one-pass",
        /// What `n0` noisy copies say: those that choose the class, if noise does.
        Pilot = "pilot",
    }
}

/// How many votes an answer by one pass is worth.
const ONE_PASS_VOTES: f64 = 20.0;

/// The largest weight of "every vote is a hit".
const SURE: f64 = 0.85;

/// How far above the radius in question images that are hard to decide are expected,
/// in units of the noise.
const CLOSE: [f64; 3] = [0.05, 0.2, 0.6];

impl Certify {
    /// The prior of an image whose class has probability `answer` by what is known
    /// before its votes.
    pub(crate) fn expects(&self, answer: f64) -> BetaMixture {
        let c = answer.clamp(0.0, 1.0);
        let votes = match self.prior {
            Prior::Pilot => f64::from(self.n0),
            _ => ONE_PASS_VOTES,
        };
        let sure = SURE * c;
        let mut others = vec![(0.5 + votes * c, 0.5 + votes * (1.0 - c)), (0.5, 0.5)];
        // The number of hits without a miss that is enough.
        let enough = match self.anytime {
            Some(StopRule::Radius(goal)) => {
                let least = self.least_probability(goal);
                let probit = normal_quantile(least);
                others.extend(CLOSE.map(|above| close_to(probit + above, above)));
                self.alpha.ln() / least.ln()
            }
            _ => f64::from(self.n),
        };
        let each = (1.0 - sure) / others.len() as f64;
        let others = others.into_iter().map(|(a, b)| (each, a, b));
        let parts = [(sure, 0.5 + 5.0 * enough.min(f64::from(self.n)), 0.5)].into_iter();
        BetaMixture::new(&parts.chain(others).collect::<Vec<_>>())
    }

    /// The smallest probability that certifies a radius, by bisection, for any noise;
    /// a little below 1 where none does.
    fn least_probability(&self, radius: f64) -> f64 {
        let (mut too_small, mut enough) = (0.5, 1.0 - 1e-12);
        for _ in 0..60 {
            let middle = 0.5 * (too_small + enough);
            match self.smoothing.radius(middle) >= radius {
                true => enough = middle,
                false => too_small = middle,
            }
        }
        enough
    }
}

/// The shapes of a Beta distribution of probabilities whose probit is about `probit`,
/// give or take a third of `spread`.
fn close_to(probit: f64, spread: f64) -> (f64, f64) {
    let (low, high) = (
        normal_cdf(probit - 0.4 * spread),
        normal_cdf(probit + 0.7 * spread),
    );
    let (mean, deviation) = (0.5 * (low + high), (high - low) / 3.0);
    let votes = mean * (1.0 - mean) / (deviation * deviation);
    (mean * votes, (1.0 - mean) * votes)
}
