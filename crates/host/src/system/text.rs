//! Reading the kernel's texts: numbers, lines, `Key: value kB`, and names as a terminal may show them.
//!
//! Invariant: nothing panics on any bytes; a number that does not fit is no number.

/// Lines without their ends; an unfinished last line counts.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

/// The words of a line, apart by blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| b == b' ' || b == b'\t')
        .filter(|word| !word.is_empty())
}

/// A decimal number and nothing else.
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

/// A decimal number of 32 bits and nothing else.
pub(crate) fn number32(word: &[u8]) -> Option<u32> {
    number(word).and_then(|n| u32::try_from(n).ok())
}

/// A hexadecimal number, small letters or large, and nothing else.
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

/// `Key:   value` taken apart.
pub(crate) fn key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&b| b == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

/// `1234 kB` in bytes. The kernel's kB are KiB.
pub(crate) fn kib(value: &[u8]) -> Option<u64> {
    let mut words = words(value);
    let n = number(words.next()?)?;
    (words.next() == Some(b"kB")).then(|| n.saturating_mul(1024))
}

/// `name value` of flat files such as `memory.stat`; 0 counts as found.
pub(crate) fn flat(text: &[u8], name: &str) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        (words.next() == Some(name.as_bytes())).then(|| number(words.next()?))?
    })
}

/// Undoes the octal escapes (`\040`) of mountinfo and swaps. What is no escape stays as it is.
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

/// As a terminal may show it: other encodings replaced, control characters and those that turn the
/// direction of writing escaped. Processes choose their own names, and reports end up on screens.
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
