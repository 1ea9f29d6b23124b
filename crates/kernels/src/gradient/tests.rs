use super::{ConvInputs, InputGradient, InputPass, WeightGradient};
use crate::conv::Conv;
use crate::geometry::{ConvShape, Padding, Shape, Window};
use crate::isa::Isa;
use crate::norm::{self, Mask, Masking};
use crate::reference;
use proptest::prelude::*;

/// Numbers in [-1, 1] that depend on the seed.
fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(n).collect()
}

fn double(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Largest difference, relative to the largest expected value.
fn distance(got: &[f32], want: &[f64]) -> f64 {
    let largest = want.iter().fold(1e-3, |m: f64, w| m.max(w.abs()));
    let differences = got.iter().zip(want).map(|(&g, w)| (f64::from(g) - w).abs());
    differences.fold(0.0, f64::max) / largest
}

fn plain(x: &[f32]) -> ConvInputs<'_> {
    ConvInputs {
        x,
        factors: None,
        relu: false,
    }
}

fn check(shape: ConvShape, images: usize, seed: u64) {
    let (input, output) = (shape.input.len(), shape.output().len());
    let weights = numbers(seed, shape.weights());
    let x = numbers(seed + 1, images * input);
    let dy = numbers(seed + 2, images * output);
    let start = numbers(seed + 3, shape.weights());
    let mut want_dw = double(&start);
    let mut want_dx = vec![0.0; images * input];
    for i in 0..images {
        let (x, dy) = (
            double(&x[i * input..][..input]),
            double(&dy[i * output..][..output]),
        );
        reference::conv_weight_gradient(&shape, &x, &dy, &mut want_dw);
        reference::conv_input_gradient(
            &shape,
            &dy,
            &double(&weights),
            &mut want_dx[i * input..][..input],
        );
    }
    for isa in Isa::available() {
        let plan = WeightGradient::new(isa, shape);
        // Scratch and fresh accumulators are overwritten, whatever they held.
        let mut scratch = vec![f32::NAN; plan.scratch_len()];
        let mut accumulators = vec![];
        // Two parts of the images in one accumulator, and one in another.
        for parts in [
            [0..images / 3, images / 3..images / 2],
            [images / 2..images, images..images],
        ] {
            let mut accumulator = vec![f32::NAN; plan.accumulator_len()];
            let mut fresh = true;
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                plan.accumulate(
                    part.len(),
                    plain(&x[part.start * input..part.end * input]),
                    &dy[part.start * output..part.end * output],
                    &mut accumulator,
                    fresh,
                    &mut scratch,
                    None,
                );
                fresh = false;
            }
            if !fresh {
                accumulators.push(accumulator);
            }
        }
        let accumulators: Vec<&[f32]> = accumulators.iter().map(Vec::as_slice).collect();
        let mut dw = start.clone();
        // In two parts, as threads do it.
        let row = shape.weights() / shape.out_channels;
        let half = shape.out_channels / 2;
        let (low, high) = dw.split_at_mut(half * row);
        plan.add_to(&accumulators, 0, low);
        plan.add_to(&accumulators, half, high);
        let error = distance(&dw, &want_dw);
        // Winograd's way trades a digit for speed.
        let most = if shape.input.channels < 16 {
            1e-5
        } else {
            5e-5
        };
        assert!(
            error < most,
            "{isa}: weight gradient off by {error}, {shape:?}"
        );

        let residual = seed.is_multiple_of(2).then_some(&x[..]);
        let want_dx: Vec<f64> = (want_dx.iter().zip(&x))
            .map(|(d, &x)| d + residual.map_or(0.0, |_| f64::from(x)))
            .collect();
        let plan = InputGradient::new(isa, shape, &weights);
        let mut scratch = vec![f32::NAN; plan.scratch_len()];
        let mut dx = vec![f32::NAN; images * input];
        plan.run(images, &dy, residual, &mut dx, &mut scratch);
        let error = distance(&dx, &want_dx);
        assert!(
            error < 1e-5,
            "{isa}: input gradient off by {error}, {shape:?}"
        );
    }
}

