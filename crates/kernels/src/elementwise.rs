//! Sums and ReLUs that no convolution absorbed; per-channel factors are in
//! [`crate::norm::apply`].

use crate::isa::{Isa, Kernel};
use crate::simd::{Simd, relu as clip};

/// `y = a + b`, clipped at 0 on demand.
///
/// # Panics
/// If the lengths differ.
pub fn add(isa: Isa, a: &[f32], b: &[f32], relu: bool, y: &mut [f32]) {
    assert!(a.len() == y.len() && b.len() == y.len());
    isa.dispatch(RunAdd {
        a,
        b: Some(b),
        relu,
        y,
    });
}

/// `y = max(x, 0)`.
///
/// # Panics
/// If the lengths differ.
pub fn relu(isa: Isa, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len());
    isa.dispatch(RunAdd {
        a: x,
        b: None,
        relu: true,
        y,
    });
}

struct RunAdd<'a> {
    a: &'a [f32],
    b: Option<&'a [f32]>,
    relu: bool,
    y: &'a mut [f32],
}

impl Kernel for RunAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (i, y) in self.y.chunks_mut(S::LANES).enumerate() {
            let at = i * S::LANES;
            let mut v = s.read_partial(&self.a[at..]);
            if let Some(b) = self.b {
                v = s.add(v, s.read_partial(&b[at..]));
            }
            if self.relu {
                v = clip(s, v);
            }
            s.write_partial(y, v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_clips() {
        let a: Vec<f32> = (0..143).map(|i| (i % 17) as f32 - 8.0).collect();
        let b: Vec<f32> = (0..a.len()).map(|i| (i % 5) as f32 - 2.0).collect();
        for isa in Isa::available() {
            let mut y = vec![f32::NAN; a.len()];
            add(isa, &a, &b, false, &mut y);
            assert!((0..a.len()).all(|i| y[i] == a[i] + b[i]));
            add(isa, &a, &b, true, &mut y);
            assert!((0..a.len()).all(|i| y[i] == (a[i] + b[i]).max(0.0)));
            relu(isa, &a, &mut y);
            assert!((0..a.len()).all(|i| y[i] == a[i].max(0.0)));
        }
    }
}
