use super::*;
use crate::reference;
use proptest::prelude::*;

fn close(got: f64, want: f64, scale: f64) -> bool {
    (got - want).abs() <= 2e-5 * scale.max(1.0)
}

/// Rows of channels with different means and spreads, in `shares` shares.
fn rows() -> impl Strategy<Value = (usize, Vec<f32>, Vec<f32>)> {
    (1..=37_usize, 1..=40_usize).prop_flat_map(|(channels, rows)| {
        let values = || proptest::collection::vec(-2.0..2.0_f32, rows * channels);
        (Just(channels), values(), values()).prop_map(|(channels, mut x, dy)| {
            for (i, x) in x.iter_mut().enumerate() {
                let c = i % channels;
                *x = *x * (1.0 + c as f32 % 3.0) + c as f32 * 0.3 - 1.0;
            }
            (channels, x, dy)
        })
    })
}

fn moments(isa: Isa, channels: usize, x: &[f32], share: usize) -> Moments {
    let mut all = Moments::new(channels);
    let (mut mean, mut deviation) = (vec![f32::NAN; channels], vec![f32::NAN; channels]);
    for x in x.chunks(share * channels) {
        statistics(isa, x, &mut mean, &mut deviation);
        all.join(x.len() / channels, &mean, &deviation);
    }
    all
}

