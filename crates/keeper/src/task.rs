//! What /proc says of the threads that are to be halted: names in a folder, fields of `stat`.
//!
//! Invariant: whatever the bytes, nothing is read outside them, and what is not understood is `None`.

/// The longest path that [`Path`] is made of.
const PATH_MAX: usize = 48;
/// Bytes of a directory record before its name (getdents64(2)).
const RECORD_HEAD: usize = 19;

/// A number in decimal digits, as in the name of a process's folder.
#[must_use]
pub fn number(text: &[u8]) -> Option<u64> {
    let digit = |value: u64, c: &u8| {
        let digit = c.is_ascii_digit().then(|| u64::from(c - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0, digit)
}

/// The names that are numbers in what getdents64(2) gave.
pub fn numbers(records: &[u8]) -> impl Iterator<Item = u64> {
    let mut rest = records;
    let names = core::iter::from_fn(move || {
        let len = usize::from(u16::from_le_bytes([*rest.get(16)?, *rest.get(17)?]));
        let record = rest.get(..len)?;
        let name = record.get(RECORD_HEAD..)?;
        rest = &rest[len..];
        let end = name.iter().position(|c| *c == 0).unwrap_or(name.len());
        Some(&name[..end])
    });
    names.filter_map(number)
}

/// The fields of a `stat` file behind the name, which may hold anything: the third first.
fn fields(stat: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let name_end = stat.iter().rposition(|c| *c == b')')?;
    Some(stat.get(name_end + 2..)?.split(|c| *c == b' '))
}

/// The name of a thread, by its `stat` file.
#[must_use]
pub fn name(stat: &[u8]) -> Option<&[u8]> {
    let begin = stat.iter().position(|c| *c == b'(')?;
    let end = stat.iter().rposition(|c| *c == b')')?;
    stat.get(begin + 1..end)
}

/// Whether a thread runs, or waits for something that no signal interrupts: as one does that has
/// announced a change of the address space.
#[must_use]
pub fn is_busy(stat: &[u8]) -> bool {
    let state = fields(stat).and_then(|mut fields| fields.next());
    matches!(state, Some(b"R" | b"D"))
}

/// The address of the bottom of a process's stack: chosen at random at exec, and the same for all
/// that were forked since.
#[must_use]
pub fn start_stack(stat: &[u8]) -> Option<u64> {
    const FIELD: usize = 28;
    number(fields(stat)?.nth(FIELD - 3)?)
}

/// A path below /proc with numbers in it, ended by a zero.
pub struct Path {
    bytes: [u8; PATH_MAX],
    len: usize,
}

impl Path {
    /// `/proc`.
    #[must_use]
    pub fn proc() -> Path {
        let path = Path {
            bytes: [0; PATH_MAX],
            len: 0,
        };
        path.then("/proc")
    }

    /// With a name or more behind it.
    #[must_use]
    pub fn then(mut self, text: &str) -> Path {
        for byte in text.bytes() {
            self.push(byte);
        }
        self
    }

    /// With `/` and a number behind it.
    #[must_use]
    pub fn number(mut self, value: u64) -> Path {
        self.push(b'/');
        let digits = value.checked_ilog10().unwrap_or(0);
        for place in (0..=digits).rev() {
            let digit = value / 10u64.pow(place) % 10;
            self.push(b'0' + u8::try_from(digit).unwrap_or(0));
        }
        self
    }

    fn push(&mut self, byte: u8) {
        // The last byte stays zero.
        if self.len + 1 < PATH_MAX {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
    }

    /// The path and the zero that ends it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..=self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> Vec<u8> {
        let len = (RECORD_HEAD + name.len() + 1).next_multiple_of(8);
        let mut out = vec![0; len];
        out[16..18].copy_from_slice(&u16::try_from(len).unwrap().to_le_bytes());
        out[RECORD_HEAD..RECORD_HEAD + name.len()].copy_from_slice(name.as_bytes());
        out
    }

    #[test]
    fn names_that_are_numbers_are_found() {
        let records: Vec<u8> = [".", "..", "17", "self", "4194304", "9x", ""]
            .iter()
            .flat_map(|name| record(name))
            .collect();
        assert_eq!(numbers(&records).collect::<Vec<_>>(), [17, 4_194_304]);
    }

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let stat = b"12 (a) R 1 (b) D 1 12 12 0";
        assert_eq!(name(stat), Some(&b"a) R 1 (b"[..]));
        assert!(is_busy(stat));
        assert!(!is_busy(b"12 (R) S 1 12"));
        assert!(!is_busy(b""));
    }

    #[test]
    fn the_stack_is_that_of_this_process() {
        let stat = std::fs::read("/proc/self/stat").unwrap();
        let stack = start_stack(&stat).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let range = line.split(' ').next().unwrap().split_once('-').unwrap();
        let bound = |text| u64::from_str_radix(text, 16).unwrap();
        assert!((bound(range.0)..bound(range.1)).contains(&stack));
    }

    #[test]
    fn paths_are_ended() {
        let path = Path::proc().number(0).then("/task").number(98_760);
        assert_eq!(path.bytes(), b"/proc/0/task/98760\0");
        let long = Path::proc().then(&"x".repeat(100));
        assert_eq!(long.bytes().len(), PATH_MAX);
        assert_eq!(long.bytes().last(), Some(&0));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_looked_at_safely(bytes: Vec<u8>) {
            numbers(&bytes).for_each(drop);
            let _ = (name(&bytes), is_busy(&bytes), start_stack(&bytes), number(&bytes));
        }
    }
}
