//! What tearing mappings down costs, by ranges or page by page, to be counted from outside:
//! `valgrind --tool=callgrind --toggle-collect='*teardown*' --callgrind-out-file=/dev/null
//! target/release/examples/mmu_gather runs|ranges|pages [ORDER] [MIB]`.
#![forbid(unsafe_code)]

use sim::experiments::mmu_gather::{How, PageTable};
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let how = match args.next().as_deref() {
        Some("ranges") => How::Ranges,
        Some("pages") => How::Pages,
        _ => How::Runs,
    };
    let mut number = |default| args.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    let (order, mib) = (number(3), number(1024));
    let mut table = PageTable::new(order, mib * 256);
    let start = Instant::now();
    table.teardown(how);
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.3} ms, {:?}", seconds * 1e3, table.stats());
}
