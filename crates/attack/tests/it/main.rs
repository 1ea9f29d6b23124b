//! The tests of this crate from outside, in one binary to link it once.

mod checks;
mod common;
mod goldens;
mod linear;
mod properties;
mod values;
