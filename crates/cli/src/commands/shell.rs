//! `pagetide completions`: completions for shells, made from the definition of the command line.

use std::io::Write;

use clap_complete::Shell;

use crate::args;
use crate::failure::Failure;

pub(super) fn completions(shell: Shell) -> Result<u8, Failure> {
    std::io::stdout().write_all(&script(shell))?;
    Ok(0)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    let mut command = without_colons(args::command());
    clap_complete::generate(shell, &mut command, "pagetide", &mut text);
    text
}

/// Renames a value whose name contains a colon to `VALUE`. In zsh's `_arguments` a colon ends the
/// name, and the text after it is a command that completes the value. clap_complete does not quote
/// such colons.
fn without_colons(command: clap::Command) -> clap::Command {
    let plain = |arg: clap::Arg| {
        let mut names = arg.get_value_names().into_iter().flatten();
        match names.any(|name| name.contains(':')) {
            true => arg.value_name("VALUE"),
            false => arg,
        }
    };
    command.mut_args(plain).mut_subcommands(without_colons)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: zsh reads `:message:action`. A message with a colon was taken for two values,
    /// and its end for a command.
    #[test]
    fn zsh_gets_one_value_if_its_name_has_a_colon() {
        let text = String::from_utf8(script(Shell::Zsh)).expect("UTF-8");
        let options = text.lines().filter(|line| line.contains("--evict-by="));
        let values = options.filter_map(|line| line.rsplit_once("]:"));
        let values: Vec<&str> = values.map(|(_, value)| value).collect();
        assert_eq!(values, ["VALUE:_default' \\"; 3], "{text}");
    }
}
