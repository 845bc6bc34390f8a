//! Rule: each module imports only modules on lower floors. The floors of a crate are a list from
//! the bottom; modules in one line are on the same floor and do not import each other.

mod table;

use super::code::{code_only, has_word};
use super::sources::Source;
use table::FLOORS;

pub(super) fn problems(files: &[Source]) -> Vec<String> {
    FLOORS
        .iter()
        .flat_map(|(folder, floors)| of_folder(folder, floors, files))
        .collect()
}

fn of_folder(folder: &str, floors: &[&[&str]], files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(module) = module_in(folder, &file.path) else {
            continue;
        };
        let Some(floor) = floors.iter().position(|floor| floor.contains(&module)) else {
            found.push(format!(
                "{}: stands on no floor; give it one in {}",
                file.path,
                file!()
            ));
            continue;
        };
        // Tests may import everything.
        let code = code_only(file.text.split("#[cfg(test)]").next().unwrap_or_default());
        for other in floors[floor..]
            .iter()
            .copied()
            .flatten()
            .filter(|other| **other != module)
        {
            if imports(&code, folder, other) {
                found.push(format!(
                    "{}: imports {other}, which is not below it",
                    file.path
                ));
            }
        }
    }
    found
}

/// Returns the module of `folder` to which a file belongs; `None` for the folder's own root and for
/// tests.
fn module_in<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?.strip_prefix('/')?;
    let module = inside.split('/').next()?;
    let module = module.strip_suffix(".rs").unwrap_or(module);
    let is_root = matches!(module, "lib" | "mod" | "main" | "tests");
    let is_test = ["tests.rs", "canaries.rs"]
        .iter()
        .any(|end| inside.ends_with(end));
    (!is_root && !is_test && !inside.contains("tests/")).then_some(module)
}

/// Returns whether code names a module of `folder`: from the crate's root, or, in a folder below,
/// from its parent.
fn imports(code: &str, folder: &str, module: &str) -> bool {
    let within = folder
        .split_once("/src")
        .map_or("", |(_, within)| within.trim_start_matches('/'));
    let paths = match within {
        "" => vec![format!("crate::{module}")],
        within => vec![
            format!("super::{module}"),
            format!("crate::{within}::{module}"),
        ],
    };
    let parent = if within.is_empty() { "crate" } else { "super" };
    grouped(code, parent).any(|name| name == module)
        || paths.iter().any(|path| {
            code.match_indices(path.as_str()).any(|(at, _)| {
                let tail = &code[at + path.len()..];
                !tail.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    && has_word(path, module)
            })
        })
}

/// Returns the names that `use PARENT::{A, B::C}` imports from the parent: A and B.
fn grouped<'a>(code: &'a str, parent: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("use {parent}::{{");
    let groups = code.split(&begin as &str).skip(1).collect::<Vec<&str>>();
    groups.into_iter().flat_map(|group| {
        let mut depth = 0;
        let end = group.find(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        });
        let mut depth = 0;
        let parts = group[..end.unwrap_or(group.len())].split(move |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && c == ','
        });
        parts.map(|part| part.trim().split([':', ' ']).next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[&[&str]] = &[&["low", "beside"], &["high"]];

    fn of(path: &str, text: &str) -> Vec<String> {
        of_folder("crates/a/src", TWO, &[Source::new(path, text)])
    }

    #[test]
    fn what_is_above_or_beside_is_found() {
        assert_eq!(of("crates/a/src/low.rs", "use crate::high::X;").len(), 1);
        assert_eq!(
            of("crates/a/src/low/inner.rs", "use crate::beside::X;").len(),
            1
        );
        assert_eq!(of("crates/a/src/new.rs", "").len(), 1);
    }

    #[test]
    fn what_is_named_in_a_group_is_found() {
        let group = "use crate::{low::{X, high}, high::Y};";
        assert_eq!(of("crates/a/src/beside.rs", group).len(), 2);
        let file = [Source::new(
            "crates/a/src/b/low.rs",
            "use super::{A, high};",
        )];
        assert_eq!(of_folder("crates/a/src/b", TWO, &file).len(), 1);
        assert!(of("crates/a/src/low.rs", "use crate::{Low, other::{high}};").is_empty());
    }

    #[test]
    fn what_is_below_is_fine_and_tests_may_all() {
        assert!(of("crates/a/src/high.rs", "use crate::low::X;").is_empty());
        assert!(of("crates/a/src/low.rs", "#[cfg(test)]\nuse crate::high::X;").is_empty());
        assert!(of("crates/a/src/low/tests.rs", "use crate::high::X;").is_empty());
        assert!(
            of(
                "crates/a/src/low.rs",
                "// crate::high\nuse crate::highest::X;"
            )
            .is_empty()
        );
        assert!(of("crates/a/src/lib.rs", "use crate::high::X;").is_empty());
    }

    #[test]
    fn in_a_folder_the_parent_is_super() {
        let file = [Source::new("crates/a/src/b/low.rs", "use super::high::X;")];
        assert_eq!(of_folder("crates/a/src/b", TWO, &file).len(), 1);
    }
}
