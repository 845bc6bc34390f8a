//! Tenants of many processes that share memory: a database, a pre-fork server, a compile. `serve`
//! reports, reclaims from and limits them, is killed and started again, and its figures equal those
//! of the kernel's groups.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, send};
use e2e::idle_program::IdleProgram;
use e2e::postgres::Postgres;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{proc, programs, wait};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(120);

/// A Python program that prints how many bytes the processes of a group map that the kernel charges
/// to other groups, such as a library that was read before.
const FOREIGN_CHARGE_SCRIPT: &str = "\
import os, struct, sys
group = sys.argv[1]
own, seen = os.stat(group).st_ino, set()
for pid in open(group + '/cgroup.procs').read().split():
    try:
        pages = os.open(f'/proc/{pid}/pagemap', os.O_RDONLY)
        for line in open(f'/proc/{pid}/maps'):
            start, end = (int(at, 16) for at in line.split()[0].split('-'))
            if '[v' in line:
                continue
            for entry, in struct.iter_unpack('Q', os.pread(pages, (end - start) // 512, start // 512)):
                if entry >> 63:
                    seen.add(entry & (1 << 55) - 1)
        os.close(pages)
    except (FileNotFoundError, ProcessLookupError):
        pass
groups = os.open('/proc/kpagecgroup', os.O_RDONLY)
of = lambda frame: struct.unpack('Q', os.pread(groups, 8, frame * 8))[0]
print(4096 * sum(of(frame) != own for frame in seen))
";

/// Checks that the bins of a tenant's report sum up to `charged + elsewhere`. `charged`: user pages
/// that the kernel charges to the tenant; `elsewhere`: pages that its processes map and others are
/// charged for.
fn check_bins(tree: &Tree, tenant: &str) {
    let charged =
        || tree.kernel_stat(tenant, "total_rss") + tree.kernel_stat(tenant, "total_cache");
    let elsewhere = || {
        let group = tree.group(tenant).display().to_string();
        let said = Run::new(["/usr/bin/python3", "-c", FOREIGN_CHARGE_SCRIPT, &group]).finish(SOON);
        let bytes = said.stdout.trim().parse::<u64>();
        bytes.unwrap_or_else(|_| panic!("{}{}", said.stdout, said.stderr))
    };
    let reported = || {
        let text = tree.read(&format!("{tenant}/memory.workingset.page_age"));
        let words = text.split([' ', '\n']);
        let values = words.filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok());
        values.sum::<u64>()
    };
    wait::until("bins sum up to the kernel's size", SOON, || {
        let kernel = charged() + elsewhere();
        reported().abs_diff(kernel) <= kernel / 50
    });
}

/// `serve` reports, reclaims from and limits the tenant, is killed and started again; `work` checks
/// the tenant's results meanwhile.
///
/// `stopped` is for a tenant that is never idle: (size in bytes at which its processes are stopped
/// for the comparison with the kernel, limit in bytes with which they go on).
fn check_tenant(tree: &mut Tree, tenant: &str, work: &dyn Fn(), stopped: Option<(u64, u64)>) {
    let of = |file: &str| format!("{tenant}/{file}");
    tree.write(&of("memory.workingset.refresh_interval"), "N0=500");
    let still = stopped.map(|(bytes, _)| Stopped::with(tree, tenant, bytes));
    check_bins(tree, tenant);
    let before = tree.kernel_stat(tenant, "total_swap");
    let stolen = tree.line(&of("memory.stat"), "pgsteal_anon");
    // Pages that several processes map are skipped, so less than requested may be reclaimed.
    let _ = tree.try_write(&of("memory.reclaim"), "16m");
    let stolen = (tree.line(&of("memory.stat"), "pgsteal_anon") - stolen) * 4096;
    let out = tree
        .kernel_stat(tenant, "total_swap")
        .saturating_sub(before);
    assert!(
        out.abs_diff(stolen) <= stolen / 20 + 2 * MIB,
        "{stolen} told, {out} by the kernel"
    );
    assert!(stolen > MIB, "{stolen} bytes");
    drop(still);
    work();
    let still = stopped.map(|(bytes, _)| Stopped::with(tree, tenant, bytes));
    let mut limit = tree.number(&of("memory.current")) / 4 * 3 / 4096 * 4096;
    tree.write(&of("memory.max"), &limit.to_string());
    wait::until("it is held", SOON, || {
        tree.number(&of("memory.current")) <= limit
    });
    if let Some((_, enough)) = stopped {
        limit = enough;
        tree.write(&of("memory.max"), &limit.to_string());
    }
    drop(still);
    work();
    tree.kill();
    work();
    tree.start();
    assert_eq!(tree.number(&of("memory.max")), limit);
    work();
    assert_eq!(tree.line(&of("memory.events"), "oom_kill"), 0);
}

#[test]
fn a_database_is_reported_reclaimed_from_and_limited() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("pg");
    let inside = tree.inside("pg");
    let postgres = Postgres::start_as("64MB", 4, &|run| run.under(inside.clone()));
    let work = || {
        let words = ["-c", "4", "-S", "-t", "200", "postgres"];
        let done = postgres.pgbench(&words).finish(SOON);
        assert!(done.status.success(), "{}", done.stderr);
    };
    work();
    check_tenant(&mut tree, "pg", &work, None);
}

