//! Rule: terms that docs/glossary.md replaces are not used in comments, pages or identifiers.
//!
//! The list is the glossary's second table. Entries in backticks are words of identifiers (`wall`
//! forbids `wall_of` and `HasWall`). The others are words or phrases of comments and pages, in
//! upper or lower case.

use std::collections::HashSet;

use super::prose::{comment, rows};
use super::sources::Source;
use super::tokens::{Token, is_name};

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

/// A replaced term, in lower case, and the plain one.
type Entry<'a> = (String, &'a str);

/// The replaced terms.
#[derive(Debug, Default)]
struct Replaced<'a> {
    identifiers: Vec<Entry<'a>>,
    phrases: Vec<Entry<'a>>,
}

/// Returns the problems of sources and pages; one problem if the list is missing.
pub(super) fn problems(files: &[Source], pages: &[Source]) -> Vec<String> {
    let glossary = pages.iter().find(|page| page.path == GLOSSARY);
    let replaced = Replaced::of(glossary.map_or("", |page| page.text.as_str()));
    if replaced.identifiers.is_empty() || replaced.phrases.is_empty() {
        return vec![format!(
            "{GLOSSARY}: the table below \"{HEADING}\" is missing"
        )];
    }
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        found.extend(replaced.in_identifiers(file));
        let lines = (1..).zip(file.text.lines());
        let comments = lines.filter_map(|(number, line)| Some((number, comment(line)?)));
        found.extend(replaced.in_prose(&file.path, comments));
    }
    for page in pages.iter().filter(|page| page.path != GLOSSARY) {
        found.extend(replaced.in_prose(&page.path, (1..).zip(page.text.lines())));
    }
    found
}

impl<'a> Replaced<'a> {
    fn of(glossary: &'a str) -> Replaced<'a> {
        let table = glossary.split_once(HEADING).map_or("", |(_, table)| table);
        let mut replaced = Replaced::default();
        // The first row is the table's heading.
        for row in rows(table).skip(1) {
            let [terms, plain] = row[..] else {
                continue;
            };
            for term in terms.split(", ") {
                let word = term
                    .strip_prefix('`')
                    .and_then(|term| term.strip_suffix('`'));
                let list = match word {
                    Some(_) => &mut replaced.identifiers,
                    None => &mut replaced.phrases,
                };
                list.push((word.unwrap_or(term).to_lowercase(), plain));
            }
        }
        replaced
    }

    /// A name is reported once for each file.
    fn in_identifiers(&self, file: &Source) -> Vec<String> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        for Token { text, line, .. } in file.tokens() {
            if !seen.insert(text) {
                continue;
            }
            let words = words_of(text);
            let lower = text.to_lowercase();
            let is_kept = KEPT.iter().any(|kept| lower.contains(kept));
            let mut bad = self
                .identifiers
                .iter()
                .filter(|(word, _)| words.contains(word));
            if let Some((word, plain)) = bad.next().filter(|_| !is_kept) {
                let path = &file.path;
                found.push(format!("{path}:{line}: {text}: not {word}, but {plain}"));
            }
        }
        found
    }

    fn in_prose<'t>(
        &self,
        path: &str,
        lines: impl Iterator<Item = (usize, &'t str)>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (number, line) in lines {
            // Parts in backticks are code.
            let text: Vec<&str> = line.split('`').step_by(2).collect();
            let text = text.join("`").to_lowercase();
            for (term, plain) in &self.phrases {
                if has_phrase(&text, term) {
                    found.push(format!("{path}:{number}: not \"{term}\", but {plain}"));
                }
            }
        }
        found
    }
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

/// Returns whether the text has the phrase, and not as a part of longer words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_word = |c| is_name(c) || c == '-';
    text.match_indices(phrase).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "intro\n## Terms that are replaced\n\n| not | but |\n|---|---|\n\
                        | `wall`, at the wall | hard limit |\n";

    fn of(path: &str, text: &str) -> Vec<String> {
        let glossary = Source::new(GLOSSARY, LIST);
        let text = Source::new(path, text);
        match text.is_rust() {
            true => problems(&[text], &[glossary]),
            false => problems(&[], &[glossary, text]),
        }
    }

    #[test]
    fn words_of_identifiers_are_refused() {
        for bad in [
            "let has_wall = 1;",
            "struct WallError;",
            "const AT_THE_WALL: u8 = 0;",
        ] {
            assert_eq!(of("a.rs", bad).len(), 1, "{bad}");
        }
        for good in [
            "let wallet = 1;",
            "let wall_ms = 1;",
            "print(\"wall\");",
            "// the wall clock",
        ] {
            assert_eq!(of("a.rs", good), [""; 0], "{good}");
        }
    }

    #[test]
    fn phrases_of_comments_and_pages_are_refused() {
        assert_eq!(of("a.rs", "/// The program stands At the wall.\n").len(), 1);
        assert_eq!(of("a.rs", "/// `at the wall`\n"), [""; 0]);
        let found = of("docs/a.md", "one\nat the wall.\n");
        assert_eq!(found, ["docs/a.md:2: not \"at the wall\", but hard limit"]);
    }

    #[test]
    fn a_glossary_without_its_list_is_a_problem() {
        assert_eq!(problems(&[], &[Source::new(GLOSSARY, "nothing")]).len(), 1);
    }
}
