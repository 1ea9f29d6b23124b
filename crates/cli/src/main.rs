//! The `heatsmooth` binary.
fn main() {}
