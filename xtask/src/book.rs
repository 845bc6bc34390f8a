//! `cargo xtask book`: makes the pages of `docs/` into a book.
//!
//! Invariant: no link in the book is dead. Files outside of `docs` that pages link to are copied to
//! the same relative position. `tidy` checks the links between the pages, without mdBook.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{e2e, root};

/// Folders outside of `docs` that pages link to.
const BESIDE: [&str; 2] = ["dist", "examples"];

/// Builds the book with mdBook, and checks its links; returns whether that succeeded.
pub(crate) fn run() -> bool {
    match build() {
        Ok(place) => println!("{}", place.join("index.html").display()),
        Err(why) => {
            eprintln!("{why}");
            return false;
        }
    }
    true
}

fn build() -> Result<PathBuf, String> {
    let folder = e2e::target().join("book");
    let place = folder.join("docs");
    let mut book = Command::new("mdbook");
    book.args(["build", "--dest-dir"])
        .arg(&place)
        .arg(root().join("docs"));
    match book.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("mdbook ended with {status}")),
        Err(error) => {
            return Err(format!(
                "cannot run mdbook: {error}\ninstall it: cargo install mdbook --no-default-features --features search"
            ));
        }
    }
    for name in BESIDE {
        let copied = copy(&root().join(name), &folder.join(name));
        copied.map_err(|error| format!("cannot copy {name}: {error}"))?;
    }
    let dead = dead_links(&place)?;
    match dead.is_empty() {
        true => Ok(place),
        false => Err(dead.join("\n")),
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to)?,
            false => std::fs::copy(entry.path(), to).map(|_| ())?,
        }
    }
    Ok(())
}

/// Returns the links that lead to no file, from all pages in a folder and below it.
fn dead_links(folder: &Path) -> Result<Vec<String>, String> {
    let mut dead = Vec::new();
    let entries = std::fs::read_dir(folder);
    let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            dead.extend(dead_links(&path)?);
        } else if path.extension().is_some_and(|end| end == "html") {
            let page = std::fs::read_to_string(&path);
            let page = page.map_err(|error| format!("{}: {error}", path.display()))?;
            let gone = |target: &&str| !folder.join(target).exists();
            for target in targets(&page).into_iter().filter(gone) {
                dead.push(format!("{}: {target} is not there", path.display()));
            }
        }
    }
    Ok(dead)
}

/// Returns the files to which the links and images of a page lead, without anchors; links to other
/// hosts are left out.
fn targets(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for start in ["href=\"", "src=\""] {
        let values = page
            .split(start)
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        let files = values.map(|value| value.split(['#', '?']).next().unwrap_or_default());
        let is_file =
            |file: &&str| !file.is_empty() && !file.contains(':') && !file.starts_with('/');
        found.extend(files.filter(is_file));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found() {
        let page = "<a href=\"a/b.html#c\"> <a href=\"#d\"> <img src=\"e.png\"> <a href=\"https://f\"> <a href=\"/g\">";
        assert_eq!(targets(page), ["a/b.html", "e.png"]);
        let folder = std::env::temp_dir().join(format!("xtask-book-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a")).unwrap();
        std::fs::write(folder.join("e.png"), "").unwrap();
        std::fs::write(folder.join("p.html"), page).unwrap();
        let dead = dead_links(&folder).unwrap();
        assert_eq!(dead.len(), 1, "{dead:?}");
        std::fs::write(folder.join("a/b.html"), "").unwrap();
        assert!(dead_links(&folder).unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
