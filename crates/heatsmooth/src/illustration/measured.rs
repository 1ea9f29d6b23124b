//! What is measured: curves, changes of class, distances, and the exact average.

use network::Executor;
use record::format_number;

use super::line::{CLASSES, END, LineProblem, TIMESTEPS, labelled};
use crate::error::Error;

/// A function on the line, at some places.
type Evaluate<'a> = &'a dyn Fn(&[f64]) -> Result<Vec<f64>, Error>;

/// The point whose adversarial distance is measured.
pub const POINT: f64 = -0.5;
/// The outlier amid the other class.
pub const OUTLIER: f64 = -0.34;
/// Intervals of [-1, 1], the part of the line that is drawn and compared: away
/// from the ends, beyond which f^0 never learned anything.
const INTERVALS: usize = 400;
/// Step of the quadrature, and of the search for changes of class: far below the
/// width of any bump and the narrowest Gaussian that is allowed.
const STEP: f64 = 0.001;
/// Standard deviations of the Gaussian that the quadrature covers.
const REACH: f64 = 8.0;

/// One function on the line: positive is red.
pub struct Function {
    /// Its values at [`grid`].
    pub curve: Vec<f64>,
    /// Its values at the labelled points.
    pub at_points: Vec<f64>,
    /// Where its class changes, ascending.
    pub boundaries: Vec<f64>,
    /// Class at [`POINT`] and at [`OUTLIER`].
    classes: [&'static str; 2],
}

/// All functions.
pub struct Functions {
    /// f^0 ... f^{n_T}.
    pub iterates: Vec<Function>,
    /// At index k: f^0 averaged over the Gaussian that iterate k aims at, at
    /// [`grid`].
    pub averages: Vec<Vec<f64>>,
    /// The last of the averages.
    pub average: Function,
}

/// Where curves are drawn.
pub fn grid() -> Vec<f64> {
    let at = |i: usize| (2 * i) as f64 / INTERVALS as f64 - 1.0;
    (0..=INTERVALS).map(at).collect()
}

/// Where the labelled points are, and their labels.
pub fn points() -> Vec<(f64, u32)> {
    let points = labelled().into_iter();
    points
        .map(|(x, label)| (f64::from(x) / 100.0, label))
        .collect()
}

impl Functions {
    /// Measures f^0, f^1, ...
    pub fn new(settings: &LineProblem, models: &[Box<dyn Executor>]) -> Result<Self, Error> {
        let iterates: Result<Vec<Function>, Error> = models
            .iter()
            .map(|model| Function::new(&|x: &[f64]| score(&**model, x)))
            .collect();
        let f = &*models[0];
        let average = |k: u32| Average::new(f, settings.variance(k).sqrt());
        let mut averages = vec![score(f, &grid())?];
        for k in 1..=TIMESTEPS {
            averages.push(average(k)?.at(&grid()));
        }
        let last = average(TIMESTEPS)?;
        Ok(Self {
            iterates: iterates?,
            averages,
            average: Function::new(&|x: &[f64]| Ok(last.at(x)))?,
        })
    }

    /// Root mean square over the line of the distance of iterate k to the exact
    /// average at the end.
    pub fn to_average(&self, k: usize) -> f64 {
        let pairs = self.iterates[k].curve.iter().zip(&self.average.curve);
        let squares: f64 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
        (squares / self.average.curve.len() as f64).sqrt()
    }

    /// Share of the labelled points on which iterate k is right.
    pub fn accuracy(&self, k: usize) -> f64 {
        let points = points();
        let scores = self.iterates[k].at_points.iter();
        let right = scores
            .zip(&points)
            .filter(|(score, (_, label))| class(**score) == CLASSES[*label as usize]);
        right.count() as f64 / points.len() as f64
    }

