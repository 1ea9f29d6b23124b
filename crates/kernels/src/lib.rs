//! SIMD kernels for f32 on the CPU, each with a naive reference beside it.
