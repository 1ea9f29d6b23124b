//! The command line from outside, in one program to link it once.

mod attack;
mod calibrate;
mod cheaper;
mod checkpoint;
mod cli;
mod every_option;
#[cfg(unix)]
mod faults;
mod fidelity;
mod illustration;
mod imagenet;
mod issue_17;
mod kill;
mod makings;
mod mutations;
mod norms;
mod own_model;
mod parquet;
mod regression;
mod shards;
mod siblings;
mod tokens;
mod workspace;
