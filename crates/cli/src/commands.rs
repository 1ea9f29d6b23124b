//! One module a command: its flags, its configuration, what it does.

pub mod data;
pub mod demo;
pub mod eval;
pub mod inspect;
pub mod predict;
pub mod train;
