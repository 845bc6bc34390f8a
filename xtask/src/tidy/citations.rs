//! Rule: a text names only pages that are in the repository, and of the pages in `docs/spec` only
//! sections, invariants and tests that exist there.
//!
//! A citation is `PAGE.md` and what follows on its line: `lru-gen.md 3, 5.2`, `rstat.md 9, test 2`,
//! `workingset.md I3`.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Source;

/// The pages that may be named, by file name. Of a page in `docs/spec`, what can be cited from it:
/// `5.2`, `I3`, and of its tests `test 4`.
type Pages<'a> = BTreeMap<&'a str, Option<BTreeSet<String>>>;

/// Returns the wrong citations in these texts. `pages`: all pages of the repository.
pub(super) fn problems(files: &[Source], pages: &[Source]) -> Vec<String> {
    let of = |page: &Source| {
        let is_spec = page.path.starts_with("docs/spec/");
        is_spec.then(|| points(&page.text))
    };
    let known = |page| (file_name(page), of(page));
    let known: Pages<'_> = pages.iter().map(known).collect();
    let mut found = Vec::new();
    // Tests of the rules on pages name pages that do not exist.
    let are_made_up = |file: &&Source| file.path.starts_with("xtask/src/tidy/");
    for file in files.iter().filter(|file| !are_made_up(file)) {
        for (number, line) in (1..).zip(file.text.lines()) {
            for why in of_line(&known, line) {
                found.push(format!("{}:{number}: {why}", file.path));
            }
        }
    }
    found
}

fn file_name(file: &Source) -> &str {
    file.path.rsplit('/').next().unwrap_or_default()
}

/// Returns sections by their numbers, `- I3 ...`, and the numbered list of the section called
/// Tests.
fn points(text: &str) -> BTreeSet<String> {
    let (mut known, mut in_tests) = (BTreeSet::new(), false);
    for line in text.lines() {
        let first = line.split_whitespace().nth(1).unwrap_or_default();
        if line.starts_with('#') {
            in_tests = line.ends_with(". Tests");
            known.insert(first.trim_end_matches('.').to_owned());
        } else if line.starts_with("- I") {
            known.insert(first.to_owned());
        } else if let Some((number, _)) = line.split_once(". ").filter(|_| in_tests)
            && number.parse::<u32>().is_ok()
        {
            known.insert(format!("test {number}"));
        }
    }
    known
}

fn of_line(pages: &Pages<'_>, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (end, ending) in line.match_indices(".md") {
        let (before, after) = (&line[..end], &line[end + ending.len()..]);
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
        if name.is_empty() || after.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name = format!("{name}.md");
        let Some(page) = pages.get(name.as_str()) else {
            found.push(format!("names {name}, which the repository does not hold"));
            continue;
        };
        if let Some(points) = page {
            let missing = cited(after)
                .into_iter()
                .filter(|point| !points.contains(point));
            found.extend(missing.map(|point| format!("{name} has no {point}")));
        }
    }
    found
}

/// Returns what is cited behind a page's name: numbers with commas, dashes or `and` between.
fn cited(after: &str) -> Vec<String> {
    let after = after.trim_start_matches(['`', ')', ' ', '|']);
    let (mut points, mut of_tests) = (Vec::new(), false);
    let separators = [' ', ',', '-', ':', '|'];
    for word in after.split_inclusive(separators) {
        // After a full stop, a bracket or a semicolon the citation is over.
        let core = word.trim_end_matches(separators);
        let number = core.trim_end_matches(['.', ';', ')', '`', '*']);
        let digits = number.strip_prefix('I').unwrap_or(number);
        let is_number = !digits.is_empty()
            && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
            && digits.starts_with(|c: char| c.is_ascii_digit());
        match number {
            // The next column of a table begins.
            "" if word.contains('|') && !points.is_empty() => break,
            "" | "and" => {}
            "test" | "tests" => of_tests = true,
            _ if !is_number => break,
            _ if of_tests && !number.contains(['I', '.']) => points.push(format!("test {number}")),
            _ => points.push(number.to_owned()),
        }
        // `8: 2, 3` are tests of section 8; after `test 4: ` comes text.
        let colon = word.ends_with(':');
        if core != number || colon && of_tests {
            break;
        }
        of_tests |= colon;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page\n\n## 1. Data\n\n### 1.2 More\n\n## 9. Invariants\n\n- I1 one;\n\n## 10. Tests\n\n1. A.\n2. B.\n";

    fn of(line: &str) -> Vec<String> {
        let texts = [
            Source::new("docs/spec/lru.md", PAGE),
            Source::new("README.md", "# It"),
        ];
        problems(&[Source::new("a.rs", line)], &texts)
    }

    #[test]
    fn what_does_not_stand_there_is_found() {
        for wrong in [
            "// spec: lru.md 2.",
            "// spec: lru.md 1, 3.",
            "// spec: lru.md 1-4.",
            "// spec: lru.md 10, test 3.",
            "// spec: lru.md 10, tests 1 and 4.",
            "// (lru.md I2)",
            "// see other.md",
            "| lru.md | 10: 1, 3 | x",
        ] {
            assert_eq!(of(wrong).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn what_stands_there_is_fine() {
        for right in [
            "// spec: lru.md 1.2, 9. Then 77 others",
            "// spec: lru.md 10, tests 1 and 2; and 4 more",
            "// spec: lru.md, profile 3",
            "// spec: lru.md 10, test 2: 50 pages",
            "| lru.md | 10: 1, 2 | 7 of them",
            "// (lru.md I1) and README.md 5; x.mdx",
            "// [here](lru.md#1-data), 12 of them",
        ] {
            assert!(of(right).is_empty(), "{right}: {:?}", of(right));
        }
    }
}
