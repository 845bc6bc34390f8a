//! `pagetide swap` on the machine itself: it makes, uses and removes its own swap, and changes no
//! foreign swap (swap that pagetide did not make).
//!
//! Regression, guarded by each test: a user's own zram was removed with pagetide's.
//!
//! Each test has a `/run` of its own (a mount namespace with a tmpfs), so that it neither finds nor
//! removes swap that a user of this machine switched on. Needs root and zram.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::idle_program::IdleProgram;
use e2e::memcg::MemoryGroup;
use e2e::temp::{Serial, TempDir, serial, target_dir};
use e2e::{pagetide, proc, programs, wait, zram};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// Number of a foreign zram device with active swap; `Drop` removes it.
struct ForeignSwap(String);

impl ForeignSwap {
    /// Makes a zram device of 8 MiB as swap, with these options of mkswap(8).
    fn on(label: &[&str]) -> ForeignSwap {
        let command = format!(
            "n=$(cat /sys/class/zram-control/hot_add) && echo 8M > /sys/block/zram$n/disksize && \
             mkswap {} /dev/zram$n >&2 && swapon -p 32767 /dev/zram$n && echo $n",
            label.join(" ")
        );
        let made = Run::new(["sh", "-c", &command]).finish(LIMIT);
        assert!(made.status.success(), "{}", made.stderr);
        ForeignSwap(made.stdout.trim().to_owned())
    }

    fn is_on(&self) -> bool {
        is_on(&format!("/dev/zram{}", self.0))
    }
}

impl Drop for ForeignSwap {
    fn drop(&mut self) {
        let remove = format!(
            "swapoff /dev/zram{0}; echo {0} > /sys/class/zram-control/hot_remove",
            self.0
        );
        let _ = Run::new(["sh", "-c", &remove]).finish(LIMIT);
    }
}

/// Whether the device has active swap.
fn is_on(device: &str) -> bool {
    let begin = format!("{device} ");
    areas().iter().any(|area| area.starts_with(&begin))
}

/// Regression of the test harness: at its start a test switched off swap of any zram, also of a
/// foreign one.
#[test]
fn swap_of_others_stays_on_while_tests_make_theirs() {
    let _serial = serial();
    let turn = e2e::swap_turn::exclusive();
    let foreign = [
        ForeignSwap::on(&[]),
        ForeignSwap::on(&["-L", "pagetide-e2e2"]),
    ];
    let on = || foreign.iter().all(ForeignSwap::is_on);
    drop(zram::Swap::new(8));
    assert!(on(), "one of a test's own");
    assert!(zram::Swap::if_none(8).is_none() && on());
    drop(turn);
    drop(zram::Swap::shared());
    assert!(on(), "one that is shared");
}

/// Regression of the test harness ([`zram::Swap`]): when a test was killed, its swap stayed on,
/// with the highest priority.
#[test]
fn swap_of_a_killed_test_is_gone_before_the_next_one_begins() {
    let _serial = serial();
    let alive = zram::Swap::new(8);
    let left = "n=$(cat /sys/class/zram-control/hot_add) && echo 8M > /sys/block/zram$n/disksize \
        && mkswap -L pagetide-e2e /dev/zram$n >&2 && swapon -p 32767 /dev/zram$n && echo /dev/zram$n";
    let left = Run::new(["sh", "-c", left]).finish(LIMIT);
    assert!(left.status.success(), "{}", left.stderr);
    let left = left.stdout.trim();
    let next = zram::Swap::new(8);
    assert!(is_on(&alive.device()) && is_on(&next.device()));
    // (The kernel may use the number of a removed device again.)
    assert!(!is_on(left) || left == next.device());
}

/// A mount namespace with its own `/run`, and a foreign swap area.
struct Stage {
    namespace: Running,
    foreign: zram::Swap,
    /// zram devices, and swap areas, that existed before the test.
    before: (BTreeSet<String>, BTreeSet<String>),
    _serial: Serial,
}

