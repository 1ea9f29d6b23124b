//! Input normalisation: by name, by numbers, and whether a network misses it.

use data::Dataset;
use network::logits::argmax;
use network::{Executor, Model, Op};
use settings::SettingError;

use crate::error::Error;
use crate::subject::Subject;

/// Name, means and stds of the constants that published weights mostly expect; one
/// value stands for every channel.
const USUAL: [(&str, &[f32], &[f32]); 6] = [
    ("imagenet", &[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225]),
    (
        "cifar10",
        &[0.4914, 0.4822, 0.4465],
        &[0.2470, 0.2435, 0.2616],
    ),
    (
        "cifar100",
        &[0.5071, 0.4865, 0.4409],
        &[0.2673, 0.2564, 0.2762],
    ),
    ("mnist", &[0.1307], &[0.3081]),
    ("fashion-mnist", &[0.2860], &[0.3530]),
    ("half", &[0.5], &[0.5]),
];

/// Means and stds for each channel, from a name or from `m1,m2,.../s1,s2,...`.
pub(crate) fn normalisation(text: &str, channels: usize) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let wrong = || {
        let names: Vec<&str> = USUAL.iter().map(|(name, ..)| *name).collect();
        let expected = format!(
            "{}, or {channels} means, a slash, and {channels} positive stds, such as 0.5/0.25 for \
             one channel",
            names.join(", ")
        );
        SettingError::value("normalise", text, expected)
    };
    if let Some((_, mean, std)) = USUAL.iter().find(|(name, ..)| *name == text) {
        let each = |values: &[f32]| match values {
            [one] => Some(vec![*one; channels]),
            _ => (values.len() == channels).then(|| values.to_vec()),
        };
        return match (each(mean), each(std)) {
            (Some(mean), Some(std)) => Ok((mean, std)),
            _ => Err(wrong().into()),
        };
    }
    let list = |text: &str| -> Option<Vec<f32>> {
        let values: Option<Vec<f32>> = text.split(',').map(|v| v.trim().parse().ok()).collect();
        values.filter(|v| v.len() == channels && v.iter().all(|x| x.is_finite()))
    };
    let (mean, std) = text.split_once('/').ok_or_else(wrong)?;
    match (list(mean), list(std)) {
        (Some(mean), Some(std)) if std.iter().all(|&s| s > 0.0) => Ok((mean, std)),
        _ => Err(wrong().into()),
    }
}

/// Images that are looked at.
const LOOK: usize = 64;
/// So many more of them must be right before normalisation is said to be missing.
const MORE: usize = 12;

/// Doubts about a network of another program that takes pixels as they are: with
/// one of the usual normalisations it is right on clearly more of the first images.
///
/// # Errors
/// An image that cannot be read; a device that fails.
pub(crate) fn missing_normalisation(subject: &Subject) -> Result<Option<String>, Error> {
    let model = &subject.loaded.model;
    let classes = subject.dataset.classes();
    if classes.is_empty() || subject.loaded.report.matched.is_empty() || normalises(model) {
        return Ok(None);
    }
    let indices = subject.selection.indices().take(LOOK);
    let indices: Vec<u32> = indices.map(|index| index as u32).collect();
    let plain = right(&*subject.network, &subject.dataset, &indices, |_, pixel| {
        pixel
    })?;
    if plain + MORE > indices.len() {
        return Ok(None);
    }
    let channels = model.graph.input().channels;
    let mut best: Option<(&str, usize)> = None;
    for (name, ..) in USUAL {
        // Constants for another number of channels do not apply.
        let Ok((mean, std)) = normalisation(name, channels) else {
            continue;
        };
        let changed = |channel: usize, pixel: f32| (pixel - mean[channel]) / std[channel];
        let found = right(&*subject.network, &subject.dataset, &indices, changed)?;
        if found >= plain + MORE && best.is_none_or(|(_, most)| found > most) {
            best = Some((name, found));
        }
    }
    Ok(best.map(|(name, found)| {
        let of = indices.len();
        format!(
            "the model seems to miss its input normalisation: of the first {of} images it gets \
             {plain} right, and {found} if they are normalised as for {name}; give the \
             normalisation with the weights (normalise = {name}), or export the network with it"
        )
    }))
}

/// Whether pixels are changed by constants before anything else.
fn normalises(model: &Model) -> bool {
    let mut nodes = model.graph.nodes().iter();
    nodes.any(|node| node.inputs == [0] && matches!(node.op, Op::Affine { .. }))
}

/// How many images are classified right, each pixel changed first.
fn right(
    network: &dyn Executor,
    dataset: &Dataset,
    indices: &[u32],
    change: impl Fn(usize, f32) -> f32,
) -> Result<usize, Error> {
    let (classes, channels) = (network.classes(), network.input().channels);
    let mut count = 0;
    for chunk in indices.chunks(network.batch().max(1)) {
        let mut images = dataset.images(chunk.iter().copied())?;
        for (at, pixel) in images.pixels.iter_mut().enumerate() {
            *pixel = change(at % channels, *pixel);
        }
        let mut logits = vec![0.0; chunk.len() * classes];
        network.logits(&images.pixels, &mut logits)?;
        let rows = logits.chunks_exact(classes).zip(&images.labels);
        count += rows
            .filter(|(row, label)| argmax(row) == **label as usize)
            .count();
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_point_10_the_usual_constants_have_names() {
        let (mean, std) = normalisation("imagenet", 3).unwrap();
        assert_eq!((mean[2], std[0]), (0.406, 0.229));
        assert_eq!(normalisation("half", 2).unwrap().0, [0.5, 0.5]);
        let numbers = "0.485,0.456,0.406/0.229,0.224,0.225";
        assert_eq!(normalisation(numbers, 3).unwrap(), (mean, std));
        for (text, channels) in [("imagenet", 1), ("imagenets", 3), ("0.5", 1), ("0.5/0", 1)] {
            let error = normalisation(text, channels).unwrap_err().to_string();
            assert!(error.contains("imagenet, cifar10"), "{error}");
        }
    }
}
