//! The mappings of another process, read from the kernel's tree of them without a lock.
//!
//! Invariant: a returned list was the process's list at one moment. The mm's number of mappings and
//! its count of changes are read before and after the list ([`Layout::read`]). A list that changed
//! meanwhile is read again. A structure that is freed and reused between two reads yields wrong
//! words, never a fault.
//!
//! `/proc/PID/maps` has the same data and also names. But reading it waits for the process's memory
//! lock, and one process may have 65,530 mappings with names of 4 KiB.
//!
//! The tree is the kernel's maple tree (Documentation/core-api/maple_tree.rst), since Linux 6.1.

use std::collections::HashMap;
use std::io;

use crate::btf::Btf;
use crate::copier::Copier;
use crate::entry::PAGE_SIZE;
use crate::reader::{Mm, Reader};

/// Bits of a mapping's flags: `VM_READ`, `VM_WRITE`, `VM_EXEC`.
const READ: u64 = 1;
const WRITE: u64 = 2;
const EXEC: u64 = 4;
/// `VM_MAYSHARE`: writes reach the file and other mappings of the file.
const MAY_SHARE: u64 = 0x80;
/// `VM_SEQ_READ`, `VM_RAND_READ`: see [`Mapping::is_advised`].
const ADVISED: u64 = 0x8000 | 0x1_0000;
/// `VM_HUGETLB`.
const HUGETLB: u64 = 0x40_0000;
/// Maximum number of requests in one run of the BPF program.
const BATCH: usize = 600;
/// Maximum number of tree nodes to read. A tree of 65,530 mappings, the default limit of a process,
/// has fewer.
const NODES_MAX: usize = 1 << 15;
/// Number of tries to read a list that changes during each try.
const TRIES: u32 = 4;

/// Alignment of a node, and its largest size, in bytes.
const NODE_BYTES: u64 = 256;
/// A pointer to a node has the node's kind in these low bits.
const KIND_SHIFT: u32 = 3;
const KIND_MASK: u64 = 0xf;
/// Kinds of nodes: leaf, inner node without sizes of gaps, inner node with sizes of gaps.
const LEAF: u64 = 1;
const RANGE: u64 = 2;
const WITH_GAPS: u64 = 3;

/// `S_IFMT` and `S_IFREG` of an inode's mode. Only regular files can be [`MappingKind::File`] or
/// [`MappingKind::Shmem`]. Before Linux 6.16, anonymous inodes have no file type.
const TYPE_MASK: u64 = 0o170_000;
const REGULAR: u64 = 0o100_000;
/// `SB_NOUSER`: a file system that only the kernel itself mounts (anonymous inodes, dma-buf, secret
/// memory).
const NO_USER: u64 = 1 << 31;
/// Magic numbers of tmpfs (memfd, System V and shared anonymous memory, devtmpfs), then of ramfs.
const MEMORY_MAGICS: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// Magic numbers of proc, sysfs, debugfs, tracefs, bpf, mqueue, devpts: files of these have no
/// storage.
const DEVICE_MAGICS: [u64; 7] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0xcafe_4a11,
    0x1980_0202,
    0x1cd1,
];

/// What is mapped. In a private mapping of a file, pages that the process has written are
/// anonymous; the code that reads the pages must distinguish them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MappingKind {
    /// Private anonymous memory: heap, stacks, private `/dev/zero`.
    #[default]
    Anon,
    /// A file on a disk or network; its pages can be read again.
    File,
    /// Shared memory, which has no file on a disk: memfd, tmpfs, System V segments, shared
    /// anonymous memory.
    Shmem,
    /// Pages of the hugetlb pool, which are not in Rss and are never swapped out.
    Hugetlb,
    /// Memory of devices or of the kernel: vdso, nodes in `/dev`, anonymous inodes, sysfs.
    Device,
}

