//! The hostile workload while everything is evicted as fast as possible: no wrong byte.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, tail};
use e2e::hostile::Hostile;
use e2e::notice::POLICY;
use e2e::pagetide;
use e2e::report::Report;
use e2e::temp::{TempDir, serial};
use e2e::wait::Chance;
use e2e::zram::Swap;
use rustix::process::Signal;

/// Its own watchdog ends it after 60 s without progress.
const SLACK: Duration = Duration::from_secs(150);

fn judge(what: &str, outcome: &Outcome) {
    let said = tail(&outcome.stderr, 4000);
    assert_eq!(
        outcome.status.code(),
        Some(0),
        "{what}: {}\n{said}",
        outcome.status
    );
    assert!(
        outcome.stdout.starts_with("OK ops="),
        "{what}: {}",
        outcome.stdout
    );
}

/// Its report, and the pages that left by the kernel's count: what was written to a swap of its own.
fn under_eviction(seconds: u64, seed: u64, more: &[&str]) -> (Report, u64) {
    let (folder, swap) = (TempDir::new(), Swap::new(1024));
    let path = folder.file("report.json");
    let hostile = Hostile::new(seconds, seed, more);
    let mut options = POLICY.to_vec();
    // The threads may be held up: it is to be as hard as can be, not as quick.
    options.extend(["--max-wait", "1s", "--report", path.as_str()]);
    let limit = Duration::from_secs(seconds) + SLACK;
    let running = pagetide::run(&options, hostile.run()).start();
    let stuck = hostile.watch(&running, limit).unwrap_or_default();
    let outcome = running.wait(limit);
    judge(&format!("seed {seed} {more:?} {stuck}"), &outcome);
    let file = folder.path().join("report.json");
    // The manager writes it a moment after the workload has ended.
    e2e::wait::until("the report", SLACK, || {
        std::fs::metadata(&file).is_ok_and(|meta| meta.len() > 0)
    });
    (Report::read(&file), swap.written() / 4096)
}

#[test]
fn runs_clean_alone() {
    let _serial = serial();
    let outcome = Hostile::new(1, 1, &[]).run().finish(SLACK);
    judge("alone", &outcome);
}

/// The workload must be able to fail: a byte changed behind its back is found.
#[test]
fn a_wrong_byte_is_found() {
    let _serial = serial();
    let hostile = Hostile::new(20, 1, &["--ops=verify", "--threads", "1", "--mib", "8"]);
    let running = hostile.run().start();
    e2e::wait::until("the workload", SLACK, || hostile.ops() > 10);
    let pid = running.pid();
    // Stopped meanwhile, or it would find the first page and end before the last is changed.
    running.signal(Signal::STOP);
    e2e::wait::until("the stop", SLACK, || e2e::proc::state(pid) == Some('T'));
    let changed = change_patterns(pid);
    assert!(changed > 100, "{changed} pages with a pattern");
    running.signal(Signal::CONT);
    let outcome = running.wait(SLACK);
    assert_eq!(outcome.status.code(), Some(99), "{}", outcome.stderr);
}

/// Changes a word of every page that holds a pattern, wherever it is mapped; their number. Other
/// memory of the program (its configuration, stacks) is not touched.
fn change_patterns(pid: u32) -> usize {
    use std::os::unix::fs::FileExt;
    let open = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    let memory = open.expect("root may write to its own process");
    let mut changed = 0;
    for line in e2e::proc::maps(pid) {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let ends = line
            .split([' ', '-'])
            .take(2)
            .map(hex)
            .collect::<Option<Vec<_>>>();
        let Some(&[start, end]) = ends.as_deref().filter(|_| line.contains(" rw-p ")) else {
            continue;
        };
        for at in (start..end).step_by(4096) {
            let mut page = [0; 4096];
            // Unmapped meanwhile: then it is none of the regions, which stay.
            if memory.read_exact_at(&mut page, at).is_ok() && is_pattern(&page) {
                memory
                    .write_all_at(b"wrong", at + 64)
                    .expect("the memory can be written");
                changed += 1;
            }
        }
    }
    changed
}

/// `word_at` of tests/programs/hostile/pattern.c, any version but 0.
fn is_pattern(page: &[u8; 4096]) -> bool {
    let words: Vec<u64> = page
        .chunks_exact(8)
        .map(|bytes| bytes.try_into().map_or(0, u64::from_ne_bytes))
        .collect();
    let follows = |rule: fn(u64, u64) -> u64| {
        let mut rest = words.iter().zip(0..);
        words[0] != 0 && rest.all(|(&word, i)| word == rule(words[0], i))
    };
    follows(|first, _| first)
        || follows(|first, i| first ^ (i >> 3))
        || follows(|first, i| first.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

#[test]
fn everything_at_once() {
    let _serial = serial();
    let mut chance = Chance::from_env("everything_at_once");
    let seed = chance.below(1 << 32);
    let (_, evicted) = under_eviction(8, seed, &[]);
    assert!(evicted > 1000, "{evicted} pages left");
}

/// Four times as much memory, and fewer threads to warm it: more of it is put out, and comes back.
#[test]
fn much_memory() {
    let _serial = serial();
    let mut chance = Chance::from_env("much_memory");
    let seed = chance.below(1 << 32);
    let (_, evicted) = under_eviction(5, seed, &["--mib", "256", "--threads", "2"]);
    assert!(evicted > 5000, "{evicted} pages left");
}

#[test]
fn several_processes() {
    let _serial = serial();
    let mut chance = Chance::from_env("several_processes");
    let seed = chance.below(1 << 32);
    let more = ["--procs", "3", "--threads", "2", "--mib", "24"];
    let (_, evicted) = under_eviction(5, seed, &more);
    assert!(evicted > 1000, "{evicted} pages left");
}

/// One group of operations a run: what breaks is named by the test. `bench hostile` runs all of them for long.
#[test]
fn each_kind_of_operation_alone() {
    let _serial = serial();
    let mut chance = Chance::from_env("each_kind_of_operation_alone");
    let groups = [
        "verify,rewrite,straddle,copy,idle,stack,mlock",
        "verify,rewrite,grow,shrink,move",
        "verify,rewrite,move_part,dontunmap,remap,remap_part,brk",
        "verify,rewrite,protect,segv",
        "verify,rewrite,dontneed,free",
        "verify,rewrite,collapse,huge,populate",
        "verify,rewrite,fork,exec,vfork,spawn",
        "verify,rewrite,pipe,file,direct,close_all",
        "verify,rewrite,futex,thread,signal",
    ];
    let (mut failed, mut evicted) = (Vec::new(), 0);
    for group in groups {
        let seed = chance.below(1 << 32);
        let result = std::panic::catch_unwind(|| under_eviction(1, seed, &["--ops", group]));
        match result {
            Ok((_, left)) => evicted += left,
            Err(_) => failed.push(group),
        }
    }
    assert!(failed.is_empty(), "wrong under {failed:?}");
    // Nothing can be wrong of what never left. One run of a second may be too short for that on a busy machine.
    assert!(evicted > 1000, "{evicted} pages evicted in all of them");
}
