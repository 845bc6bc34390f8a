//! The mappings of a process, read from `/proc/PID/maps`, and which of them are managed.
//!
//! Managed: private, anonymous, readable and writable, not executable, and neither the main
//! stack, nor a thread's stack, nor of ours. A thread's stack stays resident because the kernel
//! writes to it where it cannot wait (`pager.md`, danger 2).

use std::io;

/// One mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    /// First byte.
    pub(crate) start: u64,
    /// One past the last byte.
    pub(crate) end: u64,
    /// Readable, writable, executable.
    pub(crate) prot: [bool; 3],
    /// Private (copy on write).
    pub(crate) private: bool,
    /// Inode of the file, 0 for none.
    pub(crate) inode: u64,
    /// Path or bracketed name; empty for plain anonymous memory.
    pub(crate) name: String,
}

impl Mapping {
    /// Bytes.
    #[must_use]
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Private anonymous memory of the program's own, whatever its protection: all of it is
    /// registered, because parts that are registered never merge again with parts that are not.
    #[must_use]
    pub(crate) fn plain_anonymous(&self) -> bool {
        let named =
            self.name.is_empty() || self.name == "[heap]" || self.name.starts_with("[anon:");
        self.private && self.inode == 0 && named
    }

    /// A private anonymous mapping that can be moved out of: readable, writable, not executable.
    #[must_use]
    pub(crate) fn movable(&self) -> bool {
        self.plain_anonymous() && self.prot == [true, true, false]
    }

    /// A guard: anonymous and inaccessible.
    fn guard(&self) -> bool {
        self.plain_anonymous() && self.prot == [false; 3]
    }
}

/// Reads the mappings of `pid`, in order.
///
/// # Errors
/// `NotFound` or ESRCH if it is gone, EACCES without permission; `InvalidData` if a line is not of
/// the documented form.
pub(crate) fn read(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    text.lines()
        .map(|line| parse(line).ok_or_else(|| invalid(line)))
        .collect()
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("unexpected line in maps: {line}"),
    )
}

fn parse(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (
        u64::from_str_radix(start, 16).ok()?,
        u64::from_str_radix(end, 16).ok()?,
    );
    let mut fields = rest.splitn(5, ' ');
    let perms = fields.next()?.as_bytes();
    let inode = fields.nth(2)?.parse().ok()?;
    let name = fields.next().unwrap_or("").trim().to_owned();
    let &[r, w, x, p] = perms else { return None };
    (start < end).then_some(Mapping {
        start,
        end,
        prot: [r == b'r', w == b'w', x == b'x'],
        private: p == b'p',
        inode,
        name,
    })
}

/// A guarded mapping up to this size may be a thread's stack of unknown layout.
const STACK_MAX: u64 = 64 << 20;
/// What is kept around a thread's control block: below (static thread-local storage lies there)
/// and above.
const TCB_BELOW: u64 = 64 << 10;
const TCB_ABOVE: u64 = 32 << 10;
/// Guards of thread stacks are small.
const GUARD_MAX: u64 = 1 << 20;
/// Anonymous memory right after a file mapping is a library's or program's .bss; small ones hold
/// words that the kernel writes at thread exit (musl's thread list lock).
const BSS_MAX: u64 = 1 << 20;

/// A range of managed memory and the parts of it that must stay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Managed {
    /// First byte of the mapping.
    pub(crate) start: u64,
    /// One past the last byte.
    pub(crate) end: u64,
    /// Ranges inside that are never moved out.
    pub(crate) pinned: Vec<(u64, u64)>,
}

/// Where control blocks are and were, and how far above its guard a stack has its own.
///
/// The kernel writes to the control block of a thread that exits, where it cannot wait for a
/// keeper; so the block must be resident from before the thread is born. Thread libraries keep
/// stacks of dead threads for the next ones: a place that was a control block stays one as long
/// as it is mapped; and stacks of one size have theirs at one distance from the guard.
#[derive(Default, Debug)]
pub(crate) struct ControlBlocks {
    places: Vec<u64>,
    distances: Vec<u64>,
}

const DISTANCES_MAX: usize = 64;

