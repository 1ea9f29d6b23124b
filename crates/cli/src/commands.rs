//! One module a command: its flags, its configuration, what it does.

pub mod attack;
pub mod certify;
pub mod convert;
pub mod data;
pub mod demo;
pub mod eval;
pub mod fidelity;
pub mod inspect;
pub mod lbound;
pub mod merge;
pub mod predict;
pub mod report;
pub mod reproduce;
pub mod smooth;
pub mod train;
