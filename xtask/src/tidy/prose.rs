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
    let rust = files.iter().filter(|file| file.is_rust());
    let pages = pages.iter().filter(|page| page.path != PRINTED);
    rust.flat_map(of_comments)
        .chain(pages.flat_map(of_page))
        .collect()
}

/// Returns the text of a line that has only a comment; `None` for other lines.
pub(super) fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// Returns the lines of a page that are not code, with their numbers.
pub(super) fn lines_outside_code(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(page.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence && !line.starts_with("    ")
    })
}

/// Returns the cells of each row of a page's tables.
pub(super) fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = page
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|-"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
}

fn is_doc(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

fn of_comments(file: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(text) = comment(line) else {
            continue;
        };
        let place = format!("{}:{}", file.path, at + 1);
        let columns = line.chars().count();
        if columns > COMMENT_COLUMNS && !text.starts_with('|') {
            found.push(format!(
                "{place}: a comment line of {columns} columns: {COMMENT_COLUMNS} at most"
            ));
        }
        let begins = is_doc(line) && (at == 0 || !is_doc(lines[at - 1]));
        let words = first_sentence(&lines[at..]);
        if begins && words > FIRST_SENTENCE_WORDS {
            found.push(format!(
                "{place}: the first sentence has {words} words: {FIRST_SENTENCE_WORDS} at most"
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
    let words = paragraph.take_while(|text| !text.is_empty());
    let mut has_ended = false;
    let words = words.flat_map(str::split_whitespace).take_while(|word| {
        let is_behind = has_ended;
        has_ended = word.ends_with(['.', ':', ';', '?', '!']);
        !is_behind
    });
    words.count()
}

/// Returns the problems of a page. Tables and code may be longer.
fn of_page(page: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in lines_outside_code(&page.text) {
        let place = format!("{}:{number}", page.path);
        if CONFLICT.iter().any(|mark| line.starts_with(mark)) {
            found.push(format!(
                "{place}: a conflict of a merge that was not resolved"
            ));
        }
        let columns = line.chars().count();
        if columns > PAGE_COLUMNS && !line.trim_start().starts_with('|') {
            found.push(format!(
                "{place}: a line of {columns} columns: {PAGE_COLUMNS} at most"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> usize {
        problems(&[Source::new("a.rs", text)], &[]).len()
    }

    fn of_page(text: &str) -> usize {
        problems(&[], &[Source::new("docs/a.md", text)]).len()
    }

    #[test]
    fn comment_lines_end_at_100_columns() {
        let short = format!("// {}", "x".repeat(97));
        assert_eq!((of(&short), of(&format!("{short}x"))), (0, 1));
        // The formatter has the rule for code.
        assert_eq!(of(&format!("let a = \"{}\";", "x".repeat(120))), 0);
    }

    #[test]
    fn first_sentences_have_30_words() {
        let words = "word ".repeat(15);
        let long = format!("/// {words}\n/// {words}more.\n");
        assert_eq!(of(&long), 1);
        let fits = format!("/// {words}\n/// {}.\n/// {words}\n", words.trim_end());
        // Only documentation is indexed by its first sentence.
        let plain = long.replace("///", "//");
        for fits in [fits, format!("/// Short.\n{long}"), plain] {
            assert_eq!(of(&fits), 0, "{fits}");
        }
    }

    #[test]
    fn prose_ends_at_120_columns() {
        let long = "x ".repeat(70);
        assert_eq!(of_page(&long), 1);
        for fits in [
            format!("| {long} |"),
            format!("```\n{long}\n```"),
            format!("    {long}"),
        ] {
            assert_eq!(of_page(&fits), 0);
        }
        assert!(problems(&[], &[Source::new(PRINTED, &long)]).is_empty());
    }

    #[test]
    fn a_conflict_is_found_in_a_page() {
        assert_eq!(of_page("a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> d\n"), 2);
    }

    #[test]
    fn rows_are_read_without_the_line_below_the_heading() {
        let found: Vec<Vec<&str>> = rows("text\n| a | b |\n|---|---|\n| `c` | |\n").collect();
        assert_eq!(found, [["a", "b"], ["`c`", ""]]);
    }
}
