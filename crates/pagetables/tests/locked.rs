//! Processes whose memory map is locked while a file server does not answer.

#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../src/testing.rs"]
mod testing;

use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pagetables::access::{self, Access};
use pagetables::{Cleared, Pace, PageTables, Part, Source};
use testing::Program;

/// A running `tests/programs/locked.c`; `Drop` ends it.
struct Locked {
    program: Program,
    pids: Vec<u32>,
}

/// Path of the program, which is built at the first call.
fn built() -> &'static str {
    static BUILT: OnceLock<String> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = format!("{}/locked", env!("CARGO_TARGET_TMPDIR"));
        let folder = env!("CARGO_MANIFEST_DIR");
        let source = format!("{folder}/../../tests/programs/locked.c");
        let compiler = Command::new("cc")
            .args(["-O1", "-pthread", "-o", &program, &source])
            .status();
        assert!(compiler.expect("cc is there").success());
        program
    })
}

impl Locked {
    /// Starts `count` processes that wait in the system call `kind`.
    fn start(kind: &str, count: u32) -> Locked {
        let count = count.to_string();
        let mut program = Program::start(Command::new(built()).args([kind, "60", &count]));
        let line = program.line().expect("it prints the processes that wait");
        let pids = line.split_whitespace().map(|word| word.parse());
        Locked {
            pids: pids.collect::<Result<_, _>>().expect("numbers"),
            program,
        }
    }

    /// Stops the file server, so that the processes that wait for it continue.
    fn free(&mut self) {
        self.program.go_on();
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.program.end();
    }
}

/// Whether `done` returns true within a minute.
fn comes(mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Regression: one process that waited for a file server in mmap(2) or munmap(2) stopped every
/// scan. The scan waited in clear_refs until the server answered, and every reader of the process's
/// files waited behind the scan.
#[test]
fn nothing_waits_for_a_locked_process() {
    let mut source = PageTables::open().expect("root, BPF and BTF");
    for (kind, blocks_readers) in [("mmap", true), ("munmap", false)] {
        let mut locked = Locked::start(kind, 2);
        for pid in locked.pids.clone() {
            let begin = Instant::now();
            source.begin(pid).expect("its tables can be opened");
            assert_eq!(
                source.is_locked(pid, Access::Read).expect("readable"),
                blocks_readers,
                "{kind}"
            );
            assert!(source.is_locked(pid, Access::Change).expect("readable"));
            let error = source.clear(
                (pid, Part::Anon),
                &mut Pace::default(),
                100,
                Duration::from_secs(1),
            );
            assert!(
                access::is_locked(&error.expect_err("it is locked")),
                "{kind}"
            );
            // The mappings and present pages of the process can be read all the same.
            let mappings = source.mappings(pid).expect("readable");
            let ranges: Vec<_> = mappings
                .expect("it changes nothing")
                .iter()
                .map(|one| one.start..one.end)
                .collect();
            let mut present = 0;
            let count = |piece: pagetables::Piece<'_>| match piece {
                pagetables::Piece::Pages { entries, .. } => {
                    entries.iter().filter(|entry| entry.is_present()).count()
                }
                pagetables::Piece::Whole(whole) if whole.entry.is_present() => {
                    usize::try_from(whole.bytes / 4096).expect("few")
                }
                _ => 0,
            };
            let read = source.read(pid, &ranges, &mut |_, piece| present += count(piece));
            read.expect("readable");
            assert!(
                present >= 4096,
                "{kind}: 16 MiB are resident, {present} pages were seen"
            );
            assert!(
                begin.elapsed() < Duration::from_secs(5),
                "{:?}",
                begin.elapsed()
            );
            assert!(access::locked().iter().any(|one| one.pid == pid));
        }
        locked.free();
        for pid in &locked.pids {
            let is_clear = || {
                source.begin(*pid).expect("it lives on");
                let cleared = source.clear(
                    (*pid, Part::Anon),
                    &mut Pace::default(),
                    100,
                    Duration::from_secs(1),
                );
                matches!(cleared, Ok(Cleared::Done(_)))
            };
            assert!(comes(is_clear), "{kind}: its memory is free");
            assert!(access::locked().iter().all(|one| one.pid != *pid));
        }
    }
}

