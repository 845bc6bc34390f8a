//! Bad input: pagetide prints a clear error (what, why, what to do), ends with the documented exit
//! code, and does not touch the target.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, Run, Running, send};
use e2e::temp::{TempDir, serial};
use e2e::user::{self, NOBODY};
use e2e::zram::serial_with_swap;
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(120);
/// Exit code of a failure.
const FAILURE: i32 = 1;
/// Exit code of wrong usage.
const USAGE: i32 = 2;
/// Exit code if something that is needed is missing (a right, swap).
const MISSING: i32 = 3;

/// Checks the exit code and that the first line of the error says what failed and why (`words`),
/// and the next line what to do.
fn assert_refused(outcome: &Outcome, code: i32, words: &[&str]) {
    let said = &outcome.stderr;
    assert_eq!(
        outcome.status.code(),
        Some(code),
        "exit code; it said: {said}"
    );
    assert_eq!(outcome.stdout, "", "an error belongs on standard error");
    for word in words {
        assert!(
            said.to_lowercase().contains(&word.to_lowercase()),
            "{word:?} is not in: {said}"
        );
    }
    assert!(said.lines().count() >= 2, "no remedy: {said}");
    assert!(
        !said.contains("panicked") && !said.contains("Error {"),
        "not for users: {said}"
    );
}

/// Runs `pagetide attach` with a limit on this target, to its end.
fn attach(target: &str) -> Outcome {
    pagetide::command(["attach", "--memory-max", "16M", target]).finish(SOON)
}

/// An idle process, and what it was like at first, so that a test can check that it is unchanged.
struct Idle {
    running: Running,
    size: Option<u64>,
    maps: Vec<String>,
}

impl Idle {
    fn new(run: &Run) -> Idle {
        let running = run.start();
        std::thread::sleep(Duration::from_millis(200));
        let pid = running.pid();
        Idle {
            size: proc::number(pid, "VmSize"),
            maps: proc::maps(pid),
            running,
        }
    }

    fn pid(&self) -> u32 {
        self.running.pid()
    }

    fn assert_untouched(&mut self) {
        let pid = self.pid();
        assert!(self.running.ended().is_none(), "the target has ended");
        assert_eq!(proc::number(pid, "VmSize"), self.size);
        assert_eq!(proc::maps(pid), self.maps);
        assert_eq!(proc::number(pid, "TracerPid"), Some(0));
        assert!(
            matches!(proc::state(pid), Some('S' | 'R')),
            "state {:?}",
            proc::state(pid)
        );
    }
}

#[test]
fn invalid_sizes_and_times_are_refused() {
    let _serial = serial();
    let flag = TempDir::new();
    let touched = flag.file("touched");
    for (option, value) in [
        ("--memory-max", "-1"),
        ("--memory-max", "12Q"),
        ("--memory-max", ""),
        ("--memory-max", "99999999999999999999G"),
        ("--memory-max", "150%"),
        ("--memory-high", "many"),
        ("--evict-older-than", "10 parsecs"),
        ("--age-every", "-5s"),
        ("--every", "0"),
        ("--swappiness", "201"),
        ("--policy", "guess"),
    ] {
        let option = format!("{option}={value}");
        let run = pagetide::run(&[&option], &Run::new(["touch", &touched]));
        let outcome = run.finish(SOON);
        let what = format!("{option}: {}", outcome.stderr);
        assert_eq!(outcome.status.code(), Some(USAGE), "{what}");
        assert_refused(&outcome, USAGE, &[option.split('=').next().unwrap_or("")]);
        assert!(
            !std::path::Path::new(&touched).exists(),
            "{option}: the program ran"
        );
    }
}

#[test]
fn missing_and_unknown_arguments_are_refused() {
    let _serial = serial();
    for words in [
        &["run"][..],
        &["attach"],
        &["attach", "abc"],
        &["detach", "-7"],
        &["frobnicate"],
    ] {
        let outcome = pagetide::command(words.iter().copied()).finish(SOON);
        assert_refused(&outcome, USAGE, &[]);
    }
}

#[test]
fn an_unknown_pid_is_refused() {
    let _serial = serial();
    // A pid above the largest possible pid_max.
    for verb in ["attach", "detach", "report", "stat"] {
        let outcome = pagetide::command([verb, "4194999"]).finish(SOON);
        assert_refused(&outcome, FAILURE, &["4194999", "hint"]);
    }
}

#[test]
fn detach_and_stat_refuse_an_unmanaged_process() {
    let _serial = serial();
    let mut idle = Idle::new(&Run::new(["sleep", "100"]));
    for verb in ["detach", "stat"] {
        let outcome = pagetide::on(verb, idle.pid());
        assert_refused(&outcome, FAILURE, &[&idle.pid().to_string(), "hint"]);
        idle.assert_untouched();
    }
    // The ages of its pages can be reported all the same.
    let outcome = pagetide::command(["report", &idle.pid().to_string(), "--for", "1s"]);
    assert!(outcome.finish(pagetide::PROMPT).status.success());
    idle.assert_untouched();
}

