//! Parsers of what users type: exact values and exact messages, and no panic for any text.

use alloc::string::ToString;
use proptest::prelude::*;

use super::*;

fn bytes(text: &str) -> Result<u64, String> {
    super::bytes(text).map(|b| b.0).map_err(|e| e.to_string())
}

fn millis(text: &str) -> Result<u64, String> {
    super::millis(text).map(|m| m.0).map_err(|e| e.to_string())
}

#[test]
fn sizes_people_write() {
    for (text, want) in [
        ("4096", 4096),
        ("0", 0),
        ("512M", 512 << 20),
        ("2G", 2 << 30),
        ("2g", 2 << 30),
        ("1.5G", 3 << 29),
        ("64KiB", 64 << 10),
        ("64 KB", 64 << 10),
        ("100b", 100),
        ("0.5K", 512),
        ("1T", 1 << 40),
        (" 7M ", 7 << 20),
        ("16777215T", 16_777_215 << 40),
    ] {
        assert_eq!(bytes(text), Ok(want), "{text}");
    }
}

#[test]
fn sizes_people_should_not_write() {
    for (text, part) in [
        ("", "empty"),
        ("   ", "empty"),
        ("-1", "never negative"),
        ("-12Q", "never negative"),
        ("+5M", "no sign"),
        ("12Q", "unknown suffix `Q`"),
        ("12MM", "unknown suffix `MM`"),
        ("M", "does not start with a number"),
        ("abc", "does not start with a number"),
        (".5G", "does not start with a number"),
        ("1.G", "does not start with a number"),
        ("1.2.3G", "does not start with a number"),
        ("1.5", "fraction of a byte"),
        ("16777216T", "more than 64 bits"),
        ("99999999999999999999", "more than 64 bits"),
        ("999999999999999999999", "too many digits"),
        ("50%", "unknown suffix `%`"),
        ("５１２M", "does not start with a number"),
    ] {
        let message = bytes(text).expect_err(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn times_people_write_and_should_not() {
    for (text, want) in [
        ("500ms", 500),
        ("10s", 10_000),
        ("2m", 120_000),
        ("2min", 120_000),
        ("1h", 3_600_000),
        ("1.5s", 1_500),
        ("0", 0),
        ("1d", 86_400_000),
    ] {
        assert_eq!(millis(text), Ok(want), "{text}");
    }
    for (text, part) in [
        ("10", "has no unit"),
        ("10x", "unknown suffix `x`"),
        ("-1s", "never negative"),
        ("", "empty"),
        ("99999999999999999999h", "more than 64 bits"),
    ] {
        let message = millis(text).expect_err(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

proptest! {
    #[test]
    fn whole_sizes_parse_exactly(n in 0u64..(1 << 24), unit in 0usize..5) {
        let suffix = ["", "K", "M", "G", "T"][unit];
        prop_assert_eq!(bytes(&format!("{n}{suffix}")), Ok(n << (10 * unit)));
    }

    #[test]
    fn fractions_are_cut_down_never_up(whole in 0u64..1000, thousandths in 0u64..1000) {
        let parsed = bytes(&format!("{whole}.{thousandths:03}M")).expect("a size");
        let exact = u128::from(whole * 1000 + thousandths) * (1 << 20);
        prop_assert!(u128::from(parsed) * 1000 <= exact);
        prop_assert!((u128::from(parsed) + 1) * 1000 > exact);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in ".{0,24}") {
        let _ = bytes(&text);
        let _ = millis(&text);
        let _ = share(&text);
    }
}