fn shapes() -> impl Strategy<Value = ConvShape> {
    let along = || {
        (
            1..=4_usize,
            1..=3_usize,
            1..=2_usize,
            0..=2_usize,
            0..=2_usize,
        )
    };
    let channels = (1..=20_usize, 1..=20_usize, 1..=3_usize);
    (1..=12_usize, 1..=12_usize, channels, along(), along()).prop_filter_map(
        "the window fits",
        |(height, width, (input, output, groups), v, h)| {
            let window = Window {
                kernel: [v.0, h.0],
                stride: [v.1, h.1],
                dilation: [v.2, h.2],
                padding: Padding {
                    top: v.3,
                    bottom: v.4,
                    left: h.3,
                    right: h.4,
                },
            };
            window.output(height, width)?;
            Some(ConvShape {
                input: Shape::new(height, width, input * groups),
                out_channels: output * groups,
                window,
                groups,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agree_with_the_reference(shape in shapes(), images in 1..=3_usize, seed: u32) {
        check(shape, images, u64::from(seed));
    }
}

/// The layers of the networks that we ship, at small sizes.
#[test]
fn agree_with_the_reference_on_usual_layers() {
    for (size, input, output, window, images) in [
        (13, 16, 16, Window::square(3, 1, 1), 2),
        (12, 16, 32, Window::square(3, 2, 1), 2),
        (4, 32, 32, Window::square(3, 1, 1), 20),
        (7, 48, 32, Window::square(3, 1, 1), 3),
        (9, 32, 64, Window::square(3, 1, 0), 2),
        (16, 3, 16, Window::square(3, 1, 1), 1),
        (9, 16, 32, Window::square(1, 1, 0), 2),
        (9, 16, 32, Window::square(1, 2, 0), 2),
        (25, 3, 24, Window::square(7, 2, 3), 1),
        (1, 64, 10, Window::square(1, 1, 0), 9),
    ] {
        let shape = ConvShape {
            input: Shape::new(size, size, input),
            out_channels: output,
            window,
            groups: 1,
        };
        check(shape, images, 7);
    }
}

/// Both gradients in one pass, the inputs normalised on the way and the gradient
/// masked and summed up, against the same things one after the other.
#[test]
fn one_pass_makes_what_single_ones_do() {
    for (size, input, output, padding, images) in [
        (8, 16, 16, 1, 3),
        (13, 32, 16, 1, 2),
        (6, 16, 48, 0, 9),
        (9, 32, 32, 2, 2),
    ] {
        let shape = ConvShape {
            input: Shape::new(size, size, input),
            out_channels: output,
            window: Window::square(3, 1, padding),
            groups: 1,
        };
        let len = images * shape.input.len();
        let x = numbers(1, len);
        let dy = numbers(2, images * shape.output().len());
        let weights = numbers(3, shape.weights());
        let residual = numbers(4, len);
        let other = numbers(5, len);
        let [scale, shift, mean] = [6, 7, 8].map(|seed| numbers(seed, input));
        for isa in Isa::available() {
            let plan = WeightGradient::new(isa, shape);
            let conv = Conv::input_gradient(isa, shape, &weights).expect("a stride of 1");
            assert!(
                plan.applies_factors() && plan.pulls_back(&conv),
                "{shape:?}"
            );
            let mut scratch = vec![f32::NAN; plan.scratch_len().max(conv.scratch_len(images))];
            let mut inputs = vec![0.0; len];
            norm::apply(isa, (&scale, &shift), &x, None, true, &mut inputs);
            let mut want = vec![f32::NAN; plan.accumulator_len()];
            plan.accumulate(
                images,
                plain(&inputs),
                &dy,
                &mut want,
                true,
                &mut scratch,
                None,
            );
            let masks = [
                Mask::None,
                Mask::Positive(&other),
                Mask::Affine(&scale, &shift),
            ];
            for (mask, sums) in masks.into_iter().flat_map(|m| [(m, false), (m, true)]) {
                let masking = |sum, dot| Masking {
                    mask,
                    x: &x,
                    mean: &mean,
                    sums: if sums { Some((sum, dot)) } else { None },
                };
                let epilogue = crate::conv::Epilogue {
                    residual: Some(&residual),
                    ..Default::default()
                };
                let mut want_dx = vec![f32::NAN; len];
                conv.run(images, &dy, epilogue, &mut want_dx, &mut scratch);
                let mut want_sums = [vec![0.0; input], vec![0.0; input]];
                let [sum, dot] = &mut want_sums;
                masking(sum, dot).apply(isa, &mut want_dx);

                let mut got = vec![f32::NAN; plan.accumulator_len()];
                let mut dx = vec![f32::NAN; len];
                let mut got_sums = [vec![0.0; input], vec![0.0; input]];
                let [sum, dot] = &mut got_sums;
                let factors = Some((&scale[..], &shift[..]));
                let inputs = ConvInputs {
                    x: &x,
                    factors,
                    relu: true,
                };
                let pass = InputPass {
                    conv: &conv,
                    residual: Some(&residual),
                    dx: &mut dx,
                    masking: Some(masking(sum, dot)),
                };
                plan.accumulate(
                    images,
                    inputs,
                    &dy,
                    &mut got,
                    true,
                    &mut scratch,
                    Some(pass),
                );
                assert_eq!(got, want, "{isa} {shape:?}");
                let far = |got: &[f32], want: &[f32]| distance(got, &double(want));
                assert!(far(&dx, &want_dx) < 1e-6, "{isa} {shape:?} {mask:?}");
                for (got, want) in got_sums.iter().zip(&want_sums) {
                    assert!(far(got, want) < 1e-5, "{isa} {shape:?} {mask:?} {sums}");
                }
            }
        }
    }
}
