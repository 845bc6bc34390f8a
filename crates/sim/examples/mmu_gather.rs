//! Measures the cost of unmapping all memory of a process, by ranges or page by page.
//!
//! To measure processor time, of all ways in turn, with folios in the order of addresses or
//! (`scattered`) in random order: `mmu_gather time|scattered [ORDER] [MIB] [ROUNDS]`.
//!
//! To count instructions, with callgrind:
//! `valgrind --tool=callgrind --toggle-collect='*teardown*' --callgrind-out-file=/dev/null
//! target/release/examples/mmu_gather runs|ranges|pages [ORDER] [MIB]`.
#![forbid(unsafe_code)]

use sim::experiments::mmu_gather::{PageTable, Unmapping};

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_else(|| "time".to_owned());
    let mut number = |default| args.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    let (order, mib, rounds) = (number(3), number(1024), number(101));
    let fresh = PageTable::new(order, mib * 256);
    match mode.as_str() {
        "pages" => once(fresh, Unmapping::Pages),
        "ranges" => once(fresh, Unmapping::Ranges),
        "runs" => once(fresh, Unmapping::Runs),
        "scattered" => time(&fresh.scattered(order, 1), rounds),
        _ => time(&fresh, rounds),
    }
}

fn once(mut table: PageTable, unmapping: Unmapping) {
    let millis = table.timed(unmapping) * 1e3;
    println!("{millis:.3} ms, {:?}", table.stats());
}

/// Measures the processor time of all ways in turn, `rounds` times. If something disturbs the
/// machine, it disturbs all ways alike.
fn time(fresh: &PageTable, rounds: u64) {
    let mut millis = Unmapping::ALL.map(|_| Vec::new());
    for _ in 0..rounds {
        for (unmapping, millis) in Unmapping::ALL.into_iter().zip(&mut millis) {
            millis.push(fresh.clone().timed(unmapping) * 1e3);
        }
    }
    // The processor time that the kernel reports for a thread is sometimes wrong, so neither the
    // smallest nor the largest time is used.
    let tenth_and_median = |millis: &mut Vec<f64>| {
        millis.sort_by(f64::total_cmp);
        (millis[millis.len() / 10], millis[millis.len() / 2])
    };
    let found = millis.each_mut().map(tenth_and_median);
    let pages = found[0];
    for (unmapping, (tenth, median)) in Unmapping::ALL.into_iter().zip(found) {
        println!(
            "{:25} best tenth {tenth:.3} ms ({:.2} x), median {median:.3} ms ({:.2} x)",
            unmapping.name(),
            pages.0 / tenth,
            pages.1 / median
        );
    }
}
