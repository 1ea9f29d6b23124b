//! How many images go through which steps together.
//!
//! Early layers have large activations and few weights: a few images at a time
//! keep the activations in the cache. Late layers have small activations and
//! many weights: more images share a reading of them. So a plan is cut where
//! only one value is alive, and each section takes its own number of images.

use std::collections::BTreeSet;

use super::plan::{Section, Source, Step};

/// Floats of an activation that the second-level cache should hold.
const ACTIVATION: usize = 1 << 15;
/// Pixels that should share a reading of the weights.
const PIXELS: usize = 768;
/// Most images of a group.
const MOST: usize = 16;

/// Cuts steps that end in `output` into sections; `lengths` are the floats of
/// an image and of its logits.
pub(super) fn cut(mut steps: Vec<Step>, output: Source, lengths: [usize; 2]) -> Vec<Section> {
    let cuts: Vec<usize> = (1..steps.len())
        .filter(|&k| matches!(alive(&steps[k..], output)[..], [Source::Slot(_)]))
        .collect();
    // First step of each section, and its group.
    let mut starts: Vec<(usize, usize)> = vec![];
    let bounds = [&[0], &cuts[..], &[steps.len()]].concat();
    for bound in bounds.windows(2) {
        let wishes = steps[bound[0]..bound[1]].iter().filter_map(wish);
        match (wishes.min(), starts.last()) {
            (None, None) => starts.push((bound[0], MOST)),
            (Some(group), last) if last.is_none_or(|last| last.1 != group) => {
                starts.push((bound[0], group));
            }
            _ => {}
        }
    }
    let mut sections = vec![];
    let mut end = (output, lengths[1]);
    for (first, group) in starts.into_iter().rev() {
        let mut own = steps.split_off(first);
        let mut start = (Source::Input, lengths[0]);
        if first > 0 {
            start.0 = alive(&own, end.0)[0];
            let maker = steps
                .iter()
                .rfind(|step| Source::Slot(step.output) == start.0);
            start.1 = maker.expect("written before it is read").shapes[1].len();
        }
        let output = read_as_input(&mut own, start.0, end.0);
        sections.push(Section {
            steps: own,
            output,
            lengths: [start.1, end.1],
            group,
        });
        end = start;
    }
    sections.reverse();
    sections
}

/// Images that should go through a step together; none said where it does not
/// matter.
fn wish(step: &Step) -> Option<usize> {
    let shape = step.shapes.into_iter().max_by_key(|shape| shape.len())?;
    let images = (ACTIVATION / shape.len().max(1)).max(PIXELS / shape.pixels().max(1));
    (shape.pixels() > 1).then(|| 1 << images.clamp(1, MOST).ilog2())
}

/// What steps that end in `output` read and do not write themselves.
fn alive(steps: &[Step], output: Source) -> Vec<Source> {
    let (mut alive, mut written) = (vec![], BTreeSet::new());
    let mut read = |source: Source, written: &BTreeSet<usize>| {
        let own = match source {
            Source::Slot(slot) => written.contains(&slot),
            Source::Constant(_) => true,
            Source::Input => false,
        };
        if !own && !alive.contains(&source) {
            alive.push(source);
        }
    };
    for step in steps {
        for &source in step.inputs.iter().chain(&step.residual) {
            read(source, &written);
        }
        written.insert(step.output);
    }
    read(output, &written);
    alive
}

/// Lets steps that end in `output` read `value` as their input, as long as it
/// stands in its slot. Returns where they end.
fn read_as_input(steps: &mut [Step], value: Source, output: Source) -> Source {
    for step in steps {
        for source in step.inputs.iter_mut().chain(&mut step.residual) {
            if *source == value {
                *source = Source::Input;
            }
        }
        if Source::Slot(step.output) == value {
            return output;
        }
    }
    if output == value {
        Source::Input
    } else {
        output
    }
}