/// The device number of a file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Device {
    /// Major number; 0 for file systems without a block device.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// One mapping (VMA) of a process; addresses and offset in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last byte.
    pub end: u64,
    /// Whether the process may read it.
    pub readable: bool,
    /// Whether the process may write it.
    pub writable: bool,
    /// Whether the process may execute it.
    pub executable: bool,
    /// Whether writes reach the file and other processes that map it. Otherwise the process gets a
    /// copy of each page that it writes.
    pub is_shared: bool,
    /// Whether the program has advised that it reads this memory in order or at random
    /// (MADV_SEQUENTIAL, MADV_RANDOM), or that it uses the mapped file only once
    /// (POSIX_FADV_NOREUSE). Then accesses do not predict later ones (the kernel's
    /// `vma_has_recency`).
    pub is_advised: bool,
    /// Offset of `start` in the file, in bytes; 0 without a file.
    pub offset: u64,
    /// Device number of the file's file system; zeros without a file.
    pub device: Device,
    /// Inode number of the file; 0 without a file, and for the first System V segment.
    pub inode: u64,
    /// What is mapped.
    pub kind: MappingKind,
}

/// Offsets in the kernel's structures, and their sizes, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Offsets in the mm: of the tree's root, and of the number of mappings.
    root: u64,
    count: u64,
    /// Offset in the mm: of the count of changes, which is even and constant while nothing changes.
    /// `None` before Linux 6.4.
    sequence: Option<u64>,
    /// Size of the structure of a mapping (`vm_area_struct`); the six offsets that follow are in
    /// it.
    bytes: u64,
    start: u64,
    end: u64,
    flags: u64,
    offset: u64,
    file: u64,
    operations: u64,
    open_file: FileLayout,
    inode: InodeLayout,
    /// Arrays of a leaf, and of an inner node without gaps.
    plain: Shape,
    /// Arrays of an inner node with gaps.
    with_gaps: Shape,
}

/// The bytes of an open file's structure (`struct file`) that are read: `bytes` bytes from the
/// offset `start` on. `inode` and `mode` are offsets from `start` of the two members that are used.
#[derive(Clone, Copy, Debug)]
struct FileLayout {
    start: u64,
    bytes: u64,
    inode: u64,
    mode: u64,
    /// The bit of the mode that marks a file as used only once ([`crate::noreuse`]); 0 if it is not
    /// known.
    used_once: u32,
}

/// Offsets of members, in bytes: of a file's inode, and (`system_*`) of its file system's super
/// block.
#[derive(Clone, Copy, Debug)]
struct InodeLayout {
    number: u64,
    mode: u64,
    system: u64,
    system_device: u64,
    system_magic: u64,
    system_flags: u64,
}

/// Where a node has its two arrays: pivots (the end of each slot's range) and slots (the next
/// nodes, or the mappings). Offsets in bytes, and the number of slots.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pivots: u64,
    slots: u64,
    count: usize,
}

/// The members of a `vm_area_struct` that are read. `offset` is in pages; `file` and `operations`
/// are kernel addresses, or 0.
#[derive(Clone, Copy, Debug)]
struct Structure {
    start: u64,
    end: u64,
    flags: u64,
    offset: u64,
    file: u64,
    operations: u64,
}

/// The properties of a mapped file that [`Mapping`] reports.
#[derive(Clone, Copy, Debug)]
struct FileFacts {
    inode: u64,
    device: Device,
    kind: MappingKind,
    is_used_once: bool,
}

/// The structures of all mappings, and the properties of the mapped files by the kernel address of
/// the file's structure.
type Found = (Vec<Structure>, HashMap<u64, FileFacts>);

/// Words of the mm that change when a mapping is added, removed or changed: the tree's root, the
/// number of mappings, the count of changes. `None`: not in this kernel, or not readable.
type Stamp = [Option<u64>; 3];

impl FileLayout {
    /// Finds the offsets in the kernel's type information; `None` if one is missing.
    fn find(btf: &Btf<'_>) -> Option<FileLayout> {
        let inode = btf.offset("file", "f_inode")?;
        // The mode has 4 bytes.
        let mode = btf.offset("file", "f_mode")?;
        let start = inode.min(mode & !7);
        let bytes = (inode + 8).max(mode + 4) - start;
        (bytes <= PAGE_SIZE && inode.is_multiple_of(8) && mode.is_multiple_of(4)).then_some(
            FileLayout {
                start,
                bytes,
                inode: inode - start,
                mode: mode - start,
                used_once: 0,
            },
        )
    }

