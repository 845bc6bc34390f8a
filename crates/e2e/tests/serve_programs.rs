//! Tenants of many processes that share memory: a database, a pre-fork server, a compile. Told, reclaimed, limited and served on after a kill as the
//! kernel's groups are.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::postgres::Postgres;
use e2e::sleeper::Sleeper;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{proc, programs, wait};

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

/// It is told, gives, is limited, loses its server and gets another; its `work` is right all the while.
fn goes_through(tree: &mut Tree, tenant: &str, work: &dyn Fn()) {
    let of = |file: &str| format!("{tenant}/{file}");
    tree.write(&of("memory.workingset.refresh_interval"), "N0=500");
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
    work();
    let limit = tree.number(&of("memory.current")) / 4 * 3 / 4096 * 4096;
    tree.write(&of("memory.max"), &limit.to_string());
    wait::until("it is held", SOON, || {
        tree.number(&of("memory.current")) <= limit
    });
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
    let _swap = Swap::new(1024);
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
    goes_through(&mut tree, "pg", &work);
}

#[test]
fn a_pre_fork_server() {
    let _serial = serial();
    let _swap = Swap::new(512);
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
    goes_through(&mut tree, "web", &work);
    assert!(sleeper.status("VmSwap") > 16 * MIB);
}

#[test]
fn a_compile() {
    let _serial = serial();
    let _swap = Swap::new(512);
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("build");
    tree.write("build/memory.max", "96m");
    let sources = programs::source("hostile");
    let script = format!(
        "d=$(mktemp -d); for f in {sources}/*.c; do cc -g -O2 -c -o $d/$(basename $f).o $f || touch $d/bad & done; wait; \
         cat $d/*.o | sha256sum; test ! -e $d/bad; s=$?; rm -r $d; exit $s"
    );
    let compile = Run::new(["sh", "-c", &script]);
    let alone = compile.clone().finish(SOON);
    let inside = compile.under(tree.inside("build")).finish(SOON);
    assert!(inside.status.success(), "{}", inside.stderr);
    assert_eq!(inside.stdout, alone.stdout);
    assert!(tree.number("build/memory.peak") <= 96 * MIB);
    assert_eq!(tree.line("build/memory.events", "oom_kill"), 0);
    wait::until("nobody is left in it", SOON, || {
        tree.read("build/cgroup.procs").is_empty()
    });
}
