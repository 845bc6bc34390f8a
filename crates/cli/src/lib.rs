//! The `pagetide` command: everything that users see. The mechanisms are in other crates.
//!
//! This is a library, so that other programs can call commands as functions ([`call`]). The program
//! is `main.rs`.
//!
//! Invariant: only results are written to standard output (under `run`, only the program's own
//! output). Every failure is two lines on standard error: what failed and why, then what to do.
//! Exit codes are those of `docs/interfaces.md`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

mod terminal;
#[cfg(feature = "simulator")]
mod used_memory;

mod view;

mod failure;

mod own_limits;
mod workloads;

mod watching;

mod args;

mod commands;

pub mod call;

pub use failure::Failure;

/// Runs the command line of this process; returns the exit code, one of those in
/// `docs/interfaces.md`.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(own_limits::under_limits(code))
}

fn code() -> u8 {
    match dispatch() {
        Ok(code) => code,
        Err(failure) => failure.print(),
    }
}

/// Runs the command that this process's arguments name, and returns the exit code.
fn dispatch() -> Result<u8, Failure> {
    let mut words = std::env::args_os().skip(1);
    let hidden = words.next().unwrap_or_default();
    // These first arguments start helper processes of our own; they are no commands for users.
    if hidden == daemon::manager::WORD {
        return Ok(daemon::manager::main(&words.collect::<Vec<_>>()));
    }
    if hidden == host::hard_limit::guard::ARGUMENT {
        // The guard lifts only limits of its user's own groups. With the capabilities of our
        // program file, a user could lift the limit of any hard-limit cgroup.
        daemon::rights::drop_capabilities_of_file()?;
        return Ok(host::hard_limit::guard::main(&words.collect::<Vec<_>>()));
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
