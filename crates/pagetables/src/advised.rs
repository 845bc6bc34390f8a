//! Mappings that their program said it reads in order or at random (MADV_SEQUENTIAL, MADV_RANDOM): accesses through them
//! say nothing of the next ones (the kernel's `vma_has_recency`).
//!
//! Invariant: the flags stand in no file but smaps, which walks all tables to print them; so the tree of mappings is read,
//! without a lock. What changes meanwhile gives a wrong or a missing range for one reading, never a fault; who asks must
//! hold each range against a mapping that it knows.
//!
//! The tree is the kernel's maple tree (Documentation/core-api/maple_tree.rst), since Linux 6.1.

use std::io;
use std::ops::Range;

use crate::btf::Btf;
use crate::copier::Copier;
use crate::reader::{Mm, Reader};

/// `VM_SEQ_READ`, `VM_RAND_READ`.
const ADVISED: u64 = 0x8000 | 0x1_0000;
/// Requests of one run.
const BATCH: usize = 600;
/// More nodes than a tree of the most mappings that a process may have (65,530 by default) takes.
const NODES_MAX: usize = 1 << 15;

/// A node is aligned to so many bytes, and its size is no more.
const NODE_BYTES: u64 = 256;
/// Of a pointer to a node: its kind.
const KIND_SHIFT: u32 = 3;
const KIND_MASK: u64 = 0xf;
/// Kinds: leaves, and inner nodes without and with gaps.
const LEAF: u64 = 1;
const RANGE: u64 = 2;
const WITH_GAPS: u64 = 3;

/// Where things lie in the kernel's structures, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The tree's root in the mm.
    root: u64,
    start: u64,
    end: u64,
    flags: u64,
    /// Pivots and slots of a leaf, or of an inner node without gaps: where, and how many slots.
    plain: Shape,
    /// Of one with gaps.
    with_gaps: Shape,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    pivots: u64,
    slots: u64,
    count: usize,
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
            start: btf.offset("vm_area_struct", "vm_start")?,
            end: btf.offset("vm_area_struct", "vm_end")?,
            flags: btf.offset("vm_area_struct", "vm_flags")?,
            plain: shape("maple_range_64", NODE_BYTES)?,
            with_gaps: shape("maple_arange_64", gaps)?,
        })
    }

    /// The ranges of an address space that are advised so, ascending.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(crate) fn advised(self, reader: &mut Reader, space: &Mm) -> io::Result<Vec<Range<u64>>> {
        let copier = &mut reader.copier;
        let root = copier.peek(space.mm() + self.root)?.unwrap_or(0);
        let mappings = self.mappings(copier, root)?;
        let mut found = Vec::new();
        for batch in mappings.chunks(BATCH / 2) {
            let asked: Vec<[usize; 2]> = batch
                .iter()
                .map(|at| {
                    let bounds = copier.ask(at + self.start.min(self.end), 16);
                    [bounds, copier.ask(at + self.flags, 8)]
                })
                .collect();
            copier.run()?;
            for [bounds, flags] in asked {
                let flags = copier.answer(flags).map_or(0, |words| words[0]);
                let bounds = copier.answer(bounds).map(|words| [words[0], words[1]]);
                match bounds {
                    Some([start, end]) if flags & ADVISED != 0 && start < end => {
                        found.push(start..end);
                    }
                    _ => {}
                }
            }
        }
        found.sort_unstable_by_key(|range| range.start);
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

/// Whether a word of the tree leads to a node: an address in the kernel's half.
fn is_node(word: u64) -> bool {
    word >> 63 == 1
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
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
        let found = source.advised(child.id());
        // One line, then it takes the advice back.
        let mut write = || std::io::Write::write_all(stdin.as_mut().expect("piped"), b"\n");
        write().expect("it reads");
        assert!(lines.next().is_some_and(|line| line.is_ok()), "it is ready");
        let (none, later) = (told(child.id()), source.advised(child.id()));
        write().expect("it reads");
        child.wait().expect("it ends");
        assert!(expected.len() >= 512, "{}", expected.len());
        assert_eq!(found.expect("it can be read"), expected);
        assert_eq!(later.expect("it can be read"), none);
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
