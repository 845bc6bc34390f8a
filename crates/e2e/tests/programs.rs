//! Real programs print the same results while all their cold memory is paged out ten times a
//! second.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::compare::Case;
use e2e::guard::Run;
use e2e::notice::POLICY;
use e2e::pagetide;
use e2e::postgres::Postgres;
use e2e::programs;
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;

/// Time limit. The longest test (4,400 threads that wait) took 69 s beside builds.
const SOON: Duration = Duration::from_secs(300);

#[test]
fn cpython_dicts_and_sorting() {
    let _serial = serial();
    Case::new(
        "cpython",
        ["python3", &programs::source("dicts.py"), "500000"],
    )
    .check();
}

#[test]
fn sqlite_in_memory() {
    let _serial = serial();
    let script = "
        CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
          INSERT INTO t SELECT i, i * 7919 % 1000003, hex(i * 65537) || printf('%0100d', i) FROM n;
        CREATE INDEX t_a ON t(a);
        SELECT count(*), sum(a), sum(length(b)) FROM t;
        UPDATE t SET b = b || 'x' WHERE id % 10 = 3;
        DELETE FROM t WHERE id % 17 = 0;
        SELECT count(*), sum(a), sum(length(b)), sum(unicode(substr(b, 1 + id % 100, 1))) FROM t;
        SELECT id, a FROM t ORDER BY a DESC, id LIMIT 20;
        SELECT a % 100, count(*), max(b) FROM t GROUP BY 1 ORDER BY 1;
        PRAGMA integrity_check;";
    Case::new("sqlite", ["sqlite3", ":memory:"])
        .stdin(script)
        .check();
}

#[test]
fn static_go_under_gc() {
    let _serial = serial();
    // Go's garbage collector walks the whole heap, so the heap is cold only while the program
    // rests: 1,200 ms. (With 500 ms, and a build running at the same time, less than 2 MiB were
    // paged out in each of four runs.)
    Case::new("go", [programs::go("gc").as_str(), "4", "20000", "1200"]).check();
}

#[test]
fn java_heap_of_512_mib() {
    let _serial = serial();
    let classes = programs::java("Heap");
    let command = [
        "java", "-Xms512m", "-Xmx512m", "-cp", &classes, "Heap", "400000", "500000",
    ];
    Case::new("java", command).check();
}

#[test]
fn node_heap() {
    let _serial = serial();
    Case::new(
        "node",
        ["node", &programs::source("heap.js"), "300000", "3"],
    )
    .check();
}

/// Runs fio with this block size. Its output contains times, so only its verification counts, whose
/// errors `--verify_fatal` makes fatal.
fn fio(block: &str) {
    let folder = TempDir::new();
    let file = format!("--filename={}", folder.file("data"));
    let block = format!("--bs={block}");
    let command = [
        "fio",
        "--name=verify",
        &file,
        &block,
        "--ioengine=mmap",
        "--rw=randwrite",
        "--size=128m",
        "--iomem=malloc",
        "--verify=crc32c",
        "--verify_interval=4096",
        "--do_verify=1",
        "--verify_fatal=1",
        "--thread",
        "--randseed=7",
        "--output-format=terse",
        "--terse-version=3",
    ];
    fn errors(terse: &str) -> String {
        let line = terse
            .lines()
            .find(|line| line.contains(";verify;"))
            .unwrap_or_default();
        let fields: Vec<&str> = line.split(';').collect();
        // Fields 2, 4, 5 and 46: job name, error number, and kilobytes read (verified) and written.
        [2, 4, 5, 46]
            .map(|at| fields.get(at).copied().unwrap_or("?"))
            .join(" ")
    }
    Case::new(&format!("fio {block}"), command)
        .compare_by(errors)
        .one_by_one()
        // Most memory that fio touches is page cache.
        .min_paged_out(MIB)
        .check();
}

/// With small blocks fio has little anonymous memory: nearly all is file pages.
#[test]
fn fio_mmap_engine_verifies_small_blocks() {
    let _serial = serial();
    fio("4k");
}

/// With large blocks fio has large buffers of its own, which are copied to the mapping and checked.
#[test]
fn fio_mmap_engine_verifies_large_blocks() {
    let _serial = serial();
    fio("16m");
}

#[test]
fn stress_ng_vm_methods_verify() {
    let _serial = serial();
    let command = [
        "stress-ng",
        "--vm",
        "2",
        "--vm-bytes",
        "64m",
        "--vm-method",
        "all",
        "--verify",
        "--timeout",
        "8",
        "--seed",
        "7",
        "--stdout",
    ];
    /// The result of stress-ng, without its times: whether it reports success, and failures.
    fn verdict(text: &str) -> String {
        let good = text.contains("successful run completed");
        let bad = text.to_lowercase().contains("fail") || text.contains("error");
        format!("successful {good}, failures {bad}")
    }
    Case::new("stress-ng", command).compare_by(verdict).check();
}