proptest! {
    #[test]
    fn statistics_agree_with_the_reference((channels, x, _) in rows(), share in 1..=40_usize) {
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let want = reference::batch_statistics(channels, &wide);
        for isa in Isa::available() {
            let mut got = moments(isa, channels, &x[..x.len() / channels / 2 * channels], share);
            got.merge(&moments(isa, channels, &x[x.len() / channels / 2 * channels..], share));
            prop_assert_eq!(got.rows, want.rows);
            for c in 0..channels {
                prop_assert!(close(got.mean[c], want.mean[c], 10.0));
                prop_assert!(close(got.variance(c), want.variance[c], want.variance[c]));
            }
        }
    }

    #[test]
    fn apply_is_affine_then_residual_then_relu(
        (channels, x, residual) in rows(),
        with_residual: bool,
        relu: bool,
    ) {
        let scale: Vec<f32> = (0..channels).map(|c| 0.5 + c as f32 * 0.1).collect();
        let shift: Vec<f32> = (0..channels).map(|c| 0.2 - c as f32 * 0.05).collect();
        for isa in Isa::available() {
            let mut y = vec![f32::NAN; x.len()];
            let r = with_residual.then_some(&residual[..]);
            apply(isa, (&scale, &shift), &x, r, relu, &mut y);
            for i in 0..x.len() {
                let c = i % channels;
                let mut want = f64::from(x[i]) * f64::from(scale[c]) + f64::from(shift[c]);
                want += r.map_or(0.0, |r| f64::from(r[i]));
                want = if relu { want.max(0.0) } else { want };
                prop_assert!(close(f64::from(y[i]), want, want.abs() + 10.0));
            }
        }
    }

    #[test]
    fn mask_and_scale((channels, x, dy) in rows(), which in 0..3_u8) {
        let scale: Vec<f32> = (0..channels).map(|c| 0.5 - c as f32 * 0.1).collect();
        let shift: Vec<f32> = (0..channels).map(|c| 0.2 - c as f32 * 0.05).collect();
        for isa in Isa::available() {
            let mut y = vec![0.0; x.len()];
            apply(isa, (&scale, &shift), &x, None, true, &mut y);
            let gate = match which {
                0 => Mask::None,
                1 => Mask::Positive(&y),
                _ => Mask::Affine(&scale, &shift),
            };
            let (mut g, mut dx) = (dy.clone(), vec![f32::NAN; x.len()]);
            mask(isa, gate, &x, &mut g);
            super::scale(isa, &scale, &g, &mut dx);
            for i in 0..x.len() {
                let want = if which == 0 || y[i] > 0.0 { dy[i] } else { 0.0 };
                prop_assert_eq!(g[i], want);
                prop_assert_eq!(dx[i], want * scale[i % channels]);
            }
        }
    }

    #[test]
    fn backward_agrees_with_the_reference(
        (channels, x, dy) in rows(),
        share in 1..=40_usize,
        mask in 0..3_u8,
    ) {
        let epsilon = 1e-3;
        let rows = x.len() / channels;
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let statistics = reference::batch_statistics(channels, &wide);
        let s: Vec<f64> = statistics.variance.iter().map(|v| (v + epsilon).sqrt()).collect();
        let scale: Vec<f32> = (0..channels).map(|c| 0.5 + c as f32 * 0.1).collect();
        let mean: Vec<f32> = statistics.mean.iter().map(|&m| m as f32).collect();
        let a: Vec<f32> = (0..channels).map(|c| scale[c] / s[c] as f32).collect();
        let b: Vec<f32> = (0..channels).map(|c| 0.1 - mean[c] * a[c]).collect();
        for isa in Isa::available() {
            let mut y = vec![0.0; x.len()];
            apply(isa, (&a, &b), &x, None, true, &mut y);
            let open = |i: usize| mask == 0 || y[i] > 0.0;
            let masked: Vec<f64> = (0..x.len())
                .map(|i| if open(i) { f64::from(dy[i]) } else { 0.0 })
                .collect();
            let wide_scale: Vec<f64> = scale.iter().map(|&s| f64::from(s)).collect();
            let norm = reference::BatchNorm {
                statistics: &statistics,
                epsilon,
                scale: Some(&wide_scale),
            };
            let mut want = (vec![0.0; x.len()], vec![0.0; channels], vec![0.0; channels]);
            norm.backward(&wide, &masked, &mut want.0, &mut want.1, &mut want.2);

            let mut g = dy.clone();
            let (mut sums, mut dots) = (vec![0.0_f64; channels], vec![0.0_f64; channels]);
            let (mut sum, mut dot) = (vec![f32::NAN; channels], vec![f32::NAN; channels]);
            for first in (0..rows).step_by(share) {
                let range = first * channels..(first + share).min(rows) * channels;
                let mask = match mask {
                    0 => Mask::None,
                    1 => Mask::Positive(&y[range.clone()]),
                    _ => Mask::Affine(&a, &b),
                };
                let (x, g) = (&x[range.clone()], &mut g[range]);
                backward_reduce(isa, mask, &mean, x, g, (&mut sum, &mut dot));
                for c in 0..channels {
                    sums[c] += f64::from(sum[c]);
                    dots[c] += f64::from(dot[c]);
                }
            }
            let n = rows as f64;
            let term = |f: &dyn Fn(usize) -> f64| -> Vec<f32> {
                (0..channels).map(|c| f(c) as f32).collect()
            };
            let gain = |c: usize| f64::from(scale[c]) / s[c];
            let terms = BackwardTerms {
                gain: &term(&gain),
                slope: &term(&|c| -gain(c) * dots[c] / (n * s[c] * s[c])),
                offset: &term(&|c| -gain(c) * sums[c] / n),
                mean: &mean,
            };
            let mut dx = vec![f32::NAN; x.len()];
            backward_apply(isa, terms, &x, &g, &mut dx);
            for c in 0..channels {
                let largest = 4.0 * n / s[c] + n;
                prop_assert!(close(dots[c] / s[c], want.1[c], largest));
                prop_assert!(close(sums[c], want.2[c], largest));
                for r in 0..rows {
                    let i = r * channels + c;
                    prop_assert!(close(f64::from(dx[i]), want.0[i], 10.0 * gain(c).max(1.0) / s[c].min(1.0)));
                }
            }
        }
    }
}

/// A large mean must not swallow the variance.
#[test]
fn statistics_survive_a_large_mean() {
    let x: Vec<f32> = (0..4096).map(|i| 1000.0 + (i % 2) as f32 * 0.125).collect();
    for isa in Isa::available() {
        let got = moments(isa, 1, &x, 512);
        assert!(
            (got.variance(0) - 0.0625_f64.powi(2)).abs() < 1e-6,
            "{got:?}"
        );
    }
}
