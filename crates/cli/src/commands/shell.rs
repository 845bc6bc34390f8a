//! `pagetide completions` and `pagetide man`: made from the command line's own definition.

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

pub(super) fn man(page: Option<&str>) -> Result<u8, Failure> {
    let mut command = args::command();
    // Gives the commands their full names: the page of `run` is pagetide-run, as git's are.
    command.build();
    if let Some(name) = page {
        let names: Vec<_> = command
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        let Some(sub) = command.find_subcommand(name) else {
            return Err(Failure::usage(
                format!("cannot print the manual of `{name}`: there is no such command"),
                format!("the commands are {}", names.join(", ")),
            ));
        };
        command = sub.clone();
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    std::io::stdout().write_all(&text)?;
    Ok(0)
}
