//! The processes that a report counts: the target and all of its descendants, in any session or
//! process group.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use e2e::aged::{self, RunningReport, number};
use e2e::guard::Run;
use e2e::temp::{TempDir, serial};
use e2e::{pagetide, proc, programs, wait};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// Descendants of a shell are counted, each with memory of its own: one after an exec, one in a new
/// session, an orphan, and one of another user.
#[test]
fn all_descendants_are_counted() {
    let _serial = serial();
    // Other users must be able to run the program, and the target directory may lie under a private
    // home directory.
    let folder = TempDir::public();
    let program = folder.file("hotset");
    std::fs::copy(programs::c("hotset"), &program).expect("a program can be copied");
    let hold = format!("{program} 16 16 60 --rate 1000");
    let script = format!(
        "sleep 2; (exec {hold}) & setsid {hold} & (setsid sh -c '{hold} & exec sleep 0.1' &) \n\
         setpriv --reuid nobody --clear-groups {hold} & \n wait; sleep 60"
    );
    let shell = Run::new(["sh", "-c", &script]).start();
    let looking = RunningReport::at(shell.pid(), 8, 1000);
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

/// Regression: an idle daemon had inherited all its memory from a parent that had ended, and a
/// report had 9 of its 77 MB for as long as it was idle: an idle process is not walked again, so
/// the pages still counted as the parent's.
#[test]
fn memory_that_an_idle_child_inherited_counts_after_its_parent_ends() {
    let _serial = serial();
    let script = format!("{} 32 4; sleep 60", programs::c("orphan"));
    let shell = Run::new(["sh", "-c", &script]).start();
    wait::until("it has forked", SOON, || shell.stdout().ends_with('\n'));
    let child: u32 = shell.stdout().trim().parse().expect("its child");
    let report = RunningReport::at(shell.pid(), 14, 1000).finish().report;
    assert_eq!(
        number(&report["ended"], "processes"),
        1,
        "its parent: {report}"
    );
    let process = aged::process(&report, child).unwrap_or_else(|| panic!("{report}"));
    assert!(number(process, "resident_bytes") >= 32 * MIB, "{report}");
    // The memory keeps its age. (On a busy machine some bits cannot be cleared in time.)
    let old = ["older_than_10s_bytes", "unknown_age_bytes"].map(|name| number(process, name));
    assert!(old.iter().sum::<u64>() >= 32 * MIB, "{report}");
}

/// A compile starts hundreds of processes that live for milliseconds: the report counts all of
/// them.
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
    // The compiler's wrapper adds a line to the file `started`, and then becomes the compiler.
    rules += "\n%.o: %.c\n\t@echo $@ >> started; exec cc -c -o $@ $<\n";
    std::fs::write(folder.path().join("Makefile"), rules).expect("written");
    let go = folder.file("go");
    let made = Command::new("mkfifo").arg(&go).status();
    assert!(made.is_ok_and(|status| status.success()));
    // (`read` is built into the shell: it adds no process.)
    let script = format!(
        "cd {} && read word < go && make -s -j2; sleep 3",
        folder.path().display()
    );
    let shell = Run::new(["sh", "-c", &script]).start();
    let mut looking = RunningReport::at(shell.pid(), 300, 1000);
    looking.give_up_after(Duration::from_secs(120));
    // A report subscribes to process events before its first scan, and the scan claims the process.
    wait::until("it looks", SOON, || proc::is_claimed(shell.pid()));
    // (The pipe is opened for reading and writing, so that opening does not wait.)
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
    // cc starts cc1 and as: three processes per file. Shells, make and sleep are added.
    let least = 3 * u64::try_from(FILES).expect("small");
    assert!(number(ended, "processes") >= least, "{report}");
    assert!(number(ended, "processes") < least + 50, "{report}");
    assert_eq!(ended["counted_by_events"], true, "{report}");
    assert!(number(ended, "unseen") > 0, "{report}");
}

/// Regression: the report on a shell printed "ended with 3" while a worker of the shell still ran,
/// and listed the worker.
#[test]
fn the_exit_status_is_reported_once_all_processes_have_ended() {
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
