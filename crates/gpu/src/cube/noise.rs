//! Noisy copies in one kernel: the numbers of `kernels::noise`, the same integers for
//! exact noise, the same up to rounding in single precision.

use burn_backend::ops::IntTensorOps;
use burn_backend::{TensorData, TensorMetadata};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;
use network::{Distribution, Noise, NoiseKind};

use super::{empty_like, launch};
use crate::fused::CopyKey;

/// Added to the purpose: 32 further bits of the same draw.
const FURTHER: u32 = 1 << 31;

/// What is drawn, known when a kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Drawn {
    Gaussian,
    Uniform,
    Laplace,
}

/// Noisy copies, `copies x pixels`, of images, `images x pixels`.
pub(super) fn noisy(noise: &Noise, images: CubeTensor, copies: &[CopyKey]) -> CubeTensor {
    let images = into_contiguous(images);
    let client = images.client.clone();
    let [_, pixels] = images.shape().dims();
    let words = |words: Vec<u32>| {
        let count = words.len();
        CubeBackend::int_from_data(TensorData::new(words, [count]), &images.device)
    };
    let keys = copies
        .iter()
        .flat_map(|key| [key.place, key.image, key.sample]);
    let keys = words(keys.collect()).into_buffer_arg();
    let out = empty_like(&images, [copies.len(), pixels]);
    let blocks = pixels.div_ceil(4);
    let (count, dim) = launch(&client, copies.len() * blocks);
    let (low, high) = (noise.seed as u32, (noise.seed >> 32) as u32);
    let purpose = noise.purpose as u32;
    match &noise.kind {
        NoiseKind::Float {
            distribution,
            sigma,
        } => {
            let drawn = match distribution {
                Distribution::Gaussian => Drawn::Gaussian,
                Distribution::Uniform => Drawn::Uniform,
                Distribution::Laplace => Drawn::Laplace,
            };
            float_noise::launch(
                &client,
                count,
                dim,
                images.into_buffer_arg(),
                keys,
                out.clone().into_buffer_arg(),
                pixels,
                blocks,
                low,
                high,
                purpose,
                *sigma as f32,
                drawn,
            );
        }
        NoiseKind::Grid(table) => {
            let columns = table.columns();
            let low_words = table.low_words().iter();
            let all = columns.iter().zip(low_words);
            let all = all.flat_map(|(&[threshold, both], &further)| [threshold, further, both]);
            grid_noise::launch(
                &client,
                count,
                dim,
                images.clone().into_buffer_arg(),
                keys,
                words(all.collect()).into_buffer_arg(),
                out.clone().into_buffer_arg(),
                pixels,
                blocks,
                low,
                high,
                purpose,
                32 - table.bits(),
                table.levels() as f32,
            );
        }
    }
    out
}

/// Ten rounds of Philox4x32, as `kernels::random::philox4x32`.
#[cube]
fn philox(
    block: u32,
    sample: u32,
    image: u32,
    purpose: u32,
    low: u32,
    high: u32,
) -> (u32, u32, u32, u32) {
    let mut c0 = block;
    let mut c1 = sample;
    let mut c2 = image;
    let mut c3 = purpose;
    let mut k0 = low;
    let mut k1 = high;
    for _ in 0..10u32 {
        let high_a = c0.mul_hi(0xD251_1F53u32);
        let low_a = c0 * 0xD251_1F53u32;
        let high_b = c2.mul_hi(0xCD9E_8D57u32);
        let low_b = c2 * 0xCD9E_8D57u32;
        c0 = high_b ^ c1 ^ k0;
        c1 = low_b;
        c2 = high_a ^ c3 ^ k1;
        c3 = low_a;
        k0 += 0x9E37_79B9u32;
        k1 += 0xBB67_AE85u32;
    }
    (c0, c1, c2, c3)
}

