//! The paper's two figures.

use report::{Axis, Colour, Curve, Mark, Panel, Panels, Span, Symbol};

use super::line::{LineProblem, TIMESTEPS};
use super::measured::{Function, Functions, OUTLIER, POINT, class, grid, points};

const BLUE: Colour = Colour::hex(0x0072b2);
const LIGHT_BLUE: Colour = Colour::hex(0x7db8de);
const DARK_BLUE: Colour = Colour::hex(0x0b3c5d);
const RED: Colour = Colour::hex(0xd55e00);
const GREEN: Colour = Colour::hex(0x009e73);
const INK: Colour = Colour::hex(0x1f2328);
/// Superscripts of the iterates that are drawn.
const SUPERSCRIPTS: [&str; 6] = ["⁰", "¹", "²", "³", "⁴", "⁵"];

/// Figure 1 and Figure 2.
pub fn both(settings: &LineProblem, measured: &Functions) -> [Panels; 2] {
    [first(settings, measured), second(settings, measured)]
}

/// The given model and the smoothed one, over the classes of the given one.
fn first(settings: &LineProblem, measured: &Functions) -> Panels {
    let (f, v) = (
        &measured.iterates[0],
        &measured.iterates[TIMESTEPS as usize],
    );
    let average = &measured.average;
    let panel = Panel {
        title: format!(
            "the outlier at x = {}: {} for f⁰, {} for f⁵",
            number(OUTLIER),
            f.class_at(OUTLIER),
            v.class_at(OUTLIER)
        ),
        curves: vec![
            decision(),
            curve("f⁰, the given model", LIGHT_BLUE, 2.6, &[], &f.curve),
            curve("f⁵, smoothed", DARK_BLUE, 3.0, &[], &v.curve),
            curve(
                &average_name(settings),
                GREEN,
                2.0,
                &[6.0, 4.0],
                &average.curve,
            ),
        ],
        marks: [
            classes(f, "f⁰ says "),
            changes(f, LIGHT_BLUE),
            changes(v, DARK_BLUE),
        ]
        .concat(),
        spans: Vec::new(),
    };
    panels(
        "figure-1",
        "Gradient regularisation of a binary classifier",
        "The given model f⁰ has large gradients: a single red circle lies amid blue stars. The \
         smoothed model f⁵ classifies the outlier like its neighbours. Symbols show the classes \
         given by f⁰.",
        measured,
        vec![panel],
    )
}

/// f^0, f^1 and f^5, each with its own classes and boundaries.
fn second(settings: &LineProblem, measured: &Functions) -> Panels {
    let panel = |k: usize| {
        let f = &measured.iterates[k];
        let distance = match f.distance() {
            Some(distance) => format!("adversarial distance {distance:.2}"),
            None => "one class only".into(),
        };
        let mut curves = vec![decision(), curve("current model", BLUE, 2.8, &[], &f.curve)];
        if k > 0 {
            let name = "exact average that it aims at";
            curves.push(curve(name, GREEN, 2.0, &[6.0, 4.0], &measured.averages[k]));
        }
        let mut marks = classes(f, "predicted ");
        marks.extend(changes(f, INK));
        let at_point = points().iter().position(|&(x, _)| x == POINT);
        if let Some(at) = at_point {
            let y = f.at_points[at];
            curves.push(Curve {
                points: vec![(POINT, y), (POINT, 0.0)],
                ..curve("", INK, 1.2, &[2.0, 3.0], &[])
            });
            marks.push(Mark {
                name: format!("the point at x = {}", number(POINT)),
                symbol: Symbol::Ring,
                colour: INK,
                at: (POINT, y),
            });
        }
        Panel {
            title: format!("f{}: {distance}", SUPERSCRIPTS[k]),
            curves,
            marks,
            spans: (f.nearest().iter().filter(|&&x| drawn(x)))
                .map(|&x| Span {
                    x: (POINT, x),
                    y: 0.0,
                    text: format!("{:.2}", (x - POINT).abs()),
                })
                .collect(),
        }
    };
    let title = format!(
        "Five timesteps of heat smoothing on the line, σ = {}, λ = {}",
        settings.sigma, settings.lambda
    );
    panels(
        "figure-2",
        &title,
        "The current model, the exact Gaussian average of f⁰ that it aims at, and the classes it \
         predicts. Measured above 0: the adversarial distance of the point at x = −0.5, to the \
         nearest change of class.",
        measured,
        [0, 1, TIMESTEPS as usize].map(panel).into(),
    )
}

fn panels(
    id: &str,
    title: &str,
    caption: &str,
    measured: &Functions,
    panels: Vec<Panel>,
) -> Panels {
    let curves = measured.iterates.iter().map(|f| &f.curve);
    let largest = curves.flatten().fold(1.0, |most: f64, y| most.max(y.abs()));
    let largest = (1.08 * largest).ceil();
    Panels {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        guarantee: record::Guarantee::Empirical.sentence().into(),
        x: Axis::linear("x", "", -1.0, 1.0),
        y: Axis::linear("logit of red − logit of blue", "", -largest, largest),
        panels,
    }
}

fn average_name(settings: &LineProblem) -> String {
    let variance = settings.variance(TIMESTEPS);
    // The rounding hides what arithmetic leaves of the user's own sigma.
    let spread = (1e6 * variance.sqrt()).round() / 1e6;
    format!("exact average f⁰ * N(0, {spread}²)")
}

/// A minus that is as long as a plus.
fn number(value: f64) -> String {
    value.to_string().replace('-', "−")
}

fn curve(name: &str, colour: Colour, width: f64, dash: &'static [f64], y: &[f64]) -> Curve {
    Curve {
        name: name.into(),
        colour,
        width,
        dash,
        points: grid().into_iter().zip(y.iter().copied()).collect(),
    }
}

/// Where the class changes: score 0.
fn decision() -> Curve {
    Curve {
        points: vec![(-1.0, 0.0), (1.0, 0.0)],
        ..curve("decision boundary", INK, 1.4, &[5.0, 4.0], &[])
    }
}

/// The labelled points on the curve, with the classes that the function gives.
fn classes(f: &Function, says: &str) -> Vec<Mark> {
    let points = points().into_iter().zip(&f.at_points);
    points
        .filter(|((x, _), _)| drawn(*x))
        .map(|((x, _), &y)| {
            let class = class(y);
            let (symbol, colour) = match class {
                "blue" => (Symbol::Star, BLUE),
                _ => (Symbol::Circle, RED),
            };
            Mark {
                name: format!("{says}{class}"),
                symbol,
                colour,
                at: (x, y),
            }
        })
        .collect()
}

/// Where a function changes its class.
fn changes(f: &Function, colour: Colour) -> Vec<Mark> {
    let places = f.boundaries.iter().filter(|&&x| drawn(x));
    places
        .map(|&x| Mark {
            name: "change of class".into(),
            symbol: Symbol::Diamond,
            colour,
            at: (x, 0.0),
        })
        .collect()
}

fn drawn(x: f64) -> bool {
    (-1.0..=1.0).contains(&x)
}
