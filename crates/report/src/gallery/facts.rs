//! What the logs say about the images shown.

use std::collections::{BTreeSet, HashMap};

use record::{CertifyRow, LboundRow, Norm};

use crate::load::{LoadedLog, LoadedRows};
use crate::sections::refuted::refuted_bounds;

/// Model hash, data set, image.
pub type Key<'a> = (&'a str, &'a str, u64);

type OwnedKey<'a> = (&'a str, String, u64);

/// Certificates and L-bounds of the images shown, by model hash and data set.
#[derive(Default)]
pub struct Facts<'a> {
    /// With their sigma: a model may be certified at several.
    certificates: HashMap<OwnedKey<'a>, Vec<(Option<f64>, &'a CertifyRow)>>,
    l_bounds: HashMap<OwnedKey<'a>, &'a LboundRow>,
    /// Attacks that change the class within the L-bound.
    refuted: HashMap<OwnedKey<'a>, (String, f64)>,
}

impl<'a> Facts<'a> {
    /// Looks the images up once, in all logs.
    pub fn collect(logs: &'a [LoadedLog], wanted: &BTreeSet<u64>) -> Self {
        let mut facts = Self::default();
        for log in logs.iter().filter(|log| log.top_k() == 1) {
            let (sha256, data) = (log.manifest.model.key(), log.data());
            match &log.rows {
                // Pictures show L2 distances.
                LoadedRows::Certify(rows) if log.smoothing().norm == Norm::L2 => {
                    for row in rows.iter().filter(|row| wanted.contains(&row.idx)) {
                        let key = (sha256, data.clone(), row.idx);
                        facts
                            .certificates
                            .entry(key)
                            .or_default()
                            .push((log.manifest.sigma, row));
                    }
                }
                LoadedRows::Lbound(rows) => {
                    for (idx, found) in refuted_bounds(log, logs) {
                        facts.refuted.insert((sha256, data.clone(), idx), found);
                    }
                    for row in rows.iter().filter(|row| wanted.contains(&row.idx)) {
                        facts.l_bounds.insert((sha256, data.clone(), row.idx), row);
                    }
                }
                _ => {}
            }
        }
        facts
    }

    /// The certificate at the gallery's sigma if there is one, else at any.
    pub fn certificate(&self, key: Key<'_>, sigma: Option<f64>) -> Option<&CertifyRow> {
        let found = self.certificates.get(&(key.0, key.1.to_owned(), key.2))?;
        let at_sigma = found.iter().find(|(other, _)| *other == sigma);
        at_sigma.or_else(|| found.first()).map(|(_, row)| *row)
    }

    /// The attack that changes the class within the L-bound, and at which distance.
    pub fn refuted(&self, key: Key<'_>) -> Option<(String, f64)> {
        self.refuted.get(&(key.0, key.1.to_owned(), key.2)).cloned()
    }

    /// The L-bound for the true class.
    pub fn l_bound(&self, key: Key<'_>) -> Option<f64> {
        self.l_bounds
            .get(&(key.0, key.1.to_owned(), key.2))
            .map(|row| row.radius)
    }
}
