use super::*;
use crate::reference;
use crate::team::Team;
use proptest::prelude::*;

/// Reproducible values in -1..1.
fn values(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Of one image, in f64, with the epilogue.
fn expected(
    shape: &ConvShape,
    x: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    [relu, gelu]: [bool; 2],
) -> Vec<f64> {
    let mut y = vec![0.0; shape.output().len()];
    reference::conv(shape, &wide(x), &wide(weights), &mut y);
    for (i, y) in y.iter_mut().enumerate() {
        *y += bias.map_or(0.0, |b| f64::from(b[i % shape.out_channels]));
        *y += residual.map_or(0.0, |r| f64::from(r[i]));
        if relu {
            *y = y.max(0.0);
        }
        if gelu {
            *y *= 0.5 * libm::erfc(-*y * std::f64::consts::FRAC_1_SQRT_2);
        }
    }
    y
}

fn close(got: &[f32], want: &[f64], tolerance: f64) -> Result<(), String> {
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        if (f64::from(g) - w).abs() > tolerance {
            return Err(format!("at {i}: got {g}, want {w}"));
        }
    }
    Ok(())
}

/// The statistics of a convolution whose outputs are `y`.
fn check_statistics(conv: &Conv, images: usize, x: &[f32], bias: Option<&[f32]>, y: &[f32]) {
    let channels = conv.shape().out_channels;
    let mut again = vec![f32::NAN; y.len()];
    let mut scratch = vec![f32::NAN; conv.scratch_len(images)];
    let (mut mean, mut deviation) = (vec![f32::NAN; channels], vec![f32::NAN; channels]);
    conv.run_with_statistics(
        images,
        x,
        bias,
        &mut again,
        &mut scratch,
        &mut mean,
        &mut deviation,
    );
    assert_eq!(again, y);
    let rows = (y.len() / channels) as f64;
    let want = reference::batch_statistics(channels, &wide(y));
    for c in 0..channels {
        let scale = 1e-5 * (1.0 + want.mean[c].abs() + want.variance[c]);
        assert!((f64::from(mean[c]) - want.mean[c]).abs() < scale);
        assert!((f64::from(deviation[c]) / rows - want.variance[c]).abs() < 10.0 * scale);
    }
}

