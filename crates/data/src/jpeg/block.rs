//! Coefficients of single blocks: all at once (T.81 annex F), or in the passes of
//! progressive files (annex G).

use super::bits::Bits;
use super::header::ZIGZAG;
use super::huffman::Codes;

/// What a scan brings: coefficients `from` to `to`, down to the bit `low`, refining what
/// came down to the bit `high` before, if that is not 0.
#[derive(Clone, Copy)]
pub(super) struct Band {
    pub from: usize,
    pub to: usize,
    pub high: u32,
    pub low: u32,
}

/// A block of a baseline file (T.81 F.2.2); says whether it has a first coefficient alone.
#[inline(always)]
pub(super) fn sequential<const KEEP: bool>(
    bits: &mut Bits<'_>,
    first: &Codes,
    others: &Codes,
    before: &mut i32,
    block: &mut [i16; 64],
) -> Result<bool, &'static str> {
    bits.refill();
    let size = first.symbol(bits)?.min(15);
    *before = before.wrapping_add(bits.signed(size.into()));
    block[0] = *before as i16;
    let mut place = 1;
    let mut flat = true;
    while place < 64 {
        bits.refill();
        let entry = others.look(bits);
        let value = if entry.value != 0 {
            bits.skip(entry.bits.into());
            place += usize::from(entry.symbol >> 4);
            entry.value
        } else {
            let symbol = match entry.bits {
                0 => others.long(bits)?,
                length => {
                    bits.skip(length.into());
                    entry.symbol
                }
            };
            let (run, size) = (symbol >> 4, symbol & 15);
            if size == 0 {
                if run != 15 {
                    break;
                }
                place += 16;
                continue;
            }
            place += usize::from(run);
            bits.signed(size.into()) as i16
        };
        if KEEP {
            block[usize::from(ZIGZAG[place & 127] & 63)] = value;
            flat = false;
        }
        place += 1;
    }
    Ok(flat)
}

/// How many blocks end here, this one included (T.81 G.1.2.2).
#[inline(always)]
fn run_of_ends(bits: &mut Bits<'_>, run: u8) -> u32 {
    bits.refill();
    (1 << run) + bits.take(run.into())
}

/// First bits of coefficients.
#[inline(always)]
pub(super) fn first_pass(
    bits: &mut Bits<'_>,
    codes: &Codes,
    block: &mut [i16; 64],
    band: Band,
    zeros: &mut u32,
) -> Result<(), &'static str> {
    if *zeros > 0 {
        *zeros -= 1;
        return Ok(());
    }
    let mut place = band.from;
    while place <= band.to {
        bits.refill();
        let symbol = codes.symbol(bits)?;
        let (run, size) = (symbol >> 4, symbol & 15);
        if size == 0 {
            if run != 15 {
                *zeros = run_of_ends(bits, run) - 1;
                break;
            }
            place += 16;
            continue;
        }
        place += usize::from(run);
        let value = bits.signed(size.into()) << band.low;
        block[usize::from(ZIGZAG[place & 127])] = value as i16;
        place += 1;
    }
    Ok(())
}

/// One more bit of each coefficient.
#[inline(always)]
pub(super) fn later_pass(
    bits: &mut Bits<'_>,
    codes: &Codes,
    block: &mut [i16; 64],
    band: Band,
    zeros: &mut u32,
) -> Result<(), &'static str> {
    let bit = 1i16 << band.low;
    // One more bit of a coefficient that is not 0.
    let correct = |bits: &mut Bits<'_>, value: &mut i16| {
        bits.refill();
        if bits.take(1) == 1 && *value & bit == 0 {
            *value = value.wrapping_add(if *value >= 0 { bit } else { -bit });
        }
    };
    let mut place = band.from;
    while *zeros == 0 && place <= band.to {
        bits.refill();
        let symbol = codes.symbol(bits)?;
        let (mut run, size) = (symbol >> 4, symbol & 15);
        let value = match size {
            0 if run != 15 => {
                *zeros = run_of_ends(bits, run);
                break;
            }
            0 => 0,
            _ if bits.take(1) == 1 => bit,
            _ => -bit,
        };
        // Past so many coefficients that are 0 until now.
        while place <= band.to {
            let old = &mut block[usize::from(ZIGZAG[place])];
            if *old != 0 {
                correct(bits, old);
            } else if run == 0 {
                *old = value;
                break;
            } else {
                run -= 1;
            }
            place += 1;
        }
        place += 1;
    }
    if *zeros > 0 {
        for place in place..=band.to {
            let old = &mut block[usize::from(ZIGZAG[place])];
            if *old != 0 {
                correct(bits, old);
            }
        }
        *zeros -= 1;
    }
    Ok(())
}
