//! Makes text from outside safe: for a terminal, for an HTML page, for a cell of a spreadsheet.
//!
//! Invariant: the result is shown as text. It is never markup, a formula or a command to a
//! terminal. Nothing in it is invisible or changes the direction of writing.

/// Returns whether a character is not drawn: it moves the cursor, changes the direction of writing,
/// joins other characters, or is invisible.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text with `?` in place of each character that is not drawn ([`is_hidden`]).
#[must_use]
pub fn plain(text: &str) -> String {
    let shown = text.chars().map(|c| if is_hidden(c) { '?' } else { c });
    shown.collect()
}

/// Formats a field of comma-separated values (RFC 4180): in quotes if necessary, and always one
/// line.
///
/// A spreadsheet evaluates a cell that begins with `=`, `+`, `-` or `@`. So such a text gets a `'`
/// in front (OWASP, CSV Injection), unless it is a number. Some countries use `;` between cells, so
/// a text after a `;` is treated in the same way.
#[must_use]
pub fn csv_field(text: &str) -> String {
    let text = plain(text);
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    let text = if is_number { text } else { no_formula(&text) };
    let is_special = |c: char| matches!(c, '"' | ',' | ';' | '\'');
    if text.contains(is_special) || text.starts_with(' ') || text.ends_with(' ') {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

/// Returns whether a spreadsheet takes a text that begins with this character for a formula. The
/// full-width forms of these characters count, too.
fn begins_formula(c: char) -> bool {
    matches!(
        c,
        '=' | '+' | '-' | '@' | '\u{ff1d}' | '\u{ff0b}' | '\u{ff0d}' | '\u{ff20}'
    )
}

/// Returns the text with a `'` wherever a cell with a formula could begin.
fn no_formula(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    // A formula may follow quotes and spaces at the begin of a cell.
    let mut at_begin = true;
    for c in text.chars() {
        if at_begin && begins_formula(c) {
            out.push('\'');
        }
        at_begin = c == ';' || (at_begin && matches!(c, ' ' | '"' | '\u{a0}' | '\u{3000}'));
        out.push(c);
    }
    out
}

/// Escapes a text for HTML, also inside attributes.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_hidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a process named `=cmd|'/c calc'!A1` became a formula when a user opened the
    /// output of `report --csv` in a spreadsheet.
    #[test]
    fn no_cell_is_a_formula_and_numbers_stay_numbers() {
        for (text, field) in [
            ("=cmd|'/c calc'!A1", "\"'=cmd|'/c calc'!A1\""),
            ("+1+1", "\"'+1+1\""),
            ("-x", "\"'-x\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\u{ff1d}1", "\"'\u{ff1d}1\""),
            (" =1", "\" '=1\""),
            ("\"=1", "\"\"\"'=1\""),
            ("a;=1", "\"a;'=1\""),
            ("\t=1", "?=1"),
            ("\r=1", "?=1"),
            ("a-b=c", "a-b=c"),
            ("-5", "-5"),
            ("+1.5e-3", "+1.5e-3"),
            ("-inf", "\"'-inf\""),
            ("", ""),
        ] {
            assert_eq!(csv_field(text), field, "{text:?}");
        }
    }

    #[test]
    fn escaped_text_has_no_markup() {
        assert_eq!(
            escaped("<script>\"'&\x1b\u{9b}\u{202e}\u{e4}"),
            "&lt;script&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}\u{fffd}\u{e4}"
        );
    }
}
