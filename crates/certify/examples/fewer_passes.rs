//! How many noisy passes "is the radius at least r?" takes: n = 100,000 for everyone,
//! an anytime certificate, one with a prior, and a fixed n that a pilot chooses for each
//! image, on images whose votes are known.
//!
//! ```text
//! cargo run --release -p heatsmooth-certify --example fewer_passes [LOG SIGMA]
//! ```
//!
//! LOG is a certification log: an image's probability is its share of hits, or, where
//! there is only the column `radius`, as in the logs that Cohen et al. published,
//! Phi(radius/SIGMA); one below a half counts as a half. Without a log, 1000
//! images follow the certified accuracy of Cohen et al.'s CIFAR-10 network at sigma .25
//! (80/67/51/33 % at 0, 1, 2 and 3 sigma, straight lines between), the last third
//! spread from 3 to 5 sigma and the fifth that is wrong from 0 to 1 sigma.
//!
//! The classifier is a threshold on one pixel, so that an image at distance d from it
//! has exactly the votes Phi(d/sigma); its one-pass answer is a logistic function of
//! d/sigma that is too sure, about right, or too unsure.

use std::ops::ControlFlow;

use heatsmooth_certify::statistics::{clopper_pearson_lower, normal_cdf, normal_quantile};
use heatsmooth_certify::{
    Certify, CertifyOutcome, CertifyParams, Prior, Select, Smoothing, certify_all,
};
use network::{Classify, DeviceError, Images, Noise, NoisyImage, Shape};

const SIGMA: f64 = 0.1;
const CAP: u32 = 100_000;

/// Class 1 above one half.
struct Threshold {
    /// Logits for each sigma of distance.
    slope: f32,
}

impl Classify for Threshold {
    fn input(&self) -> Shape {
        Shape::vector(1)
    }

    fn classes(&self) -> usize {
        2
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        for (pixel, logits) in images.iter().zip(logits.chunks_exact_mut(2)) {
            logits[0] = 0.0;
            logits[1] = self.slope * (pixel - 0.5) / SIGMA as f32;
        }
        Ok(())
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        self.logits(&noise.copies(batch), logits)
    }

    fn batch(&self) -> usize {
        4096
    }
}

/// Distances in sigmas, as the published table has them.
fn published() -> Vec<f64> {
    let curve = [
        (0.8, 0.0),
        (0.67, 1.0),
        (0.51, 2.0),
        (0.33, 3.0),
        (0.0, 5.0),
    ];
    let distance = |share: f64| {
        if share >= 0.8 {
            return (share - 0.8) / 0.2;
        }
        let pair = curve.windows(2).find(|pair| share >= pair[1].0);
        let [(high, from), (low, to)] = *pair.unwrap_or(&curve[3..5]) else {
            return 0.0;
        };
        from + (to - from) * (high - share) / (high - low)
    };
    let shares = (0..1000).map(|image| (f64::from(image) + 0.5) / 1000.0);
    shares.map(distance).collect()
}

/// Distances in sigmas, from a log.
fn read(path: &str, sigma: f64) -> Vec<f64> {
    let text = std::fs::read_to_string(path).expect("a log");
    let mut lines = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().expect("columns");
    let column = |name: &str| head.iter().position(|found| *found == name);
    let counts = column("n_a").zip(column("n"));
    let radius = column("radius").expect("a column `radius`");
    let number = |cell: &str| cell.parse::<f64>().expect("a number");
    let distance = |cells: Vec<&str>| match counts {
        Some((hits, n)) => normal_quantile((number(cells[hits]) + 0.5) / (number(cells[n]) + 1.0)),
        None => number(cells[radius]) / sigma,
    };
    lines.map(|cells| distance(cells).clamp(0.0, 4.9)).collect()
}

/// Passes an image, and how many are certified.
fn run(model: &Threshold, distances: &[f64], plan: &Certify, goal: f64) -> (f64, usize) {
    let mut images = Images::new(Shape::vector(1));
    for (image, distance) in distances.iter().enumerate() {
        let pixel = (0.5 + SIGMA * distance) as f32;
        images.push(image as u32, 1, &[pixel]);
    }
    let (mut passes, mut certified) = (0, 0);
    let mut observer = |outcome: CertifyOutcome| {
        passes += outcome.samples;
        certified += usize::from(outcome.certificate.radius >= goal * SIGMA);
        ControlFlow::Continue(())
    };
    certify_all(model, [images], plan, model.batch(), &mut observer).expect("certificates");
    (passes as f64 / distances.len() as f64, certified)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let distances = match arguments.as_slice() {
        [path, sigma] => read(path, sigma.parse().expect("a noise level")),
        _ => published(),
    };
    println!(
        "{} images, alpha 0.001; passes an image (certified images)",
        distances.len()
    );
    println!(
        "r/sigma\tn = {CAP}\tanytime\tsure of it\tabout right\tunsure\tpilot of 50\tpilot chooses n"
    );
    for goal in [1.0, 2.0, 3.0] {
        let params = |prior| CertifyParams {
            n0: 50,
            n: CAP,
            select: Select::Clean,
            anytime: true,
            radius: Some(goal * SIGMA),
            prior,
            ..CertifyParams::default()
        };
        let plan = |prior| {
            let smoothing = Smoothing::gaussian(SIGMA).expect("a noise level");
            params(prior).plan(smoothing, 0).expect("a plan")
        };
        // The expected count stands for 100,000 draws.
        let fixed = distances.iter().filter(|distance| {
            let hits = (normal_cdf(**distance) * f64::from(CAP)).round() as u64;
            normal_quantile(clopper_pearson_lower(hits, CAP.into(), 0.001)) >= goal
        });
        print!("{goal}\t{CAP} ({})", fixed.count());
        // 1.702 makes the logistic function about Phi.
        for (prior, slope) in [
            (Prior::Flat, 1.0),
            (Prior::OnePass, 6.0),
            (Prior::OnePass, 1.702),
            (Prior::OnePass, 0.6),
            (Prior::Pilot, 1.0),
        ] {
            let model = Threshold { slope };
            let (passes, certified) = run(&model, &distances, &plan(prior), goal);
            print!("\t{passes:.0} ({certified})");
        }
        let fixed = CertifyParams {
            n0: 100,
            anytime: false,
            pilot: true,
            ..params(Prior::Flat)
        };
        let smoothing = Smoothing::gaussian(SIGMA).expect("a noise level");
        let fixed = fixed.plan(smoothing, 0).expect("a plan");
        let (passes, certified) = run(&Threshold { slope: 1.0 }, &distances, &fixed, goal);
        println!("\t{passes:.0} ({certified})");
    }
}
