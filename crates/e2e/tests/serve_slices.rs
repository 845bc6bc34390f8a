//! While `pagetide serve` reclaims, other clients are served, tenants are made and removed, and
//! each reclaim reports its own amount.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::bench::median;
use e2e::idle_program::IdleProgram;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{pagetide, wait};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// EAGAIN: less was reclaimed than requested.
const TRY_AGAIN: i32 = 11;
/// ENODEV: the tenant was removed.
const NO_DEVICE: i32 = 19;

/// Calls `is_tried` up to five times, until it returns true. `is_tried` returns false if the
/// page-out ended before this thread could act during it: such a try proves nothing.
fn try_in_time(is_tried: impl FnMut(u32) -> bool) {
    assert!((0..5).any(is_tried), "all had left each time");
}

/// Waits until the tenant's memory is known to be idle. Pages that were scanned only once, or whose
/// bits could not be cleared yet, have unknown ages. `mib`: size of its memory, MiB.
fn wait_until_idle(tree: &Tree, tenant: &str, mib: u64) {
    let part = (mib * MIB / 8).to_string();
    wait::until("they are idle", SOON, || {
        tree.try_write(&format!("{tenant}/memory.reclaim"), &part)
            .is_ok()
    });
}

/// Starts an idle program of `mib` MiB in a new tenant, and waits until the tree knows its pages as
/// idle.
fn start_idle(tree: &Tree, tenant: &str, mib: u64) -> IdleProgram {
    tree.make(tenant);
    let idle_program = IdleProgram::start(tree.inside(tenant), mib);
    wait::until("its pages are known", SOON, || {
        tree.line(&format!("{tenant}/memory.stat"), "anon") >= mib * MIB
    });
    wait_until_idle(tree, tenant, mib);
    idle_program
}

/// Bytes that proactive reclaim has taken from the tenant so far.
fn reclaimed_bytes(tree: &Tree, tenant: &str) -> u64 {
    tree.line(&format!("{tenant}/memory.stat"), "pgsteal_proactive") * 4096
}

/// Bytes of the program in swap, by the kernel's figure (VmSwap).
fn swapped_bytes(one: &IdleProgram) -> u64 {
    one.status("VmSwap")
}

/// Regression: one thread walks page tables, pages out and serves files, so a reader of a tenant's
/// memory.stat waited until a reclaim of another tenant had ended. (Such a reader is served once
/// during a reclaim.)
#[test]
fn other_clients_are_served_during_a_reclaim() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "2s"]);
    let large = start_idle(&tree, "large", 512);
    let _small = start_idle(&tree, "small", 8);
    try_in_time(|_| {
        let is_answered = is_answered_meanwhile(&tree, &large);
        let _ = large.touch();
        if !is_answered {
            wait_until_idle(&tree, "large", 512);
        }
        is_answered
    });
}

/// Whether more than three reads of `small` were served while 400 MiB of `large` were paged out.
fn is_answered_meanwhile(tree: &Tree, large: &IdleProgram) -> bool {
    let (before, out_before) = (reclaimed_bytes(tree, "large"), swapped_bytes(large));
    let (begin, ended) = (Instant::now(), AtomicUsize::new(0));
    let (took, reads) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = tree.try_write("large/memory.reclaim", "400m");
            ended.store(1, Ordering::Release);
            (written, begin.elapsed().as_secs_f64())
        });
        // Reads count only from here on: before the reclaim begins, each is served at once.
        wait::until("it is under way", SOON, || {
            reclaimed_bytes(tree, "large") > before || ended.load(Ordering::Acquire) > 0
        });
        let mut reads = Vec::new();
        while ended.load(Ordering::Acquire) == 0 {
            let requested = Instant::now();
            assert!(tree.line("small/memory.stat", "anon") >= 4 * MIB);
            reads.push(requested.elapsed().as_secs_f64());
        }
        let (written, took) = writer.join().expect("it is answered");
        assert_eq!(written, Ok(()));
        (took, reads)
    });
    // The reported amount is what the kernel has in swap, and exactly what was requested: batches
    // end at the amount.
    let (reported, out) = (
        reclaimed_bytes(tree, "large") - before,
        swapped_bytes(large) - out_before,
    );
    assert_eq!(reported, 400 * MIB);
    assert!(
        out.abs_diff(reported) * 50 <= reported,
        "{out} of {reported}"
    );
    if reads.len() <= 3 {
        return false;
    }
    let typical = median(&reads);
    assert!(typical * 4.0 < took, "{typical} s of {took} s");
    true
}

/// Two reclaims at the same time go on in turn, and each reclaims its own amount.
#[test]
fn reclaims_go_on_side_by_side() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "2s"]);
    let tenants = ["a", "b"].map(|name| (name, start_idle(&tree, name, 300)));
    try_in_time(|_| {
        let both = go_on_side_by_side(&tree, &tenants);
        for (_, idle_program) in &tenants {
            let _ = idle_program.touch();
        }
        if !both {
            tenants
                .iter()
                .for_each(|(name, _)| wait_until_idle(&tree, name, 300));
        }
        both
    });
}

