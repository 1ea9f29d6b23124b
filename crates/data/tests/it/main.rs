//! The integration tests, in one program: linking is most of what a test
//! program costs.

mod catalogue;
mod folder;
mod idx;
mod loader;
mod sources;
mod values;
