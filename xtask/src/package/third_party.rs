//! The third-party code in the program: its licences, and the notices that they require.
//!
//! Invariant: every crate from a registry that is built into the program is listed, with the
//! licence that it names and the licence text in its sources. Each text is included only once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo;
use crate::command::{output, text as printed};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Prefixes of the names of files with a licence, or with a notice that must be distributed with
/// the crate.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// Returns the list of crates, and the texts of their licences.
///
/// # Errors
/// If cargo does not report what the program is built of, or a crate names no licence.
pub(super) fn text() -> Result<String, String> {
    let folders = folders()?;
    let mut texts: Vec<String> = Vec::new();
    let mut list = String::from(
        "What is built into pagetide besides its own code. Numbers are those of the texts below.\n\n",
    );
    for (one, licence) in crates()? {
        if licence.is_empty() {
            return Err(format!("{one} names no licence"));
        }
        // Our own crates are not from a registry.
        let Some(folder) = folders.get(&one) else {
            continue;
        };
        let mut numbers = Vec::new();
        for found in licences(folder, 2) {
            let known = texts.iter().position(|text| *text == found);
            let at = known.unwrap_or(texts.len());
            if known.is_none() {
                texts.push(found);
            }
            numbers.push((at + 1).to_string());
        }
        list += &format!("{one}: {licence} [{}]\n", numbers.join(", "));
    }
    for (number, text) in (1..).zip(texts) {
        list += &format!(
            "\n---------- [{number}] ----------\n\n{}\n",
            text.trim_end()
        );
    }
    Ok(list)
}

/// Returns name and version of each crate that is built into the program, with its licence. What
/// only tests and build scripts use is not among them.
fn crates() -> Result<BTreeMap<String, String>, String> {
    let words = "tree --locked --package cli --features simulator --edges normal --prefix none";
    let tree = printed(cargo(words).args(["--target", TRIPLE, "--format", "{p}\t{l}"]))?;
    let one = |line: &str| {
        let (package, licence) = line.split_once('\t')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.trim_start_matches('v'));
        // A crate that was listed before is marked.
        let licence = licence.trim_end_matches(" (*)").to_owned();
        Some((format!("{name} {version}"), licence))
    };
    Ok(tree.lines().filter_map(one).collect())
}

/// Returns the folder with the sources of each crate from a registry, by name and version.
fn folders() -> Result<BTreeMap<String, PathBuf>, String> {
    let metadata: Value =
        serde_json::from_slice(&output(&mut cargo("metadata --format-version 1 --locked"))?)
            .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let folder = |package: &Value| {
        let word = |key: &str| package[key].as_str();
        let manifest = Path::new(word("manifest_path")?).parent()?.to_path_buf();
        word("source")?;
        Some((format!("{} {}", word("name")?, word("version")?), manifest))
    };
    Ok(packages.filter_map(folder).collect())
}

/// Returns the licence texts in a folder and `depth` levels below it, sorted. (zstd's C sources
/// have their own.)
fn licences(folder: &Path, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (
            entry.path(),
            entry.file_name().to_string_lossy().to_uppercase(),
        );
        if path.is_dir() && depth > 1 {
            found.extend(licences(&path, depth - 1));
        } else if NAMES.iter().any(|start| name.starts_with(start)) {
            // A file that is no text is skipped: it cannot be read as a licence.
            found.extend(std::fs::read_to_string(&path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_listed_and_what_only_tests_use_is_not() {
        let crates = crates().expect("cargo works");
        let is_there = |name: &str| crates.keys().any(|one| one.starts_with(name));
        // A dependency, one of a dependency of ours, and one of a dependency of a registry.
        for name in ["clap 4.", "landlock ", "zstd-sys "] {
            assert!(is_there(name), "{name}");
        }
        assert!(!is_there("proptest ") && !is_there("cc "));
        let folders = folders().expect("cargo works");
        assert!(
            crates
                .keys()
                .filter(|one| folders.contains_key(*one))
                .count()
                > 20
        );
    }
}
