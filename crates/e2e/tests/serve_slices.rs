//! What goes on while `pagetide serve` reclaims: others are answered, tenants come and go, and each reclaim ends with what it took.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::bench::median;
use e2e::sleeper::Sleeper;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{pagetide, wait};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
const TRY_AGAIN: i32 = 11;
const NO_DEVICE: i32 = 19;

/// A sleeper whose pages the tree knows, as idle.
fn idle(tree: &Tree, tenant: &str, mib: u64) -> Sleeper {
    tree.make(tenant);
    let sleeper = Sleeper::start(tree.inside(tenant), mib);
    wait::until("its pages are known", SOON, || {
        tree.line(&format!("{tenant}/memory.stat"), "anon") >= mib * MIB
    });
    // Of one that was seen once, or whose bits could not be cleared yet, nobody knows what it uses.
    let part = (mib * MIB / 8).to_string();
    wait::until("they are idle", SOON, || {
        tree.try_write(&format!("{tenant}/memory.reclaim"), &part)
            .is_ok()
    });
    sleeper
}

fn stolen(tree: &Tree, tenant: &str) -> u64 {
    tree.line(&format!("{tenant}/memory.stat"), "pgsteal_proactive") * 4096
}

/// What of a process the kernel has in swap.
fn swapped(one: &Sleeper) -> u64 {
    one.status("VmSwap")
}

/// The story: one thread reads tables, pages out and answers files, and a reader of a tenant's memory.stat waited until a reclaim
/// of another one was over. A reader that waits for all of it is answered once in that time.
#[test]
fn others_are_answered_while_a_reclaim_goes_on() {
    let _serial = serial();
    let _swap = Swap::new(1024);
    let tree = Tree::serve(&["--age-every", "2s"]);
    let large = idle(&tree, "large", 512);
    let _small = idle(&tree, "small", 8);
    let before = stolen(&tree, "large");
    let (begin, ended) = (Instant::now(), AtomicUsize::new(0));
    let (took, reads) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = tree.try_write("large/memory.reclaim", "400m");
            ended.store(1, Ordering::Release);
            (written, begin.elapsed().as_secs_f64())
        });
        // Asked before it has begun, all are answered at once.
        wait::until("it is under way", SOON, || {
            stolen(&tree, "large") > before || ended.load(Ordering::Acquire) > 0
        });
        let mut reads = Vec::new();
        while ended.load(Ordering::Acquire) == 0 {
            let asked = Instant::now();
            assert!(tree.line("small/memory.stat", "anon") >= 4 * MIB);
            reads.push(asked.elapsed().as_secs_f64());
        }
        let (written, took) = writer.join().expect("it is answered");
        assert_eq!(written, Ok(()));
        (took, reads)
    });
    let typical = median(&reads);
    eprintln!(
        "{} reads, {:.1} ms each, in {:.0} ms",
        reads.len(),
        typical * 1e3,
        took * 1e3
    );
    assert!(reads.len() > 3, "{} reads", reads.len());
    assert!(typical * 4.0 < took, "{typical} s of {took} s");
    // What is told to have left is what the kernel has out, and what was asked for: no batch overshoots.
    let (told, out) = (stolen(&tree, "large"), swapped(&large));
    assert_eq!(told - before, 400 * MIB);
    assert!(out.abs_diff(told) * 50 <= told, "{out} of {told}");
    let _ = large.touch();
}

/// Two at once go on in turn, and each gets its own.
#[test]
fn reclaims_go_on_side_by_side() {
    let _serial = serial();
    let _swap = Swap::new(1024);
    let tree = Tree::serve(&["--age-every", "2s"]);
    let tenants = ["a", "b"].map(|name| (name, idle(&tree, name, 300)));
    let before = ["a", "b"].map(|name| stolen(&tree, name));
    let ended = AtomicUsize::new(0);
    let halfway = std::thread::scope(|scope| {
        let (tree, done) = (&tree, &ended);
        for (name, _) in &tenants {
            scope.spawn(move || {
                let written = tree.try_write(&format!("{name}/memory.reclaim"), "200m");
                done.fetch_add(1, Ordering::AcqRel);
                assert_eq!(written, Ok(()), "{name}");
            });
        }
        // By the socket, too: its client waits beside.
        scope.spawn(move || {
            let words = ["reclaim", "/a", "20M", "--json", "--root", tree.root()];
            let outcome = pagetide::command(words).finish(SOON);
            let told: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
            assert_eq!(told["evicted_pages"], 20 * 256, "{}", outcome.stderr);
        });
        let mut both = 0;
        while done.load(Ordering::Acquire) == 0 {
            let now = ["a", "b"].map(|name| stolen(tree, name));
            both += usize::from(now[0] > before[0] && now[1] > before[1]);
        }
        both
    });
    assert!(halfway > 0, "one after the other");
    for ((name, sleeper), before) in tenants.iter().zip(before) {
        let asked = if *name == "a" { 220 } else { 200 } * MIB;
        let (told, out) = (stolen(&tree, name), swapped(sleeper));
        assert_eq!(told - before, asked, "{name}");
        assert!(out.abs_diff(told) * 50 <= told, "{name}: {out} of {told}");
        let _ = sleeper.touch();
    }
}

