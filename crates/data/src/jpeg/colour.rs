//! Components to RGB.

/// What the components of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    Grey,
    Rgb,
    YCbCr,
    /// Four inks, stored inverted, as Adobe's programs write them.
    Cmyk,
    /// The same, with three of them turned as RGB is to YCbCr.
    Ycck,
}

impl Colours {
    /// Bytes of a decoded pixel.
    pub fn channels(self) -> usize {
        match self {
            Self::Grey => 1,
            _ => 3,
        }
    }
}

/// A factor in 16 bits of fixed point.
const fn fixed(factor: f64) -> i32 {
    (factor * 65536.0 + 0.5) as i32
}

/// Red, green and blue (JFIF 1.02), rounded as libjpeg-turbo rounds.
#[inline(always)]
fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((fixed(1.40200) * cr + HALF) >> 16);
    let green = y + ((HALF - fixed(0.34414) * cb - fixed(0.71414) * cr) >> 16);
    let blue = y + ((fixed(1.77200) * cb + HALF) >> 16);
    let byte = |v: i32| v.clamp(0, 255) as u8;
    [byte(red), byte(green), byte(blue)]
}

/// A colour under black ink; both are given inverted.
#[inline(always)]
fn ink(colour: u8, black: u8) -> u8 {
    let (ink, light) = (255 - u32::from(colour), u32::from(black));
    let product = ink * light + 128;
    (light - (((product >> 8) + product) >> 8)) as u8
}

/// The pixels of a row from its components.
#[inline(always)]
pub(super) fn row(colours: Colours, components: [&[u8]; 4], out: &mut [u8]) {
    let [a, b, c, d] = components;
    let (out3, _) = out.as_chunks_mut::<3>();
    let three = a.iter().zip(b).zip(c);
    match colours {
        Colours::Grey => out.copy_from_slice(&a[..out.len()]),
        Colours::Rgb => {
            for (out, ((&r, &g), &b)) in out3.iter_mut().zip(three) {
                *out = [r, g, b];
            }
        }
        Colours::YCbCr => {
            for (out, ((&y, &cb), &cr)) in out3.iter_mut().zip(three) {
                *out = rgb(y, cb, cr);
            }
        }
        Colours::Cmyk => {
            for (out, (((&c, &m), &y), &k)) in out3.iter_mut().zip(three.zip(d)) {
                *out = [c, m, y].map(|colour| ink(colour, k));
            }
        }
        Colours::Ycck => {
            for (out, (((&y, &cb), &cr), &k)) in out3.iter_mut().zip(three.zip(d)) {
                // The inks are what is missing in the light.
                *out = rgb(y, cb, cr).map(|light| ink(255 - light, k));
            }
        }
    }
}
