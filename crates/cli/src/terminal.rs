//! What the terminal (or file) behind standard output can show.
//!
//! Invariant: this is determined once for each command. An output that is no terminal receives
//! plain ASCII without control sequences, so that scripts and logs stay readable.

use std::env;
use std::io::IsTerminal;

/// How to draw on an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Style {
    /// Whether the output is a terminal, on which lines may be redrawn.
    pub(crate) live: bool,
    /// Whether colours may be used.
    pub(crate) color: bool,
    /// Whether characters beyond ASCII may be used.
    pub(crate) unicode: bool,
    /// Width in columns.
    pub(crate) width: usize,
    /// Height in rows; unlimited if the output is not redrawn.
    pub(crate) height: usize,
}

/// Width in columns, then height in rows, for a terminal that does not report them.
const WIDTH: usize = 80;
const HEIGHT: usize = 24;

impl Style {
    /// The style of a pipe or a file.
    pub(crate) const PLAIN: Style = Style {
        live: false,
        color: false,
        unicode: false,
        width: WIDTH,
        height: usize::MAX,
    };

    /// Returns the style of standard output.
    pub(crate) fn of_stdout() -> Style {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        if !std::io::stdout().is_terminal() || set("TERM").as_deref() == Some("dumb") {
            return Style::PLAIN;
        }
        let plain = set("NO_COLOR").is_some();
        let locale = set("LC_ALL")
            .or_else(|| set("LC_CTYPE"))
            .or_else(|| set("LANG"));
        let (width, height) = size();
        Style {
            live: true,
            color: !plain,
            unicode: !plain && is_utf8(&locale.unwrap_or_default()),
            width: width.unwrap_or(WIDTH).clamp(20, 400),
            height: height.unwrap_or(HEIGHT).clamp(4, 1000),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Formats a text as a heading.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Formats a text as good: something works.
    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Formats a text as a warning: something works with restrictions.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Formats a text as bad: something does not work.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Formats a text as less important.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// Returns columns, then rows; `None` for each that the terminal does not report.
fn size() -> (Option<usize>, Option<usize>) {
    let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) else {
        return (None, None);
    };
    let known = |n: u16| (n > 0).then_some(usize::from(n));
    (known(size.ws_col), known(size.ws_row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_that_are_utf8() {
        assert!(is_utf8("en_US.UTF-8") && is_utf8("C.utf8"));
        assert!(!is_utf8("C") && !is_utf8("") && !is_utf8("de_DE.ISO-8859-1"));
    }

    #[test]
    fn plain_text_has_no_control_sequences() {
        assert_eq!(Style::PLAIN.bold("x"), "x");
        let color = Style {
            color: true,
            ..Style::PLAIN
        };
        assert_eq!(color.red("x"), "\x1b[31mx\x1b[0m");
    }
}
