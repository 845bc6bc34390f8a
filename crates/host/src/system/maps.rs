//! The mappings of a process: `/proc/PID/maps` (proc_pid_maps(5)).
//!
//! Invariant: for any text, mappings are in ascending order, do not overlap, and none is empty. A
//! process can change its mappings between two reads of the file. So the start of a mapping that
//! overlaps the mapping before it is cut off.

use std::ops::Range;

use pagetables::{Device, Mapping, MappingKind as Kind};

use super::error::Error;
use super::filesystems::Filesystems;
use super::proc::Proc;
use super::text::{hex, lines, number};

/// The parsed text of a maps file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parsed {
    /// The mappings, in ascending order.
    pub mappings: Vec<Mapping>,
    /// The range of bytes in the text that holds the name of each mapping; empty without a name.
    pub names: Vec<Range<usize>>,
    /// Device numbers that are not known; one of them may be a tmpfs of another mount namespace.
    /// Mappings of these devices have the kind `File`.
    pub unknown: Vec<Device>,
}

/// The mappings of a process, with the text from which they were parsed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Maps {
    /// The mappings, in ascending order.
    pub mappings: Vec<Mapping>,
    names: Vec<Range<usize>>,
    text: Vec<u8>,
}

impl Maps {
    /// Returns mappings without names.
    #[must_use]
    pub fn nameless(mappings: Vec<Mapping>) -> Maps {
        Maps {
            names: vec![0..0; mappings.len()],
            mappings,
            text: Vec::new(),
        }
    }

    /// Takes the advice of the program from `found`, the same mappings as read without a lock. A
    /// mapping that equals none of these in its range has no advice.
    pub(crate) fn advised_as(mut self, found: &[Mapping]) -> Maps {
        for mapping in &mut self.mappings {
            let at = found.binary_search_by_key(&mapping.start, |one| one.start);
            let same = at.ok().filter(|at| found[*at].end == mapping.end);
            mapping.is_advised = same.is_some_and(|at| found[at].is_advised);
        }
        self
    }

    /// Returns each mapping with its name as the kernel writes it: a path, a word in brackets, or
    /// nothing.
    pub fn named(&self) -> impl Iterator<Item = (&Mapping, &[u8])> {
        let names = self.names.iter().map(|name| &self.text[name.clone()]);
        self.mappings.iter().zip(names)
    }
}

/// Parses the text of a maps file. Lines without the documented format are skipped.
#[must_use]
pub fn parse(text: &[u8], filesystems: &Filesystems) -> Parsed {
    // A line of this text has about 80 bytes, so this capacity suffices for most texts.
    let mut parsed = Parsed {
        mappings: Vec::with_capacity(text.len() / 64),
        names: Vec::with_capacity(text.len() / 64),
        unknown: Vec::new(),
    };
    let mut before = 0;
    for (mut mapping, name) in lines(text).filter_map(parse_line) {
        if mapping.end <= before {
            continue;
        }
        let cut = before.saturating_sub(mapping.start);
        mapping.start += cut;
        mapping.offset = mapping.offset.saturating_add(cut);
        before = mapping.end;
        mapping.kind = classify(&mapping, name, filesystems).unwrap_or_else(|| {
            if !parsed.unknown.contains(&mapping.device) {
                parsed.unknown.push(mapping.device);
            }
            Kind::File
        });
        parsed.mappings.push(mapping);
        let at = match name {
            [] => 0,
            name => name.as_ptr().addr() - text.as_ptr().addr(),
        };
        parsed.names.push(at..at + name.len());
    }
    parsed
}

/// Parses a line `start-end perms offset major:minor inode    name` into the mapping and its name.
/// The mapping's kind is set by [`classify`] later.
pub(crate) fn parse_line(line: &[u8]) -> Option<(Mapping, &[u8])> {
    let (start, rest) = split(line, b'-')?;
    let (end, rest) = split(rest, b' ')?;
    let (perms, rest) = split(rest, b' ')?;
    let (offset, rest) = split(rest, b' ')?;
    let (major, rest) = split(rest, b':')?;
    let (minor, rest) = split(rest, b' ')?;
    let (inode, name) = split(rest, b' ').unwrap_or((rest, b""));
    let &[r, w, x, p] = perms else { return None };
    let (start, end) = (hex(start)?, hex(end)?);
    let device = Device {
        major: u32::try_from(hex(major)?).ok()?,
        minor: u32::try_from(hex(minor)?).ok()?,
    };
    let mapping = Mapping {
        start,
        end,
        readable: r == b'r',
        writable: w == b'w',
        executable: x == b'x',
        is_shared: p == b's',
        offset: hex(offset)?,
        device,
        inode: number(inode)?,
        ..Mapping::default()
    };
    (start < end).then_some((mapping, name.trim_ascii_start()))
}

/// Splits a text at the first byte `at`, which is in neither part; `None` if there is no such byte.
fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let found = text.iter().position(|&b| b == at)?;
    Some((&text[..found], &text[found + 1..]))
}

