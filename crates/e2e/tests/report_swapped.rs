//! Reports while the kernel swaps: what is out counts as out, and what it took the bits of is not old.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use e2e::aged::{self, Looking, number, rollup};
use e2e::memcg::MemoryGroup;
use e2e::proc;
use e2e::sizes::is_what_the_kernel_said;
use e2e::subject::AgesSubject;
use e2e::temp::serial;
use e2e::verdict::{Group, groups};
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;

/// While its group is reclaimed all the time, the kernel clears bits, too, and leaves no mark: pages that it
/// took them from look older than they are. What is touched every second must mostly be seen young
/// all the same: in one of three reports, as it may have taken them a moment before the last look of one.
#[test]
fn what_is_in_use_stays_young_while_the_kernel_reclaims() {
    let _serial = serial();
    let _swap = Swap::shared();
    let group = MemoryGroup::new();
    let ages = AgesSubject::start_in(&group, 64, 100, &["anon"]);
    // Three of its four classes are in use; the fourth, and some of what is rarely touched, must go.
    group.limit(group.number("memory.usage_in_bytes") / 10 * 7);
    assert!((0..3).any(|_| is_seen_young(&ages)), "in no report");
}

/// Whether a report has nine tenths of what is in use as young as it is.
fn is_seen_young(ages: &AgesSubject) -> bool {
    let aged = Looking::at(ages.printed.pid, 20, 1000).finish();
    let expected = groups(&ages.printed, &ages.table(), &aged.look).expect("a truth");
    // As old as the class that is touched each second may look: a refault may hold its pass up.
    let first = expected.iter().find(|group| group.class == 0);
    let bound = first.expect("a class that is touched each second").ages.1;
    assert!(
        bound < 5_000_000_000,
        "the program stands still: {bound} ns"
    );
    let is_young = |group: &&Group| group.ages.1 <= bound;
    let young: u64 = expected
        .iter()
        .filter(is_young)
        .map(|group| group.bytes)
        .sum();
    let bins = aged::bins(&aged.report);
    // The story: a bin that began below the bound counted whole, with a class that is touched every 4 s in it, and
    // 8,407 of 4,007 pages were seen young. What ends within an interval of the bound counts.
    let ends = bins.iter().skip(1).map(|bin| bin.older_than_ms * 1_000_000);
    let seen = bins
        .iter()
        .zip(ends)
        .filter(|(_, end)| *end <= bound + 1_000_000_000);
    let seen: u64 = seen.map(|(bin, _)| bin.anon_bytes).sum();
    let scanned = number(&aged.report, "evicted_pages");
    let text = format!(
        "{} of {} pages in use seen young; {scanned} evicted; {bins:?}",
        seen / 4096,
        young / 4096
    );
    eprintln!("{text}");
    assert!(young > 8 * MIB && scanned > 1000, "no pressure: {text}");
    seen * 10 >= young * 9
}

/// Under a limit of its group a program loses memory to swap, and takes it back. One that touched its memory
/// without pause would be killed: the kernel finds nothing that is not in use.
#[test]
fn what_is_in_swap_is_what_the_kernel_says() {
    let _serial = serial();
    let _swap = Swap::shared();
    let group = MemoryGroup::new();
    let ages = AgesSubject::start_in(&group, 96, 60, &["anon"]);
    let pids = [ages.printed.pid];
    let looking = Looking::at(pids[0], 12, 1000);
    let mut told = vec![rollup(&pids, "Pss")];
    std::thread::sleep(Duration::from_millis(2500));
    group.limit(60 * MIB);
    // What is in swap changes while a pass is under way: any value of the last moments will do.
    let mut seen = VecDeque::new();
    let report = looking.finish_while(|| {
        seen.push_back(rollup(&pids, "Swap"));
        seen.push_back(proc::number(pids[0], "VmSwap").unwrap_or(0));
        seen.drain(..seen.len().saturating_sub(40));
        told.push(rollup(&pids, "Pss"));
    });
    let report = report.report;
    let swapped = number(&report, "swapped_bytes");
    assert!(swapped > 16 * MIB, "nothing is in swap: {report}");
    let (least, most) = (seen.iter().min(), seen.iter().max());
    let (least, most) = (least.expect("sampled"), most.expect("sampled"));
    let near = least / 100 * 98..=most / 100 * 102;
    eprintln!("in swap: {swapped}, VmSwap and Swap {least} to {most}");
    assert!(near.contains(&swapped), "{near:?}: {report}");
    assert!(number(&report, "evicted_pages") > 4096, "{report}");
    assert!(number(&report, "refaulted_pages") > 0, "{report}");
    told.push(rollup(&pids, "Pss"));
    is_what_the_kernel_said("in swap", &report, &told);
    drop(ages);
}
