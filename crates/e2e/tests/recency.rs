//! Memory that a program reads in order or at random is reclaimed before other memory that is used
//! as often. An access to such memory does not predict a later one.
//!
//! The program says so by MADV_SEQUENTIAL or MADV_RANDOM. For files used once, a rule of the
//! configuration says so, because POSIX_FADV_NOREUSE cannot be seen from outside the program.
#![forbid(unsafe_code)]

use std::io::Write;
use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::page_cache;
use e2e::programs;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration};
use e2e::wait;
use e2e::zram::Swap;
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// Size of each memory area of the test programs, MiB.
const AREA: u64 = 48;

/// Starts a Python program of `tests/programs` and waits until it prints `ready` and the addresses
/// of its areas; returns the process and these addresses.
fn start_program(
    prefix: Vec<String>,
    name: &str,
    words: impl IntoIterator<Item = String>,
) -> (Running, Vec<u64>) {
    let own = ["python3".to_owned(), programs::source(name)];
    let own = own.into_iter().chain([AREA.to_string()]).chain(words);
    let running = Run::new(prefix.into_iter().chain(own)).start();
    wait::until("it has used all twice", SOON, || {
        let ended = running.stdout().ends_with('\n');
        ended && running.stdout().contains("ready")
    });
    let text = running.stdout();
    let places = text.split_whitespace().skip(1).map(|word| {
        let hex = word.trim_start_matches("0x");
        u64::from_str_radix(hex, 16).expect("an address")
    });
    let places = places.collect();
    (running, places)
}

/// Bytes in the field `name` of /proc/PID/smaps for the mapping at this address.
fn smaps_bytes(pid: u32, start: u64, name: &str) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it runs");
    let mut is_it = false;
    for line in smaps.lines() {
        if let Some((first, last)) = line.split(' ').next().and_then(|word| word.split_once('-')) {
            let hex = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            is_it = (hex(first)..hex(last)).contains(&start);
        }
        let rest = line
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(':'));
        if let Some(rest) = rest.filter(|_| is_it) {
            let kib = rest.trim().trim_end_matches(" kB").parse::<u64>();
            return kib.expect("a number") * 1024;
        }
    }
    panic!("no mapping at {start:x}");
}

#[test]
fn memory_read_in_order_is_reclaimed_before_memory_used_as_much() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let (running, places) = start_program(tree.inside("a"), "advised.py", []);
    let pid = running.pid();
    wait::until("its pages are known", SOON, || {
        tree.line("a/memory.stat", "anon") >= 2 * AREA * MIB
    });
    // During this time some scans find both areas accessed.
    std::thread::sleep(Duration::from_secs(3));
    running.signal(Signal::STOP);
    tree.write("a/memory.reclaim", "32m");
    let out = [0, 1].map(|area| smaps_bytes(pid, places[area], "Swap"));
    running.signal(Signal::CONT);
    // Less than 32 MiB, as the interpreter's idle memory is older than both areas and goes first.
    assert!(
        out[0] >= 16 * MIB && out[1] <= MIB,
        "{out:?} of {AREA} MiB each"
    );
}

/// Writes a file of [`AREA`] MiB to the disk, in folios of one page. The kernel would split a
/// larger folio of which a part is paged out, and unmap all of it: of 48 MiB written at once, all
/// were unmapped, where only 25 MiB were paged out.
fn write_file(path: &str) {
    let mut file = std::fs::File::create(path).expect("it can be made");
    for _ in 0..AREA * MIB / 4096 {
        file.write_all(&[7; 4096]).expect("there is room");
    }
    // A page that is not on the disk yet would have to be written before the kernel can drop it.
    file.sync_all().expect("it is written");
}

