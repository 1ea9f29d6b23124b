//! Attacks images and checks what comes back.

use crate::attempt::{Attack, Attempt, Visit};
use crate::challenge::{Challenge, Goal};
use crate::error::AttackError;
use crate::l2::{difference, distance, max_distance};
use crate::outcome::{AttackOutcome, Status};
use crate::target::{Standing, Target};

/// Attacks every image of the challenge that does not meet the goal yet (and whose
/// label is not its target); one outcome an image, in order.
///
/// An attack is never trusted: range, budget and success are checked here, on
/// the images that it gives back.
///
/// # Errors
/// On a challenge that does not fit, logits that are not finite, or an attack that
/// leaves [0, 1] or its budget.
pub fn run(
    attack: &dyn Attack,
    target: &dyn Target,
    challenge: &Challenge<'_>,
    observe: &mut dyn FnMut(&Visit<'_>),
) -> Result<Vec<AttackOutcome>, AttackError> {
    challenge.check(target.input(), target.classes())?;
    let all: Vec<usize> = (0..challenge.len()).collect();
    let points = challenge.points(&all, |i| challenge.images.image(i));
    let clean = target.judge(&points, 0)?.standings;
    let reached = |standing: &Standing, i| challenge.success(standing.rank(challenge.class(i)));
    let attacked: Vec<usize> = (0..challenge.len())
        .filter(|&i| !challenge.left_out(i) && !reached(&clean[i], i))
        .collect();

    let images = challenge.images.select(&attacked);
    let targets: Vec<u32> = attacked.iter().map(|&i| challenge.class(i)).collect();
    let part = Challenge {
        images: &images,
        goal: match challenge.goal {
            Goal::Untargeted => Goal::Untargeted,
            Goal::Targeted(_) => Goal::Targeted(&targets),
        },
        ..*challenge
    };
    let attempts = perturb(attack, target, &part, observe)?;
    let all: Vec<usize> = (0..part.len()).collect();
    let points = part.points(&all, |k| &attempts[k].image);
    let after = target.judge(&points, 0)?.standings;

    let mut outcomes: Vec<AttackOutcome> = (0..challenge.len())
        .map(|i| not_attacked(challenge, i, &clean[i]))
        .collect();
    for ((&i, attempt), standing) in attacked.iter().zip(attempts).zip(after) {
        let image = challenge.images.image(i);
        let broken = reached(&standing, i);
        let l2 = distance(image, &attempt.image);
        let linf = max_distance(image, &attempt.image);
        outcomes[i] = AttackOutcome {
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
/// SmoothAdv (Salman et al.) uses [`crate::Pgd::without_stopping`] (or
/// [`crate::Ddn`] with `eps`) on an [`crate::Averaged`] target, then trains on
/// `x + perturbation + noise` with the same noises. As in their code the attacked
/// network is in eval mode; only the training pass that follows uses batch
/// statistics.
pub fn maximise(
    attack: &dyn Attack,
    target: &dyn Target,
    challenge: &Challenge<'_>,
) -> Result<Vec<f32>, AttackError> {
    challenge.check(target.input(), target.classes())?;
    let attempts = perturb(attack, target, challenge, &mut |_| {})?;
    let mut perturbation = Vec::with_capacity(challenge.images.pixels.len());
    for (i, attempt) in attempts.iter().enumerate() {
        let pixels = difference(challenge.images.image(i), &attempt.image);
        perturbation.extend(pixels.map(|d| d as f32));
    }
    Ok(perturbation)
}

/// Attacks all images, and checks range and budget.
fn perturb(
    attack: &dyn Attack,
    target: &dyn Target,
    challenge: &Challenge<'_>,
    observe: &mut dyn FnMut(&Visit<'_>),
) -> Result<Vec<Attempt>, AttackError> {
    if challenge.is_empty() {
        return Ok(vec![]);
    }
    let attempts = attack.perturb(target, challenge, observe)?;
    let broken = |i: usize, reason| AttackError::Broken {
        attack: attack.name(),
        index: challenge.images.indices[i],
        reason,
    };
    if attempts.len() != challenge.len() {
        let reason = format!("and the rest gave {} attempts", attempts.len());
        return Err(broken(0, reason));
    }
    for (i, attempt) in attempts.iter().enumerate() {
        let image = challenge.images.image(i);
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

fn not_attacked(challenge: &Challenge<'_>, i: usize, clean: &Standing) -> AttackOutcome {
    let label = challenge.images.labels[i];
    let left_out = challenge.left_out(i);
    AttackOutcome {
        index: challenge.images.indices[i],
        label,
        target: match challenge.goal {
            Goal::Untargeted => None,
            Goal::Targeted(targets) => Some(targets[i]),
        },
        clean_predict: clean.predict(),
        clean_correct: clean.rank(label) < challenge.top_k,
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
        image: challenge.images.image(i).to_vec(),
    }
}
