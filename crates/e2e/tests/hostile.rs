//! The hostile workload while everything is evicted as fast as possible: no wrong byte.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, tail};
use e2e::hostile::Hostile;
use e2e::pagetide;
use e2e::report::Report;
use e2e::temp::{TempDir, serial};
use e2e::wait::Chance;

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

fn under_eviction(seconds: u64, seed: u64, more: &[&str]) -> Report {
    let folder = TempDir::new();
    let path = folder.file("report.json");
    let hostile = Hostile::new(seconds, seed, more);
    let mut options = pagetide::EVICT_FAST.to_vec();
    options.extend(["--report", path.as_str()]);
    let run = pagetide::run(&options, hostile.run());
    let outcome = run.finish(Duration::from_secs(seconds) + SLACK);
    judge(&format!("seed {seed} {more:?}"), &outcome);
    Report::read(&folder.path().join("report.json"))
}

#[test]
fn runs_clean_alone() {
    let _serial = serial();
    let outcome = Hostile::new(3, 1, &[]).run().finish(SLACK);
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
    let maps = e2e::proc::maps(pid);
    let region = maps
        .iter()
        .find(|line| line.contains("rw-p") && line.ends_with(" 0 "));
    let line = region.unwrap_or_else(|| panic!("no anonymous mapping in {maps:?}"));
    let range = line
        .split([' ', '-'])
        .take(2)
        .map(|hex| u64::from_str_radix(hex, 16).expect("hex"));
    let range: Vec<u64> = range.collect();
    let memory = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    let memory = memory.expect("root may write to its own process");
    for at in (range[0]..range[1]).step_by(4096) {
        use std::os::unix::fs::FileExt;
        memory
            .write_all_at(b"wrong", at + 64)
            .expect("the memory can be written");
    }
    let outcome = running.wait(SLACK);
    assert_eq!(outcome.status.code(), Some(99), "{}", outcome.stderr);
}

#[test]
fn thirty_seconds_of_everything() {
    let _serial = serial();
    let mut chance = Chance::from_env("thirty_seconds_of_everything");
    let seed = chance.below(1 << 32);
    let report = under_eviction(30, seed, &[]);
    assert!(
        report.number("evicted_pages") > 1000,
        "hardly anything was evicted"
    );
}

#[test]
fn several_processes() {
    let _serial = serial();
    let mut chance = Chance::from_env("several_processes");
    let seed = chance.below(1 << 32);
    under_eviction(10, seed, &["--procs", "3", "--threads", "2", "--mib", "24"]);
}

/// One group of operations a run: what breaks is named by the test.
#[test]
fn each_kind_of_operation_alone() {
    let _serial = serial();
    let mut chance = Chance::from_env("each_kind_of_operation_alone");
    let groups = [
        "verify,rewrite,straddle,copy,idle,stack",
        "verify,rewrite,grow,shrink,move",
        "verify,rewrite,move_part,dontunmap",
        "verify,rewrite,remap,remap_part,brk",
        "verify,rewrite,protect,segv",
        "verify,rewrite,mlock",
        "verify,rewrite,dontneed",
        "verify,rewrite,free",
        "verify,rewrite,collapse,huge,populate",
        "verify,rewrite,fork",
        "verify,rewrite,exec,vfork,spawn",
        "verify,rewrite,pipe,file,direct,close_all",
        "verify,rewrite,futex,thread,signal",
    ];
    let mut failed = Vec::new();
    for group in groups {
        let seed = chance.below(1 << 32);
        let result = std::panic::catch_unwind(|| under_eviction(3, seed, &["--ops", group]));
        failed.extend(result.err().map(|_| group));
    }
    assert!(failed.is_empty(), "wrong under {failed:?}");
}
