//! Rule: a link to another page or file of the repository leads to an existing file, and to an
//! existing heading in it. Every page of `docs` is in the book's table of contents.
//!
//! Links to other hosts are not checked.

use std::collections::{BTreeMap, BTreeSet};

use super::prose::lines_outside_code;
use super::sources::Source;

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A link: number of its line, and its target.
type Link<'a> = (usize, &'a str);

/// Finds dead links. `exists` knows files of the workspace that are not among the pages.
pub(super) fn problems(pages: &[Source], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|page| (page.path.as_str(), anchors(&page.text)))
        .collect();
    let mut found = Vec::new();
    let mut listed = BTreeSet::from([SUMMARY.to_owned()]);
    for page in pages {
        for (line, target) in links(&page.text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let Some(path) = resolve(&page.path, path) else {
                found.push(format!(
                    "{}:{line}: {target} leads out of the repository",
                    page.path
                ));
                continue;
            };
            // In the book, this would be a link to a page that the book does not have.
            let is_in_book = |path: &str| path.starts_with("docs/");
            if is_in_book(&page.path) && !is_in_book(&path) && path.ends_with(".md") {
                found.push(format!("{}:{line}: {path} is not in the book", page.path));
            }
            if page.path == SUMMARY {
                listed.insert(path.clone());
            }
            match anchors.get(path.as_str()) {
                None if exists(&path) => {}
                None => found.push(format!("{}:{line}: there is no {path}", page.path)),
                Some(anchors) if anchor.is_empty() || anchors.contains(anchor) => {}
                Some(_) => found.push(format!("{}:{line}: {path} has no #{anchor}", page.path)),
            }
        }
    }
    let unlisted = pages.iter().filter(|page| page.path.starts_with("docs/"));
    let unlisted = unlisted.filter(|page| !listed.contains(&page.path));
    found.extend(unlisted.map(|page| format!("{}: is not in {SUMMARY}", page.path)));
    found
}

/// Returns the links to places in the repository.
fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (number, line) in lines_outside_code(text) {
        for (at, _) in line.match_indices("](") {
            // Text between backticks is not a link.
            let is_code = line[..at].matches('`').count() % 2 == 1 && line[at..].contains('`');
            let target = line[at + 2..].split(')').next().unwrap_or_default();
            if !is_code && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target));
            }
        }
    }
    found
}

/// Resolves a path in a page to one from the workspace's root; `None` if it leads above the root.
fn resolve(page: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the anchors of headings, as mdBook and others name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in lines_outside_code(text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim();
        let name = heading.to_lowercase().replace(' ', "-");
        let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let name: String = name.chars().filter(is_kept).collect();
        // A heading that stands again gets a number.
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str =
        "# The other\n\n## `a` and *b*: 2\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n";

    fn of(text: &str) -> Vec<String> {
        let pages = [
            Source::new("docs/deep/other.md", OTHER),
            Source::new("docs/page.md", text),
            Source::new("docs/SUMMARY.md", "- [x](page.md)\n- [y](deep/other.md)\n"),
            Source::new("README.md", "[d](docs/page.md)"),
        ];
        problems(&pages, |path| path == "dist/a.toml")
    }

    #[test]
    fn dead_links_are_found() {
        for dead in [
            "[a](other.md)",
            "[a](deep/none.md)",
            "[a](deep/other.md#none)",
            "[a](deep/other.md#no-heading)",
            "[a](#none)",
            "[a](../dist/b.toml)",
            "[a](../../above.md)",
            "[a](../README.md)",
            "text [a](deep/other.md) and [b](nothing)",
        ] {
            assert_eq!(of(dead).len(), 1, "{dead}");
        }
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for live in [
            "[a](deep/other.md#a-and-b-2) [b](deep/other.md#twice-1)",
            "# Here\n\n[a](#here) [b](../dist/a.toml)",
            "[a](https://example.org/none) [b](mailto:a@b)",
            "`[a](none.md)` and\n\n```\n[a](none.md)\n```\n\n    [a](none.md)",
        ] {
            assert!(of(live).is_empty(), "{live}: {:?}", of(live));
        }
    }

    #[test]
    fn a_page_missing_from_the_book_is_found() {
        let pages = [
            Source::new("docs/page.md", ""),
            Source::new("docs/SUMMARY.md", ""),
            Source::new("README.md", ""),
        ];
        assert_eq!(
            problems(&pages, |_| false),
            ["docs/page.md: is not in docs/SUMMARY.md"]
        );
    }
}
