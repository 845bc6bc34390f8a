//! Whose memory a report is of: a process and all that descends from it, wherever that goes.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use e2e::aged::{self, Looking, number};
use e2e::guard::Run;
use e2e::temp::{TempDir, serial};
use e2e::{pagetide, proc, programs, wait};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// The descendants of a shell that hold memory: one after an exec, one in a session of its own, one
/// whose parent is gone, one of another user.
#[test]
fn descendants_stay_whatever_they_do() {
    let _serial = serial();
    // Others must be able to run it, and the target directory may lie under a private home.
    let folder = TempDir::public();
    let program = folder.file("hotset");
    std::fs::copy(programs::c("hotset"), &program).expect("a program can be copied");
    let hold = format!("{program} 16 16 60 --rate 1000");
    let script = format!(
        "sleep 2; (exec {hold}) & setsid {hold} & (setsid sh -c '{hold} & exec sleep 0.1' &) \n\
         setpriv --reuid nobody --clear-groups {hold} & \n wait; sleep 60"
    );
    let shell = Run::new(["sh", "-c", &script]).start();
    let looking = Looking::at(shell.pid(), 8, 1000);
    let started = || shell.named("hotset").len() == 4;
    wait::until("four programs", SOON, started);
    let programs = shell.named("hotset");
    let orphans = programs.iter().filter(|pid| {
        let parent = proc::number(**pid, "PPid");
        parent.is_some_and(|parent| parent != u64::from(shell.pid()))
    });
    let orphans = orphans.count();
    let report = looking.finish().report;
    assert!(orphans > 0, "no orphan: {}", shell.state());
    for pid in programs {
        let process = aged::process(&report, pid).unwrap_or_else(|| panic!("{pid}: {report}"));
        assert!(number(process, "resident_bytes") >= 16 * MIB, "{process}");
    }
    let nobody = report["processes"].as_array().into_iter().flatten();
    let other = nobody.filter(|one| one["uid"] == 65534).count();
    assert_eq!(other, 1, "{report}");
    assert!(number(&report, "resident_bytes") >= 64 * MIB, "{report}");
}

/// (The story: of a daemon that sleeps, whose memory is all from the parent that had started it and ended, a report told of 9 MB of 77,
/// for as long as it slept. What nobody reads twice was its parent's.)
#[test]
fn what_a_sleeper_has_from_its_parent_stays_when_that_ends() {
    let _serial = serial();
    let script = format!("{} 32 4; sleep 60", programs::c("orphan"));
    let shell = Run::new(["sh", "-c", &script]).start();
    wait::until("it has forked", SOON, || shell.stdout().ends_with('\n'));
    let child: u32 = shell.stdout().trim().parse().expect("its child");
    let report = Looking::at(shell.pid(), 14, 1000).finish().report;
    assert_eq!(
        number(&report["ended"], "processes"),
        1,
        "its parent: {report}"
    );
    let process = aged::process(&report, child).unwrap_or_else(|| panic!("{report}"));
    assert!(number(process, "resident_bytes") >= 32 * MIB, "{report}");
    // As old as it was known to be. (Beside others bits cannot be cleared in time now and then.)
    let old = ["older_than_10s_bytes", "unknown_age_bytes"].map(|name| number(process, name));
    assert!(old.iter().sum::<u64>() >= 32 * MIB, "{report}");
}

/// A compile is hundreds of processes that live for milliseconds: none of them is lost.
#[test]
fn the_short_lived_processes_of_a_compile_are_counted() {
    const FILES: usize = 200;
    let _serial = serial();
    let folder = TempDir::new();
    let mut rules = String::from("all:");
    for i in 0..FILES {
        let _ = write!(rules, " f{i}.o");
        let text =
            format!("#include <stdio.h>\nint f{i}(int x) {{ return printf(\"%d\", x + {i}); }}\n");
        std::fs::write(folder.path().join(format!("f{i}.c")), text).expect("written");
    }
    // A wrapper that says that it was started, and becomes the compiler.
    rules += "\n%.o: %.c\n\t@echo $@ >> started; exec cc -c -o $@ $<\n";
    std::fs::write(folder.path().join("Makefile"), rules).expect("written");
    let go = folder.file("go");
    let made = Command::new("mkfifo").arg(&go).status();
    assert!(made.is_ok_and(|status| status.success()));
    // (The shell reads by itself: no process more.)
    let script = format!(
        "cd {} && read word < go && make -s -j2; sleep 3",
        folder.path().display()
    );
    let shell = Run::new(["sh", "-c", &script]).start();
    let mut looking = Looking::at(shell.pid(), 300, 1000);
    looking.give_up_after(Duration::from_secs(120));
    // Events are listened to before the first look, and that claims the process.
    wait::until("it looks", SOON, || proc::is_claimed(shell.pid()));
    // (Opened for both it waits for nobody.)
    let mut go = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&go)
        .expect("a pipe");
    go.write_all(b"\n").expect("it takes a line");
    let report = looking.finish().report;
    let started = std::fs::read_to_string(folder.path().join("started")).unwrap_or_default();
    assert_eq!(started.lines().count(), FILES, "{}", shell.stderr());
    let ended = &report["ended"];
    eprintln!("compile: {ended}");
    // cc starts cc1 and as; they and it are three. Shells, make and sleep come on top.
    let least = 3 * u64::try_from(FILES).expect("small");
    assert!(number(ended, "processes") >= least, "{report}");
    assert!(number(ended, "processes") < least + 50, "{report}");
    assert_eq!(ended["counted_by_events"], true, "{report}");
    assert!(number(ended, "unseen") > 0, "{report}");
}

/// A report said "ended with 3" of a shell whose worker ran on, and listed the worker.
#[test]
fn how_it_ended_is_told_once_all_have_ended() {
    let _serial = serial();
    let shell = Run::new(["sh", "-c", "sleep 8 & sleep 3; exit 3"]).start();
    let pid = shell.pid().to_string();
    let watch = ["report", "--watch=1s", "--json", &pid];
    let outcome = pagetide::command(watch).finish(SOON);
    let parsed = outcome.stdout.lines().map(serde_json::from_str);
    let reports: Vec<Value> = parsed.collect::<Result<_, _>>().expect("an object a line");
    let has_others = |report: &&Value| {
        let all = report["processes"].as_array().map_or(0, Vec::len);
        all > 0 && aged::process(report, shell.pid()).is_none()
    };
    let worker_alone: Vec<&Value> = reports.iter().filter(has_others).collect();
    assert!(!worker_alone.is_empty(), "{}", outcome.stdout);
    assert!(worker_alone.iter().all(|report| report["exit"].is_null()));
    let last = reports.last().expect("at least one");
    assert_eq!(last["exit"], 3, "{last}");
}
