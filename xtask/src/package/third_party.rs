//! The third-party code in the program: its licences, and the notices that they require.
//!
//! Invariant: every crate from a registry that is built into the program is listed, with the
//! licence that it names and the licence text in its sources. Each text is included only once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::output;
use crate::cargo;

const PROGRAM: &str = "cli";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Prefixes of the names of files with a licence, or with a notice that must be distributed with
/// the crate.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// A crate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Crate {
    name: String,
    version: String,
    licence: String,
    /// Folder of its sources.
    folder: String,
}

/// Returns the list of crates, and the texts of their licences.
///
/// # Errors
/// If cargo does not report what the program is built of, or a crate names no licence.
pub(super) fn text() -> Result<String, String> {
    let words = [
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        TRIPLE,
    ];
    let reported = output(&mut cargo(&words))?;
    let reported: Value = serde_json::from_slice(&reported)
        .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
    let crates = built_in(&reported);
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    let mut list = String::from(
        "What is built into pagetide besides its own code. Numbers are those of the texts below.\n\n",
    );
    for one in &crates {
        if one.licence.is_empty() {
            return Err(format!("{} {} names no licence", one.name, one.version));
        }
        let mut numbers = Vec::new();
        for found in licences(Path::new(&one.folder), 2) {
            let next = texts.len() + 1;
            numbers.push(texts.entry(found).or_insert(next).to_string());
        }
        list += &format!(
            "{} {}: {} [{}]\n",
            one.name,
            one.version,
            one.licence,
            numbers.join(", ")
        );
    }
    let mut sorted: Vec<(usize, String)> = texts.into_iter().map(|(text, n)| (n, text)).collect();
    sorted.sort_unstable();
    for (number, text) in sorted {
        list += &format!(
            "\n---------- [{number}] ----------\n\n{}\n",
            text.trim_end()
        );
    }
    Ok(list)
}

/// Returns the crates from registries that are built into the program, without those that only
/// tests and build scripts use.
fn built_in(metadata: &Value) -> BTreeSet<Crate> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (word(&package["id"]), package))
        .collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (word(&node["id"]), node))
        .collect();
    let is_program = |package: &&Value| package["name"] == PROGRAM && package["source"].is_null();
    let first = packages.values().find(is_program);
    let mut due: Vec<String> = first
        .map(|package| word(&package["id"]))
        .into_iter()
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = due.pop() {
        let Some(node) = nodes.get(&id).filter(|_| seen.insert(id.clone())) else {
            continue;
        };
        for dependency in list(&node["deps"]) {
            let kinds = list(&dependency["dep_kinds"]);
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                due.push(word(&dependency["pkg"]));
            }
        }
    }
    let found = seen.iter().filter_map(|id| packages.get(id));
    found
        .filter(|package| !package["source"].is_null())
        .map(|package| Crate {
            name: word(&package["name"]),
            version: word(&package["version"]),
            licence: word(&package["license"]),
            folder: Path::new(&word(&package["manifest_path"]))
                .parent()
                .map(|folder| folder.to_string_lossy().into_owned())
                .unwrap_or_default(),
        })
        .collect()
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
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_built_in_is_followed_and_what_only_builds_is_not() {
        let package = |id: &str, name: &str, source: Value| {
            json!({"id": id, "name": name, "version": "1", "license": "MIT", "source": source,
                   "manifest_path": format!("/r/{name}/Cargo.toml")})
        };
        let node = |id: &str, deps: &[(&str, Value)]| {
            let deps: Vec<Value> = deps
                .iter()
                .map(|(pkg, kind)| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": id, "deps": deps})
        };
        let metadata = json!({
            "packages": [
                package("p", "cli", Value::Null), package("o", "host", Value::Null),
                package("a", "clap", json!("registry")), package("b", "cc", json!("registry")),
                package("c", "libc", json!("registry")),
            ],
            "resolve": {"nodes": [
                node("p", &[("o", Value::Null), ("a", Value::Null), ("b", json!("build"))]),
                node("o", &[("c", Value::Null)]), node("a", &[("a", Value::Null)]),
                node("b", &[]), node("c", &[]),
            ]},
        });
        let names: Vec<String> = built_in(&metadata)
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(names, ["clap", "libc"]);
    }
}