impl Stage {
    /// Makes the foreign swap area and the mount namespace.
    fn set() -> Stage {
        let serial = serial();
        let foreign = zram::Swap::new(64);
        let before = (devices(), areas());
        let shell = "mount -t tmpfs none /run && echo ready && exec sleep 300";
        let namespace = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            shell,
        ];
        let namespace = Run::new(namespace).start();
        let is_ready = || namespace.stdout().contains("ready");
        wait::until("a mount namespace", LIMIT, is_ready);
        Stage {
            namespace,
            foreign,
            before,
            _serial: serial,
        }
    }

    /// A command that runs in the mount namespace.
    fn inside(&self, words: &[&str]) -> Run {
        let pid = self.namespace.pid().to_string();
        let enter = ["nsenter", "-m", "-t", &pid, "--wd=."];
        Run::new(enter.iter().chain(words).map(|word| (*word).to_owned()))
    }

    /// Runs `pagetide swap ARGS` in the mount namespace.
    fn swap(&self, args: &[&str]) -> Outcome {
        let binary = pagetide::binary();
        self.inside(&[&[binary.as_str(), "swap"], args].concat())
            .finish(LIMIT)
    }

    /// Runs `pagetide swap ARGS --json`, which must succeed; returns its output.
    fn json(&self, args: &[&str]) -> Value {
        let outcome = self.swap(&[args, &["--json"]].concat());
        assert!(outcome.status.success(), "{args:?}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
    }

    /// Runs `pagetide swap ARGS`, which must fail with this exit code and message.
    fn fails(&self, args: &[&str], code: i32, reported: &str) {
        let outcome = self.swap(args);
        assert_eq!(
            outcome.status.code(),
            Some(code),
            "{args:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains(reported),
            "{args:?}: {}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains("\n  hint: "), "{}", outcome.stderr);
    }

    /// Checks that the foreign swap is on and that nothing of pagetide's remains. Other programs
    /// may add or remove zram meanwhile: a device that is empty for a moment may be theirs.
    fn is_as_before(&self) {
        let foreign = format!("{} ", self.foreign.device());
        let is_left = || {
            let all = devices();
            let mut new = all.difference(&self.before.0);
            !areas().iter().any(|area| area.starts_with(&foreign))
                || new.any(|name| is_ours_or_empty(name))
        };
        wait::until("nothing of ours is left", Duration::from_secs(10), || {
            !is_left()
        });
        let new: Vec<String> = areas().difference(&self.before.1).cloned().collect();
        let folder = target_dir().to_string_lossy().into_owned();
        let is_file = |area: &String| area.contains(" file ") && area.contains(&folder);
        assert!(!new.iter().any(is_file), "{new:?}");
    }
}

/// Whether a zram device has size 0, or the swap label of pagetide.
fn is_ours_or_empty(name: &str) -> bool {
    let size = std::fs::read_to_string(format!("/sys/block/{name}/disksize"));
    let mut page = [0; 4096];
    let read =
        std::fs::File::open(format!("/dev/{name}")).and_then(|device| device.read_at(&mut page, 0));
    let is_labelled = read.is_ok() && page[1052..].starts_with(b"pagetide");
    size.is_ok_and(|size| size.trim() == "0") || is_labelled
}

impl Drop for Stage {
    fn drop(&mut self) {
        // If a test failed in the middle, its swap may still be on.
        let _ = self.swap(&["off", "--force"]);
    }
}

/// Names of all zram devices of this machine.
fn devices() -> BTreeSet<String> {
    let all = std::fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("zram")).collect()
}

