//! Attacks a batch and checks what comes back.

use crate::attempt::{Attack, Attempt, Visit};
use crate::batch::{Batch, Gathered, Goal};
use crate::error::AttackError;
use crate::l2::{difference, distance, max_distance};
use crate::outcome::{Outcome, Status};
use crate::target::{Standing, Target};

/// Attacks every image of the batch that does not meet the goal yet (and whose
/// label is not its target); one outcome an image, in order.
///
/// An attack is never trusted: range, budget and success are checked here, on
/// the images that it gives back.
///
/// # Errors
/// On a batch that does not fit, logits that are not finite, or an attack that
/// leaves [0, 1] or its budget.
pub fn run(
    attack: &dyn Attack,
    target: &dyn Target,
    batch: &Batch<'_>,
    observe: &mut dyn FnMut(&Visit<'_>),
) -> Result<Vec<Outcome>, AttackError> {
    batch.check(target.input(), target.classes())?;
    let all: Vec<usize> = (0..batch.len()).collect();
    let gathered = Gathered::new(batch, &all, |i| batch.image(i));
    let clean = target.judge(&gathered.points(), 0)?.standings;
    let reached = |standing: &Standing, i| batch.success(standing.rank(batch.class(i)));
    let attacked: Vec<usize> = (0..batch.len())
        .filter(|&i| !batch.left_out(i) && !reached(&clean[i], i))
        .collect();

    let mut gathered = Gathered::new(batch, &attacked, |i| batch.image(i));
    let attempts = perturb(attack, target, &gathered.batch(batch), observe)?;
    gathered.images = attempts.iter().flat_map(|a| &a.image).copied().collect();
    let after = target.judge(&gathered.points(), 0)?.standings;

    let mut outcomes: Vec<Outcome> = (0..batch.len())
        .map(|i| not_attacked(batch, i, &clean[i]))
        .collect();
    for ((&i, attempt), standing) in attacked.iter().zip(attempts).zip(after) {
        let image = batch.image(i);
        let broken = reached(&standing, i);
        let l2 = distance(image, &attempt.image);
        let linf = max_distance(image, &attempt.image);
        outcomes[i] = Outcome {
            adv_predict: standing.predict(),
            status: if broken {
                Status::Broken
            } else {
                Status::Failed
            },
            l2: broken.then_some(l2),
            linf: broken.then_some(linf),
            last_l2: l2,
            steps: attempt.steps,
            at_floor: broken && attempt.at_floor,
            image: attempt.image,
            ..outcomes[i].clone()
        };
    }
    Ok(outcomes)
}

/// The inner maximisation of adversarial training: perturbations of all images,
/// one behind the other, whatever they achieve.
///
/// SmoothAdv (Salman et al.) uses [`crate::Pgd`] without `stop_at_success` (or
/// [`crate::Ddn`] with `max_norm`) on an [`crate::Averaged`] target, then trains on
/// `x + perturbation + noise` with the same noises. As in their code the attacked
/// network is in eval mode; only the training pass that follows uses batch
/// statistics.
pub fn maximise(
    attack: &dyn Attack,
    target: &dyn Target,
    batch: &Batch<'_>,
) -> Result<Vec<f32>, AttackError> {
    batch.check(target.input(), target.classes())?;
    let attempts = perturb(attack, target, batch, &mut |_| {})?;
    let mut perturbation = Vec::with_capacity(batch.images.len());
    for (i, attempt) in attempts.iter().enumerate() {
        let pixels = difference(batch.image(i), &attempt.image);
        perturbation.extend(pixels.map(|d| d as f32));
    }
    Ok(perturbation)
}

/// Attacks all images, and checks range and budget.
fn perturb(
    attack: &dyn Attack,
    target: &dyn Target,
    batch: &Batch<'_>,
    observe: &mut dyn FnMut(&Visit<'_>),
) -> Result<Vec<Attempt>, AttackError> {
    if batch.is_empty() {
        return Ok(vec![]);
    }
    let attempts = attack.perturb(target, batch, observe)?;
    let broken = |i: usize, reason| AttackError::Broken {
        attack: attack.name(),
        index: batch.indices[i],
        reason,
    };
    if attempts.len() != batch.len() {
        let reason = format!("and the rest gave {} attempts", attempts.len());
        return Err(broken(0, reason));
    }
    for (i, attempt) in attempts.iter().enumerate() {
        let image = batch.image(i);
        if attempt.image.len() != image.len() {
            let reason = format!("has {} pixels, not {}", attempt.image.len(), image.len());
            return Err(broken(i, reason));
        }
        if let Some(v) = attempt.image.iter().find(|v| !(0.0..=1.0).contains(*v)) {
            return Err(broken(i, format!("has a pixel {v} outside [0, 1]")));
        }
        let l2 = distance(image, &attempt.image);
        if let Some(budget) = attack.kind().budget().filter(|&b| l2 > b) {
            let reason = format!("is {l2} away, more than the budget {budget}");
            return Err(broken(i, reason));
        }
    }
    Ok(attempts)
}

fn not_attacked(batch: &Batch<'_>, i: usize, clean: &Standing) -> Outcome {
    let label = batch.labels[i];
    let left_out = batch.left_out(i);
    Outcome {
        index: batch.indices[i],
        label,
        target: match batch.goal {
            Goal::Untargeted => None,
            Goal::Targeted(targets) => Some(targets[i]),
        },
        clean_predict: clean.predict(),
        clean_correct: clean.rank(label) < batch.top_k,
        adv_predict: clean.predict(),
        status: if left_out {
            Status::LeftOut
        } else {
            Status::AlreadyWrong
        },
        l2: (!left_out).then_some(0.0),
        linf: (!left_out).then_some(0.0),
        last_l2: 0.0,
        steps: 0,
        at_floor: false,
        image: batch.image(i).to_vec(),
    }
}