#[test]
fn a_kernel_thread_is_refused() {
    let _serial = serial();
    assert_refused(
        &attach("2"),
        FAILURE,
        &["2", "thread of the kernel", "hint"],
    );
}

#[test]
fn a_zombie_is_refused() {
    let _serial = serial();
    let parent = Run::new(["sh", "-c", "true & exec sleep 100"]).start();
    let zombie = wait::poll(SOON, || {
        let is = |pid: &u32| {
            proc::status(*pid, "PPid").is_some_and(|found| found == parent.pid().to_string())
                && proc::state(*pid) == Some('Z')
        };
        proc::all().into_iter().find(is)
    });
    let zombie = zombie
        .expect("the shell does not wait for its child")
        .to_string();
    assert_refused(&attach(&zombie), FAILURE, &[&zombie, "zombie", "hint"]);
}

#[test]
fn a_second_manager_is_refused() {
    let _turn = serial_with_swap();
    let target = Run::new(
        [
            programs::c("toucher").as_str(),
            "--mib",
            "16",
            "--seconds",
            "60",
            "cold",
        ]
        .map(str::to_owned),
    )
    .start();
    let pid = target.pid().to_string();
    let first = pagetide::command(["attach", "--memory-max", "8M", &pid]).start();
    wait::until("managed", SOON, || {
        pagetide::try_report(target.pid()).is_some()
    });
    assert_refused(&attach(&pid), FAILURE, &["manages it", "hint"]);
    assert!(proc::is_alive(first.pid()) && proc::is_alive(target.pid()));
}

#[test]
fn a_process_of_another_user_is_refused() {
    let _serial = serial();
    let folder = TempDir::public();
    let copy = pagetide::public_copy(&folder);
    let mut idle = Idle::new(&Run::new(["sleep", "100"]));
    let pid = idle.pid().to_string();
    let outcome = user::run(NOBODY, [&copy, "attach", "--memory-max", "16M", &pid]).finish(SOON);
    assert_refused(&outcome, MISSING, &[&pid, "hint"]);
    idle.assert_untouched();
    let outcome =
        user::run(NOBODY, [&copy, "run", "--memory-max", "16M", "--", "true"]).finish(SOON);
    assert_refused(&outcome, MISSING, &["hint"]);
}

#[test]
fn a_report_file_that_cannot_be_written_is_refused_at_once() {
    let _serial = serial();
    let flag = TempDir::new();
    let touched = flag.file("touched");
    let options = [
        "--memory-max",
        "16M",
        "--report",
        "/no/such/folder/report.json",
    ];
    let outcome = pagetide::run(&options, &Run::new(["touch", &touched])).finish(SOON);
    assert_refused(&outcome, FAILURE, &["/no/such/folder/report.json", "hint"]);
    assert!(
        !std::path::Path::new(&touched).exists(),
        "known only after the work"
    );
}

/// If the target ends, its manager ends in order, without an error.
#[test]
fn a_manager_ends_in_order_when_its_target_is_killed() {
    let _turn = serial_with_swap();
    let target = Run::new(
        [
            programs::c("toucher").as_str(),
            "--mib",
            "32",
            "--seconds",
            "60",
            "uniform",
        ]
        .map(str::to_owned),
    )
    .start();
    let manager =
        pagetide::command(["attach", "--memory-max", "16M", &target.pid().to_string()]).start();
    wait::until("managed", SOON, || {
        pagetide::try_report(target.pid()).is_some()
    });
    send(target.pid(), Signal::KILL);
    let outcome = manager.wait(SOON);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert!(outcome.status.code().is_some(), "{}", outcome.status);
}

/// Regression: with the same file for `--report` and `--record`, the report silently overwrote the
/// recording.
#[test]
fn one_file_cannot_be_report_and_recording() {
    let _serial = serial();
    let folder = TempDir::new();
    let (file, link, ran) = (folder.file("f"), folder.file("link"), folder.file("ran"));
    std::os::unix::fs::symlink("f", &link).expect("a link");
    for other in [&file, &link] {
        let run = pagetide::run(
            &["--best-effort", "--report", &file, "--record", other],
            &Run::new(["touch", &ran]),
        );
        let outcome = run.finish(SOON);
        assert_refused(&outcome, USAGE, &["--record", "one file"]);
        assert!(!std::path::Path::new(&ran).exists(), "the program ran");
    }
}

/// Regression: `serve --history DIR` renamed the directory DIR, and the directory in which DIR was
/// mounted.
#[test]
fn a_directory_that_is_no_history_is_not_moved() {
    let _serial = serial();
    let folder = TempDir::new();
    let (place, mount) = (folder.file("place"), folder.file("mount"));
    std::fs::create_dir(&mount).expect("a directory");
    std::fs::create_dir(&place).expect("a directory");
    let socket = format!("unix:{}", folder.file("socket"));
    let words = [
        "serve",
        "--host",
        "none",
        "--root",
        "pagetide-e2e-history",
        "--mount",
        &mount,
        "--listen",
        &socket,
        "--history",
        &place,
    ];
    let outcome = pagetide::command(words).finish(SOON);
    assert_refused(&outcome, USAGE, &["history", "it is no file"]);
    assert!(std::path::Path::new(&place).is_dir());
}
