//! Measures what tearing mappings down costs, by ranges or page by page.
//!
//! In time on the processor, all ways in turn, with folios in the order of addresses or in none:
//! `mmu_gather time|scattered [ORDER] [MIB] [ROUNDS]`.
//!
//! In instructions, to be counted from outside:
//! `valgrind --tool=callgrind --toggle-collect='*teardown*' --callgrind-out-file=/dev/null
//! target/release/examples/mmu_gather runs|ranges|pages [ORDER] [MIB]`.
#![forbid(unsafe_code)]

use sim::experiments::mmu_gather::{How, PageTable};

fn main() {
    let mut args = std::env::args().skip(1);
    let how = args.next().unwrap_or_else(|| "time".to_owned());
    let mut number = |default| args.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    let (order, mib, rounds) = (number(3), number(1024), number(101));
    let fresh = PageTable::new(order, mib * 256);
    match how.as_str() {
        "pages" => once(fresh, How::Pages),
        "ranges" => once(fresh, How::Ranges),
        "runs" => once(fresh, How::Runs),
        "scattered" => time(&fresh.scattered(order, 1), rounds),
        _ => time(&fresh, rounds),
    }
}

fn once(mut table: PageTable, how: How) {
    let millis = table.timed(how) * 1e3;
    println!("{millis:.3} ms, {:?}", table.stats());
}

/// Times all ways in turn, `rounds` times, so that what disturbs the machine disturbs them all.
fn time(fresh: &PageTable, rounds: u64) {
    let mut millis = How::ALL.map(|_| Vec::new());
    for _ in 0..rounds {
        for (how, millis) in How::ALL.into_iter().zip(&mut millis) {
            millis.push(fresh.clone().timed(how) * 1e3);
        }
    }
    // The account of a thread is wrong now and then: neither least nor most mean anything.
    let tenth_and_median = |millis: &mut Vec<f64>| {
        millis.sort_by(f64::total_cmp);
        (millis[millis.len() / 10], millis[millis.len() / 2])
    };
    let found = millis.each_mut().map(tenth_and_median);
    let pages = found[0];
    for (how, (tenth, median)) in How::ALL.into_iter().zip(found) {
        println!(
            "{:25} best tenth {tenth:.3} ms ({:.2} x), median {median:.3} ms ({:.2} x)",
            how.name(),
            pages.0 / tenth,
            pages.1 / median
        );
    }
}
