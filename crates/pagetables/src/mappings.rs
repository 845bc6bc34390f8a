//! The mappings of another process, read from the kernel's tree of them without a lock.
//!
//! Invariant: a list that is returned was the same at one moment: the mm's count of mappings and its sequence of changes are
//! read before and after it ([`Layout::read`]); a list that changed meanwhile is read again. A structure that was freed and
//! used anew between two reads gives wrong words, never a fault.
//!
//! `/proc/PID/maps` tells the same and more (names), but its reader waits for the process's memory lock, and one process may
//! have 65,530 mappings with names of 4 KiB.
//!
//! The tree is the kernel's maple tree (Documentation/core-api/maple_tree.rst), since Linux 6.1.

use std::collections::HashMap;
use std::io;

use crate::btf::Btf;
use crate::copier::Copier;
use crate::reader::{Mm, Reader};

/// `VM_READ`, `VM_WRITE`, `VM_EXEC`.
const READ: u64 = 1;
const WRITE: u64 = 2;
const EXEC: u64 = 4;
/// `VM_MAYSHARE`: writes reach the file and its other mappings.
const MAY_SHARE: u64 = 0x80;
/// `VM_SEQ_READ`, `VM_RAND_READ`.
const ADVISED: u64 = 0x8000 | 0x1_0000;
/// `VM_HUGETLB`.
const HUGETLB: u64 = 0x40_0000;
/// Requests of one run.
const BATCH: usize = 600;
/// More nodes than a tree of the most mappings that a process may have (65,530 by default) takes.
const NODES_MAX: usize = 1 << 15;
/// Readings before a list that changes all the time is given up.
const TRIES: u32 = 4;

/// A node is aligned to so many bytes, and its size is no more.
const NODE_BYTES: u64 = 256;
/// Of a pointer to a node: its kind.
const KIND_SHIFT: u32 = 3;
const KIND_MASK: u64 = 0xf;
/// Kinds: leaves, and inner nodes without and with gaps.
const LEAF: u64 = 1;
const RANGE: u64 = 2;
const WITH_GAPS: u64 = 3;

/// `S_IFMT`, `S_IFREG`, and the inode's mode where anonymous inodes have no type (before Linux 6.16).
const TYPE_MASK: u64 = 0o170_000;
const REGULAR: u64 = 0o100_000;
/// `SB_NOUSER`: a file system of the kernel's own, such as those of anonymous inodes, dma-buf and secret memory.
const NO_USER: u64 = 1 << 31;
/// Of tmpfs (memfd, System V and shared anonymous memory, devtmpfs), and of ramfs.
const MEMORY_MAGICS: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// Of proc, sysfs, debugfs, tracefs, bpf, mqueue, devpts: what is mapped there is stored nowhere.
const DEVICE_MAGICS: [u64; 7] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0xcafe_4a11,
    0x1980_0202,
    0x1cd1,
];

/// What holds the pages of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Backing {
    /// Nothing: private anonymous memory.
    None,
    /// A file that can be read again.
    File,
    /// A file without a disk: memfd, tmpfs, System V segments, shared anonymous memory.
    Shmem,
    /// The hugetlb pool.
    Hugetlb,
    /// A device, or the kernel (vdso).
    Device,
}

/// One mapping; addresses and offset in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// May be read, written, executed.
    pub rights: [bool; 3],
    /// Writes reach the file and its other mappings.
    pub is_shared: bool,
    /// The program reads it in order or at random (MADV_SEQUENTIAL, MADV_RANDOM): accesses say nothing of the next ones
    /// (the kernel's `vma_has_recency`).
    pub is_advised: bool,
    /// Of `start` in the file; 0 without one.
    pub offset: u64,
    /// Major and minor number of the file's file system; 0 without a file.
    pub device: (u32, u32),
    /// Of the file; 0 without one.
    pub inode: u64,
    /// What holds its pages.
    pub backing: Backing,
}

