//! The tests of this crate from outside, in one binary to link it once.

mod accuracy;
mod average_closed_forms;
mod averaged_relus;
mod common;
mod divergence;
mod functions;
mod heat_closed_forms;
mod heat_golden;
mod labels;
mod ranks;
mod regression;
mod resume;
mod runs;
mod smoothadv;
mod tapes;