/// A word as a number, its upper half moved by `offset` and with `more` added: by
/// halves, since not every device rounds large words to the nearest number.
#[cube]
fn number(word: u32, offset: f32, more: f32) -> f32 {
    let high = f32::cast_from(word >> 16u32) + offset;
    let low = f32::cast_from(word & 0xFFFFu32) + more;
    high * 65_536.0f32 + low
}

/// `ln(x / 2^32)`.
#[cube]
fn ln_over_2_32(x: f32) -> f32 {
    (x * 2.328_306_4e-10f32).ln()
}

/// Two normal numbers from two words. Sine and cosine of `2 pi (r + 1/2) / 2^32` by the
/// polynomials of the CPU: devices may compute their own to a dozen bits only.
#[cube]
fn box_muller(first: u32, second: u32) -> (f32, f32) {
    let log = ln_over_2_32(number(first, 0.0f32, 0.5f32));
    let radius = max(log * (-2.0f32), 0.0f32).sqrt();
    // second = quadrant * 2^30 + rest, rest in -2^29 .. 2^29.
    let moved = second + 0x2000_0000u32;
    let quadrant = moved >> 30u32;
    let rest = number(moved & 0x3FFF_FFFFu32, -8192.0f32, 0.5f32);
    let x = rest * 1.462_918_1e-9f32;
    let square = x * x;
    let sine = (-1.951_529_6e-4f32 * square + 8.332_161e-3f32) * square - 1.666_665_5e-1f32;
    let sine = sine * square * x + x;
    let cosine = (2.443_315_7e-5f32 * square - 1.388_731_6e-3f32) * square + 4.166_664_6e-2f32;
    let cosine = cosine * square * square + (1.0f32 - 0.5f32 * square);
    // Odd quadrants exchange both; the signs follow the quadrant's second bit.
    let odd = (quadrant & 1u32) == 1u32;
    let along = select(odd, sine, cosine);
    let across = select(odd, cosine, sine);
    let along = select(((quadrant + 1u32) & 2u32) == 2u32, -along, along);
    let across = select((quadrant & 2u32) == 2u32, -across, across);
    (radius * along, radius * across)
}

/// Read as a signed integer, a word is uniform around -1/2.
#[cube]
fn uniform(word: u32) -> f32 {
    number(word ^ 0x8000_0000u32, -32_768.0f32, 0.5f32) * 8.065_49e-10f32
}

/// The highest bit is the sign; the others make an odd number below 2^32.
#[cube]
fn laplace(word: u32) -> f32 {
    let odd = (word << 1u32) | 1u32;
    let log = ln_over_2_32(number(odd, 0.0f32, 0.0f32));
    let size = max(log * (-0.707_106_77f32), 0.0f32);
    select((word >> 31u32) == 1u32, -size, size)
}

/// Four numbers of mean 0 and variance 1 from four words.
#[cube]
fn numbers(words: (u32, u32, u32, u32), #[comptime] drawn: Drawn) -> (f32, f32, f32, f32) {
    match comptime!(drawn) {
        Drawn::Gaussian => {
            let (a, b) = box_muller(words.0, words.1);
            let (c, d) = box_muller(words.2, words.3);
            (a, b, c, d)
        }
        Drawn::Uniform => (
            uniform(words.0),
            uniform(words.1),
            uniform(words.2),
            uniform(words.3),
        ),
        Drawn::Laplace => (
            laplace(words.0),
            laplace(words.1),
            laplace(words.2),
            laplace(words.3),
        ),
    }
}

