//! `pagetide serve` under strain: clients that never read, thousands of tenants that are made and
//! removed, invalid values, and clients without rights.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::control;
use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::user::{self, NOBODY};
use e2e::{pagetide, proc, wait};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

/// Bytes of resident memory of `serve`.
fn resident_bytes(tree: &Tree) -> u64 {
    proc::number(tree.pid(), "VmRSS").unwrap_or(0)
}

/// Clients that send requests and never read the answers, or send half a request, do not delay
/// other clients.
#[test]
fn a_client_that_never_reads_delays_no_other() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    (0..50).for_each(|number| tree.make(&format!("t{number}")));
    let socket = control::tree_socket(tree.pid()).expect("its socket");
    let question = "{\"op\":\"tenant\",\"path\":\"/\",\"ask\":\"stats\"}\n";
    let mut silent = Vec::new();
    for number in 0..40 {
        let Ok(mut client) = UnixStream::connect(&socket) else {
            break;
        };
        client
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a limit");
        let times = if number % 2 == 0 { 200 } else { 1 };
        let text = question.repeat(times);
        let half = &text[..text.len() - 1];
        // The write may be refused, or the socket be full.
        let _ = client.write_all(half.as_bytes());
        silent.push(client);
    }
    let open: Vec<std::fs::File> = (0..500)
        .map(|number| {
            let at = tree.at(&format!("t{}/memory.stat", number % 50));
            std::fs::File::open(at).expect("it is there")
        })
        .collect();
    let words = ["stat", "/", "--all", "--json", "--root", tree.root()];
    let outcome = pagetide::command(words).finish(SOON);
    let all: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    let rows = all["tenants"].as_array().map_or(0, Vec::len);
    assert_eq!(rows, 51, "{}", outcome.stderr);
    assert!(tree.read("t7/memory.stat").contains("pgsteal"));
    drop((silent, open));
    assert!(tree.read("t7/memory.stat").contains("pgsteal"));
}

/// Longest accepted wait of a client while others make and remove tenants, on the busiest machine.
const CLIENT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Reads files of a tenant until `is_done`; returns the number of reads that succeeded, and the
/// duration of the longest read.
fn read_until_done(tree: &Tree, is_done: &AtomicBool) -> (u64, Duration) {
    let (mut answers, mut longest) = (0, Duration::ZERO);
    while !is_done.load(Ordering::Relaxed) {
        let begin = Instant::now();
        assert!(tree.read("kept/memory.stat").contains("pgsteal"));
        assert!(tree.number("kept/memory.current") >= 16 * MIB);
        longest = longest.max(begin.elapsed());
        answers += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    (answers, longest)
}

/// Makes and removes a tenant, some of them directly in the kernel's control group file system.
fn make_and_remove(tree: &Tree, number: u32) {
    let name = format!("t{number}");
    match number % 4 {
        0 => std::fs::create_dir(tree.group(&name)).expect("by the kernel's hand"),
        _ => tree.make(&name),
    }
    let at = match number % 4 {
        1 => tree.group(&name),
        // The tree may know such a tenant only from the next scan on.
        0 => {
            let _ = std::fs::read(tree.at(&format!("{name}/memory.stat")));
            tree.group(&name)
        }
        _ => tree.at(&name),
    };
    std::fs::remove_dir(at).expect("nobody is in it");
}

/// 10,000 tenants are made and removed: after the first ones the memory of `serve` no longer grows,
/// no descriptor stays open, and other clients are served meanwhile.
#[test]
fn ten_thousand_tenants_are_made_and_removed() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "200ms"]);
    tree.make("kept");
    let kept = IdleProgram::start(tree.inside("kept"), 16);
    let left = || {
        let all = std::fs::read_dir(tree.at(""))
            .into_iter()
            .flatten()
            .flatten();
        let tenants = all.filter(|entry| entry.path().join("memory.min").exists());
        tenants.count()
    };
    let churn = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|number| make_and_remove(&tree, number));
        wait::until("only one is left", SOON, || left() == 1);
        resident_bytes(&tree)
    };
    let (first, open) = (churn(0..1000), proc::open_files(tree.pid()));
    let is_done = AtomicBool::new(false);
    let begin = Instant::now();
    let (last, (answers, longest)) = std::thread::scope(|scope| {
        let asks = scope.spawn(|| read_until_done(&tree, &is_done));
        let after = churn(1000..10_000);
        is_done.store(true, Ordering::Relaxed);
        (after, asks.join().expect("it was answered"))
    });
    eprintln!(
        "9,000 in {:?}; grown by {} KiB; {answers} answers, the longest after {longest:?}",
        begin.elapsed(),
        last.saturating_sub(first) / 1024
    );
    assert!(
        last.saturating_sub(first) < 4 * MIB,
        "from {first} to {last} bytes"
    );
    wait::until("descriptors are as before", SOON, || {
        proc::open_files(tree.pid()) <= open
    });
    assert!(
        answers > 10 && longest < CLIENT_WAIT_MAX,
        "{answers}, {longest:?}"
    );
    let _ = kept.touch();
}