/// Names and sizes of the active swap areas.
fn areas() -> BTreeSet<String> {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let words = |line: &str| {
        line.split_whitespace()
            .take(3)
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.lines().skip(1).map(words).collect()
}

/// The areas in the output of `swap status` that pagetide made.
fn our_areas(status: &Value) -> Vec<Value> {
    let all = status["areas"].as_array().expect("a list").iter();
    all.filter(|area| area["ours"] == true).cloned().collect()
}

/// A program that fills 128 MiB and uses a tenth of them again and again. It fits neither into the
/// 24 MiB of a group nor into the 64 MiB of the foreign swap.
fn toucher() -> Run {
    let words = [
        "--mib",
        "128",
        "--seconds",
        "300",
        "--think-us",
        "100",
        "hot",
    ];
    let words = words.map(str::to_owned).to_vec();
    Run::new([vec![programs::c("toucher")], words].concat())
}

/// Switches our swap area off and on again with the highest possible priority, so that the kernel
/// fills it.
///
/// Regression (of this test): no page was written to our area within a minute. The kernel fills
/// areas of one priority in turn, and other swap on this machine may be large enough for all pages.
fn set_highest_priority(path: &str) {
    must_run(&["swapoff", path]);
    must_run(&["swapon", "-p", "32767", path]);
}

/// Runs a command; panics if it fails.
fn must_run(words: &[&str]) {
    let done = Run::new(words.iter().copied()).finish(LIMIT);
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
}

/// Bytes of anonymous memory of a process, resident and swapped out.
fn anon_bytes(pid: u32) -> u64 {
    let bytes = |name| proc::number(pid, name).unwrap_or(0);
    bytes("RssAnon") + bytes("VmSwap")
}

/// Starts the program in `group`; returns it when it has all its memory, with pages in our swap.
///
/// (A program that still grows may meet its limit while pages are swapped in: docs/known-gaps.md.)
/// If the kernel killed it because it found nothing to swap out, that is no fault of pagetide: the
/// program is started again, up to four times in all.
fn swapped_out(stage: &Stage, group: &MemoryGroup) -> Running {
    let used = || our_areas(&stage.json(&["status"]))[0]["used_bytes"].as_u64();
    let killed = || group.line("memory.oom_control", "oom_kill ");
    for _ in 0..4 {
        let before = killed();
        let mut program = group.run(&toucher()).start();
        let came = wait::poll(LIMIT, || {
            let ended = program.ended().map(|status| Err(status.to_string()));
            let is_grown = || anon_bytes(program.pid()) >= 128 << 20;
            ended.or_else(|| (is_grown() && used() > Some(4 << 20)).then_some(Ok(())))
        });
        match came {
            Some(Ok(())) => return program,
            Some(Err(_)) if killed() > before => {}
            came => panic!(
                "no pages in our swap: {came:?}, {:?}\n{}",
                areas(),
                program.state()
            ),
        }
    }
    panic!("the kernel ended the program four times");
}

/// The kernel of this machine may lack writeback of zram; if it has it, the command lacks only a
/// disk.
#[test]
fn missing_writeback_is_reported_before_anything_starts() {
    let stage = Stage::set();
    let attribute = format!(
        "/sys/block/{}/writeback",
        stage.foreign.device().trim_start_matches("/dev/")
    );
    let can = Path::new(&attribute).exists();
    let (code, reported) = match can {
        true => (2, "it is not a block device"),
        false => (3, "CONFIG_ZRAM_WRITEBACK"),
    };
    stage.fails(
        &["on", "--size", "8M", "--backing", "/dev/null"],
        code,
        reported,
    );
    stage.is_as_before();
    let both = ["on", "--file", "x", "--backing", "/dev/null"];
    assert_eq!(stage.swap(&both).status.code(), Some(2));
    let binary = pagetide::binary();
    let run = |more: &[&str]| {
        let words = [
            &[binary.as_str(), "run", "--write-back-older-than", "1m"],
            more,
        ]
        .concat();
        let outcome = stage
            .inside(&[&words[..], &["--", "echo", "ran"]].concat())
            .finish(LIMIT);
        let stderr = outcome.stderr.clone();
        assert!(
            !outcome.stdout.contains("ran") || outcome.status.success(),
            "{stderr}"
        );
        (outcome.status.code(), stderr)
    };
    // The only swap area is a foreign one.
    let (code, stderr) = run(&[]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(
        stderr.contains("pagetide has no compressed swap here"),
        "{stderr}"
    );
    let device = stage.foreign.device();
    let named = ["--write-back-from", &device];
    let (code, stderr) = run(&named);
    assert_eq!(code, Some(3), "{stderr}");
    let reported = if can {
        "no disk behind it"
    } else {
        "CONFIG_ZRAM_WRITEBACK"
    };
    assert!(
        stderr.contains(reported) && stderr.contains("hint: "),
        "{stderr}"
    );
    let (code, stderr) = run(&["--write-back-from", "/dev/null"]);
    assert_eq!(code, Some(2), "{stderr}");
    // With `--best-effort` the program runs without swap, and a message says so.
    let (code, stderr) = run(&["--best-effort"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("no compressed swap"), "{stderr}");
}

#[test]
fn compressed_memory_is_made_used_and_removed() {
    let stage = Stage::set();
    let made = stage.json(&["on", "--size", "200M"]);
    assert_eq!(made["kind"], "zram");
    assert_eq!(made["size_bytes"], 200 << 20);
    let path = made["path"].as_str().expect("a path").to_owned();
    // Regression: a second `swap on` was a failure, though the host had the requested swap.
    let again = stage.json(&["on", "--size", "1G"]);
    assert_eq!(again["path"], path.as_str());
    assert_eq!(again["already_on"], true);
    assert_eq!(again["differs"], json!(["--size"]));
    let others = again["others"].as_array().expect("a list");
    let foreign = stage.foreign.device();
    assert!(
        others.iter().any(|area| area["path"] == foreign.as_str()),
        "{again:#}"
    );
    let status = stage.json(&["status"]);
    assert_eq!(our_areas(&status).len(), 1, "{status:#}");
    assert_eq!(our_areas(&status)[0]["path"], path.as_str());
    assert_eq!(
        our_areas(&status)[0]["compressed"]["algorithm"],
        made["algorithm"]
    );
    assert!(
        status["areas"].as_array().is_some_and(|all| all.len() >= 2),
        "{status:#}"
    );

    let removed = stage.json(&["off"]);
    assert_eq!(
        (&removed["path"], &removed["was_on"]),
        (&made["path"], &Value::Bool(true))
    );
    stage.is_as_before();
    stage.fails(&["off"], 1, "no swap that pagetide switched on");
}

/// Tests each compressor of this kernel: the kernel's file says that the device uses it, and pages
/// that are swapped out to the device are right when the program touches them, and after `swap
/// off`.
#[test]
fn each_compressor_keeps_every_byte() {
    let stage = Stage::set();
    let offered = compressors(&stage.foreign.device());
    let names = offered.split_whitespace();
    let names: Vec<&str> = names.map(|name| name.trim_matches(['[', ']'])).collect();
    for known in ["lzo", "lzo-rle", "lz4"] {
        assert!(names.contains(&known), "{known} is not in {offered}");
    }
    for name in names {
        let made = stage.json(&["on", "--size", "64M", "--compress", name]);
        assert_eq!(made["algorithm"], name);
        let path = made["path"].as_str().expect("a path").to_owned();
        let chosen = compressors(&path);
        assert!(chosen.contains(&format!("[{name}]")), "{name}: {chosen}");
        set_highest_priority(&path);
        let idle_program = IdleProgram::start([], 32);
        let all_out = || {
            let words = ["reclaim", "--all", &idle_program.pid().to_string()].map(str::to_owned);
            let reported = pagetide::command(words).finish(LIMIT);
            assert!(reported.status.success(), "{name}: {}", reported.stderr);
            assert!(idle_program.status("VmSwap") > 30 << 20, "{name}");
            // At least 8 MiB of the 30: the foreign swap area has the same priority.
            let used = our_areas(&stage.json(&["status"]))[0]["used_bytes"].as_u64();
            assert!(used > Some(8 << 20), "{name}: {used:?} bytes are there");
        };
        all_out();
        let _ = idle_program.touch();
        all_out();
        // Other users' programs on this machine may have pages in it.
        stage.json(&["off", "--force"]);
        let _ = idle_program.touch();
        stage.is_as_before();
    }
}

/// Compressors that a zram device offers; the one in use is in brackets.
fn compressors(device: &str) -> String {
    let name = device.trim_start_matches("/dev/");
    let file = format!("/sys/block/{name}/comp_algorithm");
    std::fs::read_to_string(file).expect("a zram tells it")
}

#[test]
fn a_file_on_a_disk_is_made_and_removed() {
    let stage = Stage::set();
    let folder = TempDir::new();
    let path = folder.file("a swap file");
    let made = stage.json(&["on", "--size", "20M", "--file", &path]);
    assert_eq!(
        (&made["kind"], &made["path"]),
        (&Value::from("file"), &Value::from(path.as_str()))
    );
    assert!(our_areas(&stage.json(&["status"]))[0]["path"] == path.as_str());
    // A file with active swap cannot be removed: without its name it could not be switched off.
    assert!(std::fs::remove_file(&path).is_err());
    let second = folder.file("second");
    let again = stage.json(&["on", "--file", &second, "--size", "20M"]);
    assert_eq!(again["path"], path.as_str());
    assert_eq!(again["differs"], json!(["--file"]));
    assert!(!Path::new(&second).exists());
    stage.json(&["off"]);
    assert!(!Path::new(&path).exists());
    stage.is_as_before();
}

/// Regression: `swap off` killed a program under a limit, although gigabytes of memory were free.
#[test]
fn a_program_below_a_limit_outlives_off() {
    let stage = Stage::set();
    let made = stage.json(&["on", "--size", "200M"]);
    set_highest_priority(made["path"].as_str().expect("a path"));
    let group = MemoryGroup::new();
    group.limit(24 << 20);
    let mut program = swapped_out(&stage, &group);
    let off = stage.swap(&["off", "--force"]);
    let reported = &off.stderr;
    match off.status.code() {
        // Other swap of this machine takes the pages that do not fit into the group.
        Some(0) => stage.is_as_before(),
        code => {
            assert_eq!(code, Some(1), "{reported}");
            assert!(
                reported.contains("above its limit") && reported.contains("hint: raise its limit"),
                "{reported}"
            );
            assert_eq!(our_areas(&stage.json(&["status"])).len(), 1);
        }
    }
    assert!(
        program.ended().is_none(),
        "the program was ended: {reported}"
    );
    group.limit(200 << 20);
    if !off.status.success() {
        stage.json(&["off", "--force"]);
    }
    assert!(program.ended().is_none());
    drop(program);
    stage.is_as_before();
}

/// Regression: `swap off` removed swap that a manager, or another user's program, had pages in.
#[test]
fn off_is_refused_while_others_need_the_swap() {
    let stage = Stage::set();
    let made = stage.json(&["on", "--size", "64M"]);
    let path = made["path"].as_str().expect("a path").to_owned();
    set_highest_priority(&path);
    let binary = pagetide::binary();
    let run = format!("exec {binary} run --evict-older-than 1h -- sleep 300");
    let manager = stage.inside(&["sh", "-c", &run]).start();
    let refused = |reason: &str| {
        let off = stage.swap(&["off"]);
        off.status.code() == Some(1) && off.stderr.contains(reason)
    };
    // (`swap off` would succeed before the manager listens, and after its end.)
    let sockets = || stage.inside(&["ls", "/run/pagetide/control"]).finish(LIMIT);
    let listens = || !sockets().stdout.trim().is_empty();
    wait::until("a manager", LIMIT, listens);
    assert!(refused("needed by the manager of pid"), "it is named");
    drop(manager);
    wait::until("its end", LIMIT, || !listens());
    let hold = "x=$(head -c 16777216 /dev/zero | tr '\\0' a); echo ready; sleep 300; echo $x";
    let hold = "setpriv --reuid 65534 --clear-groups sh -c"
        .split(' ')
        .chain([hold]);
    let other = Run::new(hold).start();
    wait::until("a program of another user", LIMIT, || {
        other.stdout().contains("ready")
    });
    let pid = other.pid().to_string();
    let out = pagetide::command(["reclaim", "--all", &pid].map(str::to_owned)).finish(LIMIT);
    assert!(out.stdout.contains("saved: net"), "{}", out.stderr);
    assert!(refused(&format!("(pid {pid} of user 65534")), "it is named");
    assert_eq!(our_areas(&stage.json(&["status"])).len(), 1);
    stage.json(&["off", "--force"]);
    drop(other);
    stage.is_as_before();
}

#[test]
fn a_named_area_is_removed_by_its_name_alone() {
    let stage = Stage::set();
    let shared = stage.json(&["on", "--size", "20M"]);
    let named = stage.json(&["on", "--size", "8M", "--name", "trial"]);
    assert_ne!(shared["path"], named["path"]);
    let removed = stage.json(&["off", "--name", "trial"]);
    assert_eq!(removed["path"], named["path"]);
    let left = our_areas(&stage.json(&["status"]));
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["path"], shared["path"]);
    stage.fails(&["off", "--name", "trial"], 1, "no swap that pagetide");
    stage.json(&["off"]);
    stage.is_as_before();
}

#[test]
fn swap_that_others_switched_off_is_removed_and_swap_they_relabelled_is_kept() {
    let stage = Stage::set();
    let made = stage.json(&["on", "--size", "20M"]);
    let path = made["path"].as_str().expect("a path").to_owned();
    must_run(&["swapoff", &path]);
    assert_eq!(stage.json(&["status"])["left"][0], path.as_str());
    let again = stage.json(&["on", "--size", "30M"]);
    assert!(
        again["removed"]
            .as_str()
            .is_some_and(|reported| reported.starts_with(&path)),
        "{again:#}"
    );
    let path = again["path"].as_str().expect("a path").to_owned();

    // Another program formats the device as its own swap.
    must_run(&["swapoff", &path]);
    must_run(&["mkswap", &path]);
    must_run(&["swapon", &path]);
    stage.fails(&["off"], 1, "is not changed: its header");
    assert!(areas().iter().any(|area| area.starts_with(&path)));
    must_run(&["swapoff", &path]);
    let number = path.trim_start_matches("/dev/zram");
    std::fs::write("/sys/class/zram-control/hot_remove", number).expect("it is free");
    stage.is_as_before();
}

#[test]
fn a_refused_command_leaves_no_swap_behind() {
    let stage = Stage::set();
    for (args, code, reported) in [
        (&["on", "--size", "0"][..], 2, "no swap at all"),
        (&["on", "--size", "500%"], 2, "more than all of it"),
        (&["on", "--size", "64K"], 2, "too few"),
        (&["on", "--size", "900G"], 2, "too many"),
        (&["on", "--compress", "foo", "--size", "20M"], 2, "`foo`"),
        (&["on", "--file", "/dev/shm/x", "--size", "20M"], 3, "tmpfs"),
        (
            &["on", "--file", "/nowhere/x", "--size", "20M"],
            1,
            "No such file",
        ),
        (
            &["on", "--file", "/tmp", "--size", "20M"],
            1,
            "a file of this name exists",
        ),
    ] {
        stage.fails(args, code, reported);
        stage.is_as_before();
    }
    // A copy is used, as the other user may not be able to enter the target directory.
    let folder = TempDir::public();
    let binary = pagetide::public_copy(&folder);
    for wrap in [
        &["setpriv", "--bounding-set=-sys_admin"][..],
        &["setpriv", "--reuid", "65534", "--clear-groups"],
        &[
            "unshare",
            "-m",
            "sh",
            "-c",
            "mount -o remount,bind,ro /sys && exec \"$@\"",
            "sh",
        ],
        &["unshare", "-Ur"],
    ] {
        let words = [wrap, &[&binary, "swap", "on", "--size", "20M"]].concat();
        let outcome = stage.inside(&words).finish(LIMIT);
        assert_eq!(
            outcome.status.code(),
            Some(3),
            "{wrap:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("hint: run as root"),
            "{}",
            outcome.stderr
        );
        stage.is_as_before();
    }
}

/// At whatever time a command is killed, the next command removes what remains of it.
#[test]
fn killed_commands_are_taken_up() {
    let stage = Stage::set();
    let mut chance = wait::Chance::from_env("killed_commands_are_taken_up");
    let folder = TempDir::new();
    let (path, binary) = (folder.file("file"), pagetide::binary());
    for round in 0..30 {
        let on = ["on", "--size", "8M", "--file", &path];
        let on = if round % 2 == 0 { &on[..3] } else { &on[..] };
        let verb = if chance.below(2) == 0 { on } else { &["off"] };
        // The command replaces the shell and nsenter, so the signal is sent to the command itself.
        let mut running = stage
            .inside(&[&[binary.as_str(), "swap"], verb].concat())
            .start();
        std::thread::sleep(Duration::from_micros(chance.below(12_000)));
        running.kill_and_reap();
        drop(running);
        if chance.below(3) == 0 {
            let outcome = stage.swap(&["off"]);
            assert!(
                matches!(outcome.status.code(), Some(0 | 1)),
                "{}",
                outcome.stderr
            );
        }
    }
    let _ = stage.swap(&["off", "--force"]);
    let left = devices();
    let new: Vec<_> = left.difference(&stage.before.0).collect();
    // A device that was added but not recorded yet is empty, and may be taken for a foreign one.
    for name in &new {
        let size = std::fs::read_to_string(format!("/sys/block/{name}/disksize"));
        assert_eq!(
            size.unwrap_or_default().trim(),
            "0",
            "{name} is left with a size"
        );
        let number = name.trim_start_matches("zram");
        std::fs::write("/sys/class/zram-control/hot_remove", number).expect("it is free");
    }
    assert!(new.len() <= 3, "{new:?}");
    let file = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    assert_eq!(file, 0, "a file is left with blocks");
    stage.is_as_before();
}
