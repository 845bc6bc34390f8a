//! The code of Rust or C text: comments, strings and character literals are replaced by blanks,
//! line breaks are kept. So the rest can be searched for words, and its braces counted.

/// Blanks out everything that is not code. Knows raw strings with any number of hashes, and nested
/// block comments.
pub(super) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        }
    }
    out
}

/// Returns the end of the comment or literal that starts at `at`; `at` if none starts there.
fn skipped_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match (chars[at], next) {
        ('/', Some('/')) => find(chars, at, |c| c == '\n'),
        ('/', Some('*')) => block_comment_end(chars, at),
        ('"', _) => string_end(chars, at + 1),
        ('r', Some('"' | '#')) if !follows_word(chars, at) => raw_string_end(chars, at),
        ('\'', Some('\\')) => find(chars, at + 3, |c| c == '\'') + 1,
        ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
    .min(chars.len())
}

/// Returns whether the letter at `at` is inside a name; the `b` and `c` of `br""` and `cr""` are
/// not.
fn follows_word(chars: &[char], at: usize) -> bool {
    let is_word = |at: usize| chars[at].is_alphanumeric() || chars[at] == '_';
    let prefix = at > 0 && matches!(chars[at - 1], 'b' | 'c') && (at == 1 || !is_word(at - 2));
    at > 0 && is_word(at - 1) && !prefix
}

fn find(chars: &[char], from: usize, is: impl Fn(char) -> bool) -> usize {
    (from..chars.len())
        .find(|at| is(chars[*at]))
        .unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let quote = find(chars, at + 1, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return at; // r#keyword, or a name that begins with br
    }
    let hashes = quote - at - 1;
    let closes = |end: usize| {
        chars[end] == '"'
            && chars[end + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes
    };
    (quote + 1..chars.len())
        .find(|end| closes(*end))
        .map_or(chars.len(), |end| end + 1 + hashes)
}

/// Returns whether `c` may be a part of a name.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns whether `word` stands in `code` as a whole word.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    stands_alone(code, word, is_name)
}

/// Returns whether `phrase` stands in `text` without a character of a word before or behind it.
pub(super) fn stands_alone(text: &str, phrase: &str, is_word: fn(char) -> bool) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_literals() {
        let text = "a /* x { /* y */ } */ b // {\n\"{ \\\" {\" c r#\"{\"{\"# '{' '\\'' 'a d";
        let code = code_only(text);
        assert!(!code.contains('{'), "{code}");
        assert_eq!(code.lines().count(), 2);
        for word in ["a", "b", "c", "d"] {
            assert!(has_word(&code, word), "{word} in {code}");
        }
        assert!(!has_word(&code, "x") && !has_word(&code, "y"));
    }

    #[test]
    fn raw_identifiers_and_names_are_code() {
        assert_eq!(code_only("r#type for brick"), "r#type for brick");
        assert_eq!(code_only("br\"{\" x").trim(), "b     x");
    }

    #[test]
    fn an_unclosed_literal_ends_with_the_text() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\"] {
            assert_eq!(code_only(text).trim(), "", "{text}");
        }
    }

    #[test]
    fn a_word_is_a_whole_word() {
        assert!(has_word("x unsafe {", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
