//! The library from outside, in one program to link it once.

mod names;
mod registry;
mod runs;
