//! GFLOP/s of multiply-adds alone: `peak THREADS`. Sums stay in registers, enough of them
//! that no one waits for another; what any direct convolution or product stays
//! below. `HEATSMOOTH_ISA=avx2` counts here, too.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

/// Turns of a measurement, and measurements, the best of which counts.
const TURNS: usize = 1 << 21;
const ROUNDS: usize = 10;

/// `$sums` vectors of `$lanes` floats, each multiplied and added to in every turn;
/// gives the number of multiply-adds.
#[cfg(target_arch = "x86_64")]
macro_rules! loop_of {
    ($name:ident, $features:literal, $sums:literal, $lanes:literal, $splat:ident, $fma:ident) => {
        #[target_feature(enable = $features)]
        fn $name() -> usize {
            use std::arch::x86_64::*;
            let (a, b) = ($splat(black_box(0.999)), $splat(black_box(0.5)));
            let mut sums = [$splat(0.0); $sums];
            for _ in 0..TURNS {
                for sum in &mut sums {
                    *sum = $fma(*sum, a, b);
                }
            }
            black_box(sums);
            TURNS * $sums * $lanes
        }
    };
}

#[cfg(target_arch = "x86_64")]
loop_of!(avx512, "avx512f", 24, 16, _mm512_set1_ps, _mm512_fmadd_ps);
#[cfg(target_arch = "x86_64")]
loop_of!(avx2, "avx2,fma", 12, 8, _mm256_set1_ps, _mm256_fmadd_ps);

/// As the compiler does it, with the vectors that every processor of this kind has.
fn portable() -> usize {
    let (a, b) = (black_box(0.999_f32), black_box(0.5));
    let mut sums = [[0.0_f32; 4]; 16];
    for _ in 0..TURNS {
        for sum in sums.iter_mut().flatten() {
            *sum = match cfg!(target_arch = "aarch64") {
                true => sum.mul_add(a, b),
                false => *sum * a + b,
            };
        }
    }
    black_box(sums);
    TURNS * 64
}

fn run() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let narrow = std::env::var("HEATSMOOTH_ISA").is_ok_and(|isa| isa == "avx2");
        if is_x86_feature_detected!("avx512f") && !narrow {
            // SAFETY: the processor has the instructions.
            return unsafe { avx512() };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the instructions.
            return unsafe { avx2() };
        }
    }
    portable()
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let threads: usize = threads.unwrap_or(1);
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let products: usize = thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            handles.into_iter().map(|h| h.join().expect("a loop")).sum()
        });
        best = best.max(2e-9 * products as f64 / start.elapsed().as_secs_f64());
    }
    println!("{best:.1}");
}
