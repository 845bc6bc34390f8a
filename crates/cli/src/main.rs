//! The `pagetide` command: the user's side of everything, no mechanism.
//!
//! Invariant: standard output carries results only (of a program under `run`, the program's own);
//! every failure is two lines on standard error, what failed and why, then what to do; exit codes
//! are those of `interfaces.md`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

mod args;
mod commands;
mod demo;
mod failure;
mod terminal;
mod view;
mod watching;

use failure::Failure;
use host::wall::guard;

fn main() -> ExitCode {
    let code = match dispatch() {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    };
    ExitCode::from(code)
}

/// The exit code of what was asked for.
fn dispatch() -> Result<u8, Failure> {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(arg) if arg == demo::WORKLOAD => return demo::workload(),
        Some(arg) if arg == guard::ARGUMENT => return Ok(guard::main(&args.collect::<Vec<_>>())),
        _ => {}
    }
    let command = args::parse()?;
    commands::perform(command)
}
