//! The mappings of a process: `/proc/PID/maps` (proc_pid_maps(5)).
//!
//! Invariant: mappings are in ascending order and do not overlap, none is empty, whatever the text.
//! The kernel lets a process change between two reads of one file, so a mapping that reaches into the
//! one before it is cut to what lies behind.

use std::ops::Range;

use super::error::Error;
use super::filesystems::{Backing, Filesystems};
use super::mountinfo::Device;
use super::proc::Proc;
use super::text::{hex, lines, number};

/// What is mapped. A private mapping of a file holds anonymous pages where it was written to: that
/// is for the reader of pages to tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Private anonymous memory: heap, stacks, `[anon:name]`, private `/dev/zero`.
    Anon,
    /// A file that can be read again.
    File,
    /// Memory without a disk: memfd, tmpfs, System V segments, shared anonymous memory.
    Shmem,
    /// Pages of the hugetlb pool: outside of Rss, without swap.
    Hugetlb,
    /// Memory of devices or of the kernel: vdso, nodes in `/dev`, anonymous inodes, sysfs.
    Device,
}

/// One mapping; addresses, offset and length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Writes reach the file and others who map it (`s`; else copy on write, `p`).
    pub shared: bool,
    /// Of `start` in the file.
    pub offset: u64,
    /// Of the file's file system; 0:0 without a file.
    pub device: Device,
    /// Of the file; 0 without one (and for the first System V segment).
    pub inode: u64,
    /// What it is.
    pub kind: Kind,
}

impl From<&pagetables::Mapping> for Mapping {
    /// From the kernel's tree of mappings.
    fn from(mapping: &pagetables::Mapping) -> Mapping {
        let [readable, writable, executable] = mapping.rights;
        let (major, minor) = mapping.device;
        Mapping {
            start: mapping.start,
            end: mapping.end,
            readable,
            writable,
            executable,
            shared: mapping.is_shared,
            offset: mapping.offset,
            device: Device { major, minor },
            inode: mapping.inode,
            kind: match mapping.backing {
                pagetables::Backing::None => Kind::Anon,
                pagetables::Backing::File => Kind::File,
                pagetables::Backing::Shmem => Kind::Shmem,
                pagetables::Backing::Hugetlb => Kind::Hugetlb,
                pagetables::Backing::Device => Kind::Device,
            },
        }
    }
}

impl Mapping {
    /// Bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no mapping is empty")]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// What a text of maps says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parsed {
    /// In ascending order.
    pub mappings: Vec<Mapping>,
    /// Where in the text the name of each stands; empty without one.
    pub names: Vec<Range<usize>>,
    /// Devices that may be a tmpfs of another mount namespace; their mappings are given as `File`.
    pub unknown: Vec<Device>,
}

/// The mappings of a process, with the text that told of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Maps {
    /// In ascending order.
    pub mappings: Vec<Mapping>,
    names: Vec<Range<usize>>,
    text: Vec<u8>,
}

impl Maps {
    /// Mappings whose names are not known.
    #[must_use]
    pub fn nameless(mappings: Vec<Mapping>) -> Maps {
        Maps {
            names: vec![0..0; mappings.len()],
            mappings,
            text: Vec::new(),
        }
    }

    /// Each mapping, with its name as the kernel writes it: a path, a word in brackets, or nothing.
    pub fn named(&self) -> impl Iterator<Item = (&Mapping, &[u8])> {
        let names = self.names.iter().map(|name| &self.text[name.clone()]);
        self.mappings.iter().zip(names)
    }
}

/// The mappings of a text. Lines that are not of the documented form are left out.
#[must_use]
pub fn parse(text: &[u8], filesystems: &Filesystems) -> Parsed {
    // A line is about 80 bytes long.
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

/// `start-end perms offset major:minor inode    name`; the kind is filled in by [`classify`].
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
        shared: p == b's',
        offset: hex(offset)?,
        device,
        inode: number(inode)?,
        kind: Kind::Anon,
    };
    (start < end).then_some((mapping, name.trim_ascii_start()))
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let found = text.iter().position(|&b| b == at)?;
    Some((&text[..found], &text[found + 1..]))
}

/// What is mapped, by device first (names of files are the users' own) and by name where the kernel
/// has no mount to point to. `None` if the device is unknown.
pub(crate) fn classify(mapping: &Mapping, name: &[u8], filesystems: &Filesystems) -> Option<Kind> {
    // Without a file there is no name, or one in brackets. Names of files never begin with one.
    if name.is_empty() || name.starts_with(b"[") {
        return Some(unnamed(name));
    }
    // A node on whatever holds /dev here. What is below /dev/shm is files; /dev/zero is memory:
    // private without a file behind it, shared as a deleted file of the internal mount.
    let node = name.starts_with(b"/dev/") && !name.starts_with(b"/dev/shm/");
    if node && name == b"/dev/zero" {
        return Some(Kind::Anon);
    }
    let node = node && name != b"/dev/zero (deleted)" && !name.starts_with(b"/dev/hugepages");
    let backing = filesystems.backing(mapping.device);
    Some(match backing {
        Some(Backing::Hugetlb) => Kind::Hugetlb,
        _ if node => Kind::Device,
        Some(Backing::Disk) => Kind::File,
        Some(Backing::Shmem) => Kind::Shmem,
        Some(Backing::Device) => Kind::Device,
        None => return internal(name, filesystems.knows_internal()),
    })
}

/// Brackets of the kernel's own.
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

/// Mounts that no mountinfo lists have names of their own. On hugetlbfs they have the same as on
/// the internal tmpfs, and differ by device only: if that is not known, they pass for the latter.
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

/// The text of a maps file as far as it is kept.
///
/// A process may have 65,530 mappings with names of 4 KiB: long names are cut when there are many of them.
#[derive(Debug, Default)]
struct Text {
    kept: Vec<u8>,
    /// Bytes of the line that is being read.
    line: usize,
}

/// Of a longer text, so much of each line is kept: [`LINE_KEPT`].
const TEXT_MAX: usize = 4 << 20;
/// What comes before a name takes some 73 bytes; kinds of memory are told by less than the rest.
const LINE_KEPT: usize = 160;

impl Text {
    /// Adds a piece; more is wanted.
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
    /// The mappings of a process; `None` if it is gone, none at all if it is a zombie or a thread of
    /// the kernel. Mounts of other namespaces are looked up as they turn up.
    ///
    /// # Errors
    /// If they may not be read (`PTRACE_MODE_READ` is needed).
    pub fn maps(
        &self,
        pid: u32,
        filesystems: &mut Filesystems,
    ) -> Result<Option<Vec<Mapping>>, Error> {
        let maps = self.named_maps(pid, filesystems)?;
        Ok(maps.map(|maps| maps.mappings))
    }

    /// The same with their names, of which so many bytes are kept.
    ///
    /// # Errors
    /// As those of [`Proc::maps`].
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

    /// Looks for devices among a process' own mounts; what is not there is taken for a disk.
    pub(crate) fn learn_mounts(&self, pid: u32, unknown: &[Device], filesystems: &mut Filesystems) {
        let mut mounts = Vec::new();
        // Mounts that cannot be read leave the device unknown, and that is no reason to fail.
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