    /// Returns for each file the address of its inode, and its mode; zeros if the file cannot be
    /// read.
    fn read(self, copier: &mut Copier, files: &[u64]) -> io::Result<Vec<(u64, u32)>> {
        let mut found = Vec::with_capacity(files.len());
        for batch in files.chunks(BATCH) {
            let requested: Vec<usize> = batch
                .iter()
                .map(|file| copier.request(file.wrapping_add(self.start), self.bytes))
                .collect();
            copier.run()?;
            let read = requested.into_iter().map(|number| {
                let words = copier.result(number)?;
                Some((words[(self.inode / 8) as usize], self.mode_in(words)))
            });
            found.extend(read.map(Option::unwrap_or_default));
        }
        Ok(found)
    }

    /// The mode, from the part of the structure that was read.
    fn mode_in(self, words: &[u64]) -> u32 {
        let word = words[(self.mode / 8) as usize];
        (word >> (self.mode % 8 * 8) & 0xffff_ffff) as u32
    }
}

impl InodeLayout {
    /// Finds the offsets in the kernel's type information; `None` if one is missing.
    fn find(btf: &Btf<'_>) -> Option<InodeLayout> {
        Some(InodeLayout {
            number: btf.offset("inode", "i_ino")?,
            mode: btf.offset("inode", "i_mode")?,
            system: btf.offset("inode", "i_sb")?,
            system_device: btf.offset("super_block", "s_dev")?,
            system_magic: btf.offset("super_block", "s_magic")?,
            system_flags: btf.offset("super_block", "s_flags")?,
        })
    }
}

impl Layout {
    /// Finds the offsets in the kernel's type information; `None` if this kernel keeps mappings in
    /// another kind of tree.
    pub(crate) fn find(btf: &Btf<'_>) -> Option<Layout> {
        let shape = |name: &str, end: u64| -> Option<Shape> {
            let (pivots, slots) = (btf.offset(name, "pivot")?, btf.offset(name, "slot")?);
            let count = usize::try_from(end.checked_sub(slots)? / 8).ok()?;
            // There is one pivot less than slots: the last slot ends where the node ends.
            (slots == pivots + (count as u64 - 1) * 8).then_some(Shape {
                pivots,
                slots,
                count,
            })
        };
        let gaps = btf.offset("maple_arange_64", "gap")?;
        Some(Layout {
            root: btf.offset("mm_struct", "mm_mt")? + btf.offset("maple_tree", "ma_root")?,
            count: btf.offset("mm_struct", "map_count")?,
            sequence: btf.offset("mm_struct", "mm_lock_seq"),
            bytes: btf
                .size("vm_area_struct")
                .filter(|size| *size <= PAGE_SIZE)?,
            start: btf.offset("vm_area_struct", "vm_start")?,
            end: btf.offset("vm_area_struct", "vm_end")?,
            flags: btf.offset("vm_area_struct", "vm_flags")?,
            offset: btf.offset("vm_area_struct", "vm_pgoff")?,
            file: btf.offset("vm_area_struct", "vm_file")?,
            operations: btf.offset("vm_area_struct", "vm_ops")?,
            open_file: FileLayout::find(btf)?,
            inode: InodeLayout::find(btf)?,
            plain: shape("maple_range_64", NODE_BYTES)?,
            with_gaps: shape("maple_arange_64", gaps)?,
        })
    }

    /// The same layout with the bit of an open file's mode that marks the file as used only once.
    pub(crate) fn with_used_once(mut self, bit: u32) -> Layout {
        self.open_file.used_once = bit;
        self
    }

    /// The bit that [`Layout::with_used_once`] has set; 0 if it is not known.
    pub(crate) fn used_once(self) -> u32 {
        self.open_file.used_once
    }

    /// Returns the mappings of an address space, ascending and disjoint; `None` if they changed
    /// during each try.
    ///
    /// # Errors
    /// The BPF program cannot be run.
    pub(crate) fn read(self, reader: &mut Reader, space: &Mm) -> io::Result<Option<Vec<Mapping>>> {
        let found = self.find_all(&mut reader.copier, space)?;
        Ok(found.map(|(structures, files)| {
            let mappings = structures.iter().map(|one| one.with_file(&files));
            mappings.collect()
        }))
    }

