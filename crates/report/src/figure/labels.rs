//! Names beside the lines.

use super::chart::Frame;
use super::{Axis, Series};

/// Distance of labels, in pixels.
pub const LABEL_SPACING: f64 = 18.0;

/// Heights of the labels right of the plot: at the ends of the lines where these
/// are far enough apart, pushed apart where not. Lines that all end together
/// (certified accuracy ends at 0) are labelled from the top in the order in
/// which they lie.
pub fn label_places(frame: &Frame, y: &Axis, series: &[Series]) -> Vec<f64> {
    let Frame { top, bottom, .. } = *frame;
    let ends: Vec<f64> = series
        .iter()
        .map(|series| {
            series
                .points
                .last()
                .map_or(bottom, |&(_, end)| bottom - y.place(end) * (bottom - top))
        })
        .collect();
    let spread = |values: &[f64]| {
        let (low, high) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(l, h), &v| (l.min(v), h.max(v)));
        high - low
    };
    let together = series.len() > 1 && spread(&ends) < LABEL_SPACING * (series.len() - 1) as f64;
    let height = |series: &Series| {
        let sum: f64 = series.points.iter().map(|&(_, py)| y.place(py)).sum();
        sum / series.points.len().max(1) as f64
    };
    let mut order: Vec<usize> = (0..series.len()).collect();
    if together {
        order.sort_by(|&a, &b| height(&series[b]).total_cmp(&height(&series[a])));
    } else {
        order.sort_by(|&a, &b| ends[a].total_cmp(&ends[b]));
    }
    let mut places = vec![0.0; series.len()];
    let mut free = top + 8.0;
    for (rank, &at) in order.iter().enumerate() {
        let left_over = (order.len() - 1 - rank) as f64 * LABEL_SPACING;
        let wanted = if together { free } else { ends[at] };
        places[at] = wanted.max(free).min(bottom - left_over);
        free = places[at] + LABEL_SPACING;
    }
    places
}

/// About how wide a text is drawn.
pub fn text_width(text: &str, font_size: f64) -> f64 {
    text.chars().count() as f64 * font_size * 0.56
}

/// A name that fits beside a plot.
pub fn shorten(name: &str) -> String {
    const MOST: usize = 44;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    let start: String = name.chars().take(MOST - 1).collect();
    start + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;

    fn series(end: f64) -> Series {
        Series {
            name: "line".into(),
            style: 0,
            points: vec![(0.0, 50.0), (1.0, end)],
        }
    }

    #[test]
    fn labels_never_overlap_and_stay_inside() {
        let y = Axis::percent("y");
        for ends in [
            vec![0.0; 9],
            vec![0.0, 1.0, 2.0, 50.0, 51.0, 100.0],
            vec![100.0, 0.0],
            vec![3.0],
        ] {
            let lines: Vec<Series> = ends.iter().map(|&end| series(end)).collect();
            let figure = Figure {
                id: "f".into(),
                title: String::new(),
                caption: String::new(),
                guarantee: String::new(),
                x: Axis::percent("x"),
                y: y.clone(),
                series: lines.clone(),
            };
            let frame = figure.frame(true);
            let mut places = label_places(&frame, &y, &lines);
            places.sort_unstable_by(f64::total_cmp);
            assert!(
                places[0] >= frame.top && places[places.len() - 1] <= frame.bottom,
                "{places:?}"
            );
            let apart = places
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= LABEL_SPACING - 1e-9);
            assert!(apart, "{ends:?}: {places:?}");
        }
    }
}
