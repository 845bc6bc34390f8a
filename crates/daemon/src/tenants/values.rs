//! Values as they are written to a control group's files.
//!
//! Invariant: what the kernel takes is taken with the same meaning, what it refuses is refused with the same number.

use engine::Swappiness;
use engine::units::{Bytes, Limit};
use rustix::io::Errno;

/// What the kernel reads of what is written: a text to its first NUL, as `sizeof` of one writes it.
pub(super) fn c_string(data: &[u8]) -> &[u8] {
    data.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A limit: `max`, or bytes, rounded down to pages.
pub(super) fn limit(text: &str) -> Result<Limit, Errno> {
    match text.trim() {
        "max" => Ok(Limit::Max),
        text => match bytes(text)? / 4096 {
            // So many pages as no counter holds are no limit.
            pages if pages >= PAGES_MAX => Ok(Limit::Max),
            pages => Ok(Limit::Bytes(Bytes(pages * 4096))),
        },
    }
}

/// The kernel's largest count of pages.
const PAGES_MAX: u64 = (i64::MAX as u64) / 4096;

/// As the kernel's memparse reads a size, the whole text: digits (or `0x` and hexadecimal ones, or octal after a 0) and
/// one of k, m, g, t, p, e.
pub(super) fn bytes(text: &str) -> Result<u64, Errno> {
    let text = text.trim();
    let (digits, unit) = match text.chars().last() {
        Some(last)
            if !last.is_ascii_hexdigit() || (last.eq_ignore_ascii_case(&'e') && !is_hex(text)) =>
        {
            text.split_at(text.len() - last.len_utf8())
        }
        _ => (text, ""),
    };
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        "e" => 60,
        _ => return Err(Errno::INVAL),
    };
    Ok(number(digits)?.saturating_mul(1 << shift))
}

/// A process as the kernel reads it from cgroup.procs (kstrtoint, any base), for who writes: 0, however it is spelled, is the writer. To the
/// kernel that would be us, who write it there.
///
/// # Errors
/// EINVAL for what is no number of a process; ESRCH where the writer has none that we know, as from another pid namespace.
pub(super) fn process(text: &str, writer: u32) -> Result<u32, Errno> {
    let text = text.trim();
    let (is_below, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let pid = i32::try_from(number(digits)?).map_err(|_| Errno::INVAL)?;
    match (pid, writer) {
        (0, 0) => Err(Errno::SRCH),
        (0, writer) => Ok(writer),
        (pid, _) if !is_below => Ok(pid.unsigned_abs()),
        _ => Err(Errno::INVAL),
    }
}

/// Digits in the base that they begin with, as the kernel reads them: `0x`, a 0, or neither; no sign.
fn number(digits: &str) -> Result<u64, Errno> {
    let (digits, base) = match digits {
        digits if is_hex(digits) => (&digits[2..], 16),
        digits if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        digits => (digits, 10),
    };
    // What from_str_radix takes beyond digits is a sign.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits, base).ok();
    number.filter(|_| is_number).ok_or(Errno::INVAL)
}

fn is_hex(text: &str) -> bool {
    text.starts_with("0x") || text.starts_with("0X")
}

/// What memory.reclaim takes: a size, and `swappiness=N` or `swappiness=max` if wanted.
pub(super) fn reclaim(text: &str) -> Result<(u64, Option<Swappiness>), Errno> {
    let mut words = text.split_ascii_whitespace();
    let size = bytes(words.next().ok_or(Errno::INVAL)?)?;
    let mut swappiness = None;
    for word in words {
        let value = word.strip_prefix("swappiness=").ok_or(Errno::INVAL)?;
        swappiness = Some(match value {
            "max" => Swappiness::ANON_ONLY,
            value => {
                let value = value.parse().map_err(|_| Errno::INVAL)?;
                let known = Swappiness::new(value).filter(|_| value <= Swappiness::MAX);
                known.ok_or(Errno::INVAL)?
            }
        });
    }
    Ok((size, swappiness))
}

/// As the kernel prints a limit.
pub(super) fn print(limit: Limit) -> String {
    match limit {
        Limit::Max => "max\n".to_owned(),
        Limit::Bytes(bytes) => format!("{}\n", bytes.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// (The story: `00` went to the kernel as it was, and moved the manager itself into the tenant.)
    #[test]
    fn processes_are_read_as_the_kernel_reads_them() {
        for (text, pid) in [
            ("12\n", Ok(12)),
            ("+12", Ok(12)),
            ("0x1f", Ok(31)),
            ("017", Ok(15)),
            ("0", Ok(7)),
            ("00", Ok(7)),
            ("+0", Ok(7)),
            ("-0", Ok(7)),
            ("0x0", Ok(7)),
            ("-1", Err(Errno::INVAL)),
            ("08", Err(Errno::INVAL)),
            ("", Err(Errno::INVAL)),
            ("1 2", Err(Errno::INVAL)),
            ("+-1", Err(Errno::INVAL)),
            ("2147483648", Err(Errno::INVAL)),
        ] {
            assert_eq!(process(text, 7), pid, "{text:?}");
        }
        assert_eq!(process("0", 0), Err(Errno::SRCH));
    }

    #[test]
    fn a_nul_ends_a_text() {
        for (data, text) in [
            ("64m\0", "64m"),
            ("64m\0x", "64m"),
            ("64m", "64m"),
            ("\0", ""),
            ("", ""),
        ] {
            assert_eq!(c_string(data.as_bytes()), text.as_bytes(), "{data:?}");
        }
    }

    #[test]
    fn sizes_are_read_as_the_kernel_reads_them() {
        for (text, size) in [
            ("0", 0),
            ("256m\n", 256 << 20),
            ("1G", 1 << 30),
            ("0x1000", 4096),
            ("010", 8),
            ("2e", 2 << 60),
            (" 12k ", 12 << 10),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text:?}");
        }
        for text in ["", "m", "1x", "-1", "1 2", "0x", "1.5g", "max", "08"] {
            assert_eq!(bytes(text), Err(Errno::INVAL), "{text:?}");
        }
        assert_eq!(limit("max\n"), Ok(Limit::Max));
        assert_eq!(limit("4097"), Ok(Limit::Bytes(Bytes(4096))));
        assert_eq!(limit("16e"), Ok(Limit::Max));
    }

    #[test]
    fn reclaim_takes_a_size_and_a_swappiness() {
        assert_eq!(reclaim("256m\n"), Ok((256 << 20, None)));
        let full = reclaim("1g swappiness=0").expect("both");
        assert_eq!(full, (1 << 30, Swappiness::new(0)));
        let most = reclaim("1g swappiness=max").expect("both");
        assert_eq!(most.1, Some(Swappiness::ANON_ONLY));
        for text in [
            "",
            "swappiness=1",
            // `max` alone stands for anonymous memory alone.
            "1g swappiness=201",
            "1g swappiness=202",
            "1g x",
            "1g swappiness=",
        ] {
            assert_eq!(reclaim(text), Err(Errno::INVAL), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_them_panic(text in "\\PC{0,24}", near in "[0-9xX]{0,22}[kmgtpeE ]{0,2}(swappiness=[0-9]{0,4})?") {
            for text in [&text, &near] {
                let _ = (limit(text), reclaim(text));
            }
        }

        #[test]
        fn a_printed_limit_is_read_again(pages in 0u64..PAGES_MAX) {
            let one = Limit::Bytes(Bytes(pages * 4096));
            prop_assert_eq!(limit(&print(one)), Ok(one));
        }
    }
}
