//! A network whose ReLUs are averages over the noise that reaches them.
//!
//! Noise at the input is nearly Gaussian, too, where a ReLU stands: the sum of very
//! many small terms. There its standard deviation is measured, channel by channel,
//! and the ReLU becomes `E max(z + width n, 0)`. A network of such averages is not
//! the average of the network, since the noise of neighbours is not independent;
//! but it is much closer to it than the network itself, and where training starts.

use network::{Model, Noise, NoisyImage, Op, Purpose};

use super::{LegContext, TrainingNoise};
use crate::error::TrainError;

/// Noisy copies of each image.
const COPIES: usize = 4;
/// Pixels, in all colours, of the images that are looked at; at least
/// [`FEWEST`] of them.
const PIXELS: usize = 1 << 19;
const FEWEST: usize = 8;
/// Values that are held at once.
const VALUES: usize = 1 << 22;

/// The student with its ReLUs averaged over what this noise is in the
/// teacher, a network of the same form.
pub(super) fn averaged_relus(
    student: Model,
    teacher: &Model,
    noise: TrainingNoise,
    stage: &LegContext<'_>,
) -> Result<Model, TrainError> {
    let mut student = student.with_averaged_relus();
    let noise = noise.noise(stage.seed, Purpose::Widths);
    let count = (PIXELS / teacher.graph.input().len()).max(FEWEST);
    let copies = NoisyImage::copies_of(stage.images, 0, COPIES);
    let copies = &copies[..copies.len().min(count)];
    for id in 0..teacher.graph.nodes().len() {
        let node = &teacher.graph.nodes()[id];
        if node.op != Op::RELU {
            continue;
        }
        let found = deviations(teacher, node.inputs[0], (&noise, copies), stage)?;
        let width = student.graph.parameters_of(id).start;
        student.parameters.get_mut(width).copy_from_slice(&found);
    }
    Ok(student)
}

/// Standard deviation under noise of a node's value: the root, for each channel,
/// of the mean variance over images and pixels.
fn deviations(
    model: &Model,
    node: usize,
    (noise, copies): (&Noise, &[NoisyImage<'_>]),
    stage: &LegContext<'_>,
) -> Result<Vec<f32>, TrainError> {
    let (shape, part) = (model.graph.shape(node), (stage.load)(&model.up_to(node))?);
    let mut sums = vec![0.0; shape.channels];
    let at_once = (VALUES / shape.len() / COPIES).max(1);
    for batch in copies.chunks(at_once) {
        let mut values = vec![0.0; batch.len() * COPIES * shape.len()];
        part.noisy_logits(noise, batch, &mut values)?;
        for image in values.chunks_exact(COPIES * shape.len()) {
            for i in 0..shape.len() {
                let at = |copy: usize| f64::from(image[copy * shape.len() + i]);
                let mean = (0..COPIES).map(at).sum::<f64>() / COPIES as f64;
                let squares = (0..COPIES).map(|copy| (at(copy) - mean).powi(2));
                sums[i % shape.channels] += squares.sum::<f64>() / (COPIES - 1) as f64;
            }
        }
    }
    let count = (copies.len() * shape.pixels()) as f64;
    Ok(sums.iter().map(|sum| (sum / count).sqrt() as f32).collect())
}
