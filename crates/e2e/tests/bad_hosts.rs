//! Hosts, users and processes that lack what managing needs: pagetide prints a clear error and what
//! to do, ends with its exit code, and the target is unchanged. A mount namespace hides what is
//! missing from the command only.
#![forbid(unsafe_code)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running, send};
use e2e::notice::POLICY;
use e2e::pagetide::assert_refused;
use e2e::temp::{TempDir, serial};
use e2e::user::{self, NOBODY};
use e2e::zram::Swap;
use e2e::{guard, kills, pagetide, proc, wait};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
/// Runs `setup` and then `pagetide ARGS` in a new mount namespace; returns the outcome.
fn run_after(setup: &str, args: &str) -> Outcome {
    let script = format!("{setup} && exec {} {args}", pagetide::binary());
    Run::new(["unshare", "-m", "sh", "-c", &script]).finish(SOON)
}

/// Writes a copy of /proc/meminfo in which these lines are 0; returns the shell command that mounts
/// it over /proc/meminfo.
fn meminfo(folder: &TempDir, lines: &[&str]) -> String {
    let text = std::fs::read_to_string("/proc/meminfo").expect("it is there");
    let changed = text.lines().map(|line| {
        let is = |name: &&&str| line.starts_with(&format!("{name}:"));
        let zero = lines.iter().find(is).map(|name| format!("{name}: 0 kB"));
        zero.unwrap_or_else(|| line.to_owned()) + "\n"
    });
    let file = folder.file("meminfo");
    std::fs::write(&file, changed.collect::<String>()).expect("a file can be written");
    format!("mount --bind {file} /proc/meminfo")
}

#[test]
fn without_swap_commands_are_refused() {
    let _serial = serial();
    let folder = TempDir::new();
    let setup = meminfo(&folder, &["SwapTotal", "SwapFree"]);
    let idle = guard::sleep();
    for args in [
        "run -- echo started".to_owned(),
        format!("attach --for 1s {}", idle.pid()),
        format!("reclaim --all {}", idle.pid()),
    ] {
        let outcome = run_after(&setup, &args);
        assert_refused(&outcome, 3, &["no swap", "pagetide swap on"]);
        assert_eq!(outcome.stdout, "");
    }
    let runs = run_after(&setup, "run --best-effort -- echo started");
    assert_eq!(
        (runs.status.code(), runs.stdout.as_str()),
        (Some(0), "started\n")
    );
    assert!(runs.stderr.contains("no swap"), "{}", runs.stderr);
    assert_eq!(proc::number(idle.pid(), "VmSwap"), Some(0));
}

#[test]
fn full_swap_is_reported_and_run_starts_the_program() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let setup = meminfo(&folder, &["SwapFree"]);
    let idle = guard::sleep();
    let outcome = run_after(&setup, &format!("reclaim --all {}", idle.pid()));
    assert_refused(&outcome, 1, &["swap is full", "pagetide swap status"]);
    assert_eq!(proc::number(idle.pid(), "VmSwap"), Some(0));
    let runs = run_after(&setup, "run -- echo started");
    assert_eq!(
        (runs.status.code(), runs.stdout.as_str()),
        (Some(0), "started\n")
    );
}

/// Pages of a file need no swap, so they are paged out although swap is full. The program read the
/// file through a mapping and is idle.
///
/// Regression: where swap was full, pagetide requested no page-out at all.
#[test]
fn file_pages_are_paged_out_where_swap_is_full() {
    const FILE: u64 = 32 << 20;
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let setup = meminfo(&folder, &["SwapFree"]);
    let file = folder.file("data");
    std::fs::write(&file, vec![7_u8; 32 << 20]).expect("a file can be written");
    // The kernel can drop only a page that is already written to the disk.
    let synced = Run::new(["sync", &file]).finish(SOON);
    assert!(synced.status.success(), "{}", synced.stderr);
    let reads = "import mmap, sys, time\n\
        file = open(sys.argv[1], 'rb')\n\
        area = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n\
        area[::4096]\n\
        time.sleep(600)\n";
    let reader = Run::new(["python3", "-c", reads, &file]).start();
    let of_files = || proc::number(reader.pid(), "RssFile").unwrap_or(0);
    wait::until("the file is read", SOON, || of_files() > FILE);
    // The program read the file's last page only a moment before.
    std::thread::sleep(Duration::from_secs(1));
    let before = of_files();
    let outcome = run_after(&setup, &format!("reclaim --all {}", reader.pid()));
    assert_refused(&outcome, 1, &["swap is full"]);
    let left = before.saturating_sub(of_files());
    assert!(
        left > 30 << 20,
        "{left} bytes of {before} left: {}",
        outcome.stdout
    );
    assert_eq!(proc::number(reader.pid(), "VmSwap"), Some(0));
}

