//! Counts the frames of file pages that some processes map, each frame once, by the kernel's
//! `pagemap`.
//!
//! The kernel's Pss divides a page among all processes that map it. For libraries, which untested
//! processes map too, the sum over the tested processes is too small. [`pss_alone`] is the Pss that
//! they would have if no other process ran.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::aged::rollup;
use crate::proc;

/// Size of a page, bytes.
const PAGE: u64 = 4096;
/// Bit of a `pagemap` entry: the page is present.
const PRESENT: u64 = 1 << 63;
/// Bit of a `pagemap` entry: the page is of a file or shared memory, not a private copy.
const SHARED: u64 = 1 << 61;
/// Bits of a `pagemap` entry that hold the number of the frame.
const FRAME: u64 = (1 << 55) - 1;
/// Beginnings of the names of mappings that are memory, though they have the name of a file.
const MEMORY: [&str; 4] = ["/dev/shm/", "/memfd:", "/dev/zero", "/SYSV"];

/// The mappings of files in a process: start address and end address of each.
fn of_files(pid: u32) -> Vec<(u64, u64)> {
    let parse = |line: &String| {
        let at = line.find('/')?;
        let is_memory = MEMORY.iter().any(|name| line[at..].starts_with(name));
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let range = (
            u64::from_str_radix(start, 16).ok()?,
            u64::from_str_radix(end, 16).ok()?,
        );
        (!is_memory).then_some(range)
    };
    proc::maps(pid).iter().filter_map(parse).collect()
}

/// Adds the frames of file pages that a process maps; `None` if it has ended.
fn frames(pid: u32, found: &mut BTreeSet<u64>) -> Option<()> {
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).ok()?;
    for (start, end) in of_files(pid) {
        let words = usize::try_from((end - start) / PAGE).ok()?;
        let mut bytes = vec![0; words * 8];
        let read = pagemap.read_at(&mut bytes, start / PAGE * 8).ok()?;
        let (words, _) = bytes[..read].as_chunks::<8>();
        let of_file = words
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .filter(|word| word & PRESENT != 0 && word & SHARED != 0);
        found.extend(of_file.map(|word| word & FRAME));
    }
    Some(())
}

/// Sum of the Pss of some processes, bytes, as it would be if no other process mapped their files.
#[must_use]
pub fn pss_alone(pids: &[u32]) -> u64 {
    let mut found = BTreeSet::new();
    for pid in pids {
        // A process that has ended maps nothing.
        let _ = frames(*pid, &mut found);
    }
    let files = found.len() as u64 * PAGE;
    rollup(pids, "Pss") - rollup(pids, "Pss_File") + files
}
