//! The texts that the rules read: all Rust and C sources of the work tree, and all pages.

use std::process::Command;
use std::sync::OnceLock;

use super::tokens::{Token, tokens};
use crate::root;

/// A file: its path relative to the workspace, with slashes, and its text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    tokens: OnceLock<Vec<Token>>,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens: OnceLock::new(),
        }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns the tokens of a Rust source; several rules read them.
    pub(super) fn tokens(&self) -> &[Token] {
        self.tokens.get_or_init(|| tokens(&self.text))
    }

    /// Returns the lines before the unit tests, with their numbers.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let product = self.text.split("#[cfg(test)]").next().unwrap_or_default();
        (1..).zip(product.lines())
    }
}

/// Endings of sources.
const SOURCES: [&str; 7] = ["rs", "c", "h", "py", "go", "java", "js"];
/// Folders with sources.
const FOLDERS: [&str; 3] = ["crates/", "xtask/", "tests/"];

/// Returns all sources and all pages, each sorted by path: the files that git tracks, and new ones
/// that it does not ignore.
///
/// # Errors
/// If git cannot be run.
pub(super) fn read() -> Result<(Vec<Source>, Vec<Source>), String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot run git ls-files: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut paths: Vec<&str> = listed.lines().collect();
    paths.sort_unstable();
    let read = |path: &&str| {
        // A file that was removed and is still tracked is left out.
        let bytes = std::fs::read(root().join(path)).ok()?;
        Some(Source::new(path, &String::from_utf8_lossy(&bytes)))
    };
    let is_source = |path: &&&str| {
        let ending = path.rsplit('.').next().unwrap_or_default();
        SOURCES.contains(&ending) && FOLDERS.iter().any(|folder| path.starts_with(folder))
    };
    let sources = paths.iter().filter(is_source).filter_map(read).collect();
    let pages = paths.iter().filter(|path| path.ends_with(".md"));
    Ok((sources, pages.filter_map(read).collect()))
}