    /// Returns the kernel address of the open file that is mapped at `start`; `None` if no mapping
    /// of a file begins there.
    ///
    /// # Errors
    /// The BPF program cannot be run.
    pub(crate) fn file_at(
        self,
        reader: &mut Reader,
        space: &Mm,
        start: u64,
    ) -> io::Result<Option<u64>> {
        let found = self.find_all(&mut reader.copier, space)?;
        let structures = found.iter().flat_map(|(structures, _)| structures);
        let mut files = structures.filter(|one| one.start == start && one.file != 0);
        Ok(files.next().map(|one| one.file))
    }

    /// Reads the mode of the open file with this kernel address.
    ///
    /// # Errors
    /// The BPF program cannot be run.
    pub(crate) fn mode_of(self, reader: &mut Reader, file: u64) -> io::Result<u32> {
        let read = self.open_file.read(&mut reader.copier, &[file])?;
        Ok(read.first().map_or(0, |(_, mode)| *mode))
    }

    /// Reads the structures of all mappings and of their files; `None` if they changed during each
    /// try.
    fn find_all(self, copier: &mut Copier, space: &Mm) -> io::Result<Option<Found>> {
        for _ in 0..TRIES {
            let before = self.stamp(copier, space)?;
            let root = copier.peek(space.mm() + self.root)?.unwrap_or(0);
            let at = self.mappings(copier, root)?;
            let mut structures = self.structures(copier, &at)?;
            structures.sort_unstable_by_key(|one| one.start);
            let files = self.facts(copier, &structures)?;
            let count = before[1].map(|words| words & 0xffff_ffff);
            let is_whole = count == Some(structures.len() as u64) && are_sound(&structures);
            if is_whole && self.stamp(copier, space)? == before {
                return Ok(Some((structures, files)));
            }
        }
        Ok(None)
    }

    /// Reads the words of [`Stamp`]. If they differ before and after a read, the mappings have
    /// changed meanwhile.
    fn stamp(self, copier: &mut Copier, space: &Mm) -> io::Result<Stamp> {
        let members = [Some(self.root), Some(self.count), self.sequence];
        let requested = members.map(|at| at.map(|at| copier.request(space.mm() + at, 8)));
        copier.run()?;
        Ok(requested.map(|number| number.and_then(|number| Some(copier.result(number)?[0]))))
    }

    /// Reads the structures of the mappings at these kernel addresses; skips those that cannot be
    /// read.
    fn structures(self, copier: &mut Copier, at: &[u64]) -> io::Result<Vec<Structure>> {
        let mut found = Vec::with_capacity(at.len());
        for batch in at.chunks(BATCH) {
            let requested: Vec<usize> = batch
                .iter()
                .map(|at| copier.request(*at, self.bytes))
                .collect();
            copier.run()?;
            for number in requested {
                let Some(words) = copier.result(number) else {
                    continue;
                };
                let word = |at: u64| words[(at / 8) as usize];
                found.push(Structure {
                    start: word(self.start),
                    end: word(self.end),
                    flags: word(self.flags),
                    offset: word(self.offset),
                    file: word(self.file),
                    operations: word(self.operations),
                });
            }
        }
        Ok(found)
    }

    /// Reads the tree from `root` on; returns the kernel addresses of all mappings' structures.
    fn mappings(self, copier: &mut Copier, root: u64) -> io::Result<Vec<u64>> {
        let (mut nodes, mut mappings, mut seen) = (vec![root], Vec::new(), 0);
        while !nodes.is_empty() && seen < NODES_MAX {
            seen += nodes.len();
            let mut below = Vec::new();
            for batch in nodes.chunks(BATCH) {
                let requested: Vec<(u64, usize)> = batch
                    .iter()
                    .filter(|node| is_node(**node))
                    .map(|node| (*node, copier.request(node & !(NODE_BYTES - 1), NODE_BYTES)))
                    .collect();
                copier.run()?;
                for (node, number) in requested {
                    let Some(words) = copier.result(number) else {
                        continue;
                    };
                    let kind = node >> KIND_SHIFT & KIND_MASK;
                    let slots = match kind {
                        LEAF | RANGE => self.plain.slots_of(words),
                        WITH_GAPS => self.with_gaps.slots_of(words),
                        _ => continue,
                    };
                    match kind {
                        // A slot that is no pointer to a structure is an internal entry of the
                        // tree.
                        LEAF => mappings.extend(slots.filter(|slot| slot % 8 == 0)),
                        _ => below.extend(slots),
                    }
                }
            }
            nodes = below;
        }
        Ok(mappings)
    }
}