/// Each unit makes a block of four pixels of one copy.
#[cube(launch)]
fn float_noise(
    images: &[f32],
    keys: &[u32],
    out: &mut [f32],
    pixels: usize,
    blocks: usize,
    low: u32,
    high: u32,
    purpose: u32,
    sigma: f32,
    #[comptime] drawn: Drawn,
) {
    let copy = ABSOLUTE_POS / blocks;
    let block = ABSOLUTE_POS % blocks;
    if copy * 3 >= keys.len() {
        terminate!();
    }
    let image = keys[copy * 3 + 1];
    let sample = keys[copy * 3 + 2];
    let words = philox(block as u32, sample, image, purpose, low, high);
    let z = numbers(words, drawn);
    let from = keys[copy * 3] as usize * pixels;
    let to = copy * pixels;
    let first = block * 4;
    out[to + first] = images[from + first] + sigma * z.0;
    if first + 1 < pixels {
        out[to + first + 1] = images[from + first + 1] + sigma * z.1;
    }
    if first + 2 < pixels {
        out[to + first + 2] = images[from + first + 2] + sigma * z.2;
    }
    if first + 3 < pixels {
        out[to + first + 3] = images[from + first + 3] + sigma * z.3;
    }
}

/// The bits of a word below those that choose its column.
#[cube]
fn below_column(word: u32, shift: u32) -> u32 {
    word & ((1u32 << shift) - 1u32)
}

/// A word is right at its column's threshold.
#[cube]
fn undecided(table: &[u32], word: u32, shift: u32) -> bool {
    below_column(word, shift) == table[(word >> shift) as usize * 3]
}

/// An integer by the alias method. `table` has three words a column: its threshold, 32
/// further bits of it, and two integers of 16 bits, below the threshold and above.
#[cube]
fn integer(table: &[u32], word: u32, further: u32, shift: u32) -> f32 {
    let column = (word >> shift) as usize * 3;
    let rest = below_column(word, shift);
    let threshold = table[column];
    let below = rest < threshold || (rest == threshold && further < table[column + 1]);
    let both = table[column + 2];
    let bits = select(below, both & 0xFFFFu32, both >> 16u32);
    let value = f32::cast_from(bits);
    select(bits >= 0x8000u32, value - 65_536.0f32, value)
}

/// A pixel on its grid, moved by whole steps.
#[cube]
fn moved(pixel: f32, steps: f32, levels: f32) -> f32 {
    ((pixel * levels).round() + steps) / levels
}

/// Each unit makes a block of four pixels of one copy, exactly by the table's law.
#[cube(launch)]
fn grid_noise(
    images: &[f32],
    keys: &[u32],
    table: &[u32],
    out: &mut [f32],
    pixels: usize,
    blocks: usize,
    low: u32,
    high: u32,
    purpose: u32,
    shift: u32,
    levels: f32,
) {
    let copy = ABSOLUTE_POS / blocks;
    let block = ABSOLUTE_POS % blocks;
    if copy * 3 >= keys.len() {
        terminate!();
    }
    let image = keys[copy * 3 + 1];
    let sample = keys[copy * 3 + 2];
    let words = philox(block as u32, sample, image, purpose, low, high);
    let mut m0 = 0u32;
    let mut m1 = 0u32;
    let mut m2 = 0u32;
    let mut m3 = 0u32;
    // Rare: only then are 32 more bits drawn.
    if undecided(table, words.0, shift)
        || undecided(table, words.1, shift)
        || undecided(table, words.2, shift)
        || undecided(table, words.3, shift)
    {
        let more = philox(block as u32, sample, image, purpose | FURTHER, low, high);
        m0 = more.0;
        m1 = more.1;
        m2 = more.2;
        m3 = more.3;
    }
    let from = keys[copy * 3] as usize * pixels;
    let to = copy * pixels;
    let first = block * 4;
    out[to + first] = moved(
        images[from + first],
        integer(table, words.0, m0, shift),
        levels,
    );
    if first + 1 < pixels {
        let steps = integer(table, words.1, m1, shift);
        out[to + first + 1] = moved(images[from + first + 1], steps, levels);
    }
    if first + 2 < pixels {
        let steps = integer(table, words.2, m2, shift);
        out[to + first + 2] = moved(images[from + first + 2], steps, levels);
    }
    if first + 3 < pixels {
        let steps = integer(table, words.3, m3, shift);
        out[to + first + 3] = moved(images[from + first + 3], steps, levels);
    }
}
