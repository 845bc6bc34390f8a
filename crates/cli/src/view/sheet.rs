//! Lines of text on their way to a terminal.
//!
//! Invariant: no line is wider than the terminal, whatever stands in it: figures and words are
//! wrapped or cut first and painted after, so that no colour is cut in two.

use crate::terminal::Style;

use super::text::{cut, wrap};

/// A colour.
pub(crate) type Ink = fn(Style, &str) -> String;

/// Columns that a text has beside what it hangs from, or it goes below that.
const LEAST: usize = 16;
/// So far in.
const BELOW: usize = 5;

/// Lines, as far as there are any.
pub(crate) struct Sheet {
    style: Style,
    lines: Vec<String>,
}

impl Sheet {
    pub(crate) fn new(style: Style) -> Sheet {
        Sheet {
            style,
            lines: Vec::new(),
        }
    }

    /// How it is drawn.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// A line as it is, as much of it as fits.
    pub(crate) fn line(&mut self, text: &str) {
        let text = cut(text, self.style.width, self.style.unicode);
        self.lines.push(text.trim_end().to_owned());
    }

    /// A heading, with a blank line above unless it is the first line.
    pub(crate) fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.blank();
        }
        let text = cut(text, self.style.width, self.style.unicode);
        self.lines.push(self.style.bold(&text));
    }

    /// [`Sheet::hanging`] behind a word in a colour.
    pub(crate) fn marked(&mut self, (ink, word): (Ink, &str), first: &str, text: &str) {
        let at = self.lines.len();
        self.hanging(&format!("{word}{first}"), text);
        // The word is ours and stands at the front, wherever the line was cut.
        if let Some(line) = self.lines.get_mut(at)
            && let Some(rest) = line.strip_prefix(word)
        {
            *line = ink(self.style, word) + rest;
        }
    }

    /// A line beside the point, or above a table.
    pub(crate) fn dim(&mut self, text: &str) {
        let text = cut(text, self.style.width, self.style.unicode);
        self.lines.push(self.style.dim(text.trim_end()));
    }

    /// A title: what it is about at the left, as much as fits beside the facts at the right.
    pub(crate) fn title(&mut self, about: &str, facts: &str) {
        let Style { width, unicode, .. } = self.style;
        let facts = cut(facts, width.saturating_sub(14), unicode);
        let room = width.saturating_sub(super::text::columns(&facts) + 2);
        let about = cut(about, room, unicode);
        let line = format!("{}  {}", self.style.bold(&about), self.style.dim(&facts));
        self.lines.push(line);
    }

    /// A figure with its name; what does not fit goes on below.
    pub(crate) fn row(&mut self, name: &str, value: &str) {
        self.hanging(&format!("  {name:<10} "), value);
    }

    /// `first` and the text; further lines of the text stand below its start.
    pub(crate) fn hanging(&mut self, first: &str, text: &str) {
        let (mut start, mut indent) = (first.to_owned(), first.chars().count());
        if indent > BELOW && self.style.width < indent + LEAST {
            // No word has room beside it: it stands below, but for a mark.
            let mark = first.trim();
            if mark.len() + 2 < BELOW {
                start = format!("  {mark} ");
            } else {
                self.line(first);
                start = " ".repeat(BELOW);
            }
            indent = start.len();
        }
        let room = self.style.width.saturating_sub(indent);
        for line in wrap(text, room, self.style.unicode) {
            self.line(&format!("{start}{line}"));
            start = " ".repeat(indent);
        }
    }

    pub(crate) fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// All of it, a newline at the end of each line.
    pub(crate) fn finish(self) -> String {
        self.lines.join("\n") + "\n"
    }
}
