//! Which vector instructions to use, chosen once at start-up.

use crate::simd::{Portable, Simd};
use std::sync::OnceLock;

/// An instruction set that this CPU has.
///
/// The only ways to obtain one check the CPU, so holding an `Isa` is the proof
/// that its instructions may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// A computation that is compiled once per instruction set.
pub trait Kernel {
    /// What [`Kernel::run`] returns.
    type Output;
    /// Runs with the vectors of `S`. Implementations are `#[inline(always)]`,
    /// and so is all that they call with `simd`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

impl Isa {
    /// Plain Rust, on any CPU.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best one of this CPU, or the one that the environment variable
    /// `HEATSMOOTH_ISA` names (`avx512`, `avx2`, `portable`), if the CPU has it. Read
    /// once per process.
    pub fn detect() -> Self {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            std::env::var("HEATSMOOTH_ISA")
                .ok()
                .and_then(|name| Self::named(&name))
                .unwrap_or_else(|| Self::available()[0])
        })
    }

    /// All that this CPU has, the best first.
    pub fn available() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            all.push(Self(Kind::Avx512));
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            all.push(Self(Kind::Avx2));
        }
        all.push(Self::PORTABLE);
        all
    }

    /// The one of this name, if this CPU has it.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().into_iter().find(|i| i.name() == name)
    }

    /// `avx512`, `avx2` or `portable`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }

    /// Runs the instance of `kernel` for this instruction set.
    #[inline]
    pub fn dispatch<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Kind::Portable => kernel.run(Portable),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` of this kind exists only where AVX2 and FMA
            // were detected.
            Kind::Avx2 => unsafe { run_avx2(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` of this kind exists only where AVX-512F was
            // detected.
            Kind::Avx512 => unsafe { run_avx512(kernel) },
        }
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function is only entered on a CPU with AVX2 and FMA.
    kernel.run(unsafe { crate::simd::Avx2::new() })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function is only entered on a CPU with AVX-512F.
    kernel.run(unsafe { crate::simd::Avx512::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_is_always_available_and_last() {
        assert_eq!(Isa::available().last(), Some(&Isa::PORTABLE));
        assert_eq!(Isa::named("portable"), Some(Isa::PORTABLE));
        assert_eq!(Isa::named("no such thing"), None);
    }

    struct Lanes<'a> {
        x: &'a [f32],
        y: &'a mut [f32],
    }

    impl Kernel for Lanes<'_> {
        type Output = f32;
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> f32 {
            let (mut i, mut sum) = (0, s.zero());
            while i < self.x.len() {
                let v = s.read_partial(&self.x[i..]);
                sum = s.add(sum, v);
                s.write_partial(&mut self.y[i..], s.mul_add(v, s.splat(2.0), s.splat(1.0)));
                i += S::LANES;
            }
            s.sum(sum)
        }
    }

    #[test]
    fn partial_vectors_touch_nothing_else() {
        for isa in Isa::available() {
            for n in 0..35 {
                let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
                let mut y = vec![-1.0; n + 3];
                let sum = isa.dispatch(Lanes {
                    x: &x,
                    y: &mut y[..n],
                });
                assert_eq!(sum, x.iter().sum::<f32>(), "{isa}");
                assert!((0..n).all(|i| y[i] == 2.0 * x[i] + 1.0), "{isa}");
                assert_eq!(y[n..], [-1.0; 3], "{isa}");
            }
        }
    }

    struct Integers;

    impl Kernel for Integers {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let (a, b) = (0x9E37_79B9, 0xD251_1F53_u32);
            let wide = u64::from(a) * u64::from(b);
            let (high, low) = s.mul_wide(s.splat_u32(a), s.splat_u32(b));
            let mut got = vec![0.0; S::LANES];
            s.write(&mut got, s.float_from_bits(high));
            assert!(got.iter().all(|g| g.to_bits() == (wide >> 32) as u32));
            s.write(&mut got, s.float_from_bits(low));
            assert!(got.iter().all(|g| g.to_bits() == wide as u32));
            s.write(&mut got, s.to_float(s.shift_left::<2>(s.iota())));
            assert!(got.iter().enumerate().all(|(i, &g)| g == (4 * i) as f32));
            let row = |r: u32| s.to_float(s.add_u32(s.splat_u32(100 * r), s.iota()));
            let woven = s.weave([row(0), row(1), row(2), row(3)]);
            for (v, woven) in woven.into_iter().enumerate() {
                s.write(&mut got, woven);
                for (i, &g) in got.iter().enumerate() {
                    let i = v * S::LANES + i;
                    assert_eq!(g, (i % 4 * 100 + i / 4) as f32);
                }
            }
            let (three, ones) = (s.splat_u32(3), s.splat_u32(u32::MAX));
            assert!(s.any_equal(s.iota(), three));
            assert!(!s.any_equal(s.iota(), s.splat_u32(99)));
            // All ones are -1.
            s.write(
                &mut got,
                s.to_float(s.select_less(s.iota(), three, ones, three)),
            );
            let want = |i: usize| if i < 3 { -1.0 } else { 3.0 };
            assert!(got.iter().enumerate().all(|(i, &g)| g == want(i)));
            let table: Vec<[u32; 2]> = (0..64).map(|i| [i, 100 + i]).collect();
            let index = s.shift_left::<2>(s.iota());
            // SAFETY: up to 4 * 15 in a table of 64.
            let (first, second) = unsafe { s.gather(&table, index) };
            for (entry, offset) in [(first, 0), (second, 100)] {
                s.write(&mut got, s.to_float(entry));
                let want = |i: usize| (offset + 4 * i) as f32;
                assert!(got.iter().enumerate().all(|(i, &g)| g == want(i)));
            }
            let x = s.to_float(s.iota());
            s.write(&mut got, s.select_gt(x, s.splat(2.5), x, s.zero()));
            let want = |i: usize| if i > 2 { i as f32 } else { 0.0 };
            assert!(got.iter().enumerate().all(|(i, &g)| g == want(i)));
        }
    }

    #[test]
    fn integer_lanes_and_selection() {
        for isa in Isa::available() {
            isa.dispatch(Integers);
        }
    }
}
