//! Makes texts of other processes and users safe to show: command lines, paths, names of users.
//!
//! Invariant: no text returned from here moves a cursor, changes a colour, reverses the direction
//! of writing, is invisible, or is markup. A text that was cut to a number of columns is at most
//! that wide.

use pictures::is_hidden;
pub(crate) use pictures::{csv_field, escaped};

/// Returns the text with `?` in place of each character that would control a terminal and, without
/// `unicode`, of each character beyond ASCII.
pub(crate) fn plain(text: &str, unicode: bool) -> String {
    let shown = |c: char| match c {
        c if is_hidden(c) || (!unicode && !c.is_ascii()) => '?',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Returns an upper bound of a character's width in columns. Two, unless the character is certainly
/// narrow: a line that is too short does no harm, a line that is too long breaks the screen.
fn columns_of(c: char) -> usize {
    match c {
        c if c < '\u{1100}' => 1,
        '\u{1e00}'..='\u{2319}' | '\u{2500}'..='\u{259f}' => 1,
        _ => 2,
    }
}

/// Returns an upper bound of a text's width in columns.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns the text made safe ([`plain`]) and cut at its end to at most `width` columns.
pub(crate) fn cut(text: &str, width: usize, unicode: bool) -> String {
    let shown = plain(text, unicode);
    if columns(&shown) <= width {
        return shown;
    }
    let mark = mark(width, unicode);
    start(&shown, width.saturating_sub(columns(mark))).to_owned() + mark
}

/// Returns the text made safe ([`plain`]) and cut at its start to at most `width` columns, as the
/// end of a path is its most useful part.
pub(crate) fn cut_front(text: &str, width: usize, unicode: bool) -> String {
    let shown = plain(text, unicode);
    if columns(&shown) <= width {
        return shown;
    }
    let mark = mark(width, unicode);
    let room = width.saturating_sub(columns(mark));
    let mut used = 0;
    let kept = shown.chars().rev().take_while(|&c| {
        used += columns_of(c);
        used <= room
    });
    let kept: Vec<char> = kept.collect();
    mark.to_owned() + &kept.into_iter().rev().collect::<String>()
}

/// Returns the characters that take the place of the part that was cut off.
fn mark(width: usize, unicode: bool) -> &'static str {
    match width {
        0 => "",
        _ if unicode => "\u{2026}",
        1 => ".",
        2 => "..",
        _ => "...",
    }
}

/// Returns the longest beginning of the text that fits into `width` columns.
fn start(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += columns_of(c);
        if used > width {
            return &text[..at];
        }
    }
    text
}

/// Splits `text` into lines of at most `width` columns, at spaces if possible. Returns at least one
/// line.
pub(crate) fn wrap(text: &str, width: usize, unicode: bool) -> Vec<String> {
    let text = plain(text, unicode);
    // A character may be two columns wide; it would never fit into fewer columns.
    let width = width.max(2);
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while columns(rest) > width {
        let head = start(rest, width);
        // The space after the last word may be just beyond the end of the line.
        let whole = rest[head.len()..].starts_with(' ');
        let at = match head.rfind(' ') {
            _ if whole => head.len(),
            Some(at) if at > 0 => at,
            _ => head.len(),
        };
        lines.push(rest[..at].trim_end().to_owned());
        rest = rest[at..].trim_start();
    }
    lines.push(rest.to_owned());
    lines
}

/// Returns one line of JSON. Characters that would control a terminal are escaped, even where JSON
/// does not require that.
pub(crate) fn json_line(value: &impl serde::Serialize) -> String {
    safe_json(&serde_json::to_string(value).unwrap_or_default())
}

/// Returns indented JSON, with the same characters escaped as by [`json_line`].
pub(crate) fn json_lines(value: &impl serde::Serialize) -> String {
    safe_json(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Escapes characters that would control a terminal. In JSON they occur only inside strings, apart
/// from the line ends of the indentation.
fn safe_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if c != '\n' && is_hidden(c) {
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Formats a size in at most four columns, for tables: `0`, `4K`, `1.2G`, `999T`.
pub(crate) fn short_size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut unit = 0;
    // Uses the next unit as long as the number would be printed as 1000 or more.
    while unit + 1 < UNITS.len() && rounded(bytes, unit, 1) >= 1000 {
        unit += 1;
    }
    let tenths = rounded(bytes, unit, 10);
    if unit > 0 && tenths < 100 && !tenths.is_multiple_of(10) {
        return format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit]);
    }
    format!("{}{}", rounded(bytes, unit, 1), UNITS[unit])
}

/// Returns `bytes / 1024^unit * parts`, rounded to the nearest; `parts` is 1, or 10 for tenths.
fn rounded(bytes: u64, unit: usize, parts: u128) -> u128 {
    let unit_bytes = 1u128 << (10 * unit);
    (u128::from(bytes) * parts + unit_bytes / 2) / unit_bytes
}

#[cfg(test)]
mod tests;
