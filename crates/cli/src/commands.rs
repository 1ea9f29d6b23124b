//! One module a command.

pub mod attack;
pub mod bench;
pub mod completions;
pub mod convert;
pub mod data;
pub mod demo;
pub mod devices;
pub mod eval;
pub mod inspect;
pub mod measure;
pub mod merge;
pub mod predict;
pub mod report;
pub mod reproduce;
pub mod smooth;
pub mod status;
pub mod train;