/// Reclaims from both tenants at once; returns whether both were seen half way. Checks that each
/// reclaimed the requested amount.
fn go_on_side_by_side(tree: &Tree, tenants: &[(&str, IdleProgram); 2]) -> bool {
    let state = || {
        [0, 1].map(|at| {
            (
                reclaimed_bytes(tree, tenants[at].0),
                swapped_bytes(&tenants[at].1),
            )
        })
    };
    let before = state();
    let ended = AtomicUsize::new(0);
    let halfway = std::thread::scope(|scope| {
        let done = &ended;
        for (name, _) in tenants {
            scope.spawn(move || {
                let written = tree.try_write(&format!("{name}/memory.reclaim"), "200m");
                done.fetch_add(1, Ordering::AcqRel);
                assert_eq!(written, Ok(()), "{name}");
            });
        }
        // A third reclaim, of tenant `a` by the socket, with a client that waits.
        scope.spawn(move || {
            let words = ["reclaim", "/a", "20M", "--json", "--root", tree.root()];
            let outcome = pagetide::command(words).finish(SOON);
            let reported: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
            assert_eq!(reported["evicted_pages"], 20 * 256, "{}", outcome.stderr);
        });
        let mut both = 0;
        while done.load(Ordering::Acquire) == 0 {
            let now = ["a", "b"].map(|name| reclaimed_bytes(tree, name));
            both += usize::from(now[0] > before[0].0 && now[1] > before[1].0);
        }
        both
    });
    for (at, (reported, out)) in state().into_iter().enumerate() {
        let (reported, out) = (reported - before[at].0, out - before[at].1);
        assert_eq!(reported, [220, 200][at] * MIB, "{}", tenants[at].0);
        assert!(
            out.abs_diff(reported) * 50 <= reported,
            "{out} of {reported}"
        );
    }
    halfway > 0
}

/// If a tenant is removed during its reclaim, after its process was moved, the reclaim ends. If its
/// only process ends, the reclaim ends, too, as nothing remains to reclaim.
#[test]
fn a_tenant_may_be_removed_during_its_reclaim() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    try_in_time(|number| {
        let (other, name) = (format!("other{number}"), format!("moved{number}"));
        tree.make(&other);
        let moved = start_idle(&tree, &name, 500);
        let written = reclaimed_while(&tree, &name, || {
            tree.write(&format!("{other}/cgroup.procs"), &moved.pid().to_string());
            std::fs::remove_dir(tree.at(&name)).expect("nobody is in it");
        });
        if written == Ok(()) {
            return false;
        }
        assert_eq!(written, Err(NO_DEVICE));
        // A new tenant with the same name is another tenant: the old reclaim takes nothing from it.
        let next = start_idle(&tree, &name, 64);
        assert!(reclaimed_bytes(&tree, &name) <= 9 * MIB && swapped_bytes(&next) <= 9 * MIB);
        let _ = moved.touch();
        wait::until("the other has it", SOON, || {
            tree.line(&format!("{other}/memory.stat"), "anon") >= 500 * MIB
        });
        true
    });
    try_in_time(|number| {
        let name = format!("ends{number}");
        let ends = start_idle(&tree, &name, 500);
        let kill = || e2e::guard::send(ends.pid(), rustix::process::Signal::KILL);
        let written = reclaimed_while(&tree, &name, kill);
        assert!(matches!(written, Ok(()) | Err(TRY_AGAIN)), "{written:?}");
        written.is_err()
    });
    tree.end();
}

/// Requests reclaim of 400 MiB of a tenant and calls `happens` as soon as the page-out has begun;
/// returns the result of the request, with the error number if it failed.
fn reclaimed_while(tree: &Tree, tenant: &str, happens: impl FnOnce()) -> Result<(), i32> {
    let before = reclaimed_bytes(tree, tenant);
    std::thread::scope(|scope| {
        let file = format!("{tenant}/memory.reclaim");
        let writer = scope.spawn(move || tree.try_write(&file, "400m"));
        wait::until("it has begun", SOON, || {
            reclaimed_bytes(tree, tenant) > before
        });
        happens();
        writer.join().expect("it is answered")
    })
}

/// When `serve` ends, clients that wait for a reclaim, by a file or by the socket, get an answer,
/// and `serve` ends at once.
#[test]
fn the_end_of_serve_ends_reclaims() {
    const INTERRUPTED: i32 = 4;
    let _serial = serial();
    let _swap = Swap::shared();
    try_in_time(|_| {
        let written = reclaimed_at_the_end();
        assert!(matches!(written, None | Some(INTERRUPTED)), "{written:?}");
        written.is_some()
    });
}

/// Ends `serve` while a client waits for its write of `600m` to memory.reclaim; returns the error
/// number that the client got, or `None` if the write succeeded.
fn reclaimed_at_the_end() -> Option<i32> {
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    let one = start_idle(&tree, "a", 700);
    let (file, before) = (tree.at("a/memory.reclaim"), reclaimed_bytes(&tree, "a"));
    // One write(2): a helper that retries after EINTR would send the request once more.
    let writer = std::thread::spawn(move || {
        let mut file = std::fs::File::options().write(true).open(file)?;
        file.write(b"600m")
    });
    wait::until("it has begun", SOON, || {
        reclaimed_bytes(&tree, "a") > before
    });
    let client = request_all(&tree);
    // `serve` has received the request when two reads that were sent after it have ended.
    (0..2).for_each(|_| drop(tree.read("a/memory.current")));
    tree.end();
    let written = writer.join().expect("it is answered");
    let errno = written.err().and_then(|error| error.raw_os_error());
    let answer = std::io::read_to_string(client).expect("it is answered");
    let is_cut_short = answer.contains("has ended before");
    assert!(is_cut_short || errno.is_none(), "{answer}");
    let _ = one.touch();
    errno
}

/// Requests reclaim of all of a tenant at the socket, without waiting for the answer; returns the
/// connection.
fn request_all(tree: &Tree) -> UnixStream {
    let socket = e2e::control::tree_socket(tree.pid()).expect("its socket");
    let mut client = UnixStream::connect(&socket).expect("it listens");
    let question = "{\"op\":\"tenant\",\"path\":\"/a\",\"ask\":{\"reclaim\":\"all\"}}\n";
    client.write_all(question.as_bytes()).expect("it is taken");
    client
}
