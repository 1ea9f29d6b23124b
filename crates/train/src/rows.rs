//! Rows of numbers, one an image, with the arithmetic of the paper's formulas.

use std::ops::{AddAssign, Index, Sub, SubAssign};

use network::logits::argmax;

/// One row an image: logits, projections, cotangents, or pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f32>,
}

impl Rows {
    /// Rows of `width` values, one behind the other.
    pub fn new(width: usize, values: Vec<f32>) -> Self {
        debug_assert_eq!(values.len() % width, 0);
        Self { width, values }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.values.len() / self.width
    }

    /// All values, row behind row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }

    /// The largest value's place in each row.
    pub fn classes(&self) -> Vec<u32> {
        self.iter().map(|row| argmax(row) as u32).collect()
    }

    /// The inner product of each pair of rows, summed in `f64`.
    pub fn dot(&self, other: &Self) -> Vec<f64> {
        let product = |(a, b): (&[f32], &[f32])| {
            let pairs = a.iter().zip(b);
            pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        self.iter().zip(other.iter()).map(product).collect()
    }

    /// Each row times its own factor.
    pub fn scaled(&self, factors: impl Iterator<Item = f64>) -> Self {
        let rows = self.iter().zip(factors);
        let values = rows.flat_map(|(row, factor)| row.iter().map(move |v| factor as f32 * v));
        Self::new(self.width, values.collect())
    }

    /// Each row scaled to length 1; 0 stays 0.
    pub fn unit(mut self) -> Self {
        for row in self.values.chunks_exact_mut(self.width) {
            let squares = row.iter().map(|&v| f64::from(v) * f64::from(v));
            let norm = squares.sum::<f64>().sqrt();
            if norm > 0.0 {
                row.iter_mut()
                    .for_each(|v| *v = (f64::from(*v) / norm) as f32);
            }
        }
        self
    }

    /// `self + step * direction`.
    pub fn moved(&self, step: f64, direction: &Self) -> Self {
        let pairs = self.values.iter().zip(&direction.values);
        let values = pairs.map(|(x, l)| x + step as f32 * l);
        Self::new(self.width, values.collect())
    }
}

impl Index<usize> for Rows {
    type Output = [f32];

    fn index(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

impl Sub for &Rows {
    type Output = Rows;

    fn sub(self, other: Self) -> Rows {
        let pairs = self.values.iter().zip(&other.values);
        Rows::new(self.width, pairs.map(|(a, b)| a - b).collect())
    }
}

impl SubAssign<&Rows> for Rows {
    fn sub_assign(&mut self, other: &Rows) {
        let pairs = self.values.iter_mut().zip(&other.values);
        pairs.for_each(|(a, b)| *a -= b);
    }
}

impl AddAssign<&Rows> for Rows {
    fn add_assign(&mut self, other: &Rows) {
        let pairs = self.values.iter_mut().zip(&other.values);
        pairs.for_each(|(a, b)| *a += b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_to_themselves() {
        let a = Rows::new(2, vec![3.0, 4.0, 0.0, 0.0]);
        let b = Rows::new(2, vec![1.0, 2.0, 5.0, 6.0]);
        assert_eq!(a.dot(&b), [11.0, 0.0]);
        assert_eq!(a.clone().unit().values(), [0.6, 0.8, 0.0, 0.0]);
        assert_eq!((&b - &a).values(), [-2.0, -2.0, 5.0, 6.0]);
        let scaled = b.scaled([2.0, 0.5].into_iter());
        assert_eq!(scaled.values(), [2.0, 4.0, 2.5, 3.0]);
        assert_eq!(a.moved(0.5, &b)[1], [2.5, 3.0]);
    }
}
