//! The tests of this crate from outside, in one binary to link it once.

mod batches;
mod calibration;
mod clever;
mod common;
mod exact;
mod fidelity;
mod interval;
mod lbound;
mod norms;
mod oracle;
mod sides;
mod statistics;
