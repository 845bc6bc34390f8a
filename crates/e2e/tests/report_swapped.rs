//! Reports while the kernel swaps: swapped-out pages count as swapped, and pages whose accessed
//! bits the kernel has cleared do not count as old.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use e2e::aged::{self, RunningReport, number, rollup};
use e2e::memcg::MemoryGroup;
use e2e::proc;
use e2e::sizes::check_sizes_by_recent_kernel;
use e2e::subject::AgesSubject;
use e2e::temp::serial;
use e2e::verdict::{Group, groups};
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;

/// While a group is reclaimed from all the time, the kernel clears accessed bits, too, and does not
/// show it: such pages may seem older than they are. All the same, memory touched every second must
/// mostly be reported as young, in at least one of three reports: in any of them the kernel may
/// have cleared bits just before the last scan.
#[test]
fn memory_in_use_stays_young_while_the_kernel_reclaims() {
    let _serial = serial();
    let _swap = Swap::shared();
    let group = MemoryGroup::new();
    let ages = AgesSubject::start_in(&group, 64, 100, &["anon"]);
    // Three of the program's four classes are in use. The limit, 70% of its memory, swaps out the
    // fourth class and some rarely touched pages.
    group.limit(group.number("memory.usage_in_bytes") / 10 * 7);
    assert!((0..3).any(|_| is_seen_young(&ages)), "in no report");
}

/// Whether one report shows at least 90% of the memory in use in the young bins.
fn is_seen_young(ages: &AgesSubject) -> bool {
    let aged = RunningReport::at(ages.printed.pid, 20, 1000).finish();
    let expected = groups(&ages.printed, &ages.table(), &aged.scan).expect("a truth");
    // Young: at most as old as the class touched each second, which a refault may have delayed.
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
    // Regression: a bin that only began below the bound counted as a whole, with a class in it that
    // is touched every 4 s, so 8,407 of 4,007 pages counted as young. Only bins that end at most 1
    // s above the bound count.
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

/// Under the limit of its group a program's memory is swapped out and in. (The kernel would kill a
/// program that touches its memory without a pause, as all pages would be in use.)
#[test]
fn swapped_sizes_are_those_of_the_kernel() {
    let _serial = serial();
    let _swap = Swap::shared();
    let group = MemoryGroup::new();
    let ages = AgesSubject::start_in(&group, 96, 60, &["anon"]);
    let pids = [ages.printed.pid];
    let looking = RunningReport::at(pids[0], 12, 1000);
    let mut reported = vec![rollup(&pids, "Pss")];
    std::thread::sleep(Duration::from_millis(2500));
    group.limit(60 * MIB);
    // The swapped size changes during the program's pass: any value of the last moments is right.
    let mut seen = VecDeque::new();
    let report = looking.finish_while(|| {
        seen.push_back(rollup(&pids, "Swap"));
        seen.push_back(proc::number(pids[0], "VmSwap").unwrap_or(0));
        seen.drain(..seen.len().saturating_sub(40));
        reported.push(rollup(&pids, "Pss"));
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
    reported.push(rollup(&pids, "Pss"));
    check_sizes_by_recent_kernel("in swap", &report, &reported);
    drop(ages);
}
