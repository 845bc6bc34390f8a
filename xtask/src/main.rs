//! Checks of this repository, and builds of what people install:
//! `cargo xtask test | tidy | surface | e2e [NAME] | guest | bench NAME | package KIND | book`.
//!
//! `test` runs everything a change must pass and ends with one line, `N passed, N failed`. A step
//! that cannot run is a failed step, never a skipped one.
#![forbid(unsafe_code)]

mod command;
mod counts;
mod family;
mod programs;

mod bench;
mod book;
mod needs;
mod steps;
mod tidy;

mod binaries;
mod guest;
mod package;

mod e2e;

mod test;

use e2e::Order;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask COMMAND
  test          everything: needs, format, lints, docs, tidy, unit, property and end-to-end tests
  test --in-turn
                the same, one test at a time: it takes longer, and no test disturbs another
  test --quick  the same without the end-to-end tests
  tidy          the rules of the house that no compiler checks
  surface       new snapshots of the public items of the crates that can be published
  e2e [NAME]    the end-to-end tests, or those of one file or with one name
  guest PROGRAM a program under another kernel, in QEMU; `guest` alone says how
  guest suite   the tests that need another kernel than this machine's
  guest oracle  the engine beside a kernel: the same accesses, the same counters
  bench NAME    one measurement, or `list`
  package KIND  what people install; `package` alone says which kinds there are
  book          the pages of docs/ as a book, by mdBook";

/// Returns the root of the workspace: the directory above this crate.
pub(crate) fn root() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}

/// Returns a command of this workspace's cargo with these arguments, which are separated by spaces.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(words.split_whitespace());
    command
}

/// Returns the names of files with this ending in a folder, sorted and without the ending.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn names(folder: &Path, ending: &str) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| Some(name.to_str()?.strip_suffix(ending)?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["test"] => test::run(Some(Order::Together)),
        ["test", "--in-turn"] => test::run(Some(Order::InTurn)),
        ["test", "--quick"] => test::run(None),
        // `test` starts this process beside the end-to-end tests.
        ["beside"] => test::run_beside(),
        ["tidy"] => tidy::run(),
        ["surface"] => tidy::renew_surface(),
        ["e2e"] => e2e::run(None, &[]),
        // `e2e` and `test` start these processes.
        ["lane", name, rest @ ..] => e2e::run_lane(name, rest),
        ["e2e", name] => e2e::run(Some(name), &[]),
        ["e2e", name, "--", rest @ ..] => e2e::run(Some(name), rest),
        ["guest", rest @ ..] => return guest::run(rest),
        ["bench", name, rest @ ..] => bench::run(name, rest),
        ["book"] => book::run(),
        ["package", rest @ ..] => package::run(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if !why.is_empty() {
                eprintln!("{why}");
            }
            ExitCode::FAILURE
        }
    }
}
