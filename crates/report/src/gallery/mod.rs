//! The gallery: pictures from galleries, predictions and radii from the logs.

mod card;
mod facts;

pub use card::{Adversarial, Card, CardModel, CertificateFact};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use record::{DataId, Gallery, MethodInfo, RecordError};

use self::facts::Facts;
use crate::names::{method_name, tell_apart};
use crate::sections::{Context, Item, Section};
use crate::{ReportError, ReportWarning};

/// Most bytes of pictures in a page.
const MOST_BYTES: usize = 12 << 20;

/// The gallery's section, where there are pictures.
pub fn section(
    context: &mut Context<'_>,
    galleries: &[(PathBuf, Gallery)],
) -> Result<Option<Section>, ReportError> {
    let cards = cards(context, galleries)?;
    Ok((!cards.is_empty()).then(|| Section {
        id: "gallery".into(),
        title: "Gallery".into(),
        intro: "Single images: the original, one draw of noise, and the adversarial image found for \
                each model beside what it changed (grey: nothing; amplified by the factor \
                given), with the model's class, its certified radius and its L-bound. \
                Certificates are sound for the smoothed classifier, with probability 1-alpha; \
                L-bounds are approximate: they hold if v is exactly a Gaussian average; attacks are \
                empirical."
            .into(),
        items: vec![Item::Gallery(cards)],
    }))
}

/// Cards for the images of all galleries, as many as the page may hold.
fn cards(
    context: &mut Context<'_>,
    galleries: &[(PathBuf, Gallery)],
) -> Result<Vec<Card>, ReportError> {
    let mut images: BTreeMap<(String, u64), Vec<(usize, usize)>> = BTreeMap::new();
    for (g, (_, gallery)) in galleries.iter().enumerate() {
        for (i, image) in gallery.images.iter().enumerate() {
            images
                .entry((data_name(&gallery.data), image.idx))
                .or_default()
                .push((g, i));
        }
    }
    let of = images.len();
    let wanted: BTreeSet<u64> = images
        .keys()
        .take(context.options.gallery)
        .map(|(_, idx)| *idx)
        .collect();
    let facts = Facts::collect(context.logs, &wanted);
    let names = names(&context.options.methods, galleries);
    let mut cards = Vec::new();
    let mut bytes = 0;
    for ((data, idx), places) in images.into_iter().take(context.options.gallery) {
        let card = card(context, galleries, &names, &facts, data, idx, &places)?;
        bytes += card.original.len()
            + card.noisy.as_ref().map_or(0, |noisy| noisy.0.len())
            + card
                .models
                .iter()
                .flat_map(|m| &m.adversarial)
                .map(|a| a.picture.len() + a.difference.as_ref().map_or(0, |d| d.0.len()))
                .sum::<usize>();
        if bytes > MOST_BYTES {
            break;
        }
        cards.push(card);
    }
    if cards.len() < of {
        context.warnings.push(ReportWarning::GalleryCut {
            shown: cards.len(),
            of,
        });
    }
    Ok(cards)
}

fn data_name(data: &DataId) -> String {
    format!("{} {}", data.name, data.split)
}

