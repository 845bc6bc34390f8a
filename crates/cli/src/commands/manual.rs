//! `pagetide man`: the manual, made from the definition of the command line.
//!
//! Invariant: `--help` and the manual contain the same text. Every command that `--help` lists has
//! a page, named as git names its pages: that of `swap on` is pagetide-swap-on(1).

mod markdown;
mod roff;

use std::io::Write;
use std::path::Path;

use clap::Command;

use crate::args::{self, Man};
use crate::failure::Failure;

pub(super) fn man(args: &Man) -> Result<u8, Failure> {
    let all = whole();
    if let Some(folder) = &args.to {
        return write(&all, folder);
    }
    let text = match args.markdown {
        true => markdown::page(&all).into_bytes(),
        false => roff::page(find(&all, &args.page)?)?,
    };
    std::io::stdout().write_all(&text)?;
    Ok(0)
}

/// Returns the definition of the whole command line, in which each command has its full name.
fn whole() -> Command {
    let mut all = args::command();
    all.build();
    all
}

/// Returns the name of a command's manual page: `pagetide-swap-on`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// Returns a command's name as users type it: `pagetide swap on`.
fn called(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

/// Returns the subcommands of a command that are not hidden.
fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

/// Finds the command that these words name, from the top level down.
fn find<'a>(all: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    let mut at = all;
    for word in words {
        let found = below(at).find(|sub| sub.get_name() == word);
        at = found.ok_or_else(|| unknown(at, words))?;
    }
    Ok(at)
}

fn unknown(at: &Command, words: &[String]) -> Failure {
    let names: Vec<&str> = below(at).map(Command::get_name).collect();
    let hint = match names.is_empty() {
        true => format!("`{}` has no commands of its own", at.get_name()),
        false => format!("the commands are {}", names.join(", ")),
    };
    let words = words.join(" ");
    Failure::usage(
        format!("cannot print the manual of `{words}`: there is no such command"),
        hint,
    )
}

/// Writes all pages to a directory, which is created if it is missing.
fn write(all: &Command, folder: &Path) -> Result<u8, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let what = format!("cannot make {}: {error}", folder.display());
        Failure::new(what, "give a directory that you may write to")
    })?;
    for sub in below(all) {
        write(sub, folder)?;
    }
    let file = folder.join(format!("{}.1", name(all)));
    std::fs::write(&file, roff::page(all)?).map_err(|error| {
        Failure::new(
            format!("cannot write {}: {error}", file.display()),
            "give a directory that you may write to",
        )
    })?;
    Ok(0)
}

/// Returns the text after the options in the help: the examples, one on a line, then the other
/// paragraphs.
fn after(command: &Command) -> (Vec<String>, Vec<String>) {
    let text = command.get_after_long_help().or(command.get_after_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = text.split("\n\n").peekable();
    let examples = paragraphs.next_if(|first| first.starts_with("Examples:\n"));
    let examples = examples.into_iter().flat_map(|text| text.lines().skip(1));
    let examples = examples.map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned());
    let notes = paragraphs.map(|text| text.replace('\n', " "));
    (
        examples.collect(),
        notes.filter(|text| !text.is_empty()).collect(),
    )
}

#[cfg(test)]
mod tests;
