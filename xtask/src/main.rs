//! Checks of this repository, and builds of what people install:
//! `cargo xtask test | tidy | surface | e2e [NAME] | guest | bench NAME | package KIND | book`.
//!
//! `test` runs everything a change must pass and ends with one line, `N passed, N failed`. A step
//! that cannot run is a failed step, never a skipped one.
#![forbid(unsafe_code)]

mod bench;
mod binaries;
mod book;
mod e2e;
mod family;
mod guest;
mod interrupts;
mod needs;
mod package;
mod steps;
mod summary;
mod test;
mod tidy;
mod units;

use e2e::Order;
use std::path::PathBuf;
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

/// Returns a command of this workspace's cargo.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

fn main() -> ExitCode {
    if let Err(error) = interrupts::stop_ignoring() {
        eprintln!("cannot restore the default action of SIGINT and SIGQUIT: {error}");
        return ExitCode::FAILURE;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ok = match args.as_slice() {
        ["test"] => test::run(Some(Order::Together)),
        ["test", "--in-turn"] => test::run(Some(Order::InTurn)),
        ["test", "--quick"] => test::run(None),
        // `test` starts this process beside the end-to-end tests.
        ["beside"] => test::run_beside(),
        ["tidy"] => tidy::run(),
        ["surface"] => tidy::renew_surface(),
        ["e2e"] => e2e::run(None, &[]),
        // `e2e`, and `test` with the guest, start these processes.
        ["second-lane", files @ ..] => e2e::run_lane("second", files, false),
        ["third-lane", files @ ..] => e2e::run_lane("third", files, false),
        ["fourth-lane", "--guest", files @ ..] => e2e::run_lane("fourth", files, true),
        ["fourth-lane", files @ ..] => e2e::run_lane("fourth", files, false),
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
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
