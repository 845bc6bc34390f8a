//! Tenants of many processes that share memory: a database, a pre-fork server, a compile. Told, reclaimed, limited and served on after a kill as the
//! kernel's groups are.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, send};
use e2e::postgres::Postgres;
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{proc, programs, wait};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(120);

/// Bytes that processes of a group map and that are charged to others, by the kernel: a library that was read before.
const ELSEWHERE: &str = "\
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

/// The bins of a tenant's report are all that the kernel charges for pages of users, and what its processes map beside that.
fn is_the_kernels(tree: &Tree, tenant: &str) {
    let charged = || tree.of_kernel(tenant, "total_rss") + tree.of_kernel(tenant, "total_cache");
    let elsewhere = || {
        let group = tree.group(tenant).display().to_string();
        let said = Run::new(["/usr/bin/python3", "-c", ELSEWHERE, &group]).finish(SOON);
        let bytes = said.stdout.trim().parse::<u64>();
        bytes.unwrap_or_else(|_| panic!("{}{}", said.stdout, said.stderr))
    };
    let told = || {
        let text = tree.read(&format!("{tenant}/memory.workingset.page_age"));
        let words = text.split([' ', '\n']);
        let values = words.filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok());
        values.sum::<u64>()
    };
    wait::until("bins sum up to the kernel's size", SOON, || {
        let kernel = charged() + elsewhere();
        told().abs_diff(kernel) <= kernel / 50
    });
}

/// It is told, gives, is limited, loses its server and gets another; its `work` is right all the while. Who is never still is stopped for
/// what is compared, when it has so much memory, and goes on with a limit of so much.
fn goes_through(tree: &mut Tree, tenant: &str, work: &dyn Fn(), stopped: Option<(u64, u64)>) {
    let of = |file: &str| format!("{tenant}/{file}");
    tree.write(&of("memory.workingset.refresh_interval"), "N0=500");
    let still = stopped.map(|(bytes, _)| Stopped::with(tree, tenant, bytes));
    is_the_kernels(tree, tenant);
    let before = tree.of_kernel(tenant, "total_swap");
    let stolen = tree.line(&of("memory.stat"), "pgsteal_anon");
    // What several map stays, so it may be less than is asked for.
    let _ = tree.try_write(&of("memory.reclaim"), "16m");
    let stolen = (tree.line(&of("memory.stat"), "pgsteal_anon") - stolen) * 4096;
    let out = tree.of_kernel(tenant, "total_swap").saturating_sub(before);
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
fn a_database() {
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
    goes_through(&mut tree, "pg", &work, None);
}

#[test]
fn a_pre_fork_server() {
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
    // All that the server has is used each second; beside it lies what is not.
    let sleeper = Sleeper::start(tree.inside("web"), 64);
    let server = Run::new(words).under(tree.inside("web")).start();
    wait::until("it is ready", SOON, || server.stdout().contains("ready"));
    // A worker that ends takes its parent along.
    let work = || {
        std::thread::sleep(Duration::from_secs(1));
        assert!(proc::is_alive(server.pid()), "{}", server.stderr());
    };
    goes_through(&mut tree, "web", &work, None);
    assert!(sleeper.status("VmSwap") > 16 * MIB);
}

/// All processes of a tenant, stopped: of a compile nothing stands still by itself. Dropped, they go on.
struct Stopped<'a>(&'a Tree, &'a str);

impl<'a> Stopped<'a> {
    /// When it has so much memory. Who waits for a child that was stopped before it became a program (vfork) does not stand, and has
    /// to go on first.
    fn with(tree: &'a Tree, tenant: &'a str, bytes: u64) -> Stopped<'a> {
        let stopped = Stopped(tree, tenant);
        wait::until("it stands still with much memory", SOON, || {
            let stands = wait::poll(Duration::from_millis(200), || {
                let all = stopped.signal(Signal::STOP);
                let stand = all.iter().all(|pid| stands(*pid));
                (stand && stopped.pids() == all).then_some(())
            });
            let is_much = tree.of_kernel(tenant, "total_rss") >= bytes;
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

/// Stopped by a signal, or dead.
fn stands(pid: u32) -> bool {
    proc::state(pid).is_none_or(|state| "TZX".contains(state))
}

/// A compile that begins again and again; each result is what it is alone.
#[test]
fn a_compile() {
    /// What it has when it is stopped, and what all of its compilers at once make do with (of 40 MiB the kernel killed one).
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
    // The one that was under way, and one from its begin on.
    let work = || {
        for _ in 0..2 {
            let _ = std::fs::remove_file(&last);
            wait::until("it is built", SOON, || last.exists());
            let built = std::fs::read_to_string(&last);
            assert_eq!(built.expect("it is there"), alone.stdout);
        }
    };
    work();
    goes_through(&mut tree, "build", &work, Some(MUCH));
    assert!(tree.number("build/memory.peak") > MUCH.0);
}
