//! Targets that may not be scanned, or do not exist, are refused with an error; what needs no
//! rights is reported all the same.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use e2e::aged::{self, RunningReport, number};
use e2e::guard::{Outcome, Run};
use e2e::subject::Subject;
use e2e::temp::{TempDir, serial};
use e2e::user::{self, NOBODY};
use e2e::{pagetide, proc, programs, wait};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
/// A directory that any user can enter, with programs that any user can run.
struct PublicPrograms(TempDir);

impl PublicPrograms {
    fn new() -> PublicPrograms {
        let folder = TempDir::public();
        for (path, name) in [
            (pagetide::binary(), "pagetide"),
            (programs::c("hotset"), "hotset"),
        ] {
            std::fs::copy(path, folder.path().join(name)).expect("a program can be copied");
        }
        PublicPrograms(folder)
    }

    /// The command `HEAD pagetide report WORDS`, with the public copy of pagetide.
    fn report(&self, head: &[String], words: &[&str]) -> Run {
        let program = self.0.file("pagetide");
        let words = [&[program.as_str(), "report"], words].concat();
        Run::new(words).under(head.to_vec())
    }

    /// The command `HEAD hotset`: a program that uses 32 MiB all the time.
    fn program(&self, head: &[String]) -> Run {
        let program = self.0.file("hotset");
        let words = [program.as_str(), "32", "32", "60", "--rate", "1000"];
        Run::new(words).under(head.to_vec())
    }
}