/// Returns what is mapped; `None` if the device is unknown. The device takes precedence over the
/// name, because users choose the names of files. The name decides if no mount lists the device.
pub(crate) fn classify(mapping: &Mapping, name: &[u8], filesystems: &Filesystems) -> Option<Kind> {
    // A mapping without a file has no name, or a name in brackets. A file's name never begins with
    // a bracket.
    if name.is_empty() || name.starts_with(b"[") {
        return Some(unnamed(name));
    }
    // A file in /dev is a device node, but files below /dev/shm are ordinary ones. /dev/zero is
    // memory: a private mapping of it has no file, a shared one has a deleted file on the internal
    // tmpfs.
    let node = name.starts_with(b"/dev/") && !name.starts_with(b"/dev/shm/");
    if node && name == b"/dev/zero" {
        return Some(Kind::Anon);
    }
    let node = node && name != b"/dev/zero (deleted)" && !name.starts_with(b"/dev/hugepages");
    match filesystems.kind(mapping.device) {
        Some(Kind::Hugetlb) => Some(Kind::Hugetlb),
        _ if node => Some(Kind::Device),
        None => internal(name, filesystems.knows_internal()),
        known => known,
    }
}

/// Returns the kind of a mapping that has no name, or a name in brackets from the kernel.
fn unnamed(name: &[u8]) -> Kind {
    let memory: [&[u8]; 3] = [b"[heap]", b"[stack", b"[anon:"];
    if name.is_empty() || memory.iter().any(|prefix| name.starts_with(prefix)) {
        Kind::Anon
    } else if name.starts_with(b"[anon_shmem:") {
        Kind::Shmem
    } else {
        Kind::Device
    }
}

/// Returns the kind of a file on one of the kernel's own mounts, which mountinfo does not list, by
/// its name; `None` for any other name. Memfds and the like have the same names on the internal
/// tmpfs and on internal hugetlbfs mounts. If the number of the tmpfs is known (`knows_tmpfs`),
/// this file is not on it, so it consists of huge pages; otherwise it is assumed to be on the
/// tmpfs.
fn internal(name: &[u8], knows_tmpfs: bool) -> Option<Kind> {
    let shared: [&[u8]; 3] = [b"/memfd:", b"/SYSV", b"/dev/zero (deleted)"];
    if name.starts_with(b"/anon_hugepage") {
        Some(Kind::Hugetlb)
    } else if shared.iter().any(|prefix| name.starts_with(prefix)) {
        Some(if knows_tmpfs {
            Kind::Hugetlb
        } else {
            Kind::Shmem
        })
    } else if !name.starts_with(b"/")
        || name.starts_with(b"/[aio]")
        || name.starts_with(b"/secretmem")
        || name.starts_with(b"/dmabuf:")
    {
        Some(Kind::Device)
    } else {
        None
    }
}

/// The text of a maps file. If the text is long, its lines are cut: a process may have 65,530
/// mappings with names of 4 KiB.
#[derive(Debug, Default)]
struct Text {
    kept: Vec<u8>,
    /// Number of bytes of the current line that were kept.
    line: usize,
}

/// Once the kept text has this length (bytes), only [`LINE_KEPT`] bytes of each line are kept.
const TEXT_MAX: usize = 4 << 20;
/// Number of bytes of each line that are kept then. About 73 are before the name; the others are
/// enough of the name to classify the mapping.
const LINE_KEPT: usize = 160;

impl Text {
    /// Adds a piece of the file. Always returns true, which makes the reader continue.
    fn add(&mut self, piece: &[u8]) -> bool {
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            let most = match self.kept.len() < TEXT_MAX {
                true => usize::MAX,
                false => LINE_KEPT,
            };
            let is_ended = line.ends_with(b"\n");
            let words = &line[..line.len() - usize::from(is_ended)];
            let fits = most.saturating_sub(self.line).min(words.len());
            self.kept.extend_from_slice(&words[..fits]);
            self.line += fits;
            if is_ended {
                self.kept.push(b'\n');
                self.line = 0;
            }
        }
        true
    }
}

impl Proc {
    /// Returns the mappings of a process with their names; `None` if the process has ended, an
    /// empty list for a zombie or a kernel thread. If a device is unknown, the mounts of the
    /// process's mount namespace are read, too. If the text is very long, long names are cut.
    ///
    /// # Errors
    /// This user may not read them (`PTRACE_MODE_READ` is needed).
    pub fn named_maps(
        &self,
        pid: u32,
        filesystems: &mut Filesystems,
    ) -> Result<Option<Maps>, Error> {
        let mut text = Text::default();
        if !self.read_pieces(pid, "maps", &mut |piece| text.add(piece))? {
            return Ok(None);
        }
        let text = text.kept;
        let mut parsed = parse(&text, filesystems);
        if !parsed.unknown.is_empty() {
            self.learn_mounts(pid, &parsed.unknown, filesystems);
            parsed = parse(&text, filesystems);
        }
        Ok(Some(Maps {
            mappings: parsed.mappings,
            names: parsed.names,
            text,
        }))
    }

    /// Looks for unknown devices among the mounts that a process sees. A device that is not found
    /// is treated as a disk.
    pub(crate) fn learn_mounts(&self, pid: u32, unknown: &[Device], filesystems: &mut Filesystems) {
        let mut mounts = Vec::new();
        // If the mounts cannot be read, the devices stay unknown; that is no reason to fail.
        if self.read(pid, "mountinfo", &mut mounts).unwrap_or(false) {
            filesystems.learn(&mounts);
        }
        for &device in unknown {
            filesystems.give_up(device);
        }
    }
}

#[cfg(test)]
mod tests;
