//! What goes on while `pagetide serve` reclaims: others are answered, tenants come and go, and each reclaim ends with what it took.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::net::UnixStream;
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

/// What is to happen while memory leaves: where this thread was not let run until all had left, that says nothing, and it is tried again.
fn in_time(is_tried: impl FnMut(u32) -> bool) {
    assert!((0..5).any(is_tried), "all had left each time");
}

/// Waits until what it has is idle: of what was seen once, or whose bits could not be cleared yet, nobody knows what it uses.
fn rests(tree: &Tree, tenant: &str, mib: u64) {
    let part = (mib * MIB / 8).to_string();
    wait::until("they are idle", SOON, || {
        tree.try_write(&format!("{tenant}/memory.reclaim"), &part)
            .is_ok()
    });
}

/// A sleeper whose pages the tree knows, as idle.
fn idle(tree: &Tree, tenant: &str, mib: u64) -> Sleeper {
    tree.make(tenant);
    let sleeper = Sleeper::start(tree.inside(tenant), mib);
    wait::until("its pages are known", SOON, || {
        tree.line(&format!("{tenant}/memory.stat"), "anon") >= mib * MIB
    });
    rests(tree, tenant, mib);
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
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "2s"]);
    let large = idle(&tree, "large", 512);
    let _small = idle(&tree, "small", 8);
    in_time(|_| {
        let is_answered = is_answered_meanwhile(&tree, &large);
        let _ = large.touch();
        if !is_answered {
            rests(&tree, "large", 512);
        }
        is_answered
    });
}

/// Whether there were readers of `small` while 400 MiB of `large` left.
fn is_answered_meanwhile(tree: &Tree, large: &Sleeper) -> bool {
    let (before, out_before) = (stolen(tree, "large"), swapped(large));
    let (begin, ended) = (Instant::now(), AtomicUsize::new(0));
    let (took, reads) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = tree.try_write("large/memory.reclaim", "400m");
            ended.store(1, Ordering::Release);
            (written, begin.elapsed().as_secs_f64())
        });
        // Asked before it has begun, all are answered at once.
        wait::until("it is under way", SOON, || {
            stolen(tree, "large") > before || ended.load(Ordering::Acquire) > 0
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
    // What is told to have left is what the kernel has out, and what was asked for: no batch overshoots.
    let (told, out) = (stolen(tree, "large") - before, swapped(large) - out_before);
    assert_eq!(told, 400 * MIB);
    assert!(out.abs_diff(told) * 50 <= told, "{out} of {told}");
    if reads.len() <= 3 {
        return false;
    }
    let typical = median(&reads);
    assert!(typical * 4.0 < took, "{typical} s of {took} s");
    true
}

/// Two at once go on in turn, and each gets its own.
#[test]
fn reclaims_go_on_side_by_side() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "2s"]);
    let tenants = ["a", "b"].map(|name| (name, idle(&tree, name, 300)));
    in_time(|_| {
        let both = go_on_side_by_side(&tree, &tenants);
        for (_, sleeper) in &tenants {
            let _ = sleeper.touch();
        }
        if !both {
            tenants.iter().for_each(|(name, _)| rests(&tree, name, 300));
        }
        both
    });
}

/// Whether both were seen half way; each gets what was asked of it.
fn go_on_side_by_side(tree: &Tree, tenants: &[(&str, Sleeper); 2]) -> bool {
    let state = || [0, 1].map(|at| (stolen(tree, tenants[at].0), swapped(&tenants[at].1)));
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
            both += usize::from(now[0] > before[0].0 && now[1] > before[1].0);
        }
        both
    });
    for (at, (told, out)) in state().into_iter().enumerate() {
        let (told, out) = (told - before[at].0, out - before[at].1);
        assert_eq!(told, [220, 200][at] * MIB, "{}", tenants[at].0);
        assert!(out.abs_diff(told) * 50 <= told, "{out} of {told}");
    }
    halfway > 0
}

/// A tenant that is removed while it is reclaimed, its process having gone elsewhere, ends the reclaim; one whose process ends
/// has no more to give.
#[test]
fn a_tenant_may_go_while_it_gives() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    in_time(|number| {
        let (other, name) = (format!("other{number}"), format!("moved{number}"));
        tree.make(&other);
        let moved = idle(&tree, &name, 500);
        let written = reclaimed_while(&tree, &name, || {
            tree.write(&format!("{other}/cgroup.procs"), &moved.pid().to_string());
            std::fs::remove_dir(tree.at(&name)).expect("nobody is in it");
        });
        if written == Ok(()) {
            return false;
        }
        assert_eq!(written, Err(NO_DEVICE));
        // The same name once more is another tenant, and nothing of the old reclaim is done to it.
        let next = idle(&tree, &name, 64);
        assert!(stolen(&tree, &name) <= 9 * MIB && swapped(&next) <= 9 * MIB);
        let _ = moved.touch();
        wait::until("the other has it", SOON, || {
            tree.line(&format!("{other}/memory.stat"), "anon") >= 500 * MIB
        });
        true
    });
    in_time(|number| {
        let name = format!("ends{number}");
        let ends = idle(&tree, &name, 500);
        let kill = || e2e::guard::send(ends.pid(), rustix::process::Signal::KILL);
        let written = reclaimed_while(&tree, &name, kill);
        assert!(matches!(written, Ok(()) | Err(TRY_AGAIN)), "{written:?}");
        written.is_err()
    });
    tree.end();
}

/// What who asks for 400 MiB of a tenant is answered, where something happens as soon as they begin to leave.
fn reclaimed_while(tree: &Tree, tenant: &str, happens: impl FnOnce()) -> Result<(), i32> {
    let before = stolen(tree, tenant);
    std::thread::scope(|scope| {
        let file = format!("{tenant}/memory.reclaim");
        let writer = scope.spawn(move || tree.try_write(&file, "400m"));
        wait::until("it has begun", SOON, || stolen(tree, tenant) > before);
        happens();
        writer.join().expect("it is answered")
    })
}

/// Whoever waits for a reclaim when `serve` is told to end is answered, by both ways, and it ends at once.
#[test]
fn the_end_of_serve_ends_reclaims() {
    const INTERRUPTED: i32 = 4;
    let _serial = serial();
    let _swap = Swap::shared();
    in_time(|_| {
        let written = reclaimed_at_the_end();
        assert!(matches!(written, None | Some(INTERRUPTED)), "{written:?}");
        written.is_some()
    });
}

/// The error number for who has asked for 600 MiB when `serve` is told to end, if there was one.
fn reclaimed_at_the_end() -> Option<i32> {
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
    let answer = std::io::read_to_string(asker).expect("it is answered");
    let is_cut_short = answer.contains("has ended before");
    assert!(is_cut_short || errno.is_none(), "{answer}");
    let _ = one.touch();
    errno
}

/// Asks for all of a tenant by the socket, and waits for no answer.
fn ask(tree: &Tree) -> UnixStream {
    let socket = e2e::control::of_tree(tree.pid()).expect("its socket");
    let mut client = UnixStream::connect(&socket).expect("it listens");
    let question = "{\"op\":\"tenant\",\"path\":\"/a\",\"ask\":{\"reclaim\":\"all\"}}\n";
    client.write_all(question.as_bytes()).expect("it is taken");
    client
}
