//! Rule: code that a page names exists: paths of modules and items (`manage::headroom`,
//! `AgeTable::see`) and source files (`ages/page.rs`), in backticks.

use std::collections::HashSet;

use super::sources::Source;
use super::tokens::is_name;

/// Pages that name the kernel's or a library's code, or code as it was at a commit.
const OTHERS: [&str; 3] = ["docs/spec/", "docs/dependencies.md", "docs/glossary.md"];
/// Crates and modules of the standard library and of others that pages name.
const FOREIGN: [&str; 4] = ["std", "libc", "rustix", "tests"];

/// What one source holds.
struct Known<'a> {
    path: &'a str,
    /// Identifiers of its code, and the parts of its path without `.rs`.
    names: HashSet<&'a str>,
}

impl Known<'_> {
    fn of(file: &Source) -> Known<'_> {
        let mut names: HashSet<&str> = match file.is_rust() {
            true => file.tokens().iter().map(|one| one.text.as_str()).collect(),
            false => file.text.split(|c| !is_name(c)).collect(),
        };
        names.extend(file.path.trim_end_matches(".rs").split('/'));
        Known {
            path: &file.path,
            names,
        }
    }

    fn is_at(&self, path: &str) -> bool {
        let rest = self.path.strip_suffix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    }

    fn has(&self, part: &str) -> bool {
        self.names.contains(part) || self.names.contains(part.replace('_', "-").as_str())
    }
}

/// Returns the problems of the pages, by the sources.
pub(super) fn problems(files: &[Source], pages: &[Source]) -> Vec<String> {
    let known: Vec<Known<'_>> = files.iter().map(Known::of).collect();
    let mut found = Vec::new();
    let is_others = |path: &str| OTHERS.iter().any(|other| path.starts_with(other));
    for page in pages.iter().filter(|page| !is_others(&page.path)) {
        for (number, line) in (1..).zip(page.text.lines()) {
            let names = line.split('`').skip(1).step_by(2);
            for name in names.filter(|name| !exists(&known, name)) {
                found.push(format!("{}:{number}: no code is named `{name}`", page.path));
            }
        }
    }
    found
}

/// Returns whether `name` is no name of code, or the code exists: one source has all of its parts.
fn exists(known: &[Known<'_>], name: &str) -> bool {
    let is_path = |c: char| is_name(c) || matches!(c, ':' | '/' | '.' | '-');
    if !name.chars().all(is_path) {
        return true;
    }
    if name.ends_with(".rs") {
        return known.iter().any(|file| file.is_at(name));
    }
    let parts: Vec<&str> = name.split("::").collect();
    let is_item = parts.len() > 1 && parts.iter().all(|part| is_identifier(part));
    let has_all = |file: &Known<'_>| parts.iter().all(|part| file.has(part));
    !is_item || FOREIGN.contains(&parts[0]) || known.iter().any(has_all)
}

fn is_identifier(part: &str) -> bool {
    part.starts_with(|c: char| c.is_alphabetic()) && part.chars().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(page: &str) -> Vec<String> {
        let text = "pub fn see() {} struct Ages; // held, look";
        let source = Source::new("crates/host/src/ages/page.rs", text);
        problems(&[source], &[Source::new("README.md", page)])
    }

    #[test]
    fn code_that_is_gone_is_found() {
        for gone in [
            "`Ages::look`",
            "`ages::held`",
            "`ages/held.rs`",
            "`page.rs` `see.rs`",
        ] {
            assert_eq!(of(gone).len(), 1, "{gone}");
        }
    }

    /// Regression: a type and a function of another file passed as `Ages::begin_round`.
    #[test]
    fn a_path_is_in_one_source() {
        let sources = [
            Source::new("crates/host/src/a.rs", "struct Ages;"),
            Source::new("crates/host/src/b.rs", "fn round() {}"),
        ];
        let of = |page: &str| problems(&sources, &[Source::new("README.md", page)]).len();
        assert_eq!((of("`Ages::round`"), of("`host::a::Ages`")), (1, 0));
    }

    #[test]
    fn code_that_exists_and_all_else_is_fine() {
        for fine in [
            "`Ages::see` `host::ages::page` `ages/page.rs` `std::io::Error`",
            "`memory.max` `::1` `a b::c` Ages::look `/proc/PID/maps`",
        ] {
            assert_eq!(of(fine), [""; 0], "{fine}");
        }
    }
}