fn card(
    context: &mut Context<'_>,
    galleries: &[(PathBuf, Gallery)],
    names: &HashMap<String, (usize, String)>,
    facts: &Facts,
    data: String,
    idx: u64,
    places: &[(usize, usize)],
) -> Result<Card, ReportError> {
    let (path, first) = &galleries[places[0].0];
    let image = &first.images[places[0].1];
    let class = |gallery: &Gallery, class: Option<u32>| class_name(&gallery.classes, class);
    let mut noisy = None;
    let mut models: BTreeMap<usize, CardModel> = BTreeMap::new();
    for &(g, i) in places {
        let (path, gallery) = &galleries[g];
        let image = &gallery.images[i];
        let sha256 = gallery.model.key();
        let (rank, name) = &names[sha256];
        if let (None, Some(found)) = (&noisy, &image.noisy) {
            noisy = Some((picture(path, &found.picture)?, gallery.sigma));
        }
        let model = models.entry(*rank).or_insert_with(|| {
            let certificate = facts.certificate((sha256, &data, idx), gallery.sigma);
            CardModel {
                name: name.clone(),
                style: context.styles.add(sha256),
                clean: (
                    class(gallery, image.predict),
                    image.predict == Some(image.label),
                ),
                noisy: None,
                certificate: certificate.map(|row| CertificateFact {
                    predict: row.predict.map(|predict| class(gallery, Some(predict))),
                    radius: row.radius,
                    correct: row.correct,
                }),
                l_bound: facts.l_bound((sha256, &data, idx)),
                refuted: facts.refuted((sha256, &data, idx)),
                adversarial: Vec::new(),
            }
        });
        if let Some(found) = &image.noisy {
            model
                .noisy
                .get_or_insert_with(|| class(gallery, found.predict));
        }
        if let Some(found) = &image.adversarial {
            let difference = match &found.difference {
                Some(found) => Some((picture(path, &found.picture)?, found.factor)),
                None => None,
            };
            model.adversarial.push(Adversarial {
                attack: gallery
                    .attack
                    .clone()
                    .unwrap_or_else(|| "attack".into())
                    .to_uppercase(),
                picture: picture(path, &found.picture)?,
                predict: class(gallery, found.predict),
                l2: found.l2,
                difference,
            });
        }
    }
    // PGD before DDN, as the paper has it, in every card alike.
    let place = |attack: &str| ["PGD", "DDN"].iter().position(|known| *known == attack);
    for model in models.values_mut() {
        let key = |found: &Adversarial| (place(&found.attack).unwrap_or(2), found.attack.clone());
        model.adversarial.sort_by_key(key);
    }
    Ok(Card {
        data,
        idx,
        label: class(first, Some(image.label)),
        original: picture(path, &image.original)?,
        noisy,
        models: models.into_values().collect(),
    })
}

fn class_name(classes: &[String], class: Option<u32>) -> String {
    match class {
        Some(class) => classes
            .get(class as usize)
            .cloned()
            .unwrap_or_else(|| class.to_string()),
        None => "none".into(),
    }
}

/// Rank in the tables and name of each model, by hash.
fn names(
    methods: &[MethodInfo],
    galleries: &[(PathBuf, Gallery)],
) -> HashMap<String, (usize, String)> {
    let mut models: Vec<&Gallery> = Vec::new();
    for (_, gallery) in galleries {
        if !models
            .iter()
            .any(|found| found.model.key() == gallery.model.key())
        {
            models.push(gallery);
        }
    }
    models.sort_by_key(|gallery| (method_name(methods, &gallery.method).0, gallery.model.key()));
    let base = models.iter().map(|gallery| {
        gallery
            .label
            .clone()
            .unwrap_or_else(|| method_name(methods, &gallery.method).1.to_owned())
    });
    let details: Vec<Vec<(String, String)>> = models
        .iter()
        .map(|gallery| {
            let sigma = gallery
                .sigma
                .map(|sigma| ("σ".to_owned(), sigma.to_string()));
            let model = gallery.model.key().chars().take(8).collect();
            sigma
                .into_iter()
                .chain([("model".to_owned(), model)])
                .collect()
        })
        .collect();
    let names = tell_apart(base.collect(), &details);
    models
        .iter()
        .zip(names)
        .enumerate()
        .map(|(rank, (gallery, name))| (gallery.model.key().to_owned(), (rank, name)))
        .collect()
}

fn picture(gallery: &Path, name: &str) -> Result<String, ReportError> {
    let path = gallery.with_file_name(name);
    let png = fs::read(&path).map_err(|source| RecordError::Io {
        path: path.clone(),
        action: "read",
        source,
    })?;
    if !png.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Err(RecordError::Json {
            path,
            reason: "not a PNG".into(),
        }
        .into());
    }
    Ok(format!("data:image/png;base64,{}", STANDARD.encode(png)))
}