impl Shape {
    /// Returns the slots of a node that are in use and not empty. `words` is the content of the
    /// node. The first pivot that is 0 (except that of the first slot) belongs to the last slot in
    /// use.
    fn slots_of(self, words: &[u64]) -> impl Iterator<Item = u64> {
        let word = |bytes: u64, index: usize| words[(bytes / 8) as usize + index];
        let last = (1..self.count - 1).find(|index| word(self.pivots, *index) == 0);
        let last = last.unwrap_or(self.count - 1);
        (0..=last)
            .map(move |index| word(self.slots, index))
            .filter(|slot| *slot != 0)
    }
}

impl Layout {
    /// Returns the properties of the files of these mappings, by the kernel address of the file's
    /// structure.
    fn facts(
        self,
        copier: &mut Copier,
        structures: &[Structure],
    ) -> io::Result<HashMap<u64, FileFacts>> {
        let mut files = distinct(structures.iter().map(|one| one.file));
        files.retain(|file| *file != 0);
        let open = self.open_file.read(copier, &files)?;
        let (at, inodes) = (self.inode, distinct(open.iter().map(|(inode, _)| *inode)));
        let of_inodes = members(copier, &inodes, &[at.number, at.mode, at.system])?;
        let systems = distinct(of_inodes.iter().map(|words| words[2]));
        let members_of_system = [at.system_device, at.system_magic, at.system_flags];
        let of_systems = members(copier, &systems, &members_of_system)?;
        let facts = open.iter().map(|(inode, mode)| {
            let inode = words_of(*inode, &inodes, &of_inodes);
            let system = words_of(inode[2], &systems, &of_systems);
            let device = system[0] & 0xffff_ffff;
            FileFacts {
                inode: inode[0],
                device: Device {
                    major: (device >> 20) as u32,
                    minor: (device & 0xf_ffff) as u32,
                },
                kind: kind_of_file(inode[1], system[1], system[2]),
                is_used_once: mode & self.open_file.used_once != 0,
            }
        });
        Ok(files.iter().copied().zip(facts).collect())
    }
}

