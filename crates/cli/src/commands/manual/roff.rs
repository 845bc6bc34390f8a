//! One manual page, for man(1).
//!
//! Invariant: examples keep their lines and their straight quotes, so that a user can run what is
//! copied from the page.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{after, name};

/// Returns the page of a command.
///
/// # Errors
/// None: it is written to memory.
pub(super) fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // clap_mangen wraps examples like sentences, so they are left out here and written below.
    let bare = command.clone().after_help(None::<&str>);
    Man::new(bare)
        .title(name(command).to_uppercase())
        // An empty date must be quoted: otherwise the source would become the date.
        .date("\"\"")
        .source(concat!("pagetide ", env!("CARGO_PKG_VERSION")))
        .manual("pagetide")
        .render(&mut text)?;
    let (examples, notes) = after(command);
    let mut rest = Roff::new();
    if !examples.is_empty() {
        rest.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples {
            rest.text([roman(line)]);
        }
        rest.control("fi", []);
    }
    for (number, note) in notes.into_iter().enumerate() {
        match number {
            0 => rest.control("SH", ["NOTES"]),
            _ => rest.control("PP", []),
        };
        rest.text([roman(note)]);
    }
    if let Some((above, _)) = name(command).rsplit_once('-') {
        rest.control("SH", ["SEE ALSO"])
            .text([roman(format!("{above}(1)"))]);
    }
    rest.to_writer(&mut text)?;
    Ok(text)
}
