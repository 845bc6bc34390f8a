//! `cargo xtask book`: makes the pages of `docs/` into a book, by mdBook.
//!
//! `tidy` checks the links between the pages. Files outside of `docs` that pages link to are copied
//! to the same relative position, so that these links lead somewhere in the book, too.

use std::process::Command;

use crate::command::done;
use crate::{programs, root};

/// Folders outside of `docs` that pages link to.
const BESIDE: [&str; 2] = ["dist", "examples"];

/// Builds the book, and prints its first page.
///
/// # Errors
/// If mdBook fails, or is not there.
pub(crate) fn run() -> Result<(), String> {
    let folder = programs::target().join("book");
    let pages = folder.join("docs");
    let mut book = Command::new("mdbook");
    book.args(["build", "--dest-dir"]).arg(&pages);
    done(book.arg(root().join("docs"))).map_err(|why| {
        format!("{why}\ninstall it: cargo install mdbook --no-default-features --features search")
    })?;
    for name in BESIDE {
        let mut copy = Command::new("cp");
        done(copy.arg("--recursive").arg(root().join(name)).arg(&folder))?;
    }
    println!("{}", pages.join("index.html").display());
    Ok(())
}
