//! Sizes in a report are the kernel's: each frame counts once, however many processes map it. The
//! same holds for swapped-out pages.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::aged::{self, RunningReport, is_near, number, rollup};
use e2e::guard::{Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::postgres::Postgres;
use e2e::sizes::{check_sizes_by_kernel, check_sizes_by_recent_kernel};
use e2e::subject::{AgesSubject, Subject};
use e2e::temp::serial;
use e2e::zram::Swap;
use e2e::{pagetide, proc, wait};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

/// Checks that each process has as many mapped bytes in the report as the kernel counts (Rss).
fn check_mapped_is_rss(report: &Value) {
    for pid in aged::pids(report) {
        let mapped = aged::process(report, pid).map_or(0, |one| number(one, "mapped_bytes"));
        let rss = rollup(&[pid], "Rss");
        let is_near = is_near(mapped, rss, 1) || mapped.abs_diff(rss) < MIB / 2;
        assert!(is_near, "pid {pid} maps {mapped}, Rss {rss}: {report}");
    }
}

#[test]
fn every_kind_of_memory_counts_once() {
    let _serial = serial();
    let kinds = ["anon", "thp", "cow", "memfd", "forked", "file"];
    let ages = AgesSubject::start(64, 60, &kinds);
    let report = RunningReport::at(ages.printed.pid, 3, 1000).finish().report;
    check_sizes_by_kernel("ages", &report);
    check_mapped_is_rss(&report);
    assert_eq!(aged::pids(&report).len(), 2, "{report}");
}

#[test]
fn memory_shared_by_forked_workers_counts_once() {
    let _serial = serial();
    let workers = Subject::start("workers", &["8", "128", "60"]);
    let report = RunningReport::at(workers.pid, 3, 1000).finish().report;
    check_sizes_by_kernel("workers", &report);
    check_mapped_is_rss(&report);
    assert_eq!(aged::pids(&report).len(), 9, "{report}");
    let resident = number(&report, "resident_bytes");
    let most = (128 + 8 * 4 + 16) * MIB;
    assert!(resident < most, "shared pages count twice: {report}");
}

/// Whether the memory of a process and its descendants (Pss) changes by less than 0.1% within a
/// second.
fn is_steady(root: u32) -> bool {
    let held = || rollup(&proc::descendants(root), "Pss");
    let before = held();
    std::thread::sleep(Duration::from_secs(1));
    held().abs_diff(before) < before / 1000
}

/// Shared buffers are mapped by every backend, and count once for all backends together.
///
/// Regression (of this test): on a busy machine the buffers were still being filled during the
/// report, and the kernel's figure was read a second later. And Pss changed by 1.1% in three
/// seconds, though the server's own memory did not: other processes that mapped the same libraries
/// had ended.
#[test]
fn a_database_with_its_backends_counts_once() {
    let _serial = serial();
    let postgres = Postgres::start("128MB", 20);
    let words = ["-c", "4", "-j", "1", "-T", "150", "-S", "postgres"];
    let _clients = postgres.pgbench(&words).start();
    let server = postgres.pid();
    wait::until("the backends", SOON, || proc::descendants(server).len() > 8);
    wait::until("the buffers are full", 2 * SOON, || is_steady(server));
    let mut reported = Vec::new();
    let looking = RunningReport::at(server, 3, 1000);
    let report = looking.finish_while(|| reported.push(rollup(&proc::descendants(server), "Pss")));
    let report = report.report;
    reported.push(rollup(&aged::pids(&report), "Pss"));
    check_sizes_by_recent_kernel("postgres", &report, &reported);
    assert!(aged::pids(&report).len() > 8, "{report}");
}

/// A report on a control group has the same size as the kernel's charge of that group.
#[test]
fn a_control_group_is_charged_what_the_kernel_says() {
    let _serial = serial();
    let group = MemoryGroup::new();
    let words = ["64", "64", "60", "--rate", "1000"];
    let one = Subject::start_in(&group, "hotset", &words);
    let other = Subject::start_in(&group, "hotset", &words);
    let path = group.path();
    let report = RunningReport::start(&["--cgroup", &path], 3, 1000)
        .finish()
        .report;
    let usage = group.number("memory.usage_in_bytes");
    let charged = number(&report, "charged_bytes");
    assert!(is_near(charged, usage, 1), "{usage}: {report}");
    let most = group.number("memory.max_usage_in_bytes");
    for name in ["charged_peak_bytes", "resident_peak_bytes"] {
        let peak = number(&report, name);
        assert!(is_near(peak, most, 1), "{name}, {most}: {report}");
    }
    let mut pids = [one.pid, other.pid];
    pids.sort_unstable();
    let mut found = aged::pids(&report);
    found.sort_unstable();
    assert_eq!(found, pids, "{report}");
    check_sizes_by_kernel("two in a group", &report);
    let name = path.trim_start_matches("/sys/fs/cgroup/memory");
    for pid in pids {
        let process = aged::process(&report, pid).expect("it is there");
        assert_eq!(process["cgroup"], name, "{process}");
    }
}

/// Starts a Python program, and waits until it prints `ready`.
fn python(script: &str) -> Running {
    let program = Run::new(["python3", "-c", script]).start();
    let is_ready = || program.stdout().contains("ready");
    wait::until("the program is ready", SOON, is_ready);
    program
}

/// Regression: a memory of 64 MiB that a program mapped five times, as a JVM with ZGC maps its heap
/// three times, was reported as 320 MiB in swap.
#[test]
fn memory_mapped_many_times_counts_once_also_in_swap() {
    let _serial = serial();
    let _swap = Swap::shared();
    let program = python(
        "import os,mmap,time\n\
         n=64<<20; f=os.memfd_create('heap'); os.ftruncate(f,n)\n\
         v=[mmap.mmap(f,n) for _ in range(4)]+[mmap.mmap(f,n//2,offset=n//2)]\n\
         for i in range(0,n,4096): v[0][i:i+8]=os.urandom(8)\n\
         if os.fork()==0: time.sleep(60); os._exit(0)\n\
         print('ready',flush=True); time.sleep(60)",
    );
    let resident = RunningReport::at(program.pid(), 2, 1000).finish().report;
    let size = number(&resident, "resident_bytes");
    assert!((64 * MIB..90 * MIB).contains(&size), "{resident}");
    let words = ["reclaim", "--all", &program.pid().to_string()].map(str::to_owned);
    let _ = pagetide::command(words).finish(SOON);
    let report = RunningReport::at(program.pid(), 2, 1000).finish().report;
    let swapped = number(&report, "swapped_bytes");
    let resident = number(&report, "resident_bytes");
    assert!(swapped < 80 * MIB, "{swapped}: {report}");
    let both = swapped + resident;
    assert!((64 * MIB..100 * MIB).contains(&both), "{both}: {report}");
}

/// Regression: 64 MiB of secret memory were resident, and the report knew nothing of them.
#[test]
fn secret_memory_and_rings_have_lines_of_their_own() {
    let _serial = serial();
    let program = python(
        "import ctypes,mmap,socket,struct,time\n\
         n=16<<20; c=ctypes.CDLL(None); f=c.syscall(447,0)\n\
         c.ftruncate(f,ctypes.c_long(n)); m=[mmap.mmap(f,n) for _ in range(2)]\n\
         for i in range(0,n,4096): m[0][i]=1\n\
         s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW,0)\n\
         s.setsockopt(263,5,struct.pack('IIII',1<<20,4,2048,2048))\n\
         r=mmap.mmap(s.fileno(),4<<20); r[0]\n\
         print('ready',flush=True); time.sleep(60)",
    );
    let report = RunningReport::at(program.pid(), 2, 1000).finish().report;
    assert_eq!(number(&report, "secret_bytes"), 16 * MIB, "{report}");
    assert_eq!(number(&report, "device_bytes"), 4 * MIB, "{report}");
    // The kernel counts all three in Rss.
    let parts = ["resident_bytes", "secret_bytes", "device_bytes"];
    let sum: u64 = parts.iter().map(|name| number(&report, name)).sum();
    let rss = rollup(&[program.pid()], "Rss");
    assert!(is_near(sum, rss, 2), "{sum}, Rss {rss}: {report}");
}
