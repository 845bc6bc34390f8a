//! Arguments of `sim` and `mrc` in a program that was built without the feature `simulator`.
//!
//! Invariant: every command line of these two commands parses, so that the user gets the message
//! that says how to build the simulator.

use std::ffi::OsString;

use crate::failure::Failure;

/// The words that follow the command; they are not used.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct NotBuilt {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

impl NotBuilt {
    /// Returns the failure of `command`, which this program lacks.
    pub(crate) fn failure(&self, command: &str) -> Failure {
        let words = self.words.join(" ".as_ref());
        Failure::usage(
            format!("cannot run `{command}`: this program was built without the simulator"),
            format!(
                "`cargo run --release --features simulator -- {command} {}` has it, and so do the \
                 packages",
                words.to_string_lossy().escape_debug()
            ),
        )
    }
}
