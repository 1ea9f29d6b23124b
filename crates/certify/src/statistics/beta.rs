//! The regularised incomplete beta function `I_x(a, b)` and its inverse, for
//! shapes from 1 to some 1e9.

use super::deviance::{deviance, stirling_error};

/// A point of (0, 1) held by its log-odds, so that neither it nor its complement
/// loses digits near an end.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    complement: f64,
}

impl Point {
    fn from_log_odds(z: f64) -> Self {
        Self {
            x: 1.0 / (1.0 + (-z).exp()),
            complement: 1.0 / (1.0 + z.exp()),
        }
    }

    fn swapped(self) -> Self {
        Self {
            x: self.complement,
            complement: self.x,
        }
    }
}

/// `I_x(a, b)` for `0 < x < 1`.
pub(crate) fn regularised(a: f64, b: f64, x: f64) -> f64 {
    let (ln_value, _) = ln_regularised(
        a,
        b,
        Point {
            x,
            complement: 1.0 - x,
        },
    );
    ln_value.exp()
}

/// The `x` with `I_x(a, b) = target`, for `0 < target < 1`.
///
/// Newton's method for `ln I` as a function of the log-odds `z` of `x`. The
/// log-odds of a beta variable have a log-concave density, so `ln I` is increasing
/// and concave in `z` and the method converges from every starting point.
pub(crate) fn inverse_regularised(a: f64, b: f64, target: f64) -> f64 {
    let ln_target = target.ln();
    // Starting point: the log-odds are near normal.
    let deviation = (1.0 / a + 1.0 / b).sqrt();
    let mut z = (a / b).ln() + deviation * super::normal_quantile(target);
    for _ in 0..200 {
        let (ln_value, slope) = ln_regularised(a, b, Point::from_log_odds(z));
        let step = (ln_target - ln_value) / slope;
        z += step;
        if step.abs() <= 1e-15 * (1.0 + z.abs()) {
            break;
        }
    }
    Point::from_log_odds(z).x
}

/// `ln I_x(a, b)` and its derivative in the log-odds of `x`.
fn ln_regularised(a: f64, b: f64, point: Point) -> (f64, f64) {
    // d I / d log-odds = x^a (1-x)^b / B(a, b) =: the density
    let ln_density = ln_density(a, b, point);
    if point.x * (a + b + 2.0) <= a + 1.0 {
        let fraction = continued_fraction(a, b, point.x);
        (ln_density + (fraction / a).ln(), a / fraction)
    } else {
        let swapped = point.swapped();
        let upper = ln_density.exp() * continued_fraction(b, a, swapped.x) / b;
        let ln_value = (-upper).ln_1p();
        (ln_value, (ln_density - ln_value).exp())
    }
}

/// `ln B(a, b)`.
pub(crate) fn ln_beta(a: f64, b: f64) -> f64 {
    let n = a + b;
    a * (a / n).ln() + b * (b / n).ln() - 0.5 * (a * b / (std::f64::consts::TAU * n)).ln()
        + stirling_error(a)
        + stirling_error(b)
        - stirling_error(n)
}

/// `ln( x^a (1-x)^b / B(a, b) )`.
fn ln_density(a: f64, b: f64, point: Point) -> f64 {
    let n = a + b;
    stirling_error(n)
        - stirling_error(a)
        - stirling_error(b)
        - deviance(a, n * point.x)
        - deviance(b, n * point.complement)
        + 0.5 * (a * b / (std::f64::consts::TAU * n)).ln()
}

/// The continued fraction `F` of `I_x(a, b) = x^a (1-x)^b / (a B(a, b)) * F`
/// (Abramowitz and Stegun 26.5.8), by Lentz's method. For `x` up to
/// `(a+1)/(a+b+2)` it needs some `sqrt(a+b)` terms.
fn continued_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    let terms = 1000.0 + 50.0 * (a + b).sqrt();
    let mut m = 1.0;
    while m < terms {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        fraction *= d * c;
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
        m += 1.0;
    }
    fraction
}
