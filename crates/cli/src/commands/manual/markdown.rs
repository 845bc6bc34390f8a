//! All commands as one page of Markdown. A test checks that `docs/commands.md` is that page.
//!
//! Invariant: the page depends on the definition of the command line alone, not on the width of a
//! terminal.

use clap::{Arg, Command};

use super::{after, below, called};

const HEAD: &str = "\
# Commands

All of this is what `--help` says: `pagetide man --markdown` printed it. `pagetide man COMMAND` prints a page for man(1).
";

/// Returns the page of all commands.
pub(super) fn page(all: &Command) -> String {
    let mut text = HEAD.to_owned();
    write(all, &mut text);
    text
}

/// Writes a command, then its subcommands.
fn write(command: &Command, text: &mut String) {
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    *text += &format!(
        "\n## {}\n\n{}\n\n",
        called(command),
        escaped(about.trim_end())
    );
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    *text += &format!("```text\n{usage}\n```\n");
    let has_more = below(command).next().is_some();
    if has_more {
        *text += "\n| command | |\n|---|---|\n";
        for sub in below(command) {
            let name = called(sub);
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            *text += &format!(
                "| [`{name}`](#{}) | {} |\n",
                name.replace(' ', "-"),
                cell(&about)
            );
        }
    }
    options(command, text);
    let (examples, notes) = after(command);
    if !examples.is_empty() {
        *text += &format!("\n```sh\n{}\n```\n", examples.join("\n"));
    }
    for note in notes {
        *text += &format!("\n{}\n", escaped(&note));
    }
    for sub in below(command) {
        write(sub, text);
    }
}

/// Writes the arguments, positional ones first, in the order of the definition, without `--help`
/// and `--version`.
fn options(command: &Command, text: &mut String) {
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let (words, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(is_shown)
        .partition(|arg| arg.is_positional());
    let all = [words, options].concat();
    if all.is_empty() {
        return;
    }
    *text += "\n| option | meaning |\n|---|---|\n";
    for arg in all {
        let form = arg.to_string().replace('|', "\\|");
        *text += &format!("| `{form}` | {} |\n", meaning(arg));
    }
}

/// Returns an argument's help, its possible values, and its default.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let mut text = cell(&help.map(ToString::to_string).unwrap_or_default());
    let values = arg.get_possible_values();
    let takes = arg.get_num_args().is_some_and(|range| range.takes_values());
    if takes && !values.is_empty() && !arg.is_hide_possible_values_set() {
        let names: Vec<String> = values
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| match value.get_help() {
                Some(help) => format!("`{}` ({})", value.get_name(), cell(&help.to_string())),
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        text += &format!("; one of {}", names.join(", "));
    }
    let defaults = arg.get_default_values();
    if takes && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let defaults: Vec<_> = defaults.iter().map(|word| word.to_string_lossy()).collect();
        text += &format!(" [default: {}]", defaults.join(","));
    }
    text
}

/// Escapes a text for a cell of a table. A bar would end the cell, even in code; a line end would
/// end the row.
pub(super) fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    escaped(&words.join(" ")).replace('|', "\\|")
}

/// Escapes one of our texts for Markdown. Code between backticks stays as it is; elsewhere,
/// characters with a meaning in Markdown get a backslash.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut in_code = false;
    for sign in text.chars() {
        in_code ^= sign == '`';
        if !in_code && matches!(sign, '<' | '*' | '[' | ']' | '_') {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}
