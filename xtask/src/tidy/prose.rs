//! Rule: a comment line ends at 100 columns, a line of prose in a page at 120, and the first
//! sentence of a doc comment has at most 30 words.

use super::sources::Source;

const COMMENT_COLUMNS: usize = 100;
const PAGE_COLUMNS: usize = 120;
const FIRST_SENTENCE_WORDS: usize = 30;
/// Lines with which git marks a conflict of a merge. Code with them does not compile; pages were
/// committed with them.
const CONFLICT: [&str; 2] = ["<<<<<<< ", ">>>>>>> "];
/// The program prints this page from its `--help`, with each paragraph on one line.
const PRINTED: &str = "docs/commands.md";

/// Returns the problems of comments (rows of tables may be longer) and of the pages' prose.
pub(super) fn problems(files: &[Source], pages: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        found.extend(of_comments(file));
    }
    for page in pages.iter().filter(|page| page.path != PRINTED) {
        found.extend(of_page(page));
    }
    found
}

/// Returns the text of a line that has only a comment; `None` for other lines.
pub(super) fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

fn is_doc(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

fn of_comments(file: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let (path, number) = (&file.path, at + 1);
        if comment(line).is_none() {
            continue;
        }
        let columns = line.chars().count();
        let is_row = comment(line).is_some_and(|text| text.starts_with('|'));
        if columns > COMMENT_COLUMNS && !is_row {
            found.push(format!(
                "{path}:{number}: a comment line of {columns} columns: {COMMENT_COLUMNS} at most"
            ));
        }
        let begins = is_doc(line) && (at == 0 || !is_doc(lines[at - 1]));
        let words = first_sentence(&lines[at..]);
        if begins && words > FIRST_SENTENCE_WORDS {
            found.push(format!(
                "{path}:{number}: the first sentence has {words} words: {FIRST_SENTENCE_WORDS} at most"
            ));
        }
    }
    found
}

/// Returns the number of words in the first sentence of the doc comment at the beginning of these
/// lines.
fn first_sentence(lines: &[&str]) -> usize {
    let paragraph = lines.iter().take_while(|line| is_doc(line));
    let paragraph = paragraph.filter_map(|line| comment(line));
    let mut words = 0;
    for line in paragraph {
        if line.is_empty() {
            break;
        }
        for word in line.split_whitespace() {
            words += 1;
            if word.ends_with(['.', ':', ';', '?', '!']) {
                return words;
            }
        }
    }
    words
}

/// Returns the problems of a page. Tables, code, and links that cannot be broken may be longer.
fn of_page(page: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(page.text.lines()) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if CONFLICT.iter().any(|mark| line.starts_with(mark)) {
            let path = &page.path;
            found.push(format!(
                "{path}:{number}: a conflict of a merge that was not resolved"
            ));
        }
        let is_code = in_code || line.starts_with("    ");
        let columns = line.chars().count();
        if columns > PAGE_COLUMNS && !is_code && !trimmed.starts_with('|') {
            found.push(format!(
                "{}:{number}: a line of {columns} columns: {PAGE_COLUMNS} at most",
                page.path
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        problems(&[Source::new("a.rs", text)], &[])
    }

    #[test]
    fn a_conflict_is_found_in_a_page() {
        let page = Source::new("a.md", "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> d\n");
        assert_eq!(problems(&[], &[page]).len(), 2);
    }

    #[test]
    fn comment_lines_end_at_100_columns() {
        let short = format!("// {}", "x".repeat(97));
        assert_eq!(of(&short), [""; 0]);
        assert_eq!(of(&format!("{short}x")).len(), 1);
        let code = format!("let a = \"{}\";", "x".repeat(120));
        assert_eq!(of(&code), [""; 0], "the formatter has the rule for code");
    }

    #[test]
    fn first_sentences_have_30_words() {
        let words = "word ".repeat(15);
        let fits = format!("/// {words}\n/// {}.\n/// {words}\n", words.trim_end());
        assert_eq!(of(&fits), [""; 0]);
        let long = format!("/// {words}\n/// {words}more.\n");
        assert_eq!(of(&long).len(), 1, "{:?}", of(&long));
        let second = format!("/// Short.\n/// {words}\n/// {words}more.\n");
        assert_eq!(of(&second), [""; 0]);
        let plain = format!("// {words}\n// {words}more.\n");
        assert_eq!(
            of(&plain),
            [""; 0],
            "only documentation is indexed by its first sentence"
        );
    }

    #[test]
    fn prose_ends_at_120_columns() {
        let long = "x ".repeat(70);
        let page = |text: String| problems(&[], &[Source::new("docs/a.md", &text)]);
        assert_eq!(page(long.clone()).len(), 1);
        for fits in [
            format!("| {long} |"),
            format!("```\n{long}\n```"),
            format!("    {long}"),
        ] {
            assert_eq!(page(fits), [""; 0]);
        }
        assert_eq!(problems(&[], &[Source::new(PRINTED, &long)]), [""; 0]);
    }
}