/// If pagetide can only see which mappings were used, it does not know which pages to page out: it
/// says so and does nothing.
///
/// Regression: each `reclaim --all` reported MiB as paged out while VmSwap stayed as it was.
#[test]
fn without_page_tables_nothing_is_paged_out() {
    let _serial = serial();
    let _swap = Swap::shared();
    if std::path::Path::new("/sys/kernel/mm/page_idle/bitmap").exists() {
        eprintln!("left out: the idle bitmap tells pages, too");
        return;
    }
    let idle = guard::sleep();
    let (own, pid) = (pagetide::binary(), idle.pid().to_string());
    for args in [["reclaim", "--all"], ["attach", "--for=10s"]] {
        let without = ["setpriv", "--bounding-set=-sys_admin,-bpf", &own];
        let words = without.into_iter().chain(args).chain([pid.as_str()]);
        let outcome = Run::new(words).finish(SOON);
        assert_refused(&outcome, 3, &["only which mappings"]);
        assert_eq!(proc::number(idle.pid(), "VmSwap"), Some(0));
    }
}

#[test]
fn without_writable_control_groups_limits_are_refused() {
    let _serial = serial();
    let _swap = Swap::shared();
    let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let there = |path: &&&str| std::path::Path::new(path).is_dir();
    let groups = groups.iter().find(there).expect("one of them");
    for (setup, why) in [
        (format!("mount -o remount,ro,bind {groups}"), "read-only"),
        (format!("umount -l {groups}"), "controller"),
    ] {
        let refused = run_after(&setup, "run --memory-max 64M -- echo started");
        assert_refused(&refused, 3, &[why]);
        assert_eq!(refused.stdout, "");
        for args in ["run --best-effort --memory-max 64M", "run"] {
            let runs = run_after(&setup, &format!("{args} -- echo started"));
            let said = (runs.status.code(), runs.stdout.as_str());
            assert_eq!(said, (Some(0), "started\n"), "{args}: {}", runs.stderr);
        }
    }
}

/// A signal that was ignored when pagetide started must stay ignored.
///
/// Regression: `nohup pagetide report --watch` ended when its user logged out, and `attach` in the
/// background of a script at the ^C that was meant for the script.
#[test]
fn a_signal_that_was_ignored_ends_nothing() {
    let _serial = serial();
    let _swap = Swap::shared();
    let idle = guard::sleep();
    let ignoring = |args: &str| {
        let script = format!(
            "trap '' HUP INT; exec {} {args} {}",
            pagetide::binary(),
            idle.pid()
        );
        Run::new(["sh", "-c", &script]).start()
    };
    let goes_on = |running: &mut Running| {
        running.signal(Signal::HUP);
        running.signal(Signal::INT);
        running.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(500));
        let ended = running.ended();
        assert!(ended.is_none(), "{ended:?}: {}", running.stderr());
    };
    let ends = |running: Running| {
        running.signal(Signal::TERM);
        let outcome = running.wait(SOON);
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    };
    let mut report = ignoring("report --watch=1s --csv");
    let lines = |report: &Running| report.stdout().lines().count();
    wait::until("it reports", SOON, || lines(&report) >= 2);
    goes_on(&mut report);
    let before = lines(&report);
    wait::until("it goes on", SOON, || lines(&report) > before);
    ends(report);
    let mut attach = ignoring("attach");
    let managed = || pagetide::on("stat", idle.pid()).status.success();
    wait::until("it manages", SOON, managed);
    goes_on(&mut attach);
    assert!(managed());
    ends(attach);
}

