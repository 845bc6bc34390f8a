//! `pagetide swap` on the machine itself: what it makes is swapped to and removed again, beside swap of
//! others, which stays as it is.
//!
//! The story that each test guards: a user's own zram went away with ours.
//!
//! Each test has a `/run` of its own (a mount namespace with a tmpfs), so that it neither finds nor removes
//! what a user of this machine switched on. Needs root and zram.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::sleeper::Sleeper;
use e2e::temp::{Serial, TempDir, serial, target_dir};
use e2e::{pagetide, proc, programs, wait, zram};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// A zram that somebody swaps to, gone with its value.
struct Foreign(String);

impl Foreign {
    fn on(label: &[&str]) -> Foreign {
        let command = format!(
            "n=$(cat /sys/class/zram-control/hot_add) && echo 8M > /sys/block/zram$n/disksize && \
             mkswap {} /dev/zram$n >&2 && swapon -p 32767 /dev/zram$n && echo $n",
            label.join(" ")
        );
        let made = Run::new(["sh", "-c", &command]).finish(LIMIT);
        assert!(made.status.success(), "{}", made.stderr);
        Foreign(made.stdout.trim().to_owned())
    }

    fn is_on(&self) -> bool {
        is_on(&format!("/dev/zram{}", self.0))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let remove = format!(
            "swapoff /dev/zram{0}; echo {0} > /sys/class/zram-control/hot_remove",
            self.0
        );
        let _ = Run::new(["sh", "-c", &remove]).finish(LIMIT);
    }
}

/// Whether a device is swapped to.
fn is_on(device: &str) -> bool {
    let begin = format!("{device} ");
    areas().iter().any(|area| area.starts_with(&begin))
}

/// The harness's own. The story: whatever zram was swapped to when a test began was switched off, whoever's it was.
#[test]
fn swap_of_others_stays_on_while_tests_make_theirs() {
    let _serial = serial();
    let turn = e2e::swap_turn::alone();
    let foreign = [Foreign::on(&[]), Foreign::on(&["-L", "pagetide-e2e2"])];
    let on = || foreign.iter().all(Foreign::is_on);
    drop(zram::Swap::new(8));
    assert!(on(), "one of a test's own");
    assert!(zram::Swap::if_none(8).is_none() && on());
    drop(turn);
    drop(zram::Swap::shared());
    assert!(on(), "one that is shared");
}

/// The harness's own, [`zram::Swap`]: a check that was killed in the middle left its swap on, of the highest priority.
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
    // (A number is given again.)
    assert!(!is_on(left) || left == next.device());
}

/// A `/run` of a test's own, and a swap of somebody else's.
struct Stage {
    namespace: Running,
    foreign: zram::Swap,
    /// Devices and areas that were there before.
    before: (BTreeSet<String>, BTreeSet<String>),
    _serial: Serial,
}

impl Stage {
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

    fn inside(&self, words: &[&str]) -> Run {
        let pid = self.namespace.pid().to_string();
        let enter = ["nsenter", "-m", "-t", &pid, "--wd=."];
        Run::new(enter.iter().chain(words).map(|word| (*word).to_owned()))
    }

    fn swap(&self, args: &[&str]) -> Outcome {
        let binary = pagetide::binary();
        self.inside(&[&[binary.as_str(), "swap"], args].concat())
            .finish(LIMIT)
    }

    /// What a command that succeeds says as JSON.
    fn json(&self, args: &[&str]) -> Value {
        let outcome = self.swap(&[args, &["--json"]].concat());
        assert!(outcome.status.success(), "{args:?}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
    }

    /// A command that fails with this code and says this.
    fn fails(&self, args: &[&str], code: i32, told: &str) {
        let outcome = self.swap(args);
        assert_eq!(
            outcome.status.code(),
            Some(code),
            "{args:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains(told),
            "{args:?}: {}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains("\n  hint: "), "{}", outcome.stderr);
    }

    /// Somebody else's swap is there, and nothing of ours is. Others of this machine may make zram meanwhile, or
    /// remove theirs: a device that is empty for a moment may be theirs.
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
        // What a test that failed in the middle left on.
        let _ = self.swap(&["off"]);
    }
}

fn devices() -> BTreeSet<String> {
    let all = std::fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("zram")).collect()
}

/// Names and sizes of what the kernel swaps to.
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

