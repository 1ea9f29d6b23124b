//! The difference of two models, paired over images.

use super::{Group, certified::rows};
use crate::load::LoadedLog;
use crate::statistics::{Paired, mean_difference, paired_difference};
use crate::table::{Best, Cell, Column, Format, Table};

/// Up to this many models are compared each with each; more only with the first.
pub const EACH_WITH_EACH: usize = 5;

/// What is compared of an image: its number, its class, its certified radius if
/// it is right.
type Outcome = (u64, u32, Option<f64>);

/// Differences of certified accuracy and ACR for the pairs of a group.
pub fn table(group: &Group<'_>, radii: &[f64]) -> Option<Table> {
    let outcomes: Vec<Vec<Outcome>> = group.logs.iter().map(|log| outcomes(log)).collect();
    let mut rows = Vec::new();
    for first in 0..outcomes.len() {
        if outcomes.len() > EACH_WITH_EACH && first > 0 {
            break;
        }
        for second in first + 1..outcomes.len() {
            let same_data = {
                let hash = |at: usize| &group.logs[at].manifest.data.sha256;
                hash(first) == hash(second) || hash(first).is_empty() || hash(second).is_empty()
            };
            let pairs = pairs(&outcomes[first], &outcomes[second]);
            if same_data && !pairs.is_empty() {
                let name = format!("{} − {}", group.names[first], group.names[second]);
                rows.push(row(name, &pairs, radii));
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![Column::text("difference")];
    columns.extend(radii.iter().map(|radius| {
        Column::new(format!("{radius}"), Format::Percent, Best::None).under("radius ≥")
    }));
    columns.push(Column::new("ACR", Format::Fixed(3), Best::None));
    columns.push(Column::new("images", Format::Fixed(0), Best::None));
    Some(Table {
        id: format!("difference-{}", group.slug),
        title: format!(
            "Difference in certified accuracy (percentage points): {}",
            group.title
        ),
        caption:
            "First model minus second, over the images that both logs have and all of them in \
                  the denominator, with 95 % confidence intervals paired over images: Newcombe's \
                  square-and-add interval (1998, method 10) for accuracies, the normal interval of \
                  the mean difference for the ACR. Bold: the interval leaves out 0. The intervals \
                  speak about one comparison each and are not corrected for their number."
                .into(),
        guarantee: group.guarantee(),
        columns,
        rows,
    })
}

fn outcomes(log: &LoadedLog) -> Vec<Outcome> {
    let mut out: Vec<Outcome> = rows(log)
        .iter()
        .map(|row| {
            let right = row.correct && row.predict.is_some();
            (row.idx, row.label, right.then_some(row.radius))
        })
        .collect();
    out.sort_unstable_by_key(|&(idx, ..)| idx);
    out
}

/// The radii of both models on the images that both have, where they agree on
/// the label (if not, they are not the same images).
fn pairs(first: &[Outcome], second: &[Outcome]) -> Vec<[Option<f64>; 2]> {
    let mut out = Vec::new();
    let mut rest = second.iter().peekable();
    for (idx, label, radius) in first {
        while rest.next_if(|other| other.0 < *idx).is_some() {}
        if let Some(other) = rest.next_if(|other| other.0 == *idx)
            && other.1 == *label
        {
            out.push([*radius, other.2]);
        }
    }
    out
}

fn row(name: String, pairs: &[[Option<f64>; 2]], radii: &[f64]) -> Vec<Cell> {
    let mut row = vec![Cell::Text(name)];
    for &radius in radii {
        let mut counts = Paired::default();
        for pair in pairs {
            let reached = pair.map(|found| found.is_some_and(|found| found >= radius));
            *match reached {
                [true, true] => &mut counts.both,
                [true, false] => &mut counts.first,
                [false, true] => &mut counts.second,
                [false, false] => &mut counts.neither,
            } += 1;
        }
        row.push(paired_difference(counts).map_or(Cell::Missing, Cell::Interval));
    }
    let differences: Vec<f64> = pairs
        .iter()
        .map(|[a, b]| a.unwrap_or(0.0) - b.unwrap_or(0.0))
        .collect();
    row.push(mean_difference(&differences).map_or(Cell::Missing, Cell::Interval));
    row.push(Cell::Number(pairs.len() as f64));
    row
}
