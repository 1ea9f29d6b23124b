//! Words of 32 bits on a device, and Philox in them.
//!
//! Backends have no product of 64 bits, and not all wrap around in products of 32: so
//! words are multiplied by halves.

use burn_backend::tensor::{BoolTensor, IntTensor};
use burn_backend::{Backend, BoolDType, FloatDType, IntDType, TensorMetadata, get_device_settings};

use crate::place::Place;
use crate::tensor::Tensor;

/// Unsigned words of 32 bits.
#[derive(Clone, Debug)]
pub(crate) struct Words<B: Backend>(pub IntTensor<B>);

/// The factors of one of Philox's rounds.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What a round adds to the key.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

macro_rules! binary {
    ($($name:ident = $primitive:ident),*) => {
        $(pub fn $name(self, other: &Self) -> Self {
            Self(B::$primitive(self.0, other.0.clone()))
        })*
    };
}

macro_rules! with_number {
    ($($name:ident = $primitive:ident),*) => {
        $(pub fn $name(self, number: u32) -> Self {
            Self(B::$primitive(self.0, number.into()))
        })*
    };
}

macro_rules! compared {
    ($($name:ident = $primitive:ident),*) => {
        $(pub fn $name(&self, other: &Self) -> BoolTensor<B> {
            B::$primitive(self.0.clone(), other.0.clone(), self.booleans())
        })*
    };
}

impl<B: Backend> Words<B> {
    binary!(plus = int_add, or = bitwise_or, xor = bitwise_xor);
    with_number!(
        plus_number = int_add_scalar,
        // Of halves only: the product has 32 bits.
        half_times = int_mul_scalar,
        and_number = bitwise_and_scalar,
        or_number = bitwise_or_scalar,
        xor_number = bitwise_xor_scalar,
        shifted_left = bitwise_left_shift_scalar,
        shifted_right = bitwise_right_shift_scalar
    );
    compared!(below = int_lower, equal = int_equal);

    fn booleans(&self) -> BoolDType {
        get_device_settings::<B>(&self.0.device()).bool_dtype
    }

    /// Whether a bit is set.
    pub fn has(&self, bit: u32) -> BoolTensor<B> {
        let bits = self.clone().and_number(bit);
        B::int_equal_elem(bits.0, bit.into(), self.booleans())
    }

    /// As numbers; exact below 2^24.
    pub fn floats(self) -> Tensor<B> {
        Tensor(B::int_into_float(self.0, FloatDType::F32))
    }

    /// The upper and the lower 16 bits.
    fn halves(&self) -> [Self; 2] {
        [
            self.clone().shifted_right(16),
            self.clone().and_number(0xFFFF),
        ]
    }

    /// A word plus a little as a number, rounded once or twice; the word's upper half
    /// is moved by `offset` first.
    pub fn number(&self, offset: f32, more: f32) -> Tensor<B> {
        let [high, low] = self.halves();
        let high = high.floats().plus_number(offset).times_number(65_536.0_f32);
        low.floats().plus_number(more).plus(&high)
    }

    /// High and low word of the product with a constant.
    fn mul_wide(&self, factor: u32) -> [Self; 2] {
        let [x1, x0] = self.halves();
        let (m1, m0) = (factor >> 16, factor & 0xFFFF);
        let low = x0.clone().half_times(m0);
        let (cross_a, cross_b) = (x0.half_times(m1), x1.clone().half_times(m0));
        let [a1, a0] = cross_a.halves();
        let [b1, b0] = cross_b.halves();
        let [low1, low0] = low.halves();
        let middle = low1.plus(&a0).plus(&b0);
        let high = x1.half_times(m1).plus(&a1).plus(&b1);
        let high = high.plus(&middle.clone().shifted_right(16));
        [high, middle.shifted_left(16).or(&low0)]
    }

    /// Entries of a table.
    pub fn of_table(&self, table: &Self) -> Self {
        let (flat, shape) = self.flat();
        let found = B::int_select(table.0.clone(), 0, flat);
        Self(B::int_reshape(found, shape))
    }

    /// Entries of a table of numbers.
    pub fn of_numbers(&self, table: &Tensor<B>) -> Tensor<B> {
        let (flat, shape) = self.flat();
        Tensor(B::float_select(table.0.clone(), 0, flat)).reshape(shape)
    }

    /// As a vector of places.
    fn flat(&self) -> (IntTensor<B>, burn_backend::Shape) {
        let shape = self.0.shape();
        let places = B::int_cast(self.0.clone(), IntDType::I32);
        let flat = B::int_reshape(places, [shape.num_elements()].into());
        (flat, shape)
    }
}

/// Ten rounds of Philox4x32: `kernels::random::philox4x32` for every element.
pub(crate) fn philox<B: Backend>(mut c: [Words<B>; 4], mut key: [u32; 2]) -> [Words<B>; 4] {
    for _ in 0..10 {
        let [high_a, low_a] = c[0].mul_wide(MULTIPLIERS[0]);
        let [high_b, low_b] = c[2].mul_wide(MULTIPLIERS[1]);
        let [_, second, _, fourth] = c;
        c = [
            high_b.xor(&second).xor_number(key[0]),
            low_b,
            high_a.xor(&fourth).xor_number(key[1]),
            low_a,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    c
}

/// The four words of every block of four pixels, of every copy: `copies x blocks`.
pub(crate) fn words<B: Backend>(
    place: &Place<B>,
    seed: u64,
    purpose: u32,
    keys: &[(u32, u32)],
    pixels: usize,
) -> [Words<B>; 4] {
    let column = |values: Vec<u32>| Words(place.upload_words(&values, [keys.len(), 1]));
    let images = column(keys.iter().map(|(image, _)| *image).collect());
    let samples = column(keys.iter().map(|(_, sample)| *sample).collect());
    let count = pixels.div_ceil(4);
    let blocks = B::int_reshape(place.count_words(count), [1, count].into());
    let purpose = Words(place.upload_words(&[purpose], [1, 1]));
    let counter = [Words(blocks), samples, images, purpose];
    philox(counter, [seed as u32, (seed >> 32) as u32])
}
