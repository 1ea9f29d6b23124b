//! Images of another size. Every way of resizing is a matrix along each dimension; where
//! it only repeats pixels, nothing is computed.

use network::{Role, Shape};

use super::shapes::axis;
use super::view::{Part, View};
use super::{Activation, Importer, Refusal, Site};

/// How one dimension is resized.
struct Axis<'a> {
    from: usize,
    to: usize,
    /// Pixels that come out for one that goes in.
    scale: f64,
    mode: &'a str,
    /// Which place of the input a pixel of the output stands for.
    places: &'a str,
    nearest: &'a str,
    /// Of cubic resizing.
    coefficient: f64,
    /// Pixels outside the image have no weight; else the last one stands for them.
    exclude_outside: bool,
}

impl Importer<'_> {
    /// Resize, and Upsample before it.
    pub(super) fn resize(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let mut x = site.activation(0)?.clone();
        let attributes = &site.attributes;
        let sizes = self.sizes(&x);
        if attributes.int("antialias") == Some(1) {
            return Err("smoothing while resizing (antialias) is not supported".into());
        }
        if !matches!(
            attributes.text("keep_aspect_ratio_policy"),
            None | Some("stretch")
        ) {
            return Err("keeping the aspect ratio is not supported".into());
        }
        let old = op == "Upsample" || self.opset < 11;
        let (scales, wanted) = match (op, old) {
            ("Upsample", _) if self.opset < 9 => (None, None),
            (_, true) => (site.constant(1)?, None),
            _ => (site.constant(2)?, site.constant(3)?),
        };
        let scales = scales.filter(|scales| scales.len() > 0);
        let axes: Vec<usize> = match attributes.ints("axes") {
            Some(axes) => {
                let axes = axes.iter().map(|&a| axis(a, sizes.len()));
                axes.collect::<Result<_, _>>()?
            }
            None => (0..sizes.len()).collect(),
        };
        let given = scales.or(wanted).ok_or("no constant sizes")?;
        if given.len() != axes.len() {
            return Err(format!("{} sizes for {} dimensions", given.len(), axes.len()).into());
        }
        for (&along, value) in axes.iter().zip(given.to_f64()) {
            let from = sizes[along];
            let (to, scale) = match scales {
                Some(_) => ((from as f64 * value).floor(), value),
                None => (value, value / from as f64),
            };
            if !(1.0..(1 << 20) as f64).contains(&to) || !scale.is_finite() {
                return Err(format!("{from} pixels become {to}").into());
            }
            let to = to as usize;
            if to == from && scale == 1.0 {
                continue;
            }
            if x.view.has_batch(along) {
                return Err("resizes the batch".into());
            }
            let text = |name: &str, default, before| match old {
                true => before,
                false => attributes.text(name).unwrap_or(default),
            };
            let axis = Axis {
                from,
                to,
                scale,
                mode: attributes.text("mode").unwrap_or("nearest"),
                places: text("coordinate_transformation_mode", "half_pixel", "asymmetric"),
                nearest: text("nearest_mode", "round_prefer_floor", "floor"),
                coefficient: attributes.float("cubic_coeff_a").unwrap_or(-0.75).into(),
                exclude_outside: attributes.int("exclude_outside") == Some(1),
            };
            x = self.resize_along(&site.name, &x, along, &axis)?;
        }
        Ok(x)
    }

    fn resize_along(
        &mut self,
        name: &str,
        x: &Activation,
        along: usize,
        axis: &Axis<'_>,
    ) -> Result<Activation, Refusal> {
        self.spend(axis.to.saturating_mul(axis.from))?;
        let rows = axis.matrix()?;
        let times = axis.to / axis.from;
        let repeats = |(o, row): (usize, &Vec<f32>)| row[o / times.max(1)] == 1.0;
        if axis.to == times * axis.from && rows.iter().enumerate().all(repeats) {
            let mut x = x.clone();
            let (count, stride) = (times, 0);
            x.view.dims[along].push(Part::Walk { count, stride });
            return Ok(x);
        }
        // That dimension as the rows of a matrix, all others as its columns.
        let rank = x.view.dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.remove(along);
        order.insert(0, along);
        let columns = self.inner_sizes(x).iter().product::<usize>() / axis.from;
        let shape = Shape::new(1, axis.from, columns);
        let pixels = self.arranged(&format!("{name}.pixels"), x, &order, shape)?;
        let matrix = self.sketch.parameter(
            &format!("{name}.matrix"),
            Shape::new(1, axis.to, axis.from),
            Role::Constant,
            rows.concat(),
        )?;
        let node = self.sketch.mat_mul(name, false, matrix, pixels)?;
        let mut dims = x.view.permuted(&order).dims;
        dims[0] = match axis.to {
            1 => vec![],
            count => vec![Part::Walk { count, stride: 0 }],
        };
        let mut view = View::row_major(&dims);
        let resized = view.dims.remove(0);
        view.dims.insert(along, resized);
        Ok(Activation { node, view })
    }
}

