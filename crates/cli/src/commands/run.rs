//! `pagetide run`: starts a program under management.
//!
//! Invariant: standard output and error belong to the program. pagetide prints only if the program
//! cannot be started, or if `--best-effort` starts it with less than requested.

use std::io::Write;

use daemon::launch::{self, Launch};

use crate::args::Run;
use crate::failure::Failure;

use super::gate;

/// Runs the program. Returns only if the program could not be started, or, with --fail-above, after
/// it has ended.
pub(super) fn run(args: &Run) -> Result<u8, Failure> {
    let options = args.knobs.options()?;
    if args.gate.fail_above.is_some() && args.gate.measured_in.is_none() {
        return gate::run(args);
    }
    let launch = Launch {
        command: &args.command,
        options: &options,
        report: args.gate.measured_in.as_deref().or(args.report.as_deref()),
        record: args
            .record
            .record
            .as_deref()
            .map(|path| (path, args.record.record_max.0)),
    };
    let error = launch::run(&launch, &mut |without| {
        // A failed write to standard error cannot be reported.
        let _ = writeln!(
            std::io::stderr(),
            "pagetide: continues with less: {without}"
        );
    });
    Err(error.into())
}
