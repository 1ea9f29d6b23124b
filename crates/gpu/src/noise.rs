//! Noisy copies made on the device: the numbers of `kernels::noise`, the same
//! integers for exact noise, the same up to rounding in single precision.

use burn_backend::Backend;
use network::{DeviceError, Distribution, GridNoise, Noise, NoiseKind};

use crate::place::Place;
use crate::tensor::Tensor;
use crate::words::{Words, words};

/// Added to the purpose: 32 further bits of the same draw.
const FURTHER: u32 = 1 << 31;

/// One noisy copy: which of the images, and the key of its noise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub place: u32,
    pub image: u32,
    pub sample: u32,
}

/// Noisy copies of images, `copies x pixels`, each in the order of the host's pixels.
pub(crate) fn noisy<B: Backend>(
    place: &Place<B>,
    noise: &Noise,
    images: &Tensor<B>,
    copies: &[Copy],
) -> Result<Tensor<B>, DeviceError> {
    let [_, pixels] = images.dims();
    let places: Vec<u32> = copies.iter().map(|copy| copy.place).collect();
    let places = place.upload_words(&places, [copies.len()]);
    let places = B::int_cast(places, burn_backend::IntDType::I32);
    let clean = Tensor(B::float_select(images.0.clone(), 0, places));
    let keys: Vec<_> = (copies.iter())
        .map(|copy| (copy.image, copy.sample))
        .collect();
    let draw = |further: u32| {
        let purpose = noise.purpose as u32 | further;
        words(place, noise.seed, purpose, &keys, pixels)
    };
    match &noise.kind {
        NoiseKind::Float {
            distribution,
            sigma,
        } => {
            let z = weave(numbers(*distribution, draw(0)), pixels);
            Ok(z.times_number(*sigma as f32).plus(&clean))
        }
        NoiseKind::Grid(table) => {
            let integers = integers(place, table, &draw)?;
            let levels = table.levels() as f32;
            let grid = Tensor(B::float_round(clean.times_number(levels).0));
            let noisy = grid.plus(&weave(integers, pixels));
            Ok(Tensor(B::float_div_scalar(noisy.0, levels.into())))
        }
    }
}

/// `copies x blocks` numbers four times, as `copies x pixels`.
fn weave<B: Backend>(numbers: [Tensor<B>; 4], pixels: usize) -> Tensor<B> {
    let [copies, blocks] = numbers[0].dims();
    let columns = numbers.map(|number| number.reshape([copies, blocks, 1]));
    let woven = Tensor::concat(columns.into(), 2).reshape([copies, 4 * blocks]);
    woven.part(1, 0, pixels)
}

/// Numbers of mean 0 and variance 1.
fn numbers<B: Backend>(distribution: Distribution, words: [Words<B>; 4]) -> [Tensor<B>; 4] {
    match distribution {
        Distribution::Gaussian => {
            let [a, b, c, d] = words;
            let [z0, z1] = box_muller(&a, b);
            let [z2, z3] = box_muller(&c, d);
            [z0, z1, z2, z3]
        }
        Distribution::Uniform => words.map(|word| {
            // Read as a signed integer, a word is uniform around -1/2.
            let signed = word.xor_number(1 << 31).number(-32_768.0, 0.5);
            signed.times_number(3f32.sqrt() / 2_147_483_648.0)
        }),
        Distribution::Laplace => words.map(|word| {
            // The highest bit is the sign; the others make an odd number below 2^32.
            let odd = word.clone().shifted_left(1).or_number(1);
            let size = ln_over_2_32(odd.number(0.0, 0.0));
            let size = size.times_number(-std::f32::consts::FRAC_1_SQRT_2);
            let size = size.at_least(0.0);
            let negative = size.clone().negative();
            size.replaced(word.has(1 << 31), negative)
        }),
    }
}

fn ln_over_2_32<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    x.times_number(2f32.powi(-32)).log()
}

/// Two normal numbers from two words.
fn box_muller<B: Backend>(radius: &Words<B>, angle: Words<B>) -> [Tensor<B>; 2] {
    let log = ln_over_2_32(radius.number(0.0, 0.5));
    let radius = log.times_number(-2.0_f32).at_least(0.0).sqrt();
    sin_cos(angle).map(|along| along.times(&radius))
}

