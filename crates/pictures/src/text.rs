//! Words of others on a page.
//!
//! Invariant: what comes out is text, never markup, and nothing in it hides or turns the direction of writing.

/// Draws nothing of its own: it moves the cursor, turns the direction, joins, or is invisible.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// As text of a page of HTML, in attributes too.
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

    #[test]
    fn nothing_of_it_is_markup() {
        assert_eq!(
            escaped("<script>\"'&\x1b\u{9b}\u{202e}\u{e4}"),
            "&lt;script&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}\u{fffd}\u{e4}"
        );
    }
}