/// A program streams through two files and uses a hot set. Only the file that a rule names is paged
/// out, whichever of the two was mapped first.
///
/// If the changed configuration has a mistake, the rule before it stays in force; the next correct
/// configuration replaces it. A removed file is recognised by the path that it had.
#[test]
fn files_named_by_a_rule_are_reclaimed_before_memory_used_as_much() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    // The kernel escapes the line break in the first name.
    let files = [folder.file("str\neam"), folder.file("other")];
    files.iter().for_each(|file| write_file(file));
    let config = folder.file("pagetide.toml");
    let ask = |text: String| {
        std::fs::write(&config, format!("age-every = \"500ms\"\n{text}")).expect("it is written");
    };
    ask(format!(
        "noreuse-paths = [\"{}/str\\n*\"]\n",
        folder.path().display()
    ));
    let tree = Tree::serve(&["--config", &config]);
    tree.make("a");
    let (running, places) = start_program(tree.inside("a"), "mapped.py", files.clone());
    let pid = running.pid();
    let resident = || [0, 1, 2].map(|area| smaps_bytes(pid, places[area], "Rss"));
    let round = || {
        wait::until("all is there", SOON, || {
            resident().iter().all(|bytes| *bytes == AREA * MIB)
        });
        wait::until("its pages are known", SOON, || {
            tree.line("a/memory.stat", "file") >= 2 * AREA * MIB
        });
        // During this time some scans find all of the memory accessed.
        std::thread::sleep(Duration::from_secs(3));
        running.signal(Signal::STOP);
        tree.write("a/memory.reclaim", "32m");
        let left = resident();
        running.signal(Signal::CONT);
        left.map(|bytes| AREA * MIB - bytes)
    };
    let is_first = |[first, ..]: [u64; 3]| first >= 16 * MIB;
    let is_second = |[_, second, _]: [u64; 3]| second >= 16 * MIB;
    let others = |out: [u64; 3], named: usize| out.iter().sum::<u64>() - out[named];

    let out = round();
    assert!(is_first(out) && others(out, 0) <= MIB, "{out:?}");

    ask("noreuse-paths = [\"other\"]\n".to_owned());
    tree.reload();
    wait::until("it is refused", SOON, || {
        tree.said().contains("nothing is changed")
    });
    let said = tree.said();
    assert!(
        said.contains("line 2") && said.contains("begin it with /"),
        "{said}"
    );
    let out = round();
    assert!(is_first(out) && others(out, 0) <= MIB, "{out:?}");

    ask(format!("[tenants.a]\nnoreuse-paths = [\"{}\"]\n", files[1]));
    std::fs::remove_file(&files[1]).expect("it is there");
    tree.reload();
    wait::until("it is read", SOON, || {
        tree.said().contains("read once more")
    });
    let out = round();
    assert!(is_second(out) && others(out, 1) <= MIB, "{out:?}");
}

/// A stream is reclaimed before a working set, although the streamed pages are younger: the program
/// reads a large file again and again, and uses each page of the working set every two seconds.
///
/// `sequential`, `random` and `none` are the program's advice for the file; `ruled` gives no
/// advice, but a rule of the configuration names the file (`noreuse = true`). As many bytes are
/// reclaimed as the working set has: by the kernel's count, none of them are of the working set,
/// except in `none`.
#[test]
fn a_stream_is_reclaimed_before_memory_that_is_used_again() {
    const NAMES: [&str; 4] = ["none", "sequential", "random", "ruled"];
    /// Size of the working set, MiB.
    const HOT: u64 = 24;
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let text = "age-every = \"500ms\"\n[tenants.ruled]\nnoreuse = true\n";
    let tree = Tree::serve(&["--config", &configuration(&folder, text)]);
    let folders = NAMES.map(|_| TempDir::new());
    let start = |at: usize| {
        let name = NAMES[at];
        // `serve` has already made the tenant that the configuration names.
        if name != "ruled" {
            tree.make(name);
        }
        let (size, inside) = (HOT.to_string(), tree.inside(name));
        let words = [&size, &size, "600", "--rate", "3000"].map(String::from);
        let hot = Run::new([programs::c("hotset")].into_iter().chain(words));
        let hot = hot.under(inside.clone()).start();
        wait::until("it is filled", SOON, || hot.stderr().contains("ready"));
        wait::until("its pages are known", SOON, || {
            tree.line(&format!("{name}/memory.stat"), "anon") >= HOT * MIB
        });
        let file = page_cache::file(&folders[at], 4 * usize::try_from(HOT).expect("small"));
        let advice = if name == "ruled" { "none" } else { name };
        let stream = Run::new([&programs::c("stream"), &file, advice]);
        (hot, stream.under(inside).start())
    };
    let running = [0, 1, 2, 3].map(start);
    let passes = |stream: &Running| stream.stdout().matches("read\n").count();
    wait::until("each has gone through its file some times", SOON, || {
        running.iter().all(|(_, stream)| passes(stream) >= 4)
    });
    let signal = |signal| {
        for (hot, stream) in &running {
            [hot, stream].iter().for_each(|one| one.signal(signal));
        }
    };
    let shows = || {
        signal(Signal::STOP);
        for name in NAMES {
            tree.write(&format!("{name}/memory.reclaim"), &format!("{HOT}m"));
        }
        let out = running
            .each_ref()
            .map(|(hot, _)| e2e::proc::number(hot.pid(), "VmSwap").expect("it runs"));
        signal(Signal::CONT);
        eprintln!("of what is used again, in swap: {NAMES:?} {out:?}");
        out[1..].iter().all(|out| *out <= MIB) && out[0] >= 4 * MIB
    };
    // On a busy machine a stream may be slower than the working set: then the stream is older, and
    // advice changes nothing. And a program that got no processor time for seconds has not used
    // anything again.
    let is_shown = (0..5).any(|_| {
        let is_shown = shows();
        std::thread::sleep(Duration::from_secs(3));
        is_shown
    });
    assert!(
        is_shown,
        "what is used again stays where the stream is advised, and leaves where not"
    );
}