/// Regression: `reclaim --all 1` paged out every process of the host for as long as it ran, because
/// all processes descend from init, also the caller. So did `reclaim --cgroup /$SLICE` where that
/// variable was not set. These tests name init only in commands that are refused before they do
/// anything.
#[test]
fn targets_that_no_user_can_mean_are_refused() {
    let _serial = serial();
    let init = pagetide::on("stat", 1);
    assert_refused(&init, 1, &["pid 1", "every process"]);
    let root = pagetide::command(["stat", "--cgroup", "/"]).finish(SOON);
    assert_refused(&root, 1, &["control group /:", "every process"]);
    let script = "import threading, time\n\
        thread = threading.Thread(target=time.sleep, args=(100,), daemon=True)\n\
        thread.start()\n\
        print(thread.native_id, flush=True)\n\
        time.sleep(100)";
    let threads = Run::new(["python3", "-c", script]).start();
    let thread = wait::poll(SOON, || threads.stdout().trim().parse::<u32>().ok());
    let thread = thread.expect("it has a thread").to_string();
    let parent = Run::new(["sh", "-c", "true & exec sleep 100"]).start();
    let zombie = wait::poll(SOON, || {
        let all = proc::descendants(parent.pid());
        all.into_iter().find(|pid| proc::state(*pid) == Some('Z'))
    });
    let zombie = zombie.expect("nobody waits for it").to_string();
    let first = threads.pid().to_string();
    for (pid, why) in [
        ("2", "thread of the kernel"),
        (thread.as_str(), first.as_str()),
        (zombie.as_str(), "zombie"),
        ("4194999", "no such process"),
    ] {
        for words in [
            &["attach", "--for", "1s"][..],
            &["reclaim", "--all"],
            &["stat"],
            &["detach"],
        ] {
            let outcome = pagetide::command(words.iter().copied().chain([pid])).finish(SOON);
            assert_refused(&outcome, 1, &[pid, why]);
        }
    }
    let own = format!("exec {} attach --for 1s $$", pagetide::binary());
    let own = Run::new(["sh", "-c", &own]).finish(SOON);
    assert_refused(&own, 1, &["pagetide itself"]);
}

/// Regression: of a `sleep` of 2 MiB, `reclaim` reported 159 MiB as not paged out: a page was
/// counted once for each attempt of the engine.
#[test]
fn pages_that_stayed_are_no_more_than_all_pages() {
    let _serial = serial();
    let _swap = Swap::shared();
    let idle = guard::sleep();
    // Until the program sleeps, it loads its libraries.
    wait::until("its sleep", SOON, || proc::state(idle.pid()) == Some('S'));
    let resident = proc::number(idle.pid(), "VmRSS").expect("it runs") / 4096;
    let words = ["reclaim", "--json", "--all", &idle.pid().to_string()].map(str::to_owned);
    let outcome = pagetide::command(words).finish(SOON);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let done: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let names = [
        "shared_pages",
        "locked_pages",
        "lazyfree_pages",
        "referenced_pages",
        "busy_pages",
    ];
    let stayed: u64 = names.iter().filter_map(|name| done[name].as_u64()).sum();
    // The kernel's counter of resident pages is wrong by some pages.
    assert!(stayed <= resident + 64, "{done} of {resident} pages");
}

#[test]
fn commands_report_that_no_manager_runs() {
    let _serial = serial();
    let idle = guard::sleep();
    for verb in ["stat", "detach"] {
        assert_refused(
            &pagetide::on(verb, idle.pid()),
            1,
            &["no pagetide manages it"],
        );
    }
    assert_refused(&pagetide::on("reclaim", idle.pid()), 2, &["how much"]);
}

/// Sets the capabilities of an executable file (setcap(8)).
fn set_capabilities(file: &str, capabilities: &str) {
    let given = Run::new(["setcap", capabilities, file]).finish(SOON);
    assert!(given.status.success(), "{}", given.stderr);
}

