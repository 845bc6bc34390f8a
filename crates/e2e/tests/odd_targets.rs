//! Unusual targets: a frozen group, swap that fills up during reclaim, a pid that is used again.
//! Each target continues or stays as it was, and pagetide does not hang.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::temp::{TempDir, serial};
use e2e::zram::{self, Swap};
use e2e::{pagetide, programs, wait};

const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// Bytes of the program in swap, by the kernel's figure (VmSwap).
fn swapped_bytes(idle_program: &IdleProgram) -> u64 {
    idle_program.status("VmSwap")
}

/// A group of the v1 freezer; `Drop` thaws it, moves its processes out and removes it. Declare it
/// after its processes, so that it is dropped first.
///
/// Regression: a frozen process does not die, and a failed test waited for ever for one that it had
/// killed.
struct Freezer(PathBuf);

impl Freezer {
    fn new() -> Freezer {
        let name = format!("pagetide-e2e-{}", std::process::id());
        let path = Path::new("/sys/fs/cgroup/freezer").join(name);
        std::fs::create_dir(&path).expect("root can make a group of the freezer");
        Freezer(path)
    }

    fn enter(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it may be moved");
    }

    fn set(&self, state: &str) {
        let file = self.0.join("freezer.state");
        std::fs::write(&file, state).expect("a state");
        let is_there = || std::fs::read_to_string(&file).is_ok_and(|now| now.trim() == state);
        wait::until(state, LIMIT, is_there);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        let pids = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines() {
            let _ = std::fs::write("/sys/fs/cgroup/freezer/cgroup.procs", pid);
        }
        let _ = wait::poll(LIMIT, || std::fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn a_frozen_group_is_scanned_and_paged_out() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let running = IdleProgram::start([], 96);
    let freezer = Freezer::new();
    freezer.enter(running.pid());
    freezer.set("FROZEN");
    let pid = running.pid().to_string();
    let report = pagetide::command(["report", &pid, "--for", "2s", "--json"]).finish(LIMIT);
    assert_eq!(report.status.code(), Some(0), "{}", report.stderr);
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    assert_eq!(reclaim.status.code(), Some(0), "{}", reclaim.stderr);
    assert!(swapped_bytes(&running) > 90 * MIB, "{}", reclaim.stdout);
    let back = pagetide::command(["detach", &pid, "--bring-back"]).finish(LIMIT);
    assert_eq!(back.status.code(), Some(0), "{}", back.stderr);
    // The pages are read into the swap cache; the program maps them when it runs and touches them.
    assert!(
        back.stdout.contains("read back requested"),
        "{}",
        back.stdout
    );
    freezer.set("THAWED");
    let _ = running.touch();
    // A manager is attached before the group is frozen, and stays attached.
    let attach = ["attach", &pid, "--evict-older-than", "1s", "--every", "1s"];
    let words = attach.into_iter().chain(["--age-every", "500ms"]);
    let manager = pagetide::command(words).start();
    wait::until("its manager", LIMIT, || {
        !manager.stderr().is_empty() || swapped_bytes(&running) > 0
    });
    freezer.set("FROZEN");
    wait::until("all is out while frozen", LIMIT, || {
        swapped_bytes(&running) > 90 * MIB
    });
    freezer.set("THAWED");
    let _ = running.touch();
}

/// Whether the swap area of this test is the only one, so that it can be full. If there is another,
/// which a test must not remove, all pages fit, and the tests check that instead.
fn is_alone() -> bool {
    zram::areas() == 1
}

/// The swap device (zram) takes no more data though it has free slots.
///
/// Regression: pages that the device refused were reported as swapped out, but stayed in memory.
#[test]
fn pages_that_a_full_zram_refuses_stay_and_are_reported() {
    let _serial = serial();
    let swap = Swap::new(512);
    swap.limit(4);
    let is_alone = is_alone();
    let running = IdleProgram::start([], 256);
    let pid = running.pid().to_string();
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    let said = format!("{}{}", reclaim.stdout, reclaim.stderr);
    assert!(swap.memory_used() <= 5 * MIB);
    if is_alone {
        assert!(said.contains("swap is full"), "{said}");
        assert_eq!(reclaim.status.code(), Some(1), "{said}");
        // When the device became full, page-out of some pages had begun: only these may be out.
        assert!(swapped_bytes(&running) < 128 * MIB, "{said}");
    }
    let _ = running.touch();
}

/// The swap area really fills up: as many pages as fit are swapped out, the others stay in memory,
/// and the command reports it.
#[test]
fn as_many_pages_are_swapped_out_as_fit() {
    let _serial = serial();
    let swap = Swap::new(24);
    let is_alone = is_alone();
    let running = IdleProgram::start([], 96);
    let pid = running.pid().to_string();
    let begin = Instant::now();
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    let said = format!("{}{}", reclaim.stdout, reclaim.stderr);
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "it went on in vain: {said}"
    );
    let out = swapped_bytes(&running);
    assert!(out > 16 * MIB, "{out} bytes out: {said}");
    if is_alone {
        assert!(said.contains("swap is full"), "{said}");
        assert_eq!(reclaim.status.code(), Some(1), "{said}");
        assert!(swap.used() <= 24 * MIB && out < 25 * MIB);
    } else {
        assert_eq!(reclaim.status.code(), Some(0), "{said}");
    }
    let _ = running.touch();
    // With a second swap area of 256 MiB all pages fit.
    let other = Swap::new(256);
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    let said = format!("{}{}", reclaim.stdout, reclaim.stderr);
    assert_eq!(reclaim.status.code(), Some(0), "{said}");
    assert!(swapped_bytes(&running) > 90 * MIB, "{said}");
    let _ = running.touch();
    drop(other);
    // Regression: a swapped-in page keeps its swap slot until the page is written, so for a minute
    // no page of the next program found a free slot.
    drop(running);
    let words = [
        "run",
        "--evict-older-than",
        "500ms",
        "--every",
        "500ms",
        "--age-every",
        "250ms",
        "--",
    ];
    let own = std::iter::once(pagetide::binary()).chain(words.map(str::to_owned));
    let managed = IdleProgram::start(own, 96);
    wait::until("swap is used up", LIMIT, || {
        swapped_bytes(&managed) > 16 * MIB
    });
    std::thread::sleep(Duration::from_secs(3));
    let _ = managed.touch();
}

/// A manager runs as long as any descendant of the process that it was started for.
///
/// Regression: when that process had ended and another got its pid, the manager answered requests
/// by that pid: `reclaim` of the new process paged out the descendants, and another manager was
/// refused.
#[test]
fn a_manager_does_not_serve_a_new_process_with_its_targets_pid() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let folder = TempDir::new();
    let script = format!(
        "{pagetide} run --evict-older-than 1h -- sh -c 'echo $$ >{file}; setsid {idle_program} 16 >/dev/null & sleep 3' &
         wait $!; first=$(cat {file})
         {pagetide} stat $first >/dev/null; echo descendants $?
         echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
         {idle_program} 16 >/dev/null & second=$!
         echo same $((first == second))
         {pagetide} stat $second; echo stat $?
         {pagetide} attach --for 1s $second; echo attach $?
         kill -9 $second",
        idle_program = programs::c("sleeper"),
        pagetide = pagetide::binary(),
        file = folder.file("first"),
    );
    // In a new pid namespace no other process takes pids.
    let words = ["unshare", "--pid", "--fork", "--mount-proc"];
    // Not as the first process of the namespace, which adopts all orphans.
    let words = words
        .into_iter()
        .chain(["sh", "-c", "sh -c \"$0\"; exit $?", &script]);
    let outcome = Run::new(words).finish(LIMIT);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    for word in ["descendants 0", "same 1", "stat 1", "attach 0"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// The managed program ends, and another process gets its pid: that process is not managed.
#[test]
fn a_new_process_with_the_pid_of_a_managed_one_is_not_managed() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let script = format!(
        "of() {{ awk -v of=$1: '$1 == of {{ print $2 }}' /proc/$first/status; }}
         {idle_program} 16 >/dev/null & first=$!
         until [ \"$(of VmRSS)\" -gt 16384 ]; do sleep 0.05; done
         {pagetide} attach $first --evict-older-than 1s --every 1s --age-every 500ms & manager=$!
         until [ \"$(of VmSwap)\" -gt 8192 ]; do sleep 0.05; done
         grep VmSwap /proc/$first/status
         kill -9 $first; wait $first 2>/dev/null
         echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
         {idle_program} 16 >/dev/null & second=$!
         sleep 4
         echo same $((first == second)); grep VmSwap /proc/$second/status
         {pagetide} stat $second; echo stat $?
         kill -9 $second; wait $manager; echo manager $?",
        idle_program = programs::c("sleeper"),
        pagetide = pagetide::binary(),
    );
    // In a new pid namespace no other process takes pids.
    let words = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        &script,
    ];
    let outcome = Run::new(words).finish(LIMIT);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    let out: Vec<u64> = said
        .lines()
        .filter_map(|line| {
            line.strip_prefix("VmSwap:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .collect();
    assert!(said.contains("same 1"), "{said}");
    assert!(matches!(out[..], [first, 0] if first > 8 << 10), "{said}");
    assert!(
        said.contains("stat 1") && said.contains("manager 0"),
        "{said}"
    );
}

/// Regression: pages that io_uring had pinned were tried about a hundred times each: parking a
/// program with 64 MiB of them took 21 s and millions of system calls.
#[test]
fn pinned_memory_is_reported_and_tried_only_once() {
    let _serial = serial();
    let _swap = Swap::shared();
    let script = "import ctypes,mmap,struct,time\n\
        n=32<<20; c=ctypes.CDLL(None,use_errno=True)\n\
        m=[mmap.mmap(-1,n,flags=mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS) for _ in range(2)]\n\
        for i in range(0,n,4096): m[0][i:i+8]=m[1][i:i+8]=struct.pack('Q',i+1)\n\
        r=c.syscall(425,8,ctypes.create_string_buffer(120))\n\
        a=ctypes.addressof(ctypes.c_char.from_buffer(m[0]))\n\
        e=c.syscall(427,r,0,struct.pack('QQ',a,n),1)\n\
        print('registered' if e==0 else 'refused %d'%ctypes.get_errno(),flush=True)\n\
        time.sleep(60)";
    let program = Run::new(["python3", "-c", script]).start();
    wait::until("the buffers", LIMIT, || program.stdout().contains("re"));
    assert!(
        program.stdout().contains("registered"),
        "{}",
        program.stdout()
    );
    let pid = program.pid().to_string();
    let words = ["reclaim", "--all", "--json", &pid].map(str::to_owned);
    let done = pagetide::command(words).finish(LIMIT);
    assert!(done.status.success(), "{}", done.stderr);
    let answer: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let pages = |name: &str| answer[name].as_u64().expect("a number");
    assert_eq!(pages("pinned_pages"), (32 << 20) / 4096, "{answer}");
    // The other buffer, and most of what Python has.
    assert!(pages("evicted_pages") > (32 << 20) / 4096, "{answer}");
}
