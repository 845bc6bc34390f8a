//! Which frames of files some processes map, each once, by the kernel's `pagemap`.
//!
//! The kernel's Pss divides a page by all who map it, also by processes that nobody asked about: of
//! libraries it tells too little. This is what it would tell were the processes alone.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::aged::rollup;
use crate::proc;

const PAGE: u64 = 4096;
const PRESENT: u64 = 1 << 63;
/// Of a file or shared, not a copy that the process wrote.
const SHARED: u64 = 1 << 61;
const FRAME: u64 = (1 << 55) - 1;
/// What is mapped by a name and is memory all the same.
const MEMORY: [&str; 4] = ["/dev/shm/", "/memfd:", "/dev/zero", "/SYSV"];

/// Mappings of files: start and end.
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

/// What the kernel would have as the processes' Pss if nobody else mapped their files.
#[must_use]
pub fn pss_alone(pids: &[u32]) -> u64 {
    let mut found = BTreeSet::new();
    for pid in pids {
        // One that has ended has nothing.
        let _ = frames(*pid, &mut found);
    }
    let files = found.len() as u64 * PAGE;
    rollup(pids, "Pss") - rollup(pids, "Pss_File") + files
}
