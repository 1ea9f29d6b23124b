//! The `heatsmooth` binary.

fn main() -> std::process::ExitCode {
    heatsmooth_cli::run(std::env::args_os())
}