#[test]
fn a_pre_fork_server_is_reported_reclaimed_from_and_limited() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("web");
    let words = [
        programs::c("workers"),
        "8".into(),
        "64".into(),
        "300".into(),
    ];
    // The server uses all of its memory each second; the program beside it is idle.
    let idle_program = IdleProgram::start(tree.inside("web"), 64);
    let server = Run::new(words).under(tree.inside("web")).start();
    wait::until("it is ready", SOON, || server.stdout().contains("ready"));
    // A worker whose memory is wrong ends, and then its parent ends, too.
    let work = || {
        std::thread::sleep(Duration::from_secs(1));
        assert!(proc::is_alive(server.pid()), "{}", server.stderr());
    };
    check_tenant(&mut tree, "web", &work, None);
    assert!(idle_program.status("VmSwap") > 16 * MIB);
}

/// All processes of a tenant, stopped, because a compile is never idle. `Drop` lets them go on.
struct Stopped<'a>(&'a Tree, &'a str);

impl<'a> Stopped<'a> {
    /// Stops the processes of a tenant when they have at least `bytes` of memory. A parent does not
    /// stop while it waits for its child that was stopped between vfork and exec: then all
    /// processes go on for a moment first.
    fn with(tree: &'a Tree, tenant: &'a str, bytes: u64) -> Stopped<'a> {
        let stopped = Stopped(tree, tenant);
        wait::until("it stands still with much memory", SOON, || {
            let stands = wait::poll(Duration::from_millis(200), || {
                let all = stopped.signal(Signal::STOP);
                let stand = all.iter().all(|pid| is_stopped(*pid));
                (stand && stopped.pids() == all).then_some(())
            });
            let is_much = tree.kernel_stat(tenant, "total_rss") >= bytes;
            if stands.is_none() || !is_much {
                stopped.signal(Signal::CONT);
                std::thread::sleep(Duration::from_millis(30));
            }
            stands.is_some() && is_much
        });
        stopped
    }

    fn pids(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.0.group(self.1).join("cgroup.procs"));
        let text = text.unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Sends a signal to all processes of the tenant; returns their pids.
    fn signal(&self, signal: Signal) -> Vec<u32> {
        let all = self.pids();
        all.iter().for_each(|pid| send(*pid, signal));
        all
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}

/// Whether a process is stopped by a signal, or dead.
fn is_stopped(pid: u32) -> bool {
    proc::state(pid).is_none_or(|state| "TZX".contains(state))
}

/// The same sources are compiled again and again; each result is the same as in an unmanaged
/// compile.
#[test]
fn a_compile_is_reported_reclaimed_from_and_limited() {
    /// Bytes at which the compile is stopped, and a limit in bytes that is enough for all compilers
    /// at once (at 40 MiB the kernel killed one).
    const MUCH: (u64, u64) = (48 * MIB, 96 * MIB);
    let _serial = serial();
    let _swap = Swap::shared();
    let mut tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("build");
    let folder = TempDir::new();
    let at = folder.path().display();
    let sources = programs::source("hostile");
    let script = format!(
        "cd {at}; d=$(mktemp -d -p .); for f in {sources}/*.c; do cc -g -O2 -c -o $d/$(basename $f).o $f || touch $d/bad & done; wait; \
         cat $d/*.o | sha256sum; test ! -e $d/bad; s=$?; rm -r $d; exit $s"
    );
    let alone = Run::new(["sh", "-c", &script]).finish(SOON);
    assert!(alone.status.success(), "{}", alone.stderr);
    let again = format!(
        "cd {at} && while :; do ({script}) > now 2>&1 || echo failed >> now; mv now last; done"
    );
    let _build = Run::new(["sh", "-c", &again])
        .under(tree.inside("build"))
        .start();
    let last = folder.path().join("last");
    // Waits for the end of the build in progress, and of a whole build after it.
    let work = || {
        for _ in 0..2 {
            let _ = std::fs::remove_file(&last);
            wait::until("it is built", SOON, || last.exists());
            let built = std::fs::read_to_string(&last);
            assert_eq!(built.expect("it is there"), alone.stdout);
        }
    };
    work();
    check_tenant(&mut tree, "build", &work, Some(MUCH));
    assert!(tree.number("build/memory.peak") > MUCH.0);
}