/// Cosine and sine of `2 pi (r + 1/2) / 2^32`, by the polynomials of the CPU: devices
/// may compute their own sines to a dozen bits only.
fn sin_cos<B: Backend>(r: Words<B>) -> [Tensor<B>; 2] {
    // r = quadrant * 2^30 + rest, rest in -2^29 .. 2^29.
    let moved = r.plus_number(1 << 29);
    let quadrant = moved.clone().shifted_right(30);
    let rest = moved.and_number((1 << 30) - 1).number(-8192.0, 0.5);
    let x = rest.times_number(std::f32::consts::PI / 2_147_483_648.0);
    let square = x.clone().times(&x);
    let polynomial = |coefficients: [f32; 3]| {
        let [first, rest @ ..] = coefficients;
        let start = square.clone().times_number(first).plus_number(rest[0]);
        start.times(&square).plus_number(rest[1]).times(&square)
    };
    let sin = polynomial([-1.951_529_6e-4, 8.332_161e-3, -1.666_665_5e-1]);
    let sin = sin.times(&x).plus(&x);
    let cos = polynomial([2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]);
    let half = square.clone().times_number(-0.5_f32).plus_number(1.0_f32);
    let cos = cos.times(&square).plus(&half);
    // Odd quadrants exchange both; the signs follow the quadrant's second bit.
    let exchanged = |a: &Tensor<B>, b: &Tensor<B>| a.clone().replaced(quadrant.has(1), b.clone());
    let (sin, cos) = (exchanged(&sin, &cos), exchanged(&cos, &sin));
    let signed = |value: Tensor<B>, quadrant: &Words<B>| {
        let negative = value.clone().negative();
        value.replaced(quadrant.has(2), negative)
    };
    let next = quadrant.clone().plus_number(1);
    [signed(cos, &next), signed(sin, &quadrant)]
}

/// Integers by the alias method, as numbers; `draw` gives the first words of every
/// draw, or further ones.
fn integers<B: Backend>(
    place: &Place<B>,
    table: &GridNoise,
    draw: &impl Fn(u32) -> [Words<B>; 4],
) -> Result<[Tensor<B>; 4], DeviceError> {
    let columns = table.columns();
    let size = columns.len();
    let thresholds: Vec<u32> = columns.iter().map(|column| column[0]).collect();
    let thresholds = Words(place.upload_words(&thresholds, [size]));
    let half = |shift: u32| -> Vec<f32> {
        let integer = |column: &[u32; 2]| ((column[1] >> shift) as u16).cast_signed();
        columns
            .iter()
            .map(|column| integer(column).into())
            .collect()
    };
    let own = place.upload(&half(0), [size]);
    let other = place.upload(&half(16), [size]);
    let first = draw(0);
    let inside = (1 << (32 - table.bits())) - 1;
    let parts = first.clone().map(|word| {
        let column = word.clone().shifted_right(32 - table.bits());
        let rest = word.and_number(inside);
        let threshold = column.of_table(&thresholds);
        (rest.below(&threshold), rest.equal(&threshold), column)
    });
    // Equal words are rare: only then are 32 more bits asked for.
    let floats = burn_backend::FloatDType::F32;
    let undecided = parts
        .each_ref()
        .map(|(_, equal, _)| Tensor::<B>(B::bool_into_float(equal.clone(), floats)).total());
    let undecided = place.download(Tensor::concat(undecided.into(), 0))?;
    let further = match undecided.iter().any(|count| *count > 0.0) {
        true => Some((
            draw(FURTHER),
            Words(place.upload_words(table.low_words(), [size])),
        )),
        false => None,
    };
    let mut position = 0;
    Ok(parts.map(|(below, equal, column)| {
        let ours = column.of_numbers(&own);
        let integers = column.of_numbers(&other).replaced(below, ours.clone());
        let integers = match &further {
            None => integers,
            Some((words, low)) => {
                let decided = words[position].below(&column.of_table(low));
                let both = B::bool_and(equal, decided);
                integers.replaced(both, ours)
            }
        };
        position += 1;
        integers
    }))
}
