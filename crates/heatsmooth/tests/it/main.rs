//! The library from outside, in one program to link it once.

mod lost_device;
mod names;
mod registry;
mod runs;
