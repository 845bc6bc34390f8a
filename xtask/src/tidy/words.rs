//! Rule: terms that docs/glossary.md replaces are not used in comments, pages or identifiers.
//!
//! The list is the glossary's second table. Entries in backticks are words of identifiers (`wall`
//! forbids `wall_of` and `HasWall`). The others are words or phrases of comments and pages, in
//! upper or lower case.

use std::collections::HashSet;

use super::code::{is_name, stands_alone};
use super::prose::comment;
use super::sources::Source;

/// The page with the list; it may use the replaced terms.
const GLOSSARY: &str = "docs/glossary.md";
const HEADING: &str = "## Terms that are replaced";
/// Allowed names: of the kernel, of the standard library, or of options and keys on which scripts
/// rely.
const KEPT: [&str; 9] = [
    "look_up",
    "look_around",
    "look_budget",
    "look_again_ms",
    "wall_ms",
    "wall_clock",
    "__wall",
    "asked_pages",
    "asked_ms_ago",
];

/// The replaced terms.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Replaced {
    identifiers: Vec<(String, String)>,
    phrases: Vec<(String, String)>,
}

impl Replaced {
    /// Returns the list from the glossary, which is one of `pages`.
    pub(super) fn of(pages: &[Source]) -> Replaced {
        let glossary = pages.iter().find(|page| page.path == GLOSSARY);
        let text = glossary.map_or("", |page| page.text.as_str());
        let table = text.split_once(HEADING).map_or("", |(_, table)| table);
        let mut replaced = Replaced::default();
        for row in table.lines().filter(|line| line.starts_with("| ")) {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let (Some(terms), Some(plain)) = (cells.next(), cells.next()) else {
                continue;
            };
            for term in terms.split(", ").filter(|term| *term != "not") {
                let entry = |term: &str| (term.to_lowercase(), plain.to_owned());
                match term
                    .strip_prefix('`')
                    .and_then(|term| term.strip_suffix('`'))
                {
                    Some(word) => replaced.identifiers.push(entry(word)),
                    None if term.starts_with('-') => (),
                    None => replaced.phrases.push(entry(term)),
                }
            }
        }
        replaced
    }

    /// Returns the problems of sources and pages; one problem if the list is missing.
    pub(super) fn problems(&self, files: &[Source], pages: &[Source]) -> Vec<String> {
        if self.identifiers.is_empty() || self.phrases.is_empty() {
            return vec![format!(
                "{GLOSSARY}: the table below \"{HEADING}\" is missing"
            )];
        }
        let (mut found, mut clean) = (Vec::new(), HashSet::new());
        for file in files.iter().filter(|file| file.is_rust()) {
            found.extend(self.in_identifiers(file, &mut clean));
            let lines = (1..).zip(file.text.lines());
            let comments = lines.filter_map(|(number, line)| Some((number, comment(line)?)));
            found.extend(self.in_prose(&file.path, comments));
        }
        for page in pages.iter().filter(|page| page.path != GLOSSARY) {
            found.extend(self.in_prose(&page.path, (1..).zip(page.text.lines())));
        }
        found
    }

    fn in_identifiers<'a>(&self, file: &'a Source, clean: &mut HashSet<&'a str>) -> Vec<String> {
        let mut found = Vec::new();
        for (number, line) in (1..).zip(file.code().lines()) {
            for name in line.split(|c| !is_name(c)) {
                if clean.contains(name) {
                    continue;
                }
                let words = words_of(name);
                let bad = self.identifiers.iter().find(|e| words.contains(&e.0));
                match bad.filter(|_| !is_kept(name)) {
                    Some((word, plain)) => {
                        let path = &file.path;
                        found.push(format!("{path}:{number}: {name}: not {word}, but {plain}"));
                    }
                    None => _ = clean.insert(name),
                }
            }
        }
        found
    }

    fn in_prose<'a>(
        &self,
        path: &str,
        lines: impl Iterator<Item = (usize, &'a str)>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (number, line) in lines {
            let text = without_code(line).to_lowercase();
            for (term, plain) in &self.phrases {
                if has_phrase(&text, term) {
                    found.push(format!("{path}:{number}: not \"{term}\", but {plain}"));
                }
            }
        }
        found
    }
}

fn is_kept(name: &str) -> bool {
    let name = name.to_lowercase();
    KEPT.iter().any(|kept| name.contains(kept))
}

/// Returns the words of a name: `hard_limit`, `HardLimit` and `HARD_LIMIT` have two.
fn words_of(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_') {
        let is_upper = part.chars().all(|c| !c.is_lowercase());
        let mut word = String::new();
        for c in part.chars() {
            if c.is_uppercase() && !is_upper && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        }
        words.push(word);
    }
    words
}

/// Returns the line without the parts in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns whether the text has the phrase, and not as a part of longer words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    stands_alone(text, phrase, |c| is_name(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced() -> Replaced {
        let text = "intro\n## Terms that are replaced\n\n| not | but |\n|---|---|\n| `wall`, at the wall | hard limit |\n";
        Replaced::of(&[Source::new(GLOSSARY, text)])
    }

    fn of(text: &str) -> Vec<String> {
        replaced().problems(&[Source::new("a.rs", text)], &[])
    }

    #[test]
    fn words_of_identifiers_are_refused() {
        for bad in [
            "let has_wall = 1;",
            "struct WallError;",
            "const AT_THE_WALL: u8 = 0;",
        ] {
            assert_eq!(of(bad).len(), 1, "{bad}");
        }
        for good in [
            "let wallet = 1;",
            "let wall_ms = 1;",
            "print(\"wall\");",
            "// the wall clock",
        ] {
            assert_eq!(of(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn phrases_of_comments_and_pages_are_refused() {
        assert_eq!(of("/// The program stands At the wall.\n").len(), 1);
        assert_eq!(of("/// `at the wall`\n"), [""; 0]);
        let page = Source::new("docs/a.md", "one\nat the wall.\n");
        let found = replaced().problems(&[], &[page]);
        assert_eq!(found, ["docs/a.md:2: not \"at the wall\", but hard limit"]);
    }

    #[test]
    fn a_glossary_without_its_list_is_a_problem() {
        let none = Replaced::of(&[Source::new(GLOSSARY, "nothing")]);
        assert_eq!(none.problems(&[], &[]).len(), 1);
    }
}