/// A tenant that is removed while it is reclaimed, its process having gone elsewhere, ends the reclaim; one whose process ends
/// has no more to give.
#[test]
fn a_tenant_may_go_while_it_gives() {
    let _serial = serial();
    let _swap = Swap::new(2048);
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("other");
    let moved = idle(&tree, "moved", 500);
    let before = stolen(&tree, "moved");
    let errno = std::thread::scope(|scope| {
        let writer = scope.spawn(|| tree.try_write("moved/memory.reclaim", "400m"));
        wait::until("it has begun", SOON, || stolen(&tree, "moved") > before);
        tree.write("other/cgroup.procs", &moved.pid().to_string());
        std::fs::remove_dir(tree.at("moved")).expect("nobody is in it");
        writer.join().expect("it is answered")
    });
    assert_eq!(errno, Err(NO_DEVICE));
    // The same name once more is another tenant, and nothing of the old reclaim is done to it.
    let next = idle(&tree, "moved", 64);
    assert!(stolen(&tree, "moved") <= 9 * MIB && swapped(&next) <= 9 * MIB);
    let _ = moved.touch();
    wait::until("the other has it", SOON, || {
        tree.line("other/memory.stat", "anon") >= 500 * MIB
    });
    drop((moved, next));

    let ends = idle(&tree, "ends", 500);
    let before = stolen(&tree, "ends");
    let errno = std::thread::scope(|scope| {
        let writer = scope.spawn(|| tree.try_write("ends/memory.reclaim", "400m"));
        wait::until("it has begun", SOON, || stolen(&tree, "ends") > before);
        e2e::guard::send(ends.pid(), rustix::process::Signal::KILL);
        writer.join().expect("it is answered")
    });
    assert_eq!(errno, Err(TRY_AGAIN));
    tree.end();
}

/// Whoever waits for a reclaim when `serve` is told to end is answered, by both ways, and it ends at once.
#[test]
fn the_end_of_serve_ends_reclaims() {
    const INTERRUPTED: i32 = 4;
    let _serial = serial();
    let _swap = Swap::new(1024);
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    let one = idle(&tree, "a", 700);
    let (file, before) = (tree.at("a/memory.reclaim"), stolen(&tree, "a"));
    // One write(2): whoever repeats what is interrupted asks once more.
    let writer = std::thread::spawn(move || {
        let mut file = std::fs::File::options().write(true).open(file)?;
        file.write(b"600m")
    });
    wait::until("it has begun", SOON, || stolen(&tree, "a") > before);
    let asker = ask(&tree);
    // Whoever has asked before a read is heard before the next one.
    (0..2).for_each(|_| drop(tree.read("a/memory.current")));
    tree.end();
    let written = writer.join().expect("it is answered");
    let errno = written.err().and_then(|error| error.raw_os_error());
    assert_eq!(errno, Some(INTERRUPTED));
    let answer = std::io::read_to_string(asker).expect("it is answered");
    assert!(answer.contains("has ended before"), "{answer}");
    let _ = one.touch();
}

/// Asks for all of a tenant by the socket, and waits for no answer.
fn ask(tree: &Tree) -> UnixStream {
    let name = e2e::control::name_of_tree(tree.pid()).expect("its socket");
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let mut client = UnixStream::connect_addr(&address).expect("it listens");
    let question = "{\"op\":\"tenant\",\"path\":\"/a\",\"ask\":{\"reclaim\":\"all\"}}\n";
    client.write_all(question.as_bytes()).expect("it is taken");
    client
}