/// Every algorithm on every instruction set against the reference, and every
/// image of a block against itself alone, to the bit.
fn check(shape: ConvShape, images: usize, seed: u64, with: [bool; 4]) -> Result<(), String> {
    let (input, output) = (shape.input, shape.output());
    let x = values(seed, images * input.len());
    let weights = values(seed + 1, shape.weights());
    let bias = with[0].then(|| values(seed + 2, output.channels));
    let residual = with[1].then(|| values(seed + 3, images * output.len()));
    let gelu = with[3].then_some(Form::Erf);
    let depth = shape.weights() / shape.out_channels;
    for isa in Isa::available() {
        for algorithm in Algorithm::ALL {
            if !algorithm.can(&shape) {
                continue;
            }
            let others = values(seed + 4, shape.weights());
            let mut conv = Conv::with_algorithm(isa, shape, &others, algorithm);
            assert_eq!(conv.algorithm(), algorithm);
            conv.set_weights(&weights);
            let run = |images: usize, first: usize| {
                let x = &x[first * input.len()..][..images * input.len()];
                let mut y = vec![f32::NAN; images * output.len()];
                let mut scratch = vec![f32::NAN; conv.scratch_len(images)];
                let epilogue = Epilogue {
                    bias: bias.as_deref(),
                    residual: residual
                        .as_ref()
                        .map(|r| &r[first * output.len()..][..images * output.len()]),
                    relu: with[2],
                    gelu,
                };
                conv.run(images, x, epilogue, &mut y, &mut scratch);
                if !with[1] && !with[2] && !with[3] {
                    check_statistics(&conv, images, x, bias.as_deref(), &y);
                }
                y
            };
            let all = run(images, 0);
            for i in 0..images {
                let got = &all[i * output.len()..][..output.len()];
                let want = expected(
                    &shape,
                    &x[i * input.len()..][..input.len()],
                    &weights,
                    bias.as_deref(),
                    residual
                        .as_ref()
                        .map(|r| &r[i * output.len()..][..output.len()]),
                    [with[2], with[3]],
                );
                let tolerance = match algorithm {
                    Algorithm::Winograd4 => 2e-5,
                    _ => 2e-6,
                } * (1.0 + (depth as f64).sqrt());
                close(got, &want, tolerance)
                    .map_err(|e| format!("{isa} {algorithm:?} image {i}: {e}"))?;
                for parts in [2, 3] {
                    let mut y = vec![f32::NAN; output.len()];
                    let mut scratch = vec![f32::NAN; conv.split_scratch_len(parts)];
                    let epilogue = Epilogue {
                        bias: bias.as_deref(),
                        residual: residual
                            .as_ref()
                            .map(|r| &r[i * output.len()..][..output.len()]),
                        relu: with[2],
                        gelu,
                    };
                    let x = &x[i * input.len()..][..input.len()];
                    let team = Team::new(parts);
                    std::thread::scope(|scope| {
                        for _ in 1..parts {
                            scope.spawn(|| team.help());
                        }
                        let leader = &mut team.lead();
                        conv.run_split(parts, x, epilogue, &mut y, &mut scratch, leader);
                    });
                    if got != y {
                        return Err(format!("{isa} {algorithm:?}: {parts} parts differ"));
                    }
                }
                if got != run(1, i) {
                    return Err(format!(
                        "{isa} {algorithm:?}: image {i} depends on the block"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn any_shape() -> impl Strategy<Value = ConvShape> {
    let sizes = (1usize..12, 1usize..12, 1usize..5, 1usize..5);
    let channels = (1usize..4, 1usize..22, 1usize..22, any::<bool>());
    let paddings = [0usize..3, 0..3, 0..3, 0..3];
    let steps = (1usize..4, 1usize..4, 1usize..3, 1usize..3);
    (sizes, channels, paddings, steps).prop_filter_map(
        "the window fits",
        |((h, w, kh, kw), (groups, ci, co, depthwise), [t, l, b, r], (sh, sw, dh, dw))| {
            let (groups, ci, co) = if depthwise {
                (ci, 1, 1)
            } else {
                (groups, ci, co)
            };
            let window = Window {
                kernel: [kh, kw],
                stride: [sh, sw],
                padding: Padding {
                    top: t,
                    left: l,
                    bottom: b,
                    right: r,
                },
                dilation: [dh, dw],
            };
            window.output(h, w)?;
            Some(ConvShape {
                input: Shape::new(h, w, ci * groups),
                out_channels: co * groups,
                window,
                groups,
            })
        },
    )
}

fn three_by_three() -> impl Strategy<Value = ConvShape> {
    let sizes = (1usize..14, 1usize..14, 1usize..40, 1usize..40);
    (sizes, [0usize..3, 0..3, 0..3, 0..3]).prop_filter_map(
        "the window fits",
        |((h, w, ci, co), [t, l, b, r])| {
            let window = Window {
                padding: Padding {
                    top: t,
                    left: l,
                    bottom: b,
                    right: r,
                },
                ..Window::square(3, 1, 0)
            };
            window.output(h, w)?;
            Some(ConvShape {
                input: Shape::new(h, w, ci),
                out_channels: co,
                window,
                groups: 1,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_window(shape in any_shape(), images in 1usize..4, seed: u32, with: [bool; 4]) {
        check(shape, images, seed.into(), with).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn windows_of_three(shape in three_by_three(), images in 1usize..4, seed: u32, with: [bool; 4]) {
        check(shape, images, seed.into(), with).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn input_gradient_is_the_adjoint(shape in any_shape(), seed: u32) {
        let weights = values(seed.into(), shape.weights());
        let dy = values(u64::from(seed) + 1, shape.output().len());
        let mut want = vec![0.0; shape.input.len()];
        reference::conv_input_gradient(&shape, &wide(&dy), &wide(&weights), &mut want);
        for isa in Isa::available() {
            let others = values(u64::from(seed) + 2, shape.weights());
            let Some(mut back) = Conv::input_gradient(isa, shape, &others) else {
                let reach = [0, 1].map(|a| shape.window.dilation[a] * (shape.window.kernel[a] - 1));
                let p = shape.window.padding;
                prop_assert!(
                    shape.window.stride != [1, 1]
                        || p.top.max(p.bottom) > reach[0]
                        || p.left.max(p.right) > reach[1]
                );
                continue;
            };
            back.set_weights(&weights);
            let mut dx = vec![f32::NAN; want.len()];
            let mut scratch = vec![f32::NAN; back.scratch_len(1)];
            back.run(1, &dy, Epilogue::default(), &mut dx, &mut scratch);
            close(&dx, &want, 1e-4).map_err(TestCaseError::fail)?;
        }
    }
}

/// More depth than one block, more rows than one block, several panels.
#[test]
fn large_depth_and_many_rows() {
    for (size, ci, co, kernel, stride) in [
        (5, 300, 40, 3, 1),
        (9, 1000, 24, 1, 1),
        (13, 40, 70, 3, 2),
        (20, 3, 16, 7, 2),
        (11, 64, 64, 3, 1),
    ] {
        let shape = ConvShape {
            input: Shape::new(size, size, ci),
            out_channels: co,
            window: Window::square(kernel, stride, kernel / 2),
            groups: 1,
        };
        check(shape, 3, 7, [true; 4]).unwrap();
    }
}

#[test]
fn a_value_that_is_not_a_number_is_not_hidden() {
    let shape = ConvShape {
        input: Shape::new(4, 4, 16),
        out_channels: 16,
        window: Window::square(3, 1, 1),
        groups: 1,
    };
    let mut x = vec![0.0; shape.input.len()];
    x[0] = f32::NAN;
    for algorithm in [Algorithm::Direct, Algorithm::Winograd4] {
        let weights = vec![1.0; shape.weights()];
        let conv = Conv::with_algorithm(Isa::detect(), shape, &weights, algorithm);
        let mut y = vec![0.0; shape.output().len()];
        let mut scratch = vec![0.0; conv.scratch_len(1)];
        let epilogue = Epilogue {
            relu: true,
            ..Epilogue::default()
        };
        conv.run(1, &x, epilogue, &mut y, &mut scratch);
        assert!(y[0].is_nan(), "{algorithm:?}");
    }
}
