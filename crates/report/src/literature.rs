//! Published figures to compare with.
//!
//! `data/literature.tsv` has them with their sources: L2 certificates, certified
//! accuracy in % of all images at radii of pixels scaled to [0, 1]. A cell that is empty
//! was not published, or could not be verified.

use crate::ReportError;

/// The file, as it is.
const TABLE: &str = include_str!("../data/literature.tsv");

/// A published result.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedResult {
    /// What it is asked for by: method and data set, as `cohen-cifar10`.
    pub name: String,
    /// The data set.
    pub data: String,
    /// The method, and who published it.
    pub method: String,
    /// Noise level.
    pub sigma: f64,
    /// The network.
    pub network: String,
    /// How many images.
    pub images: String,
    /// Average certified radius.
    pub acr: Option<f64>,
    /// Radii, and the share certified there.
    pub certified: Vec<(f64, f64)>,
    /// Where the figures were taken from.
    pub source: String,
}

impl PublishedResult {
    /// All that are known.
    pub fn all() -> Vec<Self> {
        TABLE.lines().skip(1).filter_map(Self::read).collect()
    }

    fn read(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split('\t').collect();
        let [
            name,
            data,
            method,
            sigma,
            network,
            images,
            acr,
            radii,
            shares,
            source,
        ] = <[&str; 10]>::try_from(cells).ok()?;
        let numbers = |text: &str| -> Option<Vec<f64>> {
            let parts = text.split('/').filter(|part| !part.is_empty());
            parts.map(|part| part.parse().ok()).collect()
        };
        let (radii, shares) = (numbers(radii)?, numbers(shares)?);
        let shares = shares.into_iter().map(|percent| percent / 100.0);
        Some(Self {
            name: name.into(),
            data: data.into(),
            method: method.into(),
            sigma: sigma.parse().ok()?,
            network: network.into(),
            images: images.into(),
            acr: acr.parse().ok(),
            certified: radii.into_iter().zip(shares).collect(),
            source: source.into(),
        })
    }

    /// Those asked for, by their names or by a data set.
    ///
    /// # Errors
    /// A name that there is not.
    pub fn named(names: &[String]) -> Result<Vec<Self>, ReportError> {
        let all = Self::all();
        let is = |one: &Self, name: &str| one.name == name || one.data == name;
        for name in names {
            if !all.iter().any(|one| is(one, name)) {
                let mut known: Vec<&str> = Vec::new();
                for one in &all {
                    for name in [&one.data, &one.name] {
                        if !known.contains(&name.as_str()) {
                            known.push(name);
                        }
                    }
                }
                return Err(ReportError::Literature {
                    got: name.clone(),
                    known: known.join(", "),
                });
            }
        }
        let asked = |one: &Self| names.iter().any(|name| is(one, name));
        Ok(all.into_iter().filter(asked).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_reads_and_is_what_a_certified_accuracy_can_be() {
        let all = PublishedResult::all();
        assert_eq!(all.len(), TABLE.lines().count() - 1);
        for one in &all {
            let falls = one.certified.windows(2);
            assert!(falls.clone().all(|pair| pair[0].0 < pair[1].0), "{one:?}");
            assert!(falls.clone().all(|pair| pair[0].1 >= pair[1].1), "{one:?}");
            assert!(one.acr.is_some() && !one.source.is_empty(), "{one:?}");
            // The mean radius is at least what lies below the steps of the curve.
            let below: f64 = falls.map(|p| (p[1].0 - p[0].0) * p[1].1).sum();
            assert!(one.acr.unwrap() >= below, "{one:?}: {below}");
            assert!(one.name.ends_with(&format!("-{}", one.data)));
        }
    }

    #[test]
    fn names_and_data_sets_are_found_and_others_are_refused() {
        let found = PublishedResult::named(&["cohen-cifar10".into()]).unwrap();
        let levels: Vec<f64> = found.iter().map(|one| one.sigma).collect();
        assert_eq!(levels, [0.12, 0.25, 0.5, 1.0]);
        let imagenet = PublishedResult::named(&["imagenet".into()]).unwrap();
        assert_eq!(imagenet.len(), 6);
        let error = PublishedResult::named(&["cohen".into()]).unwrap_err();
        assert!(error.to_string().contains("cohen"), "{error}");
    }
}