impl ControlBlocks {
    /// Takes in the control blocks of the threads that live now.
    pub(crate) fn note(&mut self, maps: &[Mapping], live: &[u64]) {
        self.places
            .retain(|&a| find(maps, a).is_some_and(|i| maps[i].movable()));
        for &a in live {
            if let Err(i) = self.places.binary_search(&a) {
                self.places.insert(i, a);
            }
            let Some(i) = find(maps, a) else { continue };
            let distance = (a - maps[i].start) & !0xfff;
            let full = self.distances.len() >= DISTANCES_MAX;
            if guarded(maps, i) && !full && !self.distances.contains(&distance) {
                self.distances.push(distance);
            }
        }
    }

    /// The parts of mapping `i` that must stay; `None` if that cannot be told: all of it must.
    fn pinned(&self, maps: &[Mapping], i: usize) -> Option<Vec<(u64, u64)>> {
        let m = &maps[i];
        let low = self.places.partition_point(|&a| a < m.start);
        let high = self.places.partition_point(|&a| a < m.end);
        let mut blocks = self.places[low..high].to_vec();
        if guarded(maps, i) {
            if self.distances.is_empty() && blocks.is_empty() && m.len() <= STACK_MAX {
                return None;
            }
            blocks.extend(
                self.distances
                    .iter()
                    .map(|d| m.start + d)
                    .filter(|a| *a < m.end),
            );
        }
        let around = |a: &u64| {
            let page = a & !0xfff;
            (
                page.saturating_sub(TCB_BELOW).max(m.start),
                page.saturating_add(TCB_ABOVE).min(m.end),
            )
        };
        let mut pinned: Vec<(u64, u64)> = blocks.iter().map(around).collect();
        pinned.sort_unstable();
        Some(pinned)
    }
}

fn find(maps: &[Mapping], addr: u64) -> Option<usize> {
    let i = maps.partition_point(|m| m.end <= addr);
    maps.get(i).is_some_and(|m| m.start <= addr).then_some(i)
}

fn before(maps: &[Mapping], i: usize) -> Option<&Mapping> {
    maps.get(i.checked_sub(1)?)
        .filter(|b| b.end == maps[i].start)
}

fn guarded(maps: &[Mapping], i: usize) -> bool {
    before(maps, i).is_some_and(|b| b.guard() && b.len() <= GUARD_MAX)
}

/// A mapping to register, and the span of addresses around it in which there is nothing but such
/// mappings and free room: from the end of the last other mapping to the start of the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Registrable {
    /// The mapping: first byte, one past the last.
    pub(crate) seen: (u64, u64),
    /// The span.
    pub(crate) span: (u64, u64),
}

/// What to register.
#[must_use]
pub(crate) fn registrable(maps: &[Mapping], excluded: &[(u64, u64)]) -> Vec<Registrable> {
    let wall = |m: &Mapping| {
        !m.plain_anonymous() || excluded.iter().any(|&(s, e)| m.start < e && s < m.end)
    };
    let mut out: Vec<Registrable> = Vec::new();
    // What the current span has so far begins here.
    let (mut first, mut low) = (0, 0);
    for m in maps {
        if wall(m) {
            for r in &mut out[first..] {
                r.span.1 = m.start;
            }
            (first, low) = (out.len(), m.end);
        } else {
            let seen = (m.start, m.end);
            out.push(Registrable {
                seen,
                // Below the first wall there is nothing of interest but the mapping itself.
                span: (if low == 0 { m.start } else { low }, m.end),
            });
        }
    }
    // Above the last wall, too.
    let high = out[first..].last().map_or(0, |r| r.seen.1);
    for r in &mut out[first..] {
        r.span.1 = high;
    }
    out
}

