//! Numbers in the form in which the page shows them.

use engine::{Bytes, Millis};
use pictures::{escaped, per_cent};

/// Formats a size in bytes; empty for 0.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".to_owned(),
        bytes => Bytes(bytes).to_string(),
    }
}

/// Formats a share given in hundredths of a percent; empty if unknown.
pub(super) fn share(hundredths: Option<u32>) -> String {
    match hundredths {
        None => String::new(),
        Some(0) => "-".to_owned(),
        Some(hundredths) if hundredths < 1_000 => {
            format!("{}.{:02}%", hundredths / 100, hundredths % 100)
        }
        Some(hundredths) => format!("{}%", hundredths / 100),
    }
}

/// Formats `part` as a percentage of `whole`, as HTML.
pub(super) fn percent(part: u64, whole: u64) -> String {
    escaped(&per_cent(part, whole))
}

/// Formats a count; empty if unknown.
pub(super) fn count(count: Option<u64>) -> String {
    match count {
        None => String::new(),
        Some(0) => "-".to_owned(),
        Some(count @ 0..100_000) => count.to_string(),
        Some(count @ 0..100_000_000) => format!("{}k", count / 1_000),
        Some(count) => format!("{}M", count / 1_000_000),
    }
}

/// Formats how long ago a time was; the script replaces that by the time in the reader's time zone.
pub(super) fn time(at_ms: u64, now_ms: u64) -> String {
    let ago = now_ms.saturating_sub(at_ms);
    let ago = match ago {
        0..60_000 => ago / 1_000 * 1_000,
        60_000..3_600_000 => ago / 60_000 * 60_000,
        ago => ago / 3_600_000 * 3_600_000,
    };
    let text = match ago {
        0 => "now".to_owned(),
        ago => format!("{} ago", Millis(ago)),
    };
    format!("<time data-ms=\"{at_ms}\">{text}</time>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_small_ones_are_not_zero() {
        assert_eq!((size(0).as_str(), size(1).as_str()), ("-", "1 B"));
        assert_eq!(
            [
                share(None),
                share(Some(0)),
                share(Some(5)),
                share(Some(2_599))
            ],
            ["", "-", "0.05%", "25%"]
        );
        assert_eq!(percent(1, 900), "&lt;1%");
        assert_eq!(
            [
                count(Some(99_999)),
                count(Some(123_456)),
                count(Some(u64::MAX))
            ],
            ["99999", "123k", "18446744073709M"]
        );
        assert!(time(1_000, 3_700_000).contains(">1h ago<") && time(5, 0).contains(">now<"));
    }
}
