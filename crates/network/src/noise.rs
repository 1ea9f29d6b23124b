//! Gaussian noise as a pure function of its key.

/// What noise is drawn for: draws for different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Choosing a class (n0 samples).
    Selection = 1,
    /// Estimating its probability (n samples).
    Estimation = 2,
    /// The stochastic model's prediction, attack and L-bound.
    Prediction = 3,
    /// Training on noisy images.
    Training = 4,
    /// Random projections of the heat penalty.
    Projection = 5,
    /// Fresh weights.
    Weights = 6,
    /// Random directions and starts of attacks.
    Attack = 7,
    /// The Monte-Carlo average of fidelity.
    Fidelity = 8,
    /// Measuring speed.
    Bench = 9,
}

/// Gaussian noise `N(0, sigma^2)` as a pure function of
/// `(seed, purpose, image, sample, pixel)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The run's seed.
    pub seed: u64,
    /// What for.
    pub purpose: Purpose,
    /// Standard deviation, in units of pixels scaled to [0, 1].
    pub sigma: f32,
}

/// `count` noisy copies of one image, with consecutive sample numbers.
#[derive(Clone, Copy, Debug)]
pub struct NoisyImage<'a> {
    /// The clean image.
    pub pixels: &'a [f32],
    /// The image's number in its data set: part of the noise's key.
    pub image: u32,
    /// Number of the first copy.
    pub first_sample: u32,
    /// How many copies.
    pub count: usize,
}

impl Noise {
    /// Writes `pixels + noise` of one sample to `out`.
    pub fn add(&self, image: u32, sample: u32, pixels: &[f32], out: &mut [f32]) {
        for (i, (out, x)) in out.iter_mut().zip(pixels).enumerate() {
            *out = x + self.sigma * self.standard(image, sample, i as u32) as f32;
        }
    }

    /// The noise alone.
    pub fn draw(&self, image: u32, sample: u32, len: usize) -> Vec<f32> {
        let zeros = vec![0.0; len];
        let mut out = vec![0.0; len];
        self.add(image, sample, &zeros, &mut out);
        out
    }

    /// All noisy copies of a batch, one behind the other.
    pub fn copies(&self, batch: &[NoisyImage<'_>]) -> Vec<f32> {
        let mut images = Vec::new();
        for noisy in batch {
            for sample in 0..noisy.count {
                let start = images.len();
                images.resize(start + noisy.pixels.len(), 0.0);
                let sample = noisy.first_sample + sample as u32;
                self.add(noisy.image, sample, noisy.pixels, &mut images[start..]);
            }
        }
        images
    }

    fn standard(&self, image: u32, sample: u32, i: u32) -> f64 {
        let key = [self.seed as u32, (self.seed >> 32) as u32];
        let r = philox([i / 4, sample, image, self.purpose as u32], key);
        let pair = (i % 4 / 2 * 2) as usize;
        let uniform = |u: u32| (f64::from(u) + 0.5) / 4294967296.0;
        let radius = (-2.0 * uniform(r[pair]).ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * uniform(r[pair + 1]);
        radius
            * if i.is_multiple_of(2) {
                angle.cos()
            } else {
                angle.sin()
            }
    }
}

fn philox(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [
            (b >> 32) as u32 ^ c[1] ^ k[0],
            b as u32,
            (a >> 32) as u32 ^ c[3] ^ k[1],
            a as u32,
        ];
        k = [
            k[0].wrapping_add(0x9E37_79B9),
            k[1].wrapping_add(0xBB67_AE85),
        ];
    }
    c
}
