//! The command line from outside, in one program to link it once.

mod attack;
mod cli;
mod fidelity;
mod illustration;
mod kill;
mod own_model;
mod workspace;