/// The addresses, ascending, each once.
fn distinct(addresses: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut addresses: Vec<u64> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Returns the words that were read at the address `at`; zeros if that address was not read.
/// `found` has the words of each address in `addresses`.
fn words_of(at: u64, addresses: &[u64], found: &[[u64; 3]]) -> [u64; 3] {
    let index = addresses.binary_search(&at);
    index.map_or([0; 3], |index| found[index])
}

/// Reads the words at `offsets` (in bytes) of each structure at the addresses `at`; 0 for a word
/// that cannot be read.
fn members<const N: usize>(
    copier: &mut Copier,
    at: &[u64],
    offsets: &[u64; N],
) -> io::Result<Vec<[u64; N]>> {
    let mut found = Vec::with_capacity(at.len());
    for batch in at.chunks(BATCH / N) {
        let requested: Vec<[usize; N]> = batch
            .iter()
            .map(|at| offsets.map(|offset| copier.request(at.wrapping_add(offset), 8)))
            .collect();
        copier.run()?;
        let word = |number| copier.result(number).map_or(0, |words| words[0]);
        found.extend(requested.into_iter().map(|numbers| numbers.map(word)));
    }
    Ok(found)
}

/// Returns what a mapping of a file maps, from the mode of the file's inode, and the magic number
/// and flags of its file system.
fn kind_of_file(mode: u64, magic: u64, flags: u64) -> MappingKind {
    if mode & TYPE_MASK != REGULAR {
        MappingKind::Device
    } else if MEMORY_MAGICS.contains(&magic) {
        MappingKind::Shmem
    } else if flags & NO_USER != 0 || DEVICE_MAGICS.contains(&magic) {
        MappingKind::Device
    } else {
        MappingKind::File
    }
}

/// Whether the mappings ascend, are not empty and do not overlap.
fn are_sound(structures: &[Structure]) -> bool {
    let is_sound = |one: &Structure| one.start < one.end && one.start.is_multiple_of(PAGE_SIZE);
    structures.iter().all(is_sound) && structures.windows(2).all(|two| two[0].end <= two[1].start)
}

impl Structure {
    /// Makes the mapping of this structure and of its file, if `files` has one.
    fn with_file(&self, files: &HashMap<u64, FileFacts>) -> Mapping {
        let file = files.get(&self.file);
        let has = |flag: u64| self.flags & flag != 0;
        Mapping {
            start: self.start,
            end: self.end,
            readable: has(READ),
            writable: has(WRITE),
            executable: has(EXEC),
            is_shared: has(MAY_SHARE),
            is_advised: has(ADVISED) || file.is_some_and(|file| file.is_used_once),
            offset: file.map_or(0, |_| self.offset << 12),
            device: file.map_or(Device::default(), |file| file.device),
            inode: file.map_or(0, |file| file.inode),
            kind: match file {
                // A private mapping of /dev/zero has a file, but is anonymous memory.
                _ if self.operations == 0 => MappingKind::Anon,
                _ if has(HUGETLB) => MappingKind::Hugetlb,
                Some(file) => file.kind,
                None => MappingKind::Device,
            },
        }
    }
}

/// Whether a word of the tree is a pointer to a node: an address in the kernel's half.
fn is_node(word: u64) -> bool {
    word >> 63 == 1
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::page_tables::PageTables;
    use crate::source::Source;
    use crate::testing::Program;

    /// Gives neighbouring pages different advice, so that they become about 1,500 mappings; later
    /// withdraws the advice.
    const PROGRAM: &str = "
import mmap, sys
area = mmap.mmap(-1, 2048 * 4096)
for page in range(0, 2048, 4):
    advice = mmap.MADV_SEQUENTIAL if page % 8 else mmap.MADV_RANDOM
    area.madvise(advice, page * 4096, 4096)
print('ready', flush=True)
sys.stdin.readline()
area.madvise(mmap.MADV_NORMAL)
print('ready', flush=True)
sys.stdin.readline()
";

    /// The address ranges with advice, as the kernel's smaps reports them.
    fn reported(pid: u32) -> Vec<Range<u64>> {
        let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it is there");
        let (mut found, mut at) = (Vec::new(), 0..0);
        for line in smaps.lines() {
            let first = line.split(' ').next().unwrap_or_default();
            let hex = |text| u64::from_str_radix(text, 16).ok();
            let ends = first.split_once('-');
            let ends = ends.and_then(|(start, end)| Some(hex(start)?..hex(end)?));
            at = ends.unwrap_or(at);
            let mut words = line.split_whitespace();
            if words.next() == Some("VmFlags:") && words.any(|word| word == "sr" || word == "rr") {
                found.push(at.clone());
            }
        }
        found
    }

    #[test]
    fn advised_ranges_are_those_of_smaps() {
        let mut child = Program::python(PROGRAM);
        child.line().expect("it is ready");
        let pid = child.id();
        let mut source = PageTables::open().expect("root, BPF and BTF");
        let expected = reported(pid);
        let mut advised = || {
            let mappings = source.mappings(pid).expect("it can be read");
            let mappings = mappings.expect("it changes nothing");
            let advised = mappings.iter().filter(|one| one.is_advised);
            advised.map(|one| one.start..one.end).collect::<Vec<_>>()
        };
        let found = advised();
        // The program withdraws the advice.
        child.go_on();
        child.line().expect("it is ready");
        let (none, later) = (reported(pid), advised());
        assert!(expected.len() >= 512, "{}", expected.len());
        assert_eq!(found, expected);
        assert_eq!(later, none);
        assert_eq!(none, []);
    }

    #[test]
    fn slots_end_with_their_pivots() {
        let shape = Shape {
            pivots: 8,
            slots: 32,
            count: 4,
        };
        let of = |pivots: [u64; 3], slots: [u64; 4]| {
            let words: Vec<u64> = [0].into_iter().chain(pivots).chain(slots).collect();
            shape.slots_of(&words).collect::<Vec<u64>>()
        };
        assert_eq!(of([7, 9, 11], [1, 2, 3, 4]), [1, 2, 3, 4]);
        // The second slot is the last: slots behind it are stale.
        assert_eq!(of([7, 0, 11], [1, 2, 3, 4]), [1, 2]);
        assert_eq!(of([0, 0, 0], [1, 2, 3, 4]), [1, 2]);
        assert_eq!(of([7, 9, 11], [0, 2, 0, 4]), [2, 4]);
    }
}