/// The kernel drops a page of a shared file only for a process that may write the file, and
/// pagetide may write any file. Regression: a user that may only read a file dropped its page
/// cache.
fn users_drop_no_cache_of_others(copy: &str) {
    const READS: &str = "import mmap, sys, time\n\
        file = open(sys.argv[1], 'rb')\n\
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n\
        print(sum(memory[at] for at in range(0, len(memory), 4096)), flush=True)\n\
        time.sleep(600)\n";
    let folder = TempDir::public();
    let path = folder.file("file");
    std::fs::write(&path, vec![1_u8; 16 << 20]).expect("room for 16 MiB");
    let file = std::fs::File::open(&path).expect("it is there");
    file.sync_all().expect("it is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let reader = user::run(NOBODY, ["/usr/bin/python3", "-c", READS, &path]).start();
    wait::until("it has read all", SOON, || reader.stdout().contains("4096"));
    // A paged-out page is no longer mapped, but may stay in the page cache for any caller (large
    // folios).
    let mapped = || e2e::proc::number(reader.pid(), "RssFile").expect("it runs");
    let before = mapped();
    let reclaim = [
        "reclaim".to_owned(),
        "--all".to_owned(),
        reader.pid().to_string(),
    ];
    let words = std::iter::once(copy.to_owned()).chain(reclaim.iter().cloned());
    let done = user::run(NOBODY, words).finish(SOON);
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    let left = before.saturating_sub(mapped());
    assert!(left < 12 << 20, "{left} {}{}", done.stdout, done.stderr);
    // Root may write the file, so root's reclaim drops it.
    let done = pagetide::command(reclaim).finish(SOON);
    let left = before.saturating_sub(mapped());
    assert!(left >= 14 << 20, "{left} {}{}", done.stdout, done.stderr);
}

/// Regression: with two capabilities, enough to read ages but not to page out, `reclaim` reported
/// that nothing was paged out, and its exit code was 0.
#[test]
fn capabilities_of_the_executable_allow_only_the_users_own_processes() {
    let _serial = serial();
    // The directory of that user's control sockets.
    let _sockets = TempDir::at("/tmp/pagetide-65534");
    let _swap = Swap::shared();
    let folder = TempDir::public();
    let copy = pagetide::public_copy(&folder);
    let nobody = |words: &str| user::run(NOBODY, words.split_whitespace());
    let (others, own) = (guard::sleep(), nobody("sleep 100").start());
    wait::until("sleep", SOON, || {
        proc::comm(own.pid()).as_deref() == Some("sleep")
    });
    let (others, own) = (others.pid(), own.pid());
    set_capabilities(&copy, "cap_bpf,cap_perfmon+ep");
    let reported = nobody(&format!("{copy} reclaim --all {own}")).finish(SOON);
    assert_refused(&reported, 3, &["CAP_SYS_NICE"]);
    set_capabilities(
        &copy,
        "cap_bpf,cap_perfmon,cap_sys_nice,cap_sys_ptrace,cap_dac_override,cap_dac_read_search+ep",
    );
    let run = nobody(&format!("{copy} run -- grep CapPrm /proc/self/status")).finish(SOON);
    assert_eq!(run.stdout, "CapPrm:\t0000000000000000\n", "{}", run.stderr);
    for verb in ["attach --for 1s", "reclaim --all", "detach --bring-back"] {
        let done = nobody(&format!("{copy} {verb} {own}")).finish(SOON);
        assert!(done.status.success(), "{verb}: {}", done.stderr);
        let refused = nobody(&format!("{copy} {verb} {others}")).finish(SOON);
        assert_refused(&refused, 3, &["another user"]);
    }
    users_drop_no_cache_of_others(&copy);
    // Regression: pagetide opened files that the user named with the capabilities of its
    // executable: any user could have replaced /etc/passwd by a report.
    let kept = TempDir::new();
    let (page, secret) = (kept.file("page.html"), kept.file("trace.csv"));
    for file in [&page, &secret] {
        std::fs::write(file, "1\n2\n").expect("it is ours");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("ours");
    }
    for words in [
        format!("report {own} --for 1s --html {page}"),
        format!("attach {own} --for 1s --record {page}"),
        format!("mrc {secret}"),
        format!("man --to {}", kept.path().display()),
        "serve --host none".to_owned(),
    ] {
        let refused = nobody(&format!("{copy} {words}")).finish(SOON);
        assert!(!refused.status.success(), "{words}: {}", refused.stdout);
    }
    let left = std::fs::read_to_string(&page).expect("it is there");
    assert_eq!(left, "1\n2\n");
    assert_eq!(std::fs::read_dir(kept.path()).expect("ours").count(), 2);
}

/// Regression: the guard kept the capabilities of pagetide's executable, so the user that started
/// it could lift the limit of root's program.
#[test]
fn a_guard_has_no_capabilities_of_its_executable() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::public();
    let copy = pagetide::public_copy(&folder);
    set_capabilities(&copy, "cap_dac_override,cap_dac_read_search+ep");
    let limited = ["run", "--memory-max", "64M", "--", "sleep", "100"].map(str::to_owned);
    let limited = pagetide::command(limited).start();
    let hard_limit = || {
        let groups = proc::read(limited.pid(), "cgroup")?;
        let group = groups
            .lines()
            .find_map(|line| line.split_once(":memory:"))?
            .1;
        let is_ours = group.contains("pagetide-");
        is_ours.then(|| format!("/sys/fs/cgroup/memory{group}"))
    };
    wait::until("its wall", SOON, || hard_limit().is_some());
    let hard_limit = hard_limit().expect("it stands");
    let limit = || std::fs::read_to_string(format!("{hard_limit}/memory.limit_in_bytes"));
    // (The program enters the cgroup before the limit is set, and begins to run after that.)
    wait::until("its limit", SOON, || {
        limit().is_ok_and(|text| text.trim() == "67108864")
    });
    const LIFTS: &str = "import os, subprocess, sys\n\
        line, other = os.pipe(), os.pipe()\n\
        os.close(other[1])\n\
        group = os.open(sys.argv[2], os.O_RDONLY)\n\
        guard = subprocess.Popen([sys.argv[1], '__guard', 'stand'], stdin=line[1], stdout=group, stderr=other[0])\n\
        guard.wait(20)\n";
    let words = ["/usr/bin/python3", "-c", LIFTS, &copy, &hard_limit];
    let _ = user::run(NOBODY, words).finish(SOON);
    assert_eq!(limit().expect("it stands").trim(), "67108864");
    drop(limited);
}

