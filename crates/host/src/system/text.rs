//! Parses the kernel's texts: numbers, lines, `Key: value kB`, and names, which it makes safe for a
//! terminal.
//!
//! Invariant: no bytes make a parser panic; a number that does not fit its type is not a number.

/// Returns the lines that are not empty, without line ends. The last one need not have a line end.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

/// Returns the words of a line, which are separated by blanks and tabs.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| b == b' ' || b == b'\t')
        .filter(|word| !word.is_empty())
}

/// Parses a decimal number; `None` if the word has anything but digits.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |sum, &b| {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Parses a decimal number of at most 32 bits; `None` if the word has anything but digits.
pub(crate) fn number32(word: &[u8]) -> Option<u32> {
    number(word).and_then(|n| u32::try_from(n).ok())
}

/// Parses a hexadecimal number of at most 16 digits; `None` if the word has anything but digits.
pub(crate) fn hex(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    word.iter().try_fold(0u64, |sum, &b| {
        let digit = match b {
            b'0'..=b'9' => b - b'0',
            b'a'..=b'f' => b - b'a' + 10,
            b'A'..=b'F' => b - b'A' + 10,
            _ => return None,
        };
        Some(sum << 4 | u64::from(digit))
    })
}

/// Splits `Key:   value` into key and value.
pub(crate) fn key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&b| b == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

/// Parses `1234 kB`; returns bytes. The kernel's kB are KiB.
pub(crate) fn kib(value: &[u8]) -> Option<u64> {
    let mut words = words(value);
    let n = number(words.next()?)?;
    (words.next() == Some(b"kB")).then(|| n.saturating_mul(1024))
}

/// Returns the number in the line `name number` of a text such as `memory.stat`.
pub(crate) fn flat(text: &[u8], name: &str) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        (words.next() == Some(name.as_bytes())).then(|| number(words.next()?))?
    })
}

/// Replaces the octal escapes (`\040`) of mountinfo and swaps by their bytes. All other text stays
/// as it is.
pub(crate) fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let octal = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        out.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    out
}

/// Makes text safe for a terminal. Invalid UTF-8 is replaced; control characters and characters
/// that change the direction of writing are escaped. Processes choose their own names, and these
/// appear on users' screens.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_cannot_reach_the_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\n\xff"), "a\\u{1b}[2Jb\\n\u{fffd}");
        assert_eq!(printable("x\u{202e}y".as_bytes()), "x\\u{202e}y");
        assert_eq!(printable("größe 日本".as_bytes()), "größe 日本");
    }

    #[test]
    fn escapes_come_undone() {
        assert_eq!(unescape(br"/a\040b\134\012"), b"/a b\\\n");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
        assert_eq!(unescape(br"\777"), br"\777");
    }

    #[test]
    fn flat_files() {
        assert_eq!(flat(b"cache 1\ntotal_cache 22\n", "total_cache"), Some(22));
        assert_eq!(flat(b"cache\ntotal", "cache"), None);
        assert_eq!(kib(b"12 kB"), Some(12 << 10));
        assert_eq!(kib(b"12"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>()) {
            let _ = (number(&bytes), hex(&bytes), kib(&bytes), flat(&bytes, "x"), key(&bytes));
            prop_assert!(unescape(&bytes).len() <= bytes.len());
            prop_assert!(!printable(&bytes).chars().any(char::is_control));
        }

        #[test]
        fn numbers_come_back(n in any::<u64>()) {
            prop_assert_eq!(number(n.to_string().as_bytes()), Some(n));
            prop_assert_eq!(hex(format!("{n:x}").as_bytes()), Some(n));
            prop_assert_eq!(number(format!("{n}0000000000").as_bytes()).is_some(), n <= 1_844_674_407);
        }
    }
}
