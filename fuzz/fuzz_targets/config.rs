//! Configuration files of every command that takes one.
//!
//! The input's first byte chooses the command, the rest is the file. What
//! resolves, and what is wrong, is printed: run with `-close_fd_mask=3`.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod scratch;

const COMMANDS: [&str; 13] = [
    "train baseline",
    "train gaussian",
    "train smoothadv",
    "train adversarial",
    "smooth",
    "eval",
    "certify",
    "lbound",
    "attack pgd",
    "attack ddn",
    "fidelity",
    "calibrate",
    "clever",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, text)) = bytes.split_first() else {
        return;
    };
    let file = scratch::folder().join("config.toml");
    std::fs::write(&file, text).expect("scratch");
    let file = file.to_str().expect("plain name");
    let name = COMMANDS[usize::from(choice) % COMMANDS.len()];
    let words = ["heatsmooth"].into_iter().chain(name.split(' '));
    let code = heatsmooth_cli::run(words.chain(["--config", file, "--print-config"]));
    // Printed or refused; never the code of a failure on the way.
    assert!(code != std::process::ExitCode::from(1));
});