/// Regression: any user could lock a tenant's directory, and the next `serve` took the lock for
/// that of another manager.
///
/// Regression: a pid written in a container's pid namespace was taken for a pid of the host; 1 was
/// the host's init.
#[test]
fn users_and_containers_cannot_move_or_lock_what_is_not_theirs() {
    let _serial = serial();
    let tree = Tree::serve(&[]);
    tree.make("a");
    let group = tree.group("a");
    let group = group.to_string_lossy().into_owned();
    let locked = user::run(NOBODY, ["flock", "--nonblock", &group, "true"]).finish(SOON);
    assert!(!locked.status.success(), "{}", locked.stderr);
    // A file that the kernel lets all users read can still be read.
    let read = user::run(NOBODY, ["cat", &format!("{group}/memory.stat")]).finish(SOON);
    assert!(read.status.success(), "{}", read.stderr);
    // The inner shell has pid 2 in its namespace; on the host that is a kernel thread, which cannot
    // be moved (EINVAL).
    let procs = tree.at("a/cgroup.procs").to_string_lossy().into_owned();
    let script = format!("sh -c '/bin/echo $$ > {procs}'; exit $?");
    let words = ["unshare", "--pid", "--fork", "sh", "-c", &script];
    let moved = Run::new(words).finish(SOON);
    assert!(!moved.status.success());
    assert!(moved.stderr.contains("No such process"), "{}", moved.stderr);
    // A process may move itself by writing the pid 0, which means the writer in every namespace.
    let words = ["unshare", "--pid", "--fork", "sh", "-c"].map(str::to_owned);
    let script = format!("sh -c 'echo 0 > {procs} && cat /proc/self/cgroup'");
    let moved = Run::new(words.into_iter().chain([script])).finish(SOON);
    assert!(moved.stdout.contains("/a\n"), "{moved:?}");
}

/// Regression: the offset of a directory entry was its index in the present list, so a client that
/// removed the entries while it listed them saw only half of them.
#[test]
fn all_tenants_can_be_removed_while_they_are_listed() {
    let _serial = serial();
    let tree = Tree::serve(&[]);
    (0..300).for_each(|number| tree.make(&format!("t{number}")));
    for entry in std::fs::read_dir(tree.at("")).expect("the root").flatten() {
        // The call fails for files, as they are no directories.
        let _ = std::fs::remove_dir(entry.path());
    }
    let left = std::fs::read_dir(tree.at("")).expect("the root").flatten();
    let tenants = left.filter(|entry| entry.path().join("memory.min").exists());
    assert_eq!(tenants.count(), 0);
}

/// Reads all files of all tenants again and again until `is_done`; returns how many reads were
/// whole, how many found the tenant removed, and the duration of the longest read.
fn read_all(tree: &Tree, is_done: &AtomicBool) -> (u64, u64, Duration) {
    let (mut whole, mut gone, mut longest) = (0, 0, Duration::ZERO);
    while !is_done.load(Ordering::Relaxed) {
        let mut folders = vec![tree.at("")];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                gone += 1;
                continue;
            };
            for entry in entries.flatten().map(|entry| entry.path()) {
                if entry.is_dir() {
                    folders.push(entry);
                    continue;
                }
                let begin = Instant::now();
                let read = std::fs::read_to_string(&entry);
                longest = longest.max(begin.elapsed());
                match read.as_ref().map_err(std::io::Error::raw_os_error) {
                    Ok(text) => {
                        let is_line = text.is_empty() || text.ends_with('\n');
                        assert!(is_line, "{}: {text:?}", entry.display());
                        whole += 1;
                    }
                    // ENOENT, ENODEV: the tenant was removed, before or after the file was opened.
                    // EISDIR: its directory is gone for stat(2), and not yet for the kernel.
                    Err(Some(2 | 19 | 21)) => gone += 1,
                    // EACCES, EINVAL: a file that can only be written.
                    Err(Some(13 | 22)) if entry.ends_with("memory.reclaim") => {}
                    Err(errno) => panic!("{}: {errno:?}", entry.display()),
                }
            }
        }
    }
    (whole, gone, longest)
}

