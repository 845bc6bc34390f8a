//! `pagetide completions`: made from the command line's own definition.

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

/// zsh's `_arguments` ends what a value is called at a colon, and takes what follows for a command that completes it; clap_complete
/// quotes none there. (The story: after `--evict-by fit` a tab said that there is no command `KEY=VALUE,...]`.)
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

    /// What zsh reads is `:message:action`: a message with a colon made two values of one, and a command of its end.
    #[test]
    fn zsh_is_told_of_one_value_where_its_name_has_a_colon() {
        let text = String::from_utf8(script(Shell::Zsh)).expect("UTF-8");
        let options = text.lines().filter(|line| line.contains("--evict-by="));
        let values = options.filter_map(|line| line.rsplit_once("]:"));
        let values: Vec<&str> = values.map(|(_, value)| value).collect();
        assert_eq!(values, ["VALUE:_default' \\"; 3], "{text}");
    }
}