#[test]
fn only_one_of_two_managers_is_started() {
    let _serial = serial();
    let _swap = Swap::shared();
    let idle = guard::sleep();
    let words = ["attach", &idle.pid().to_string()].map(str::to_owned);
    let mut both = [(); 2].map(|()| pagetide::command(words.clone()).start());
    // Of two managers of one program, one is refused and ends. When it has ended, both have
    // started.
    wait::until("one is refused", SOON, || {
        both.iter_mut().any(|one| one.ended().is_some())
    });
    wait::until("the other is told to let go", SOON, || {
        pagetide::on("detach", idle.pid()).status.success()
    });
    let mut codes = both.map(|one| one.wait(SOON).status.code());
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1)]);
}

/// A target may end at any moment of the command: the command ends in order or with an error, never
/// with a hang or a panic.
#[test]
fn a_target_may_end_at_any_moment() {
    let _serial = serial();
    let _swap = Swap::shared();
    for (number, verb) in [
        "attach --for 2s",
        "reclaim --all",
        "stat",
        "detach --bring-back",
        "report --for 2s",
    ]
    .iter()
    .cycle()
    .take(45)
    .enumerate()
    {
        let idle = guard::sleep();
        let pid = idle.pid().to_string();
        let command = pagetide::command(verb.split(' ').chain([pid.as_str()])).start();
        std::thread::sleep(Duration::from_micros(number as u64 * 2000));
        send(idle.pid(), Signal::KILL);
        drop(idle);
        let outcome = command.wait(SOON);
        let code = outcome.status.code();
        assert!(
            matches!(code, Some(0 | 1)),
            "{verb}: {code:?}: {}",
            outcome.stderr
        );
        let is_reported = code == Some(0) || outcome.stderr.contains("hint:");
        assert!(
            is_reported && !outcome.stderr.contains("panicked"),
            "{}",
            outcome.stderr
        );
    }
}