impl Axis<'_> {
    /// Where in the input a pixel of the output lies.
    fn place(&self, o: usize) -> Result<f64, Refusal> {
        let (from, to, o) = (self.from as f64, self.to as f64, o as f64);
        Ok(match self.places {
            "half_pixel" => (o + 0.5) / self.scale - 0.5,
            "pytorch_half_pixel" if self.to == 1 => 0.0,
            "pytorch_half_pixel" => (o + 0.5) / self.scale - 0.5,
            "half_pixel_symmetric" => {
                let exact = from * self.scale;
                let offset = from / 2.0 * (1.0 - to / exact);
                offset + (o + 0.5) / self.scale - 0.5
            }
            "align_corners" if self.to == 1 => 0.0,
            "align_corners" => o * (from - 1.0) / (to - 1.0),
            "asymmetric" => o / self.scale,
            other => return Err(format!("coordinates `{other}` are not supported").into()),
        })
    }

    /// Weights of the input's pixels, for each pixel of the output.
    fn matrix(&self) -> Result<Vec<Vec<f32>>, Refusal> {
        let last = self.from as i64 - 1;
        let mut rows = Vec::with_capacity(self.to);
        for o in 0..self.to {
            let x = self.place(o)?;
            // Coordinates that are whole up to rounding are whole.
            let x = if (x - x.round()).abs() < 1e-9 {
                x.round()
            } else {
                x
            };
            let below = x.floor();
            let fraction = x - below;
            let (first, weights) = match self.mode {
                "nearest" => (self.nearest_to(x)?, vec![1.0]),
                "linear" | "bilinear" => (below, vec![1.0 - fraction, fraction]),
                "cubic" => {
                    let taps = (-1..3).map(|tap| self.cubic(fraction - f64::from(tap)));
                    (below - 1.0, taps.collect())
                }
                other => return Err(format!("mode `{other}` is not supported").into()),
            };
            let mut row = vec![0.0; self.from];
            for (tap, weight) in weights.into_iter().enumerate() {
                let at = first as i64 + tap as i64;
                if self.exclude_outside && !(0..=last).contains(&at) {
                    continue;
                }
                row[at.clamp(0, last) as usize] += weight;
            }
            let total: f64 = match self.exclude_outside {
                true => row.iter().sum(),
                false => 1.0,
            };
            rows.push(row.into_iter().map(|w| (w / total) as f32).collect());
        }
        Ok(rows)
    }

    fn nearest_to(&self, x: f64) -> Result<f64, Refusal> {
        Ok(match self.nearest {
            "round_prefer_floor" => (x - 0.5).ceil(),
            "round_prefer_ceil" => (x + 0.5).floor(),
            "floor" => x.floor(),
            "ceil" => x.ceil(),
            other => return Err(format!("rounding `{other}` is not supported").into()),
        })
    }

    /// Keys' cubic kernel.
    fn cubic(&self, distance: f64) -> f64 {
        let (a, d) = (self.coefficient, distance.abs());
        match d {
            ..=1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
            ..2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
            _ => 0.0,
        }
    }
}
