//! Values as they are written to a control group's files.
//!
//! Invariant: a value that the kernel accepts is accepted with the same meaning; one that the
//! kernel refuses is refused with the same error number. One word is ours: `node=N` in
//! memory.reclaim.

use engine::Swappiness;
use engine::units::{Bytes, Limit, PAGE_SIZE};
use engine::workingset_report::kstrtoull;
use host::manage::tenants::ReclaimFrom;
use rustix::io::Errno;

/// Returns the bytes of written data up to the first NUL: the kernel reads no further, and C
/// programs that write `sizeof` bytes of a text include its NUL.
pub(super) fn c_string(data: &[u8]) -> &[u8] {
    data.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Parses a limit: `max`, or a number of bytes, which is rounded down to pages.
pub(super) fn limit(text: &str) -> Result<Limit, Errno> {
    match text.trim() {
        "max" => Ok(Limit::Max),
        text => match Bytes(bytes(text)?).pages() {
            // A limit that no counter of pages can reach is no limit.
            pages if pages.0 >= PAGES_MAX => Ok(Limit::Max),
            pages => Ok(Limit::of(pages)),
        },
    }
}

/// The largest number of pages that the kernel's counters can have.
const PAGES_MAX: u64 = (i64::MAX as u64) / PAGE_SIZE;

/// Parses a size in bytes as the kernel's memparse does, but the whole text: digits (decimal,
/// hexadecimal after `0x`, octal after `0`), then optionally one of k, m, g, t, p, e.
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

/// Parses a pid as the kernel does in cgroup.procs (kstrtoint, any base). 0, in any spelling, is
/// the writing process `writer`; if 0 were passed to the kernel, it would mean this manager.
///
/// # Errors
/// EINVAL if the text is no pid; ESRCH if the writer has no pid here, because it is in another pid
/// namespace.
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

/// Parses a number without sign as the kernel does: hexadecimal after `0x`, octal after `0`, else
/// decimal.
fn number(digits: &str) -> Result<u64, Errno> {
    // Neither a sign nor a line break, which kstrtoull() accepts.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let number = kstrtoull(digits).ok().filter(|_| is_plain);
    number.ok_or(Errno::INVAL)
}

fn is_hex(text: &str) -> bool {
    text.starts_with("0x") || text.starts_with("0X")
}

/// Parses what is written to memory.reclaim: a size in bytes, and optionally `swappiness=N` or
/// `swappiness=max`, and `node=N`, a NUMA node's number.
pub(super) fn reclaim(text: &str) -> Result<(u64, ReclaimFrom), Errno> {
    let mut words = text.split_ascii_whitespace();
    let size = bytes(words.next().ok_or(Errno::INVAL)?)?;
    let mut from = ReclaimFrom::default();
    for word in words {
        match word.split_once('=').ok_or(Errno::INVAL)? {
            ("swappiness", "max") => from.swappiness = Some(Swappiness::ANON_ONLY),
            ("swappiness", value) => {
                let value = value.parse().map_err(|_| Errno::INVAL)?;
                let known = Swappiness::new(value).filter(|_| value <= Swappiness::MAX);
                from.swappiness = Some(known.ok_or(Errno::INVAL)?);
            }
            ("node", value) => from.node = Some(value.parse().map_err(|_| Errno::INVAL)?),
            _ => return Err(Errno::INVAL),
        }
    }
    Ok((size, from))
}

/// Formats a limit as the kernel does.
pub(super) fn print(limit: Limit) -> String {
    limit.file_text() + "\n"
}

#[cfg(test)]
mod tests {
    use engine::units::Pages;
    use proptest::prelude::*;

    use super::*;

    /// Regression: `00` was passed to the kernel unchanged, and moved the manager itself into the
    /// tenant.
    #[test]
    fn processes_are_parsed_as_in_the_kernel() {
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
    fn sizes_are_parsed_as_in_the_kernel() {
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
    fn reclaim_takes_a_size_a_swappiness_and_a_node() {
        let from = |swappiness, node| ReclaimFrom { swappiness, node };
        assert_eq!(reclaim("256m\n"), Ok((256 << 20, from(None, None))));
        let full = reclaim("1g swappiness=0").expect("both");
        assert_eq!(full, (1 << 30, from(Swappiness::new(0), None)));
        let most = reclaim("1g swappiness=max node=12\n").expect("all three");
        let anon = Some(Swappiness::ANON_ONLY);
        assert_eq!(most, (1 << 30, from(anon, Some(12))));
        for text in [
            "",
            "swappiness=1",
            // Only `max`, and no number above 200, means anonymous memory alone.
            "1g swappiness=201",
            "1g swappiness=202",
            "1g x",
            "1g swappiness=",
            "node=0",
            "1g node=",
            "1g node=-1",
            "1g node=N0",
            "1g node=4294967296",
        ] {
            assert_eq!(reclaim(text), Err(Errno::INVAL), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_them_panic(text in "\\PC{0,24}", affinity in "[0-9xX]{0,22}[kmgtpeE ]{0,2}((swappiness|node)=[0-9]{0,4})?") {
            for text in [&text, &affinity] {
                let _ = (limit(text), reclaim(text));
            }
        }

        #[test]
        fn a_printed_limit_is_parsed_again(pages in 0u64..PAGES_MAX) {
            let one = Limit::of(Pages(pages));
            prop_assert_eq!(limit(&print(one)), Ok(one));
        }
    }
}