/// Checks that the command ends with one of these codes, says why and what to do, and prints no
/// data.
fn check_refused(what: &str, outcome: &Outcome, codes: &[i32]) {
    let code = outcome.status.code().unwrap_or(-1);
    let said = &outcome.stderr;
    eprintln!("{what}: {code}: {said}");
    assert!(codes.contains(&code), "{what}: {code}: {said}");
    assert_eq!(outcome.stdout, "", "{what}");
    let reported = said.starts_with("pagetide: ") && said.contains("\n  hint: ");
    assert!(reported, "{what}: {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
}

#[test]
fn missing_targets_are_refused() {
    let _serial = serial();
    let report = |pid: &str| aged::outcome(&[pid, "--for", "1s"]);
    let gone = Run::new(["true"]).start();
    let pid = gone.pid().to_string();
    assert!(gone.wait(SOON).status.success());
    check_refused("gone", &report(&pid), &[1]);
    check_refused("a thread of the kernel", &report("2"), &[1]);
    check_refused("nobody's", &report("4194305"), &[1, 2]);
    check_refused("zero", &report("0"), &[1, 2]);
    check_refused("negative", &report("-5"), &[2]);
    let group = aged::outcome(&["--cgroup", "/no/such/group", "--for", "1s"]);
    check_refused("no group", &group, &[1]);
    // A zombie: its parent does not reap it.
    let shell = Run::new(["sh", "-c", "sleep 0 & exec sleep 60"]).start();
    let zombie = wait::poll(SOON, || {
        let mut of = proc::descendants(shell.pid()).into_iter();
        of.rfind(|pid| proc::state(*pid) == Some('Z'))
    });
    let zombie = zombie.expect("a zombie").to_string();
    check_refused("a zombie", &report(&zombie), &[1]);
    // A report never scans its own process: here the shell becomes the report on its own pid.
    let own = format!("exec {} report $$ --for 1s --json", pagetide::binary());
    check_refused("itself", &Run::new(["sh", "-c", &own]).finish(SOON), &[1]);
}

#[test]
fn another_users_process_is_refused() {
    let _serial = serial();
    let public = PublicPrograms::new();
    let of_root = public.program(&[]).start();
    wait::until("32 MiB", SOON, || of_root.stderr().contains("ready"));
    let pid = of_root.pid().to_string();
    let words = [pid.as_str(), "--for", "1s", "--json"];
    let outcome = public.report(&user::prefix(NOBODY), &words).finish(SOON);
    check_refused("nobody at root's", &outcome, &[1, 3]);
    assert!(of_root.tree().contains(&of_root.pid()), "it runs on");
}

/// Checks that a report made without the right to read page tables has no ages of pages, and says
/// in a note what it lacks. `what` names the case in messages.
fn check_lacks_page_ages(what: &str, outcome: &Outcome) {
    let said = &outcome.stderr;
    assert_eq!(outcome.status.code(), Some(0), "{what}: {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    aged::check_sums(&report);
    let source = report["age_source"].as_str().unwrap_or_default();
    eprintln!("{what}: {source}, {}", report["notes"]);
    assert!(["referenced", "none"].contains(&source), "{what}: {report}");
    let notes = report["notes"].as_array().map_or(0, Vec::len);
    assert!(notes > 0, "{what} does not say what it lacks: {report}");
    let resident = number(&report, "resident_bytes");
    assert!((32 * MIB..48 * MIB).contains(&resident), "{what}: {report}");
    if source == "none" {
        assert_eq!(number(&report, "unknown_age_bytes"), resident, "{report}");
    }
}

#[test]
fn without_rights_ones_own_processes_are_reported_as_far_as_they_can_be() {
    let _serial = serial();
    let public = PublicPrograms::new();
    let own = public.program(&user::prefix(NOBODY)).start();
    wait::until("32 MiB", SOON, || own.stderr().contains("ready"));
    let pid = own.pid().to_string();
    let words = [pid.as_str(), "--for", "3s", "--json"];
    check_lacks_page_ages(
        "nobody",
        &public.report(&user::prefix(NOBODY), &words).finish(SOON),
    );
    // The root of a user namespace has no rights over processes outside of the namespace, not even
    // over those of the same user.
    let namespace = [
        &user::prefix(NOBODY)[..],
        &["unshare", "-Ur"].map(str::to_owned),
    ]
    .concat();
    let outcome = public.report(&namespace, &words).finish(SOON);
    check_refused("a namespace at the outside", &outcome, &[1, 3]);
    let script = format!(
        "{} 32 32 60 --rate 1000 & sleep 2; {} report $! --for 3s --json; kill $!",
        public.0.file("hotset"),
        public.0.file("pagetide")
    );
    let inside = Run::new(["sh", "-c", &script]).under(namespace);
    check_lacks_page_ages("a namespace", &inside.finish(SOON));
}

/// The names of all swap areas; their used sizes change all the time.
fn swaps() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

/// Whether any hierarchy below `folder` has a control group that pagetide created for `pid` (the
/// pid of pagetide or of its target).
fn has_group(folder: &Path, pid: u32) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let name = format!("pagetide-{pid}-");
    folders.any(|entry| {
        entry.file_name().to_string_lossy().starts_with(&name) || has_group(&entry.path(), pid)
    })
}

/// Kills five runs of `report --watch`, each after one more report than the run before, and checks
/// that no control group of pagetide remains.
fn watch_and_kill(pid: u32) {
    let words = ["report", &pid.to_string(), "--watch=100ms", "--json"].map(str::to_owned);
    for round in 0..5 {
        let mut running = pagetide::command(words.clone()).start();
        let reports = || running.stdout().lines().count() > round;
        wait::until("a report", SOON, reports);
        let own = running.pid();
        running.kill_and_reap();
        wait::until("its end", SOON, || running.tree().is_empty());
        let is_left = |pid| has_group(Path::new("/sys/fs/cgroup"), pid);
        assert!(!is_left(own) && !is_left(pid), "a group of {own} or {pid}");
    }
}

/// A report that is killed in the middle leaves no swap area or control group behind, and the
/// program runs on.
#[test]
fn a_killed_report_leaves_nothing_behind() {
    let _serial = serial();
    let program = Subject::start("hotset", &["64", "64", "60", "--rate", "10000"]);
    let cpu = || proc::read(program.pid, "schedstat").unwrap_or_default();
    // Other programs of this machine add and remove swap, too, but hardly during each of four runs.
    let is_as_before = (0..4).any(|_| {
        let before = swaps();
        watch_and_kill(program.pid);
        swaps() == before
    });
    assert!(is_as_before, "{:?}", swaps());
    let state = proc::state(program.pid);
    assert!(matches!(state, Some('R' | 'S')), "{state:?}");
    assert_eq!(proc::status(program.pid, "TracerPid").as_deref(), Some("0"));
    let used = cpu();
    wait::until("it works on", SOON, || cpu() != used);
    let report = RunningReport::at(program.pid, 2, 500).finish().report;
    assert!(number(&report, "resident_bytes") > 64 * MIB, "{report}");
}

/// System calls that change a process or the machine.
const CHANGING_CALLS: [&str; 10] = [
    "process_madvise",
    "ptrace",
    "process_vm_writev",
    "userfaultfd",
    "swapon",
    "mount",
    "mkdir",
    "unlink",
    "kill",
    "tgkill",
];

/// A report only reads: it makes no call that changes memory of a program, and opens no descriptor
/// that a child would inherit.
#[test]
fn a_report_only_reads() {
    let _serial = serial();
    let program = Subject::start("hotset", &["64", "64", "60", "--rate", "10000"]);
    let folder = TempDir::new();
    let trace = folder.file("trace");
    let calls = "trace=open,openat,openat2,creat,socket,pipe,pipe2,dup,madvise,process_madvise,\
                 ptrace,kill,tgkill,process_vm_writev,process_vm_readv,fork,vfork,execve,unlink,\
                 epoll_create,eventfd,memfd_create,userfaultfd,swapon,mount,mkdir,write,\
                 pidfd_open";
    let head = ["strace", "-f", "-o", &trace, "-e", calls].map(str::to_owned);
    let pid = program.pid.to_string();
    let words = [pid.as_str(), "--for", "2s", "--json"];
    let report = pagetide::command(["report"].iter().chain(&words).copied());
    let outcome = report.under(head).finish(SOON);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let text = std::fs::read_to_string(&trace).expect("strace writes");
    assert!(text.lines().count() > 20, "strace saw nothing: {text}");
    let (mut problems, mut own_pages, mut own_fd) = (Vec::new(), 0, None);
    let own = text.split(' ').next().unwrap_or_default();
    for line in text.lines() {
        let Some((_, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        let opens = call.starts_with("open") || call.starts_with("creat");
        let inherits = opens && !call.contains("O_CLOEXEC");
        let socket = call.starts_with("socket(") && !call.contains("CLOEXEC");
        // madvise(2) of the report's own allocator is no such call: the memory of another process
        // can only be changed by process_madvise(2).
        let is_call = |name: &str| {
            let rest = call.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('('))
        };
        let changes = CHANGING_CALLS.iter().any(|name| is_call(name));
        // One exception: a report pages out 64 pages of its own, to measure how long swap-in takes.
        if let Some(opened) = call.strip_prefix(&format!("pidfd_open({own}, ")) {
            own_fd = opened.rsplit_once("= ").map(|(_, fd)| fd.trim().to_owned());
        }
        let is_own = own_fd.as_ref().is_some_and(|fd| {
            let advice = call.strip_prefix(&format!("process_madvise({fd}, "));
            advice.is_some_and(|rest| rest.contains("iov_len=262144}], 1, MADV_PAGEOUT"))
        });
        if is_own && own_pages == 0 {
            own_pages += 1;
            continue;
        }
        // `strace -f` follows the report's access worker, which is killed if it hangs.
        let killed = call
            .strip_prefix("kill(")
            .and_then(|rest| rest.split(',').next());
        let is_own_child = killed.is_some_and(|pid| {
            let begin = format!("{pid} ");
            text.lines().any(|line| line.starts_with(&begin))
        });
        if is_own_child {
            continue;
        }
        let pages_out = call.contains("MADV_PAGEOUT") || call.contains("MADV_COLD");
        if inherits || socket || changes || pages_out {
            problems.push(line);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
