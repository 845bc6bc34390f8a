//! The tokens of Rust code: comments, strings and other literals are not among them.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// An identifier, or a character of punctuation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) text: String,
    /// Number of its line, from 1.
    pub(super) line: usize,
    /// Whether it is a part of an item with the attribute `cfg(test)`.
    pub(super) is_test: bool,
}

/// Returns the tokens of a source; none of a source that cannot be parsed, which the compiler
/// reports.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    flatten(text.parse().unwrap_or_default(), false, &mut found);
    found
}

/// Adds the tokens of a stream. `in_test`: whether the item around it is a test.
fn flatten(stream: TokenStream, in_test: bool, found: &mut Vec<Token>) {
    let mut is_test = in_test;
    for tree in stream {
        let span = tree.span();
        let mut add = |text: String, line: usize| {
            found.push(Token {
                text,
                line,
                is_test,
            });
        };
        match tree {
            TokenTree::Ident(name) => add(name.to_string(), span.start().line),
            TokenTree::Punct(punct) => {
                add(punct.to_string(), span.start().line);
                is_test &= in_test || punct.as_char() != ';';
            }
            TokenTree::Group(group) => {
                let [open, close] = brackets(group.delimiter());
                add(open.to_owned(), span.start().line);
                is_test |= is_test_attribute(&group);
                flatten(group.stream(), is_test, found);
                found.push(Token {
                    text: close.to_owned(),
                    line: span.end().line,
                    is_test,
                });
                // The item with the attribute ends with its body.
                is_test &= in_test || group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Literal(_) => (),
        }
    }
}

const fn brackets(delimiter: Delimiter) -> [&'static str; 2] {
    match delimiter {
        Delimiter::Parenthesis => ["(", ")"],
        Delimiter::Brace => ["{", "}"],
        Delimiter::Bracket => ["[", "]"],
        Delimiter::None => ["", ""],
    }
}

/// Whether this is the group of an attribute `#[cfg(test)]`, also among other conditions.
fn is_test_attribute(group: &Group) -> bool {
    let mut trees = group.stream().into_iter();
    let is_cfg = trees.next().is_some_and(|name| name.to_string() == "cfg");
    let condition = trees
        .next()
        .map(|tree| tree.to_string())
        .unwrap_or_default();
    is_cfg && condition.contains("test") && !condition.contains("not")
}

/// Returns whether `c` may be a part of a name.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_left_out() {
        let text = "a /* x */ b // x\n\"x\" c r#\"x\"# 'x' 1 d r#type";
        let found: Vec<String> = tokens(text).into_iter().map(|one| one.text).collect();
        assert_eq!(found, ["a", "b", "c", "d", "r#type"]);
        assert_eq!(tokens(text)[2].line, 2);
    }

    #[test]
    fn items_of_tests_are_marked() {
        let text = "use a;\n#[cfg(test)]\nuse b;\nfn c() { d() }\n#[cfg(test)]\nmod e { f!(); }\ng";
        let found = tokens(text).into_iter();
        let tests: String = found
            .filter(|one| one.is_test)
            .map(|one| one.text)
            .collect();
        assert_eq!(tests, "cfg(test)]useb;cfg(test)]mode{f!();}");
    }
}
