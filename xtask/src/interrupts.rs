//! A shell without job control starts background jobs with SIGINT and SIGQUIT ignored, and programs
//! inherit that. Tests that send ^C to a program would wait for ever.

use std::io::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Mask of SIGINT (2) and SIGQUIT (3) in `SigIgn`.
const BOTH: u64 = 1 << 1 | 1 << 2;

/// Executes this program anew with the default action for SIGINT and SIGQUIT, if one of them is
/// ignored. Returns only if neither is.
///
/// # Errors
/// If the ignored signals cannot be read, or if one is ignored and `env` cannot be executed. (An
/// `env` before coreutils 8.31 does not know the option, and says so.)
pub(crate) fn stop_ignoring() -> Result<(), Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    if ignored(&status) & BOTH == 0 {
        return Ok(());
    }
    let own = std::env::current_exe()?;
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,QUIT").arg(own);
    Err(command.args(std::env::args_os().skip(1)).exec())
}

/// Returns the mask of ignored signals in the text of /proc/PID/status.
fn ignored(status: &str) -> u64 {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let status = "SigBlk:\t0000000000000004\nSigIgn:\t0000000000001006\n";
        assert_eq!(ignored(status) & BOTH, BOTH);
        assert_eq!(ignored("SigIgn:\t0000000000001000\n") & BOTH, 0);
        assert_eq!(ignored(""), 0);
    }

    /// Regression: `cargo xtask test &` in a script made the test of `resize` wait for the end of a
    /// program to which it had sent SIGINT.
    #[test]
    fn a_program_with_both_ignored_has_neither_ignored_afterwards() {
        let script = "trap '' INT QUIT; exec env --default-signal=INT,QUIT cat /proc/self/status";
        let done = Command::new("sh").args(["-c", script]).output();
        let status = String::from_utf8(done.expect("sh runs").stdout).expect("text");
        assert!(status.contains("SigIgn:"), "{status}");
        assert_eq!(ignored(&status) & BOTH, 0, "{status}");
    }
}
