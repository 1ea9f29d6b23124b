//! The largest change of real values within a budget.

use network::{Executor, Images, Mode};

use crate::descent::Walk as _;
use crate::error::AttackError;
use crate::l2::{project, unit};
use crate::pgd::Pgd;

/// How far an attack moved the outputs for one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    /// The image.
    pub index: u32,
    /// The outputs for the image as it is.
    pub clean: Vec<f64>,
    /// The lowest value found of each output.
    pub low: Vec<f64>,
    /// The highest.
    pub high: Vec<f64>,
}

/// Moves every output of every image down and up, each by an ascent of its own: steps
/// along the normalised gradient, clipped to [0, 1] and projected to the budget, as
/// [`Pgd`] does. What comes out was evaluated, and the images stay within [0, 1].
///
/// # Errors
/// Pixels outside [0, 1]; outputs that are not finite; a device that fails.
pub fn reach(
    pgd: &Pgd,
    network: &dyn Executor,
    images: &Images,
) -> Result<Vec<Reach>, AttackError> {
    let len = network.input().len();
    if images.pixels.len() != images.len() * len {
        return Err(AttackError::Length {
            what: "pixels",
            expected: images.len() * len,
            got: images.pixels.len(),
        });
    }
    let outside = |v: &f32| !(0.0..=1.0).contains(v);
    if let Some(place) = images.pixels.iter().position(outside) {
        let (index, value) = (images.indices[place / len], images.pixels[place]);
        return Err(AttackError::Pixel { index, value });
    }
    let places: Vec<usize> = (0..images.len()).collect();
    let mut all = Vec::with_capacity(images.len());
    for places in places.chunks(network.taped_batch().max(1)) {
        all.extend(reach_batch(pgd, network, &images.select(places))?);
    }
    Ok(all)
}

fn reach_batch(
    pgd: &Pgd,
    network: &dyn Executor,
    images: &Images,
) -> Result<Vec<Reach>, AttackError> {
    let outputs = network.classes();
    let clean = values(network, &images.pixels, &images.indices)?;
    let rows = images.indices.iter().zip(clean.chunks_exact(outputs));
    let mut found: Vec<Reach> = rows
        .map(|(&index, row)| Reach {
            index,
            clean: row.to_vec(),
            low: row.to_vec(),
            high: row.to_vec(),
        })
        .collect();
    for output in 0..outputs {
        for sign in [-1.0, 1.0] {
            let mut see = |seen: &[f64]| {
                for (reach, row) in found.iter_mut().zip(seen.chunks_exact(outputs)) {
                    reach.low[output] = reach.low[output].min(row[output]);
                    reach.high[output] = reach.high[output].max(row[output]);
                }
            };
            ascend(pgd, network, images, (output, sign), &mut see)?;
        }
    }
    Ok(found)
}

/// Walks all images along `sign` times the gradient of an output, and shows the outputs
/// wherever it comes by.
fn ascend(
    pgd: &Pgd,
    network: &dyn Executor,
    images: &Images,
    (output, sign): (usize, f32),
    see: &mut dyn FnMut(&[f64]),
) -> Result<(), AttackError> {
    let (len, outputs) = (network.input().len(), network.classes());
    let mut cotangent = vec![0.0; images.len() * outputs];
    cotangent[output..]
        .iter_mut()
        .step_by(outputs)
        .for_each(|c| *c = sign);
    let mut moved = images.pixels.clone();
    for step in 1..=pgd.steps() {
        let (seen, tape) = network.forward(&moved, Mode::Eval)?;
        see(&finite(&seen, outputs, &images.indices)?);
        let gradient = network.input_gradient(&tape, &cotangent)?;
        for (place, (moved, gradient)) in moved
            .chunks_exact_mut(len)
            .zip(gradient.chunks_exact(len))
            .enumerate()
        {
            let direction = unit(gradient, pgd.seed(), images.indices[place], step);
            for (x, d) in moved.iter_mut().zip(direction) {
                *x = (f64::from(*x) + pgd.step_size() * d).clamp(0.0, 1.0) as f32;
            }
            project(images.image(place), moved, pgd.eps());
        }
    }
    see(&values(network, &moved, &images.indices)?);
    Ok(())
}

fn values(
    network: &dyn Executor,
    pixels: &[f32],
    indices: &[u32],
) -> Result<Vec<f64>, AttackError> {
    let outputs = network.classes();
    let mut seen = vec![0.0; indices.len() * outputs];
    network.logits(pixels, &mut seen)?;
    finite(&seen, outputs, indices)
}

fn finite(seen: &[f32], outputs: usize, indices: &[u32]) -> Result<Vec<f64>, AttackError> {
    match seen.iter().position(|value| !value.is_finite()) {
        Some(place) => Err(AttackError::NotFinite {
            index: indices[place / outputs],
        }),
        None => Ok(seen.iter().map(|&value| f64::from(value)).collect()),
    }
}
