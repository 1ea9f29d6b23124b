//! Speed of the convolution kernels on one thread, by shape and algorithm.
//!
//!     cargo bench -p heatsmooth-kernels [-- FILTER]
//!
//! An item is one operation as the direct algorithm counts them (two for each
//! multiply-accumulate), so `Gitem/s` are GFLOP/s; Winograd's figures are
//! comparable and may exceed the machine's peak. A star marks the algorithm
//! that is chosen for the shape.

use divan::Bencher;
use divan::counter::ItemsCount;
use heatsmooth_kernels::buffer::Buffer;
use heatsmooth_kernels::conv::{Algorithm, Conv, Epilogue};
use heatsmooth_kernels::geometry::{ConvShape, Shape, Window};
use heatsmooth_kernels::isa::Isa;

/// Side, input channels, output channels, window, stride, images.
const SHAPES: [[usize; 6]; 33] = [
    [32, 3, 16, 3, 1, 4],
    [32, 16, 16, 3, 1, 1],
    [32, 16, 16, 3, 1, 4],
    [32, 16, 32, 3, 2, 4],
    [32, 16, 32, 1, 1, 4],
    [16, 32, 32, 3, 1, 1],
    [16, 32, 32, 3, 1, 4],
    [16, 32, 64, 3, 2, 4],
    [16, 32, 64, 1, 1, 4],
    [8, 64, 64, 3, 1, 1],
    [8, 64, 64, 3, 1, 4],
    [8, 64, 64, 3, 1, 8],
    [32, 64, 64, 3, 1, 2],
    [16, 128, 128, 3, 1, 4],
    [8, 256, 256, 3, 1, 8],
    [4, 512, 512, 3, 1, 16],
    [224, 3, 64, 7, 2, 1],
    [56, 64, 64, 1, 1, 2],
    [56, 64, 256, 1, 1, 2],
    [56, 256, 64, 1, 1, 2],
    [56, 64, 64, 3, 1, 2],
    [28, 512, 128, 1, 1, 2],
    [28, 128, 512, 1, 1, 2],
    [28, 128, 128, 3, 1, 2],
    [56, 128, 128, 3, 2, 2],
    [14, 1024, 256, 1, 1, 4],
    [14, 256, 1024, 1, 1, 4],
    [14, 256, 256, 3, 1, 4],
    [28, 256, 256, 3, 2, 4],
    [7, 2048, 512, 1, 1, 8],
    [7, 512, 2048, 1, 1, 8],
    [7, 512, 512, 3, 1, 8],
    [14, 512, 512, 3, 2, 4],
];

/// A convolution of some images by one algorithm.
struct Case {
    shape: ConvShape,
    images: usize,
    algorithm: Algorithm,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (input, window) = (self.shape.input, self.shape.window);
        let [kernel, stride] = [window.kernel[0], window.stride[0]];
        let (outputs, images) = (self.shape.out_channels, self.images);
        let chosen = self.algorithm == Algorithm::choose(&self.shape);
        let (algorithm, star) = (self.algorithm, if chosen { "*" } else { "" });
        write!(
            f,
            "{input}->{outputs} k{kernel} s{stride} n{images} {algorithm:?}{star}"
        )
    }
}

fn cases() -> impl Iterator<Item = Case> {
    SHAPES
        .into_iter()
        .flat_map(|[side, inputs, outputs, kernel, stride, images]| {
            let shape = ConvShape {
                input: Shape::new(side, side, inputs),
                out_channels: outputs,
                window: Window::square(kernel, stride, kernel / 2),
                groups: 1,
            };
            let able = Algorithm::ALL.into_iter().filter(move |a| a.can(&shape));
            able.map(move |algorithm| Case {
                shape,
                images,
                algorithm,
            })
        })
}

#[divan::bench(args = cases())]
fn convolution(bencher: Bencher<'_, '_>, case: &Case) {
    let (shape, images) = (case.shape, case.images);
    let weights: Vec<f32> = (0..shape.weights())
        .map(|i| ((i * 7919) % 1000) as f32 * 1e-3 - 0.5)
        .collect();
    let mut x = Buffer::zeroed(images * shape.input.len());
    x.fill(0.5);
    let mut y = Buffer::zeroed(images * shape.output().len());
    let residual = y.clone();
    let bias = vec![0.1; shape.out_channels];
    let conv = Conv::with_algorithm(Isa::detect(), shape, &weights, case.algorithm);
    let mut scratch = Buffer::zeroed(conv.scratch_len(images));
    let epilogue = Epilogue {
        bias: Some(&bias),
        residual: Some(&residual),
        relu: true,
        gelu: None,
    };
    bencher
        .counter(ItemsCount::new(2 * images as u64 * shape.macs()))
        .bench_local(|| conv.run(images, &x, epilogue, &mut y, &mut scratch));
}

fn main() {
    divan::main();
}
