//! The inverse cosine transform of a block in whole numbers, with the roundings of
//! libjpeg-turbo's default: C. Loeffler, A. Ligtenberg and G. Moschytz, *Practical fast
//! 1-D DCT algorithms with 11 multiplications*, 1989, in 13 bits of fixed point, with two
//! more bits kept between columns and rows.

/// Bits behind the point of a factor.
const BITS: u32 = 13;
/// Bits that are kept between the two passes.
const KEPT: u32 = 2;

/// The same number of every column.
type Lanes = [i32; 8];

/// A factor in fixed point.
const fn fixed(factor: f64) -> i32 {
    (factor * (1 << BITS) as f64 + 0.5) as i32
}

// Loops, because calls of the standard library's functions on arrays are not compiled into
// vector instructions here.

#[inline(always)]
fn add(mut a: Lanes, b: Lanes) -> Lanes {
    for (a, b) in a.iter_mut().zip(&b) {
        *a = a.wrapping_add(*b);
    }
    a
}

#[inline(always)]
fn sub(mut a: Lanes, b: Lanes) -> Lanes {
    for (a, b) in a.iter_mut().zip(&b) {
        *a = a.wrapping_sub(*b);
    }
    a
}

#[inline(always)]
fn times(mut a: Lanes, factor: i32) -> Lanes {
    for a in &mut a {
        *a = a.wrapping_mul(factor);
    }
    a
}

/// Shifted down by so many bits, with rounding.
#[inline(always)]
fn down(mut a: Lanes, shift: u32) -> Lanes {
    for a in &mut a {
        *a = a.wrapping_add(1 << (shift - 1)) >> shift;
    }
    a
}

/// One pass along the first index, shifted down by so many bits with rounding.
#[inline(always)]
fn pass(x: [Lanes; 8], shift: u32) -> [Lanes; 8] {
    // Even inputs.
    let z = times(add(x[2], x[6]), fixed(0.541196100));
    let a = sub(z, times(x[6], fixed(1.847759065)));
    let b = add(z, times(x[2], fixed(0.765366865)));
    let c = times(add(x[0], x[4]), 1 << BITS);
    let d = times(sub(x[0], x[4]), 1 << BITS);
    let even = [add(c, b), add(d, a), sub(d, a), sub(c, b)];
    // Odd inputs.
    let (p, q) = (add(x[7], x[3]), add(x[5], x[1]));
    let z = times(add(p, q), fixed(1.175875602));
    let p = sub(z, times(p, fixed(1.961570560)));
    let q = sub(z, times(q, fixed(0.390180644)));
    let r = times(add(x[7], x[1]), fixed(0.899976223));
    let s = times(add(x[5], x[3]), fixed(2.562915447));
    let odd = [
        add(sub(times(x[1], fixed(1.501321110)), r), q),
        add(sub(times(x[3], fixed(3.072711026)), s), p),
        add(sub(times(x[5], fixed(2.053119869)), s), q),
        add(sub(times(x[7], fixed(0.298631336)), r), p),
    ];
    [
        down(add(even[0], odd[0]), shift),
        down(add(even[1], odd[1]), shift),
        down(add(even[2], odd[2]), shift),
        down(add(even[3], odd[3]), shift),
        down(sub(even[3], odd[3]), shift),
        down(sub(even[2], odd[2]), shift),
        down(sub(even[1], odd[1]), shift),
        down(sub(even[0], odd[0]), shift),
    ]
}

#[inline(always)]
fn transposed(x: [Lanes; 8]) -> [Lanes; 8] {
    let mut out = x;
    for i in 0..8 {
        for j in 0..8 {
            out[i][j] = x[j][i];
        }
    }
    out
}

/// The samples of a block of coefficients, written to eight rows of `out`.
#[inline(always)]
pub(super) fn inverse(block: &[i16; 64], quantum: &[u16; 64], out: &mut [u8], stride: usize) {
    let (block, _) = block.as_chunks::<8>();
    let (quantum, _) = quantum.as_chunks::<8>();
    let mut x = [[0; 8]; 8];
    for (x, (values, quanta)) in x.iter_mut().zip(block.iter().zip(quantum)) {
        for (x, (&value, &quantum)) in x.iter_mut().zip(values.iter().zip(quanta)) {
            *x = i32::from(value).wrapping_mul(quantum.into());
        }
    }
    let columns = pass(x, BITS - KEPT);
    let rows = transposed(pass(transposed(columns), BITS + KEPT + 3));
    for (row, out) in rows.iter().zip(out.chunks_mut(stride)) {
        for (out, &v) in out[..8].iter_mut().zip(row) {
            *out = v.wrapping_add(128).clamp(0, 255) as u8;
        }
    }
}

/// The same of a block whose only coefficient is the first.
#[inline(always)]
pub(super) fn inverse_flat(first: i16, quantum: u16, out: &mut [u8], stride: usize) {
    let value = i32::from(first).wrapping_mul(quantum.into());
    let value = (value.wrapping_add(4) >> 3).wrapping_add(128);
    for out in out.chunks_mut(stride).take(8) {
        out[..8].fill(value.clamp(0, 255) as u8);
    }
}