/// Where things lie in the kernel's structures, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The tree's root, and the number of mappings, in the mm.
    root: u64,
    count: u64,
    /// The sequence of changes in the mm (since Linux 6.4); even and the same while nothing changes.
    sequence: Option<u64>,
    /// Size of a mapping's structure.
    bytes: u64,
    start: u64,
    end: u64,
    flags: u64,
    offset: u64,
    file: u64,
    operations: u64,
    inode: InodeLayout,
    /// Pivots and slots of a leaf, or of an inner node without gaps: where, and how many slots.
    plain: Shape,
    /// Of one with gaps.
    with_gaps: Shape,
}

/// The way from a file to its file system.
#[derive(Clone, Copy, Debug)]
struct InodeLayout {
    file_inode: u64,
    number: u64,
    mode: u64,
    system: u64,
    system_device: u64,
    system_magic: u64,
    system_flags: u64,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    pivots: u64,
    slots: u64,
    count: usize,
}

/// A mapping's structure, before its file is known.
#[derive(Clone, Copy, Debug)]
struct Structure {
    start: u64,
    end: u64,
    flags: u64,
    offset: u64,
    file: u64,
    operations: u64,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
struct FileFacts {
    inode: u64,
    device: (u32, u32),
    backing: Backing,
}

/// What changes when a mapping comes, goes or changes.
type Stamp = [Option<u64>; 3];

impl InodeLayout {
    fn find(btf: &Btf<'_>) -> Option<InodeLayout> {
        Some(InodeLayout {
            file_inode: btf.offset("file", "f_inode")?,
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
    /// From the kernel's type information; none where mappings are in another kind of tree.
    pub(crate) fn find(btf: &Btf<'_>) -> Option<Layout> {
        let shape = |name: &str, end: u64| -> Option<Shape> {
            let (pivots, slots) = (btf.offset(name, "pivot")?, btf.offset(name, "slot")?);
            let count = usize::try_from(end.checked_sub(slots)? / 8).ok()?;
            // One pivot less than slots: the last slot ends where the node does.
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
            bytes: btf.size("vm_area_struct").filter(|size| *size <= 4096)?,
            start: btf.offset("vm_area_struct", "vm_start")?,
            end: btf.offset("vm_area_struct", "vm_end")?,
            flags: btf.offset("vm_area_struct", "vm_flags")?,
            offset: btf.offset("vm_area_struct", "vm_pgoff")?,
            file: btf.offset("vm_area_struct", "vm_file")?,
            operations: btf.offset("vm_area_struct", "vm_ops")?,
            inode: InodeLayout::find(btf)?,
            plain: shape("maple_range_64", NODE_BYTES)?,
            with_gaps: shape("maple_arange_64", gaps)?,
        })
    }

    /// The mappings of an address space, ascending and disjoint; `None` if they changed each time that they were read.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(crate) fn read(self, reader: &mut Reader, space: &Mm) -> io::Result<Option<Vec<Mapping>>> {
        let copier = &mut reader.copier;
        for _ in 0..TRIES {
            let before = self.stamp(copier, space)?;
            let root = copier.peek(space.mm() + self.root)?.unwrap_or(0);
            let at = self.mappings(copier, root)?;
            let mut structures = self.structures(copier, &at)?;
            structures.sort_unstable_by_key(|one| one.start);
            let files = self.inode.facts(copier, &structures)?;
            let count = before[1].map(|words| words & 0xffff_ffff);
            let is_whole = count == Some(structures.len() as u64) && are_sound(&structures);
            if is_whole && self.stamp(copier, space)? == before {
                let mappings = structures.iter().map(|one| one.with_file(&files));
                return Ok(Some(mappings.collect()));
            }
        }
        Ok(None)
    }

    fn stamp(self, copier: &mut Copier, space: &Mm) -> io::Result<Stamp> {
        let members = [Some(self.root), Some(self.count), self.sequence];
        let asked = members.map(|at| at.map(|at| copier.ask(space.mm() + at, 8)));
        copier.run()?;
        Ok(asked.map(|number| number.and_then(|number| Some(copier.answer(number)?[0]))))
    }

    /// The structures at these addresses; those that cannot be read are left out.
    fn structures(self, copier: &mut Copier, at: &[u64]) -> io::Result<Vec<Structure>> {
        let mut found = Vec::with_capacity(at.len());
        for batch in at.chunks(BATCH) {
            let asked: Vec<usize> = batch.iter().map(|at| copier.ask(*at, self.bytes)).collect();
            copier.run()?;
            for number in asked {
                let Some(words) = copier.answer(number) else {
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

    /// The addresses of all mappings' structures.
    fn mappings(self, copier: &mut Copier, root: u64) -> io::Result<Vec<u64>> {
        let (mut nodes, mut mappings, mut seen) = (vec![root], Vec::new(), 0);
        while !nodes.is_empty() && seen < NODES_MAX {
            seen += nodes.len();
            let mut below = Vec::new();
            for batch in nodes.chunks(BATCH) {
                let asked: Vec<(u64, usize)> = batch
                    .iter()
                    .filter(|node| is_node(**node))
                    .map(|node| (*node, copier.ask(node & !(NODE_BYTES - 1), NODE_BYTES)))
                    .collect();
                copier.run()?;
                for (node, number) in asked {
                    let Some(words) = copier.answer(number) else {
                        continue;
                    };
                    let kind = node >> KIND_SHIFT & KIND_MASK;
                    let slots = match kind {
                        LEAF | RANGE => self.plain.slots_of(words),
                        WITH_GAPS => self.with_gaps.slots_of(words),
                        _ => continue,
                    };
                    match kind {
                        // What is no pointer to a structure is the tree's own.
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
    /// The slots that are in use and not empty: a pivot of 0 behind the first ends them.
    fn slots_of(self, words: &[u64]) -> impl Iterator<Item = u64> {
        let word = |bytes: u64, index: usize| words[(bytes / 8) as usize + index];
        let last = (1..self.count - 1).find(|index| word(self.pivots, *index) == 0);
        let last = last.unwrap_or(self.count - 1);
        (0..=last)
            .map(move |index| word(self.slots, index))
            .filter(|slot| *slot != 0)
    }
}

impl InodeLayout {
    /// What is known of the files of these, by the address of each.
    fn facts(
        self,
        copier: &mut Copier,
        structures: &[Structure],
    ) -> io::Result<HashMap<u64, FileFacts>> {
        let mut files: Vec<u64> = structures.iter().map(|one| one.file).collect();
        files.sort_unstable();
        files.dedup();
        files.retain(|file| *file != 0);
        let inodes = members(copier, &files, &[self.file_inode])?;
        let inodes: Vec<u64> = inodes.iter().map(|words| words[0]).collect();
        let of_inodes = members(copier, &inodes, &[self.number, self.mode, self.system])?;
        let systems: Vec<u64> = of_inodes.iter().map(|words| words[2]).collect();
        let members_of_system = [self.system_device, self.system_magic, self.system_flags];
        let of_systems = members(copier, &systems, &members_of_system)?;
        let facts = of_inodes.iter().zip(&of_systems).map(|(inode, system)| {
            let device = system[0] & 0xffff_ffff;
            let device = ((device >> 20) as u32, (device & 0xf_ffff) as u32);
            FileFacts {
                inode: inode[0],
                device,
                backing: backing(inode[1], system[1], system[2]),
            }
        });
        Ok(files.iter().copied().zip(facts).collect())
    }
}

/// Words of the structures at these addresses; 0 for what cannot be read.
fn members<const N: usize>(
    copier: &mut Copier,
    at: &[u64],
    offsets: &[u64; N],
) -> io::Result<Vec<[u64; N]>> {
    let mut found = Vec::with_capacity(at.len());
    for batch in at.chunks(BATCH / N) {
        let asked: Vec<[usize; N]> = batch
            .iter()
            .map(|at| offsets.map(|offset| copier.ask(at.wrapping_add(offset), 8)))
            .collect();
        copier.run()?;
        let answer = |number| copier.answer(number).map_or(0, |words| words[0]);
        found.extend(asked.into_iter().map(|numbers| numbers.map(answer)));
    }
    Ok(found)
}

/// By the mode of a file's inode, and by magic number and flags of its file system.
fn backing(mode: u64, magic: u64, flags: u64) -> Backing {
    if mode & TYPE_MASK != REGULAR {
        Backing::Device
    } else if MEMORY_MAGICS.contains(&magic) {
        Backing::Shmem
    } else if flags & NO_USER != 0 || DEVICE_MAGICS.contains(&magic) {
        Backing::Device
    } else {
        Backing::File
    }
}

/// Whether they ascend, none is empty and none overlaps the next.
fn are_sound(structures: &[Structure]) -> bool {
    let is_sound = |one: &Structure| one.start < one.end && one.start.is_multiple_of(4096);
    structures.iter().all(is_sound) && structures.windows(2).all(|two| two[0].end <= two[1].start)
}

impl Structure {
    fn with_file(&self, files: &HashMap<u64, FileFacts>) -> Mapping {
        let file = files.get(&self.file);
        Mapping {
            start: self.start,
            end: self.end,
            rights: [READ, WRITE, EXEC].map(|right| self.flags & right != 0),
            is_shared: self.flags & MAY_SHARE != 0,
            is_advised: self.flags & ADVISED != 0,
            offset: file.map_or(0, |_| self.offset << 12),
            device: file.map_or((0, 0), |file| file.device),
            inode: file.map_or(0, |file| file.inode),
            backing: match file {
                // Private /dev/zero has a file, and is anonymous.
                _ if self.operations == 0 => Backing::None,
                _ if self.flags & HUGETLB != 0 => Backing::Hugetlb,
                Some(file) => file.backing,
                None => Backing::Device,
            },
        }
    }
}

/// Whether a word of the tree leads to a node: an address in the kernel's half.
fn is_node(word: u64) -> bool {
    word >> 63 == 1
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::ops::Range;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::page_tables::PageTables;
    use crate::source::Source;

    /// Neighbours with different advice are mappings of their own: some 1,500 of them, then none advised.
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

    /// What the kernel's own smaps says.
    fn told(pid: u32) -> Vec<Range<u64>> {
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
    fn what_smaps_has_as_advised_is_found() {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut lines = BufReader::new(stdout.expect("piped")).lines();
        assert!(lines.next().is_some_and(|line| line.is_ok()), "it is ready");
        let mut source = PageTables::open().expect("root, BPF and BTF");
        let expected = told(child.id());
        let mut advised = || {
            let mappings = source.mappings(child.id()).expect("it can be read");
            let mappings = mappings.expect("it changes nothing");
            let advised = mappings.iter().filter(|one| one.is_advised);
            advised.map(|one| one.start..one.end).collect::<Vec<_>>()
        };
        let found = advised();
        // One line, then it takes the advice back.
        let mut write = || std::io::Write::write_all(stdin.as_mut().expect("piped"), b"\n");
        write().expect("it reads");
        assert!(lines.next().is_some_and(|line| line.is_ok()), "it is ready");
        let (none, later) = (told(child.id()), advised());
        write().expect("it reads");
        child.wait().expect("it ends");
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
        // The second slot is the last: what lies behind it is old.
        assert_eq!(of([7, 0, 11], [1, 2, 3, 4]), [1, 2]);
        assert_eq!(of([0, 0, 0], [1, 2, 3, 4]), [1, 2]);
        assert_eq!(of([7, 9, 11], [0, 2, 0, 4]), [2, 4]);
    }
}