#[test]
fn fork_server_with_checking_children() {
    let _serial = serial();
    let command = [
        programs::c("forkserver").as_str(),
        "--mib",
        "96",
        "--forks",
        "12",
        "--rest-ms",
        "500",
    ]
    .map(str::to_owned);
    Case::new("forkserver", command).check();
}

/// Processes with shared buffers: after each idle time the server returns the same results as an
/// unmanaged one.
#[test]
fn a_database_with_its_backends() {
    let _serial = serial();
    let swap = Swap::new(2048);
    let reported = |options: Option<&[&str]>| {
        let wrap =
            |run: &Run| options.map_or_else(|| run.clone(), |options| pagetide::run(options, run));
        let server = Postgres::start_as("64MB", 4, &wrap);
        // With one client and a fixed seed, the balances are the same in each run.
        let work = ["-c", "1", "-t", "1000", "--random-seed=7", "postgres"];
        let sums = "SELECT count(*), sum(abalance), md5(string_agg(abalance::text, ',' ORDER BY aid)) \
                    FROM pgbench_accounts";
        let mut said = String::new();
        for _ in 0..2 {
            let done = server.pgbench(&work).finish(SOON);
            assert!(done.status.success(), "{}", done.stderr);
            // The server is idle meanwhile, and its memory is paged out.
            std::thread::sleep(Duration::from_secs(1));
            let answer = server.psql(sums).finish(SOON);
            assert!(answer.status.success(), "{}", answer.stderr);
            said += &answer.stdout;
        }
        said
    };
    let alone = reported(None);
    let hard_limited = [&POLICY[..], &["--memory-max", "96M"]].concat();
    let before = (swap.written(), e2e::proc::vmstat("pswpin"));
    assert_eq!(reported(Some(&hard_limited)), alone);
    let (out, back) = (
        swap.written() - before.0,
        e2e::proc::vmstat("pswpin") - before.1,
    );
    assert!(
        out > 8 * MIB && back > 0,
        "{out} bytes left, {back} pages came back"
    );
}

#[test]
fn a_compile_gives_the_same_objects() {
    let _serial = serial();
    let sources = programs::source("hostile");
    let script = format!(
        "d=$(mktemp -d); for f in {sources}/*.c; do cc -g -O2 -c -o $d/$(basename $f).o $f & done; wait; \
         cat $d/*.o | sha256sum; rm -r $d"
    );
    Case::new("compile", ["sh", "-c", &script])
        .min_paged_out(MIB)
        .check();
}

/// Threads free memory again and again (MADV_FREE and the like) while others fork and move
/// mappings.
#[test]
fn threads_that_free_memory_without_a_pause() {
    let _serial = serial();
    let swap = Swap::new(1024);
    for more in [
        vec![],
        vec!["--remap", "20"],
        vec!["--fork", "100"],
        vec!["--child", "1"],
        // When these threads end, they all free their stacks at once.
        vec!["--waiters", "4400"],
        vec![
            "--threads",
            "40",
            "--mib",
            "1",
            "--remap",
            "5",
            "--fork",
            "50",
        ],
    ] {
        let program = programs::c("stampede");
        let argv = [program.as_str(), "--ms", "500"].into_iter().chain(more);
        let run = Run::new(argv);
        let outcome = pagetide::run(&POLICY, &run).finish(SOON);
        let said = &outcome.stderr;
        assert_eq!(outcome.status.code(), Some(0), "{:?}: {said}", run.argv());
        assert!(outcome.stdout.ends_with("OK\n"), "{}", outcome.stdout);
    }
    // Each program has 36 MiB and waits until they are swapped out; on a busy machine one program
    // may end before that.
    let written = swap.written();
    assert!(written > 1 << 20, "{written} bytes went out in all of them");
}

#[test]
fn threads_that_start_and_exit() {
    let _serial = serial();
    let command = [
        programs::c("threads").as_str(),
        "--total",
        "12000",
        "--mib",
        "64",
    ]
    .map(str::to_owned);
    Case::new("threads", command).check();
}

#[test]
fn a_program_with_its_own_userfaultfd() {
    let _serial = serial();
    let command = [
        programs::c("ownuffd").as_str(),
        "--mib",
        "96",
        "--own-mib",
        "8",
    ]
    .map(str::to_owned);
    Case::new("ownuffd", command).check();
}
