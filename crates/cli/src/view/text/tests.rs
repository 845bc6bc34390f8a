//! Tests that hostile names do no harm.

use proptest::prelude::*;

use super::*;

#[test]
fn names_cannot_move_the_cursor_or_hide() {
    assert_eq!(cut("a\x1b[2Jb\n", 80, false), "a?[2Jb?");
    assert_eq!(plain("x\u{9b}2J\u{202e}y\u{200b}", true), "x?2J?y?");
    assert_eq!(plain("caf\u{e9}", false), "caf?");
    assert_eq!(plain("caf\u{e9}", true), "caf\u{e9}");
}

#[test]
fn a_cut_says_so() {
    assert_eq!(cut("abcdef", 5, false), "ab...");
    assert_eq!(cut("abcdef", 5, true), "abcd\u{2026}");
    assert_eq!(cut("abcdef", 2, false), "..");
    assert_eq!(cut_front("/a/b/c/service", 10, false), "...service");
    assert_eq!(cut_front("/a/service", 10, false), "/a/service");
    assert_eq!(
        cut("\u{6f22}\u{5b57}\u{6f22}", 5, true),
        "\u{6f22}\u{5b57}\u{2026}"
    );
}

#[test]
fn text_breaks_at_spaces() {
    assert_eq!(wrap("one two three", 7, true), ["one two", "three"]);
    assert_eq!(wrap("abcdefgh ij", 4, true), ["abcd", "efgh", "ij"]);
    assert_eq!(wrap("", 4, true), [""]);
}

#[test]
fn markup_and_escapes_are_text() {
    assert_eq!(
        escaped("<script>\"'&\x1b\u{9b}"),
        "&lt;script&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}"
    );
    assert_eq!(csv_field("a,\"b\"\n"), "\"a,\"\"b\"\"?\"");
    let line = json_line(&"\x1b[2J\u{9b}\u{202e}\u{e0001}\n\u{7f}");
    assert!(line.is_ascii() && !line.contains('\x1b'), "{line}");
    let back: String = serde_json::from_str(&line).expect("JSON");
    assert_eq!(back, "\x1b[2J\u{9b}\u{202e}\u{e0001}\n\u{7f}");
}

#[test]
fn sizes_in_four_columns() {
    for (bytes, want) in [
        (0, "0"),
        (999, "999"),
        (1000, "1K"),
        (4096, "4K"),
        (1_300_000_000, "1.2G"),
        (9_990 << 10, "9.8M"),
        (999 << 20, "999M"),
        (1023 << 20, "1G"),
        (u64::MAX, "16E"),
    ] {
        assert_eq!(short_size(bytes), want, "{bytes}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_fits_fits(text in "\\PC*|.{0,60}", width in 0usize..40, unicode: bool) {
        for cut in [cut(&text, width, unicode), cut_front(&text, width, unicode)] {
            prop_assert!(columns(&cut) <= width, "{cut:?}");
            prop_assert!(!cut.chars().any(char::is_control));
            prop_assert!(unicode || cut.is_ascii());
        }
        for line in wrap(&text, width, unicode) {
            prop_assert!(columns(&line) <= width.max(2), "{line:?}");
        }
    }

    #[test]
    fn json_stays_the_same_value(text: String) {
        let back: String = serde_json::from_str(&json_line(&text)).expect("JSON");
        prop_assert_eq!(back, text);
    }

    #[test]
    fn a_short_size_is_short(bytes: u64) {
        prop_assert!(short_size(bytes).len() <= 4);
    }
}
