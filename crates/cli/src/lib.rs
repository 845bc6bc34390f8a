//! The `pagetide` command: the user's side of everything, no mechanism.
//!
//! A library, so that other programs have the commands as functions ([`call`]); the program is `main.rs`.
//!
//! Invariant: standard output carries results only (of a program under `run`, the program's own);
//! every failure is two lines on standard error, what failed and why, then what to do; exit codes
//! are those of `interfaces.md`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

mod args;
pub mod call;
mod commands;
mod failure;
mod own_limits;
mod terminal;
mod used_memory;
mod view;
mod watching;
mod workloads;

pub use failure::Failure;

/// Does what the process's arguments ask for; the exit code of `interfaces.md`.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(own_limits::under_limits(code))
}

fn code() -> u8 {
    match dispatch() {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

/// The exit code of what was asked for.
fn dispatch() -> Result<u8, Failure> {
    let mut words = std::env::args_os().skip(1);
    let hidden = words.next().unwrap_or_default();
    // Processes of our own, not commands for people.
    if hidden == daemon::manager::WORD {
        return Ok(daemon::manager::main(&words.collect::<Vec<_>>()));
    }
    if hidden == host::wall::guard::ARGUMENT {
        // What it lifts is of its user's own groups; with the rights of our file a user could lift anybody's wall.
        daemon::rights::drop_capabilities_of_file()?;
        return Ok(host::wall::guard::main(&words.collect::<Vec<_>>()));
    }
    if hidden == daemon::tenants::mounter::WORD {
        daemon::rights::drop_capabilities_of_file()?;
        return Ok(daemon::tenants::mounter::main(&words.collect::<Vec<_>>()));
    }
    if hidden == commands::demo::WORKLOAD {
        return commands::demo::workload();
    }
    let command = args::parse()?;
    commands::perform(command)
}