/// A source that cannot see the lock: a deadline ends each of its waits, and other readers of the
/// process wait no longer than that.
#[test]
fn a_deadline_ends_each_wait() {
    for kind in ["mmap", "munmap", "exec"] {
        let mut locked = Locked::start(kind, 1);
        let pid = locked.pids[0];
        let proc = std::fs::File::open("/proc").expect("/proc is mounted");
        let mut sources = pagetables::Referenced::default();
        let begin = Instant::now();
        let what = match kind {
            // In munmap(2) the process has locked its memory map for reading: only a change waits.
            "munmap" => sources
                .clear(
                    (pid, Part::Anon),
                    &mut Pace::default(),
                    100,
                    Duration::from_secs(1),
                )
                .map(drop),
            _ => {
                let proc = std::os::fd::AsFd::as_fd(&proc);
                access::read(proc, (pid, "smaps"), usize::MAX, &mut Vec::new())
            }
        };
        assert!(access::is_locked(&what.expect_err(kind)), "{kind}");
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "{:?}",
            begin.elapsed()
        );
        // If a process is known to be locked, reading it fails at once.
        let begin = Instant::now();
        let proc = std::os::fd::AsFd::as_fd(&proc);
        let read = access::read(proc, (pid, "smaps_rollup"), usize::MAX, &mut Vec::new());
        assert!(access::is_locked(&read.expect_err(kind)), "{kind}");
        assert!(
            begin.elapsed() < Duration::from_millis(50),
            "{:?}",
            begin.elapsed()
        );
        locked.free();
        let mut text = Vec::new();
        let is_read = || access::read(proc, (pid, "smaps"), usize::MAX, &mut text).is_ok();
        assert!(comes(is_read), "{kind}: its memory is free");
    }
}

/// For every process of this machine, the mappings that are read without a lock equal those that
/// the kernel prints. Processes whose mappings change meanwhile are skipped.
#[test]
fn mappings_are_those_of_the_kernels_list() {
    let mut source = PageTables::open().expect("root, BPF and BTF");
    let (mut same, mut tried) = (0, 0);
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.filter(|pid| *pid != std::process::id()) {
        let text = || {
            let mut text = Vec::new();
            let proc = std::fs::File::open("/proc").ok()?;
            let proc = std::os::fd::AsFd::as_fd(&proc);
            access::read(proc, (pid, "maps"), usize::MAX, &mut text).ok()?;
            String::from_utf8(text).ok().filter(|text| !text.is_empty())
        };
        let Some(before) = text() else { continue };
        if source.begin(pid).is_err() {
            continue;
        }
        let found = source.mappings(pid).expect("readable");
        if text().as_deref() != Some(&before) {
            continue;
        }
        tried += 1;
        let found = found.expect("it changed nothing");
        // The vsyscall page is the same for all processes, and is in no process's tree.
        let lines = before.lines().filter(|line| !line.ends_with("[vsyscall]"));
        let expected: Vec<String> = lines
            .map(|line| {
                line[..line.find(" ").expect("a blank")].to_owned()
                    + " "
                    + line.split_whitespace().nth(1).expect("rights")
                    + " "
                    + line.split_whitespace().nth(2).expect("an offset")
            })
            .collect();
        let reported: Vec<String> = found
            .iter()
            .map(|one| {
                let right = |has: bool, letter| if has { letter } else { '-' };
                let shared = if one.is_shared { 's' } else { 'p' };
                format!(
                    "{:08x}-{:08x} {}{}{}{shared} {:08x}",
                    one.start,
                    one.end,
                    right(one.readable, 'r'),
                    right(one.writable, 'w'),
                    right(one.executable, 'x'),
                    one.offset
                )
            })
            .collect();
        assert_eq!(reported, expected, "process {pid}");
        same += 1;
    }
    assert!(tried > 0 && same == tried, "{same} of {tried}");
}
