//! `pagetide completions`: made from the command line's own definition.

use std::io::Write;

use clap_complete::Shell;

use crate::args;
use crate::failure::Failure;

pub(super) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "pagetide", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(0)
}