/// Chooses what to manage. `excluded` are ranges of the keeper's own and of others that registered
/// them.
#[must_use]
pub(crate) fn managed(
    maps: &[Mapping],
    excluded: &[(u64, u64)],
    blocks: &ControlBlocks,
) -> Vec<Managed> {
    let mut out = Vec::new();
    for (i, m) in maps.iter().enumerate() {
        if !m.movable() || excluded.iter().any(|&(s, e)| m.start < e && s < m.end) {
            continue;
        }
        let bss = before(maps, i).is_some_and(|b| b.inode != 0) && m.len() <= BSS_MAX;
        if bss {
            continue;
        }
        if let Some(pinned) = blocks.pinned(maps, i) {
            out.push(Managed {
                start: m.start,
                end: m.end,
                pinned,
            });
        }
    }
    out
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64, perms: &str, inode: u64, name: &str) -> Mapping {
        let line = format!("{start:x}-{end:x} {perms} 00000000 00:00 {inode}      {name}");
        parse(&line).expect("a line")
    }

    fn chosen(maps: &[Mapping], live: &[u64]) -> Vec<(u64, u64)> {
        let mut blocks = ControlBlocks::default();
        blocks.note(maps, live);
        managed(maps, &[], &blocks)
            .iter()
            .map(|m| (m.start, m.end))
            .collect()
    }

    #[test]
    fn a_line_with_spaces_in_its_name_reads() {
        let m = map(0x1000, 0x3000, "rw-p", 7, "/tmp/a file (deleted)");
        assert_eq!(m.name, "/tmp/a file (deleted)");
        assert!(!m.movable() && m.inode == 7);
        assert!(parse("zzz").is_none() && parse("2000-1000 rw-p 0 0 0").is_none());
    }

    #[test]
    fn only_private_anonymous_writable_memory_is_managed() {
        let maps = [
            map(0x10000, 0x20000, "r-xp", 5, "/bin/x"),
            map(0x30000, 0x40000, "rw-p", 0, "[heap]"),
            map(0x50000, 0x60000, "rw-s", 0, ""),
            map(0x70000, 0x80000, "rw-p", 0, "[stack]"),
            map(0x90000, 0xa0000, "rwxp", 0, ""),
            map(0xb0000, 0xc0000, "r--p", 0, ""),
            map(0xd0000, 0xe0000, "rw-p", 0, "[anon:pool]"),
        ];
        assert_eq!(chosen(&maps, &[]), [(0x30000, 0x40000), (0xd0000, 0xe0000)]);
    }

    #[test]
    fn a_span_reaches_from_wall_to_wall() {
        let maps = [
            map(0x10000, 0x20000, "rw-p", 0, ""),
            map(0x30000, 0x40000, "r-xp", 5, "/bin/x"),
            map(0x50000, 0x60000, "rw-p", 0, ""),
            map(0x60000, 0x70000, "---p", 0, ""),
            map(0x90000, 0xa0000, "rw-s", 0, ""),
            map(0xb0000, 0xc0000, "rw-p", 0, ""),
            map(0xd0000, 0xe0000, "rw-p", 0, ""),
        ];
        let found: Vec<_> = registrable(&maps, &[(0xb0000, 0xb1000)])
            .iter()
            .map(|r| (r.seen, r.span))
            .collect();
        let expected = [
            ((0x10000, 0x20000), (0x10000, 0x30000)),
            ((0x50000, 0x60000), (0x40000, 0x90000)),
            ((0x60000, 0x70000), (0x40000, 0x90000)),
            ((0xd0000, 0xe0000), (0xc0000, 0xe0000)),
        ];
        assert_eq!(found, expected);
        assert_eq!(registrable(&[], &[]), []);
    }

    #[test]
    fn stacks_and_small_bss_stay() {
        let maps = [
            map(0x10000, 0x20000, "rw-p", 5, "/bin/x"),
            map(0x20000, 0x30000, "rw-p", 0, ""),
            map(0x40000, 0x41000, "---p", 0, ""),
            map(0x41000, 0x80_0000, "rw-p", 0, ""),
            map(0x100_0000, 0x110_0000, "rw-p", 0, ""),
        ];
        assert_eq!(chosen(&maps, &[]), [(0x100_0000, 0x110_0000)]);
    }

    #[test]
    fn control_blocks_are_pinned_alone_and_for_good() {
        let maps = [
            map(0x1000_0000, 0x1000_1000, "---p", 0, ""),
            map(0x1000_1000, 0x1100_0000, "rw-p", 0, ""),
            map(0x2000_0000, 0x2000_1000, "---p", 0, ""),
            map(0x2000_1000, 0x2100_0000, "rw-p", 0, ""),
        ];
        let mut blocks = ControlBlocks::default();
        blocks.note(&maps, &[0x1080_0740]);
        let around = |page: u64| (page - TCB_BELOW, page + TCB_ABOVE);
        for _ in 0..2 {
            let all = managed(&maps, &[], &blocks);
            assert_eq!(all[0].pinned.first(), Some(&around(0x1080_0000)));
            // A stack of the same size whose thread nobody has seen yet.
            assert_eq!(all[1].pinned, [around(0x2080_0000)]);
            // The thread is gone; its stack is kept for the next one.
            blocks.note(&maps, &[]);
        }
        blocks.note(&maps[2..], &[]);
        assert!(blocks.places.is_empty());
    }
}
