//! Lines of text that are laid out for a terminal.
//!
//! Invariant: no line is wider than the terminal, whatever the text. Texts are wrapped or cut
//! before they are coloured, so that no colour sequence is cut.

use crate::terminal::Style;

use super::text::{cut, wrap};

/// A function that colours a text.
pub(crate) type Ink = fn(Style, &str) -> String;

/// Minimum columns for a text beside its heading; if there are fewer, the text is placed below the
/// heading.
const TEXT_WIDTH_MIN: usize = 16;
/// Indentation of a text below its heading, columns.
const INDENT_BELOW: usize = 5;

/// The lines added so far, and the style in which they are drawn.
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

    /// Returns the style in which the lines are drawn.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// Adds a line; the part that does not fit is cut off.
    pub(crate) fn line(&mut self, text: &str) {
        let text = cut(text, self.style.width, self.style.unicode);
        self.lines.push(text.trim_end().to_owned());
    }

    /// Adds a heading, with a blank line above unless it is the first line.
    pub(crate) fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.blank();
        }
        let text = cut(text, self.style.width, self.style.unicode);
        self.lines.push(self.style.bold(&text));
    }

    /// Adds a text like [`Sheet::hanging`], and colours `word`, with which the text begins.
    pub(crate) fn marked(&mut self, (ink, word): (Ink, &str), first: &str, text: &str) {
        let at = self.lines.len();
        self.hanging(&format!("{word}{first}"), text);
        // The word is short and at the start, so even a line that was cut begins with it.
        if let Some(line) = self.lines.get_mut(at)
            && let Some(rest) = line.strip_prefix(word)
        {
            *line = ink(self.style, word) + rest;
        }
    }

    /// Adds a line in the style of less important text, such as the headings of a table.
    pub(crate) fn dim(&mut self, text: &str) {
        let text = cut(text, self.style.width, self.style.unicode);
        self.lines.push(self.style.dim(text.trim_end()));
    }

    /// Adds a title: the subject at the left, cut to the space beside the facts at the right.
    pub(crate) fn title(&mut self, about: &str, facts: &str) {
        let Style { width, unicode, .. } = self.style;
        let facts = cut(facts, width.saturating_sub(14), unicode);
        let room = width.saturating_sub(super::text::columns(&facts) + 2);
        let about = cut(about, room, unicode);
        let line = format!("{}  {}", self.style.bold(&about), self.style.dim(&facts));
        self.lines.push(line);
    }

    /// Adds a figure with its name; the part of the text that does not fit continues on the next
    /// line.
    pub(crate) fn row(&mut self, name: &str, value: &str) {
        self.hanging(&format!("  {name:<10} "), value);
    }

    /// Adds `first` and then the text. Further lines of the text are indented to the column in
    /// which the text begins.
    pub(crate) fn hanging(&mut self, first: &str, text: &str) {
        let (mut start, mut indent) = (first.to_owned(), first.chars().count());
        if indent > INDENT_BELOW && self.style.width < indent + TEXT_WIDTH_MIN {
            // No word fits beside `first`. So the text starts on the next line, unless `first` is
            // short.
            let mark = first.trim();
            if mark.len() + 2 < INDENT_BELOW {
                start = format!("  {mark} ");
            } else {
                self.line(first);
                start = " ".repeat(INDENT_BELOW);
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

    /// Returns all lines, each with a newline at its end.
    pub(crate) fn finish(self) -> String {
        self.lines.join("\n") + "\n"
    }
}