/// Kills `pagetide run` with a hard limit at different times before and after it becomes CMD.
///
/// The process ends by the signal alone. A `report` at the same time prints a report or an error
/// with a hint. In the end no process or control group of pagetide remains.
#[test]
fn run_may_be_killed_at_any_moment() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut hard_limits = Vec::new();
    for number in 0..16 {
        let options = [&POLICY[..], &["--memory-max", "64M"]].concat();
        let mut running = pagetide::run(&options, &Run::new(["sleep", "100"])).start();
        let pid = running.pid();
        std::thread::sleep(Duration::from_micros(number * 7500));
        let words = ["report", "--json", "--for", "2s"].map(str::to_owned);
        let report = pagetide::command(words.into_iter().chain([pid.to_string()])).start();
        std::thread::sleep(Duration::from_micros(number % 8 * 2000));
        hard_limits.extend(kills::hard_limit_of(pid));
        send(pid, Signal::KILL);
        let status = wait::poll(SOON, || running.ended());
        let status = status.expect("it was killed");
        assert_eq!(status.signal(), Some(9), "{status}: {}", running.stderr());
        let reported = report.wait(SOON);
        let said = format!("{:?}: {}", reported.status.code(), reported.stderr);
        let is_reported = match reported.status.code() {
            Some(0) => serde_json::from_str::<serde_json::Value>(&reported.stdout).is_ok(),
            code => code == Some(1) && reported.stderr.contains("hint:"),
        };
        assert!(is_reported && !said.contains("panicked"), "{said}");
        let nobody = || running.tree().is_empty();
        wait::until("its manager and its guard have ended", SOON, nobody);
    }
    assert!(!hard_limits.is_empty(), "it was killed too early each time");
    // The next `run` removes the control groups that the killed ones did not remove.
    let next = pagetide::run(&["--memory-max", "64M"], &Run::new(["true"])).finish(SOON);
    assert!(next.status.success(), "{}", next.stderr);
    wait::until("the walls are gone", SOON, || {
        !hard_limits.iter().any(|hard_limit| hard_limit.exists())
    });
}

/// Regression: after ^Z in `attach`, `detach` from the same terminal printed nothing for ten
/// minutes.
#[test]
fn a_manager_that_is_stopped_is_not_waited_for() {
    let _serial = serial();
    let _swap = Swap::shared();
    let idle = guard::sleep();
    let pid = idle.pid().to_string();
    let manager = pagetide::command(["attach", &pid].map(str::to_owned)).start();
    wait::until("it is managed", SOON, || {
        pagetide::on("stat", idle.pid()).status.success()
    });
    send(manager.pid(), Signal::STOP);
    for words in [&["detach"][..], &["reclaim", "--all"], &["stat"]] {
        let words = words.iter().copied().chain([pid.as_str()]);
        let reported = pagetide::command(words.map(str::to_owned)).finish(SOON);
        assert_refused(&reported, 1, &["is stopped", "kill -CONT"]);
    }
    send(manager.pid(), Signal::CONT);
    assert!(pagetide::on("detach", idle.pid()).status.success());
}

/// Regression: in a container, lxcfs shows a list of swap of its own, without zram. `doctor` then
/// said that swap was not on zram.
#[test]
fn an_invented_list_of_swap_proves_nothing() {
    let (_serial, _swap) = (serial(), Swap::shared());
    let folder = TempDir::new();
    let binary = pagetide::binary();
    let title = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
    let swaps = folder.file("swaps");
    let memory = folder.file("meminfo");
    std::fs::write(
        &memory,
        "MemTotal: 65536 kB\nMemAvailable: 32768 kB\nSwapTotal: 0 kB\n",
    )
    .expect("a file");
    for lines in ["", "none virtual 1024 0 0\n"] {
        std::fs::write(&swaps, format!("{title}{lines}")).expect("a file");
        for over in [
            format!("mount --bind {swaps} /proc/swaps"),
            format!("mount --bind {memory} /proc/meminfo"),
            format!("mount --bind {swaps} /proc/swaps; mount --bind {memory} /proc/meminfo"),
            "mount --bind /proc/version /proc/swaps".to_owned(),
        ] {
            let script = format!("{over}; {binary} doctor --json; {binary} swap status --json");
            let outcome = Run::new(["unshare", "-m", "sh", "-c", &script]).finish(SOON);
            let mut all = serde_json::Deserializer::from_str(&outcome.stdout).into_iter();
            let mut next = || -> Value { all.next().expect("an object").expect("JSON") };
            let (doctor, status) = (next(), next());
            let text = doctor.to_string();
            assert!(!text.contains("not on zram"), "{over}: {text}");
            assert!(
                text.contains("of a kind that is not known"),
                "{over}: {text}"
            );
            assert!(status["invented"].is_string(), "{over}: {status}");
        }
    }
}
