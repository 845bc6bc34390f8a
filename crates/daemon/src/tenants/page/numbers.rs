//! Numbers as the page writes them.

use engine::{Bytes, Millis};
use pictures::{escaped, per_cent};

/// A size, or nothing of nothing.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".to_owned(),
        bytes => Bytes(bytes).to_string(),
    }
}

/// A share in hundredths of a percent.
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

/// A part of a whole in whole percent, as markup.
pub(super) fn percent(part: u64, whole: u64) -> String {
    escaped(&per_cent(part, whole))
}

/// A count; nothing where it is not known.
pub(super) fn count(count: Option<u64>) -> String {
    match count {
        None => String::new(),
        Some(0) => "-".to_owned(),
        Some(count @ 0..100_000) => count.to_string(),
        Some(count @ 0..100_000_000) => format!("{}k", count / 1_000),
        Some(count) => format!("{}M", count / 1_000_000),
    }
}

/// A moment: how long ago it was, until the reader's own clock and zone replace it.
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
    fn numbers_are_short_and_do_not_lie_about_nothing() {
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