/// Makes a tenant with one tenant below it, sets limits, moves the process `mover` from one to the
/// other and out again, and removes both.
fn make_use_and_remove(tree: &Tree, number: u32, mover: u32) {
    let name = format!("t{number}");
    let below = format!("{name}/below");
    [&name, &below].into_iter().for_each(|name| tree.make(name));
    tree.write(&format!("{name}/memory.low"), "4m");
    tree.write(&format!("{below}/memory.max"), "64m");
    tree.write(
        &format!("{below}/memory.workingset.refresh_interval"),
        "N0=1000",
    );
    for place in [&below, &name, "kept"] {
        tree.write(&format!("{place}/cgroup.procs"), &mover.to_string());
    }
    for name in [&below, &name] {
        std::fs::remove_dir(tree.at(name)).expect("nobody is in it");
    }
}

/// Three threads read all files while tenants with limits and a process are made and removed. Each
/// read returns the whole file or finds the tenant removed, and no descriptor stays open.
#[test]
fn files_are_read_while_the_tree_changes() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "200ms"]);
    tree.make("kept");
    let mover = IdleProgram::start(tree.inside("kept"), 16);
    // Descriptors that `serve` opens once and keeps must be open before they are counted.
    (0..50).for_each(|number| make_use_and_remove(&tree, number, mover.pid()));
    let open = proc::open_files(tree.pid());
    let is_done = AtomicBool::new(false);
    let reported = std::thread::scope(|scope| {
        let readers = [0, 1, 2].map(|_| scope.spawn(|| read_all(&tree, &is_done)));
        (50..250).for_each(|number| make_use_and_remove(&tree, number, mover.pid()));
        is_done.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().expect("all was as it should be"))
    });
    eprintln!("whole, gone, longest: {reported:?}");
    for (whole, _, longest) in reported {
        assert!(whole > 500 && longest < CLIENT_WAIT_MAX, "{reported:?}");
    }
    let gone: u64 = reported.iter().map(|(_, gone, _)| gone).sum();
    assert!(gone > 0, "nothing changed meanwhile: {reported:?}");
    wait::until("descriptors are as before", SOON, || {
        proc::open_files(tree.pid()) <= open
    });
    let _ = mover.touch();
}

/// Paths of all files below a directory.
fn files(of: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(of).expect("it is there").flatten();
    let (below, mut found): (Vec<_>, Vec<_>) =
        entries.map(|one| one.path()).partition(|one| one.is_dir());
    found.extend(below.iter().flat_map(|one| files(one)));
    found
}

/// Every file, also of the root and of nodes, refuses invalid text and then has its old value.
#[test]
fn garbage_is_refused_by_every_file() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    ["a", "a/b"].iter().for_each(|name| tree.make(name));
    let settings = ["memory.min", "memory.low", "memory.high", "memory.max"];
    let all = || settings.map(|file| tree.read(&format!("a/{file}")));
    let before = all();
    let long = ["9".repeat(30), "x".repeat(4096)];
    let garbage = ["-1", "N0=", "\u{fffd}", "1 2 3 x", "=", &long[0], &long[1]];
    let all_files = files(&tree.at(""));
    assert!(all_files.len() > 60, "{}", all_files.len());
    for file in &all_files {
        for text in garbage {
            let written = std::fs::OpenOptions::new()
                .write(true)
                .open(file)
                .and_then(|mut open| open.write_all(text.as_bytes()));
            let errno = written
                .as_ref()
                .err()
                .and_then(std::io::Error::raw_os_error);
            // EPERM, ENOENT, ESRCH, E2BIG, EACCES, EINVAL, ERANGE, EOVERFLOW.
            let is_clear = errno.is_some_and(|errno| [1, 2, 3, 7, 13, 22, 34, 75].contains(&errno));
            assert!(is_clear, "{}: {written:?} of {text:.20}", file.display());
        }
    }
    assert_eq!(all(), before);
    assert!(tree.read("memory.stat").contains("pgsteal"));
}
