//! The program's memory as the kernel sees it: one character for each block of 2 MiB.
//!
//! Invariant: the picture is drawn from `/proc/PID/pagemap` alone, never from our age table. A
//! block that is partly in memory and partly in swap has its own character. If pagemap cannot be
//! read, nothing is drawn.

use std::os::fd::AsFd;

use daemon::options::PAGE_LEN;
use host::system::access;

use super::subject::Workload;
use super::workload::{BLOCK, BLOCKS};
use crate::terminal::Style;

/// Bits of an entry of pagemap: the page is in memory (`PRESENT`), or in swap (`SWAPPED`).
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Indentation of each line.
const INDENT: &str = "   ";

/// For one block: number of pages in memory, then number of pages in swap.
type Count = (usize, usize);

/// Returns the lines of the picture.
pub(super) fn draw(subject: &Workload, style: Style) -> Vec<String> {
    let Some(counts) = counts(subject) else {
        return Vec::new();
    };
    let room = style.width.saturating_sub(INDENT.len());
    let columns = [BLOCKS, 40, 20, 10].into_iter().find(|n| *n <= room);
    let rows = counts.chunks(columns.unwrap_or(10));
    rows.map(|row| {
        let cells: String = row.iter().map(|count| cell(*count, style)).collect();
        format!("{INDENT}{cells}")
    })
    .collect()
}

/// Returns the legend: what the picture's characters mean.
pub(super) fn legend(style: Style) -> String {
    let full = BLOCK / PAGE_LEN;
    let [memory, swap] = [(full, 0), (0, full)].map(|count| cell(count, style));
    format!("{INDENT}{memory} in memory  {swap} in swap, 2 MiB each")
}

fn cell((present, swapped): Count, style: Style) -> String {
    let [memory, both, swap] = match style.unicode {
        true => ["█", "▒", "·"],
        false => ["#", "+", "."],
    };
    match (present, swapped) {
        (_, 0) => style.green(memory),
        (0, _) => style.dim(swap),
        _ => style.yellow(both),
    }
}

fn counts(subject: &Workload) -> Option<Vec<Count>> {
    let pid = subject.pid();
    let pagemap = access::open(pid, "pagemap").ok()?;
    let mut counts = Vec::with_capacity(BLOCKS);
    for block in 0..BLOCKS {
        let mut words = vec![0; BLOCK / PAGE_LEN * 8];
        let at = (subject.address + block * BLOCK) / PAGE_LEN * 8;
        let read_bytes = access::read_at((pid, pagemap.as_fd()), at as u64, &mut words).ok()?;
        (read_bytes == words.len()).then_some(())?;
        let (words, _) = words.as_chunks::<8>();
        let with = |bit: u64| {
            let has = |word: &&[u8; 8]| u64::from_ne_bytes(**word) & bit != 0;
            words.iter().filter(has).count()
        };
        counts.push((with(PRESENT), with(SWAPPED)));
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_drawn_by_where_its_pages_are() {
        let of = |count| cell(count, Style::PLAIN);
        assert_eq!([of((512, 0)), of((0, 512)), of((1, 511))], ["#", ".", "+"]);
    }
}