    /// The curves: x, f^0 ... and the averages that f^1 ... aim at.
    pub fn to_tsv(&self) -> String {
        let iterates = 0..self.iterates.len();
        let mut out = "x".to_owned();
        iterates.clone().for_each(|k| out += &format!("\tf{k}"));
        iterates
            .clone()
            .skip(1)
            .for_each(|k| out += &format!("\taverage{k}"));
        for (at, x) in grid().into_iter().enumerate() {
            out += &format!("\n{}", format_number(x));
            for curve in self
                .iterates
                .iter()
                .map(|f| &f.curve)
                .chain(&self.averages[1..])
            {
                out += &format!("\t{}", format_number(curve[at]));
            }
        }
        out + "\n"
    }
}

impl Function {
    fn new(f: Evaluate<'_>) -> Result<Self, Error> {
        let points: Vec<f64> = points().into_iter().map(|(x, _)| x).collect();
        let (curve, at_points) = (f(&grid())?, f(&points)?);
        let finite = curve
            .iter()
            .chain(&at_points)
            .all(|value| value.is_finite());
        if !finite {
            return Err(Error::refused(
                "a function on the line is not finite",
                "choose a smaller lambda",
            ));
        }
        let chosen = f(&[POINT, OUTLIER])?;
        Ok(Self {
            curve,
            at_points,
            boundaries: boundaries(f)?,
            classes: [class(chosen[0]), class(chosen[1])],
        })
    }

    /// The boundary nearest to [`POINT`].
    pub fn nearest(&self) -> Option<f64> {
        let distance = |x: &f64| (x - POINT).abs();
        let nearest = self.boundaries.iter().copied();
        nearest.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// Adversarial distance of [`POINT`] on the line; `None`: there is but one
    /// class.
    pub fn distance(&self) -> Option<f64> {
        self.nearest().map(|x| (x - POINT).abs())
    }

    /// The class at [`POINT`] or [`OUTLIER`].
    pub fn class_at(&self, x: f64) -> &'static str {
        self.classes[usize::from(x == OUTLIER)]
    }
}

/// The class that a score means.
pub fn class(score: f64) -> &'static str {
    CLASSES[usize::from(score > 0.0)]
}

/// The logit of red less that of blue.
fn score(model: &dyn Executor, x: &[f64]) -> Result<Vec<f64>, Error> {
    let pixels: Vec<f32> = x.iter().map(|x| ((x + END) / (2.0 * END)) as f32).collect();
    let mut logits = vec![0.0; 2 * pixels.len()];
    model.logits(&pixels, &mut logits)?;
    let rows = logits.chunks_exact(2);
    Ok(rows.map(|z| f64::from(z[1]) - f64::from(z[0])).collect())
}

/// Every change of class on the line: found on a grid, then bisected.
fn boundaries(f: Evaluate<'_>) -> Result<Vec<f64>, Error> {
    let steps = (2.0 * END / STEP).round() as usize;
    let x: Vec<f64> = (0..=steps).map(|i| i as f64 * STEP - END).collect();
    let red: Vec<bool> = f(&x)?.into_iter().map(|value| value > 0.0).collect();
    let changes = (0..steps).filter(|&i| red[i] != red[i + 1]);
    let bisect = |i: usize| {
        let (mut low, mut high) = (x[i], x[i + 1]);
        for _ in 0..24 {
            let middle = (low + high) / 2.0;
            if (f(&[middle])?[0] > 0.0) == red[i] {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok((low + high) / 2.0)
    };
    changes.map(bisect).collect()
}

/// `f * N(0, spread^2)` by the trapezoidal rule, over nodes that are the same for
/// every x.
struct Average {
    spread: f64,
    /// Places and values of f.
    nodes: Vec<(f64, f64)>,
}

impl Average {
    fn new(f: &dyn Executor, spread: f64) -> Result<Self, Error> {
        let half = ((END + REACH * spread) / STEP).ceil() as i32;
        let places: Vec<f64> = (-half..=half).map(|i| f64::from(i) * STEP).collect();
        let values = score(f, &places)?;
        let nodes = places.into_iter().zip(values).collect();
        Ok(Self { spread, nodes })
    }

    fn at(&self, x: &[f64]) -> Vec<f64> {
        let reach = REACH * self.spread;
        let average = |&x: &f64| {
            let first = self.nodes.partition_point(|(y, _)| *y < x - reach);
            let last = self.nodes.partition_point(|(y, _)| *y <= x + reach);
            let (mut sum, mut total) = (0.0, 0.0);
            for (y, value) in &self.nodes[first..last] {
                let weight = (-0.5 * ((x - y) / self.spread).powi(2)).exp();
                sum += weight * value;
                total += weight;
            }
            sum / total
        };
        x.iter().map(average).collect()
    }
}