/// The areas of a status that are ours.
fn ours(status: &Value) -> Vec<Value> {
    let all = status["areas"].as_array().expect("a list").iter();
    all.filter(|area| area["ours"] == true).cloned().collect()
}

/// A program that fills 128 MiB and goes through a tenth of them again and again: more than a group's 24 MiB, and
/// more than 64 MiB of somebody else's swap.
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

/// Switches our area off and on again with the highest priority there is: areas of one priority are filled in turn. The
/// story: once no page came to ours within a minute. Whoever else has swap on this machine may have so much of it, before ours,
/// that nothing is left for ours.
fn before_others(path: &str) {
    run_well(&["swapoff", path]);
    run_well(&["swapon", "-p", "32767", path]);
}

/// A command that must succeed.
fn run_well(words: &[&str]) {
    let done = Run::new(words.iter().copied()).finish(LIMIT);
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
}

/// Memory that it has, resident and swapped, in bytes.
fn grown(pid: u32) -> u64 {
    let bytes = |name| proc::number(pid, name).unwrap_or(0);
    bytes("RssAnon") + bytes("VmSwap")
}

/// The program when it has all its memory, with pages in our swap: who still grows may meet his limit while pages come
/// back (docs/known-gaps.md). Whom the kernel ended, as it found nothing to swap, is no evidence against us:
/// again, up to four times.
fn swapped_out(stage: &Stage, group: &MemoryGroup) -> Running {
    let used = || ours(&stage.json(&["status"]))[0]["used_bytes"].as_u64();
    let killed = || group.line("memory.oom_control", "oom_kill ");
    for _ in 0..4 {
        let before = killed();
        let mut program = group.run(&toucher()).start();
        let came = wait::poll(LIMIT, || {
            let ended = program.ended().map(|status| Err(status.to_string()));
            let is_grown = || grown(program.pid()) >= 128 << 20;
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

/// The kernel of this machine may write nothing back from zram, or may: then what is missing is the disk.
#[test]
fn what_cannot_go_on_to_a_disk_is_said_before_anything_starts() {
    let stage = Stage::set();
    let attribute = format!(
        "/sys/block/{}/writeback",
        stage.foreign.device().trim_start_matches("/dev/")
    );
    let can = Path::new(&attribute).exists();
    let (code, told) = match can {
        true => (2, "it is no block device"),
        false => (3, "CONFIG_ZRAM_WRITEBACK"),
    };
    stage.fails(
        &["on", "--size", "8M", "--backing", "/dev/null"],
        code,
        told,
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
    // Of nobody's making: it is there, and is not ours.
    let (code, stderr) = run(&[]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(
        stderr.contains("no compressed swap here is pagetide's"),
        "{stderr}"
    );
    let device = stage.foreign.device();
    let named = ["--write-back-from", &device];
    let (code, stderr) = run(&named);
    assert_eq!(code, Some(3), "{stderr}");
    let told = if can {
        "no disk behind it"
    } else {
        "CONFIG_ZRAM_WRITEBACK"
    };
    assert!(
        stderr.contains(told) && stderr.contains("hint: "),
        "{stderr}"
    );
    let (code, stderr) = run(&["--write-back-from", "/dev/null"]);
    assert_eq!(code, Some(2), "{stderr}");
    // Without it the program runs, and that is said.
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
    stage.fails(&["on", "--size", "1G"], 1, &path);
    let status = stage.json(&["status"]);
    assert_eq!(ours(&status).len(), 1, "{status:#}");
    assert_eq!(ours(&status)[0]["path"], path.as_str());
    assert_eq!(
        ours(&status)[0]["compressed"]["algorithm"],
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

/// Each way to compress that this kernel has: the device is of it by the kernel's own file, what leaves goes there, what is touched comes back
/// right, and what is in it when it is switched off as well.
#[test]
fn each_way_to_compress_keeps_every_byte() {
    let stage = Stage::set();
    let offered = compressors(&stage.foreign.device());
    let names: Vec<&str> = offered.split_whitespace().collect();
    let names: Vec<&str> = names
        .iter()
        .map(|name| name.trim_matches(['[', ']']))
        .collect();
    for known in ["lzo", "lzo-rle", "lz4"] {
        assert!(names.contains(&known), "{known} is not in {offered}");
    }
    for name in names {
        let made = stage.json(&["on", "--size", "64M", "--compress", name]);
        assert_eq!(made["algorithm"], name);
        let path = made["path"].as_str().expect("a path").to_owned();
        let chosen = compressors(&path);
        assert!(chosen.contains(&format!("[{name}]")), "{name}: {chosen}");
        before_others(&path);
        let sleeper = Sleeper::start([], 32);
        let all_out = || {
            let words = ["reclaim", "--all", &sleeper.pid().to_string()].map(str::to_owned);
            let told = pagetide::command(words).finish(LIMIT);
            assert!(told.status.success(), "{name}: {}", told.stderr);
            assert!(sleeper.status("VmSwap") > 30 << 20, "{name}");
            // Half of it: the other swap has the same priority.
            let used = ours(&stage.json(&["status"]))[0]["used_bytes"].as_u64();
            assert!(used > Some(8 << 20), "{name}: {used:?} bytes are there");
        };
        all_out();
        let _ = sleeper.touch();
        all_out();
        stage.json(&["off"]);
        let _ = sleeper.touch();
        stage.is_as_before();
    }
}

/// What a zram's device says of ways to compress: all that it could have, its own in brackets.
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
    assert!(ours(&stage.json(&["status"]))[0]["path"] == path.as_str());
    // In use it keeps its name: nobody could switch it off by any other.
    assert!(std::fs::remove_file(&path).is_err());
    stage.fails(
        &["on", "--file", &folder.file("second"), "--size", "20M"],
        1,
        &path,
    );
    stage.json(&["off"]);
    assert!(!Path::new(&path).exists());
    stage.is_as_before();
}

/// The story: a swapoff ended a program below a limit, with gigabytes free on the machine.
#[test]
fn a_program_below_a_limit_outlives_off() {
    let stage = Stage::set();
    let made = stage.json(&["on", "--size", "200M"]);
    before_others(made["path"].as_str().expect("a path"));
    let group = MemoryGroup::new();
    group.limit(24 << 20);
    let mut program = swapped_out(&stage, &group);
    let off = stage.swap(&["off"]);
    let told = &off.stderr;
    match off.status.code() {
        // Other swap of this machine takes what does not fit the group.
        Some(0) => stage.is_as_before(),
        code => {
            assert_eq!(code, Some(1), "{told}");
            assert!(
                told.contains("above its limit") && told.contains("hint: raise its limit"),
                "{told}"
            );
            assert_eq!(ours(&stage.json(&["status"])).len(), 1);
        }
    }
    assert!(program.ended().is_none(), "the program was ended: {told}");
    group.limit(200 << 20);
    if !off.status.success() {
        stage.json(&["off"]);
    }
    assert!(program.ended().is_none());
    drop(program);
    stage.is_as_before();
}

#[test]
fn what_others_switched_off_or_took_is_left_or_removed() {
    let stage = Stage::set();
    let made = stage.json(&["on", "--size", "20M"]);
    let path = made["path"].as_str().expect("a path").to_owned();
    run_well(&["swapoff", &path]);
    assert_eq!(stage.json(&["status"])["left"][0], path.as_str());
    let again = stage.json(&["on", "--size", "30M"]);
    assert!(
        again["removed"]
            .as_str()
            .is_some_and(|told| told.starts_with(&path)),
        "{again:#}"
    );
    let path = again["path"].as_str().expect("a path").to_owned();

    // Another makes it his own.
    run_well(&["swapoff", &path]);
    run_well(&["mkswap", &path]);
    run_well(&["swapon", &path]);
    stage.fails(&["off"], 1, "is left alone: its header");
    assert!(areas().iter().any(|area| area.starts_with(&path)));
    run_well(&["swapoff", &path]);
    let number = path.trim_start_matches("/dev/zram");
    std::fs::write("/sys/class/zram-control/hot_remove", number).expect("it is free");
    stage.is_as_before();
}

#[test]
fn whoever_cannot_leaves_nothing() {
    let stage = Stage::set();
    for (args, code, told) in [
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
            "there is a file",
        ),
    ] {
        stage.fails(args, code, told);
        stage.is_as_before();
    }
    // Where nobody may go, too.
    let folder = TempDir::public();
    let binary = folder.file("pagetide");
    std::fs::copy(pagetide::binary(), &binary).expect("a program can be copied");
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

/// Killed at any instant, nothing is left that the next command does not take up.
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
        // The command replaces the shell and nsenter, so that the signal is its own.
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
    let _ = stage.swap(&["off"]);
    let left = devices();
    let new: Vec<_> = left.difference(&stage.before.0).collect();
    // A device that was added and not yet written down is empty, and cannot be told from anybody's.
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
