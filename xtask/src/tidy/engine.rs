//! Rule: the engine uses no clock, thread, file, process or source of chance, so that every run of
//! it can be replayed; and it depends on no other crate.

use super::code::{code_only, has_word};
use super::metadata::Metadata;
use super::sources::Source;

const BANNED: [(&str, &str); 9] = [
    ("Instant", "time comes in as an argument"),
    ("SystemTime", "time comes in as an argument"),
    (
        "HashMap",
        "its iteration order is a source of chance: use BTreeMap",
    ),
    (
        "HashSet",
        "its iteration order is a source of chance: use BTreeSet",
    ),
    ("rand", "seeds come in as arguments"),
    ("thread", "the engine starts no thread"),
    ("fs", "the engine knows no file"),
    ("process", "the engine knows no process"),
    ("println", "the engine returns what it has to say"),
];

pub(super) fn problems(metadata: &Metadata, files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for edge in metadata
        .edges
        .iter()
        .filter(|edge| edge.from == "engine" && edge.is_normal)
    {
        found.push(format!(
            "crate engine: depends on {}; it depends on nothing",
            edge.to
        ));
    }
    for file in files
        .iter()
        .filter(|file| file.path.starts_with("crates/engine/src/"))
    {
        if file.path == "crates/engine/src/lib.rs" && !file.text.contains("no_std") {
            found.push(format!("{}: the engine is #![no_std]", file.path));
        }
        let code = code_only(shipped(file));
        for (word, why) in BANNED.iter().filter(|(word, _)| has_path_word(&code, word)) {
            found.push(format!("{}: {word}: {why}", file.path));
        }
    }
    found
}

/// Returns the part of a file that is built into the engine: everything before its unit tests.
fn shipped(file: &Source) -> &str {
    if file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
        return "";
    }
    file.text.split("#[cfg(test)]").next().unwrap_or_default()
}

/// Lower-case words are common as names, so this finds them only as path segments (`std::fs`,
/// `rand::`).
fn has_path_word(code: &str, word: &str) -> bool {
    if word.starts_with(char::is_uppercase) || word == "println" {
        return has_word(code, word);
    }
    has_word(code, &format!("std::{word}")) || code.contains(&format!("use {word}::"))
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Edge;
    use super::*;

    fn of(text: &str) -> Vec<String> {
        problems(
            &Metadata::default(),
            &[Source::new("crates/engine/src/vmscan.rs", text)],
        )
    }

    #[test]
    fn each_ban_can_fail() {
        for text in [
            "let now = Instant::now();",
            "use std::time::SystemTime;",
            "use std::collections::HashMap;",
            "let s: HashSet<u8>;",
            "use rand::Rng;",
            "std::thread::yield_now();",
            "std::fs::read(x);",
            "std::process::exit(1);",
            "println!();",
        ] {
            assert_eq!(of(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn comments_and_unit_tests_may_name_them() {
        assert!(of("// no Instant::now here\nlet process = 1;").is_empty());
        assert!(of("#[cfg(test)]\nmod tests { use std::collections::HashMap; }").is_empty());
    }

    #[test]
    fn a_dependency_or_a_missing_no_std_is_found() {
        let edge = |is_normal| Edge {
            from: "engine".into(),
            to: "serde".into(),
            is_ours: false,
            is_normal,
        };
        let with = |edge| Metadata {
            edges: vec![edge],
            ..Metadata::default()
        };
        assert_eq!(problems(&with(edge(true)), &[]).len(), 1);
        assert!(problems(&with(edge(false)), &[]).is_empty());
        let lib = [Source::new("crates/engine/src/lib.rs", "//! x")];
        assert_eq!(problems(&Metadata::default(), &lib).len(), 1);
    }
}
