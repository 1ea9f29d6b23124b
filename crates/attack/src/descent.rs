//! The loop that gradient attacks share: look, judge, move.

use rayon::prelude::*;

use crate::attempt::{Attempt, Visit};
use crate::challenge::Challenge;
use crate::error::AttackError;
use crate::l2::unit;
use crate::target::{Evaluation, Target};

/// One look at one image under attack.
pub(crate) struct Look<'a> {
    /// From 1.
    pub step: u32,
    /// The image itself.
    pub image: &'a [f32],
    /// Where it has been moved to.
    pub moved: &'a [f32],
    /// Whether the goal is reached there.
    pub success: bool,
}

/// What an attack does with one image, step by step.
pub(crate) trait Walk: Sync {
    /// What it remembers of an image.
    type State: Send + Sync;

    /// Looks at most.
    fn steps(&self) -> u32;

    /// Of random directions, where there is no gradient.
    fn seed(&self) -> u64;

    /// Before the first look.
    fn begin(&self, image: &[f32]) -> Self::State;

    /// Takes a look in; false: the image is done.
    fn go_on(&self, state: &mut Self::State, look: &Look<'_>) -> bool;

    /// Whether images move after this look, so that a gradient is needed.
    fn moves_after(&self, step: u32) -> bool;

    /// Moves an image along a direction of length 1.
    fn advance(
        &self,
        state: &Self::State,
        step: u32,
        direction: &[f64],
        image: &[f32],
        moved: &mut [f32],
    );

    /// What comes back, and whether the number of steps decided its distance.
    fn end(&self, state: Self::State, image: &[f32], moved: Vec<f32>) -> (Vec<f32>, bool);
}

/// Walks every image of the challenge; images that are done cost no more passes.
pub(crate) fn walk_all<W: Walk>(
    walk: &W,
    target: &dyn Target,
    challenge: &Challenge<'_>,
    observe: &mut dyn FnMut(&Visit<'_>),
) -> Result<Vec<Attempt>, AttackError> {
    let (images, steps) = (challenge.images, walk.steps());
    let len = target.input().len();
    let mut moved: Vec<Vec<f32>> = (0..images.len())
        .map(|i| images.image(i).to_vec())
        .collect();
    let mut states: Vec<W::State> = moved.iter().map(|image| walk.begin(image)).collect();
    let mut used = vec![steps; images.len()];
    let mut active: Vec<usize> = (0..images.len()).collect();
    for step in 1..=steps {
        if active.is_empty() {
            break;
        }
        let points = challenge.points(&active, |i| &moved[i]);
        let moves = walk.moves_after(step);
        let Evaluation {
            judgement,
            gradient,
        } = if moves {
            target.evaluate(&points, step)?
        } else {
            Evaluation {
                judgement: target.judge(&points, step)?,
                gradient: vec![],
            }
        };
        let mut left = Vec::with_capacity(active.len());
        // The place of an image's gradient, if it moves.
        let mut place = vec![None; images.len()];
        for (k, &i) in active.iter().enumerate() {
            let success = challenge.success(judgement.standings[k].rank(challenge.class(i)));
            observe(&Visit {
                step,
                index: images.indices[i],
                image: &moved[i],
                loss: judgement.losses[k],
                success,
            });
            let look = Look {
                step,
                image: images.image(i),
                moved: &moved[i],
                success,
            };
            if !walk.go_on(&mut states[i], &look) {
                used[i] = step - 1;
                continue;
            }
            place[i] = moves.then_some(k);
            left.push(i);
        }
        let each = moved.par_iter_mut().zip(&states).zip(place).enumerate();
        each.for_each(|(i, ((moved, state), place))| {
            if let Some(k) = place {
                let gradient = &gradient[k * len..(k + 1) * len];
                let mut direction = unit(gradient, walk.seed(), images.indices[i], step);
                direction.iter_mut().for_each(|d| *d *= challenge.sign());
                walk.advance(state, step, &direction, images.image(i), moved);
            }
        });
        active = left;
    }
    let ended = moved.into_iter().zip(states).zip(used).enumerate();
    Ok(ended
        .map(|(i, ((moved, state), steps))| {
            let (image, at_floor) = walk.end(state, images.image(i), moved);
            Attempt {
                image,
                steps,
                at_floor,
            }
        })
        .collect())
}
