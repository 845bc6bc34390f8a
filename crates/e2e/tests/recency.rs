//! Memory that a program reads in order or at random is reclaimed before other memory that is used
//! as often. An access to such memory does not predict a later one.
//!
//! A program declares such memory by MADV_SEQUENTIAL or MADV_RANDOM, and a file that it uses only
//! once by POSIX_FADV_NOREUSE. A rule of the configuration may name further files that are used
//! only once.
#![forbid(unsafe_code)]

use std::io::Write;
use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::programs;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration};
use e2e::zram::Swap;
use e2e::{page_cache, pagetide, wait};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// Size of a working set beside a stream, MiB.
const HOT_MIB: u64 = 24;
/// EAGAIN: less was reclaimed than requested.
const TRY_AGAIN: i32 = 11;
/// Size of each memory area of the test programs, MiB.
const AREA_MIB: u64 = 48;

/// Starts a Python program of `tests/programs` and waits until it prints `ready` and the addresses
/// of its areas; returns the process and these addresses.
fn start_program(
    prefix: Vec<String>,
    name: &str,
    words: impl IntoIterator<Item = String>,
) -> (Running, Vec<u64>) {
    let own = ["python3".to_owned(), programs::source(name)];
    let own = own.into_iter().chain([AREA_MIB.to_string()]).chain(words);
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
        tree.line("a/memory.stat", "anon") >= 2 * AREA_MIB * MIB
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
        "{out:?} of {AREA_MIB} MiB each"
    );
}

/// Writes a file of [`AREA_MIB`] MiB to the disk, in folios of one page. The kernel would split a
/// larger folio of which a part is paged out, and unmap all of it: of 48 MiB written at once, all
/// were unmapped, where only 25 MiB were paged out.
fn write_file(path: &str) {
    let mut file = std::fs::File::create(path).expect("it can be made");
    for _ in 0..AREA_MIB * MIB / 4096 {
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
            resident().iter().all(|bytes| *bytes == AREA_MIB * MIB)
        });
        wait::until("its pages are known", SOON, || {
            tree.line("a/memory.stat", "file") >= 2 * AREA_MIB * MIB
        });
        // During this time some scans find all of the memory accessed.
        std::thread::sleep(Duration::from_secs(3));
        running.signal(Signal::STOP);
        tree.write("a/memory.reclaim", "32m");
        let left = resident();
        running.signal(Signal::CONT);
        left.map(|bytes| AREA_MIB * MIB - bytes)
    };
    let is_first = |[first, ..]: [u64; 3]| first >= 16 * MIB;
    let is_second = |[_, second, _]: [u64; 3]| second >= 16 * MIB;
    let others = |out: [u64; 3], named: usize| out.iter().sum::<u64>() - out[named];

    let out = round();
    assert!(is_first(out) && others(out, 0) <= MIB, "{out:?}");

    ask("noreuse-paths = [\"other\"]\n".to_owned());
    tree.reload();
    wait::until("it is refused", SOON, || {
        tree.stdout().contains("nothing is changed")
    });
    let said = tree.stdout();
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
        tree.stdout().contains("read once more")
    });
    let out = round();
    assert!(is_second(out) && others(out, 1) <= MIB, "{out:?}");
}

/// A program maps two files, declares by POSIX_FADV_NOREUSE that it uses one of them only once, and
/// uses both and as much anonymous memory all the time. Only that file is paged out, whichever of
/// the two was mapped first, without any rule or option: under `run` and under `attach`.
#[test]
fn a_file_declared_as_used_once_is_reclaimed_first_under_run_and_attach() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let files = [folder.file("first"), folder.file("second")];
    files.iter().for_each(|file| write_file(file));
    for verb in ["run", "attach"] {
        for once in [0, 1] {
            let mut words = files.clone();
            words[once] = format!("once:{}", files[once]);
            let out = (0..3).find_map(|_| paged_out_by(verb, &words, once));
            assert!(
                out.is_some(),
                "{verb}, file {once}: too little is paged out"
            );
        }
    }
}

/// Starts `mapped.py` with these files under `run`, or alone with an `attach` beside it, and
/// requests 32 MiB of it. Returns the bytes that were paged out of its two files and of its
/// anonymous memory; `None` if file `once` lost less than 16 MiB. Panics if more than 1 MiB of the
/// other memory was paged out.
fn paged_out_by(verb: &str, words: &[String; 2], once: usize) -> Option<[u64; 3]> {
    let prefix = match verb {
        "run" => [&pagetide::binary(), "run", "--age-every", "500ms", "--"]
            .map(String::from)
            .to_vec(),
        _ => Vec::new(),
    };
    let (running, places) = start_program(prefix, "mapped.py", words.clone());
    let pid = running.pid();
    let _attached = (verb == "attach").then(|| {
        let words = ["attach", "--age-every", "500ms", &pid.to_string()];
        pagetide::command(words).start()
    });
    wait::until("the manager", SOON, || {
        pagetide::on("stat", pid).status.success()
    });
    // During this time some scans find all of the memory accessed.
    std::thread::sleep(Duration::from_secs(4));
    let resident = || [0, 1, 2].map(|area| smaps_bytes(pid, places[area], "Rss"));
    let before = resident();
    running.signal(Signal::STOP);
    let reclaim = pagetide::command(["reclaim", &pid.to_string(), "32M"]).finish(SOON);
    let after = resident();
    running.signal(Signal::CONT);
    let out = [0, 1, 2].map(|area| before[area].saturating_sub(after[area]));
    let of_others = out.iter().sum::<u64>() - out[once];
    let said = format!(
        "{verb}, file {once}: {out:?}: {}{}",
        reclaim.stdout, reclaim.stderr
    );
    eprintln!("{said}");
    assert!(of_others <= MIB, "{said}");
    (out[once] >= 16 * MIB).then_some(out)
}

/// A stream is reclaimed before a working set, although the streamed pages are younger: a program
/// reads a file again and again, faster than scans follow each other, and another program in the
/// same tenant has not used its working set since two scans.
///
/// `sequential`, `random`, `noreuse` and `none` are the program's advice for the file; `ruled`
/// gives no advice, but a rule of the configuration names the file (`noreuse = true`). As many
/// bytes are reclaimed as the working set has: by the kernel's count, none of them are of the
/// working set, except in `none`.
#[test]
fn a_stream_is_reclaimed_before_memory_that_is_used_again() {
    const NAMES: [&str; 5] = ["none", "sequential", "random", "noreuse", "ruled"];
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let text = "age-every = \"2s\"\n[tenants.ruled]\nnoreuse = true\n";
    let tree = Tree::serve(&["--config", &configuration(&folder, text)]);
    // `serve` has already made the tenant that the configuration names.
    let made = NAMES.iter().filter(|name| **name != "ruled");
    made.for_each(|name| tree.make(name));
    let folders = NAMES.map(|_| TempDir::new());
    let shows = || {
        let begin = |at: usize| working_set_and_stream(&tree, NAMES[at], &folders[at]);
        let running = [0, 1, 2, 3, 4].map(begin);
        wait::until("each has gone through its file some times", SOON, || {
            let mut streams = running.iter().map(|(_, stream)| stream.stdout());
            streams.all(|text| text.matches("read\n").count() >= 8)
        });
        running.iter().for_each(|(hot, _)| hot.signal(Signal::STOP));
        // Two scans find each file accessed, and the working sets idle.
        std::thread::sleep(Duration::from_secs(5));
        let mut out = [0; NAMES.len()];
        for (at, (hot, stream)) in running.iter().enumerate() {
            stream.signal(Signal::STOP);
            let file = format!("{}/memory.reclaim", NAMES[at]);
            let written = tree.try_write(&file, &format!("{HOT_MIB}m"));
            assert!(matches!(written, Ok(()) | Err(TRY_AGAIN)), "{written:?}");
            out[at] = e2e::proc::number(hot.pid(), "VmSwap").expect("it runs");
        }
        eprintln!("of what is used again, in swap: {NAMES:?} {out:?}");
        out[1..].iter().all(|out| *out <= MIB) && out[0] >= HOT_MIB * MIB / 2
    };
    // On a busy machine a stream may be slower than the scans: then parts of its file are as old as
    // the working set, and advice changes little.
    assert!(
        (0..3).any(|_| shows()),
        "what is used again stays where the stream is advised, and leaves where not"
    );
}

/// Starts in a tenant a program that uses a working set of [`HOT_MIB`] MiB again and again. Then
/// starts a program that reads a mapped file of twice that size. The tenant's name is the advice
/// for it.
fn working_set_and_stream(tree: &Tree, name: &str, folder: &TempDir) -> (Running, Running) {
    let (size, inside) = (HOT_MIB.to_string(), tree.inside(name));
    let words = [&size, &size, "600", "--rate", "3000"].map(String::from);
    let hot = Run::new([programs::c("hotset")].into_iter().chain(words));
    let hot = hot.under(inside.clone()).start();
    wait::until("it is filled", SOON, || hot.stderr().contains("ready"));
    wait::until("its pages are known", SOON, || {
        tree.line(&format!("{name}/memory.stat"), "anon") >= HOT_MIB * MIB
    });
    let file = page_cache::file(folder, 2 * usize::try_from(HOT_MIB).expect("small"));
    let advice = if name == "ruled" { "none" } else { name };
    let stream = Run::new([&programs::c("stream"), &file, advice]);
    (hot, stream.under(inside).start())
}

/// A limit that pagetide alone enforces (`attach`) takes from a stream with POSIX_FADV_NOREUSE, and
/// leaves the working set beside it. Beside a stream without advice, the same limit pages out parts
/// of the working set all the time.
///
/// (Under the hard limit of `run` the kernel reclaims, too, and heeds the advice by itself.)
#[test]
fn a_limit_takes_from_a_declared_stream_before_memory_that_is_used_again() {
    /// Number of times that the working sets' swapped memory is read, a second apart.
    const SAMPLES: u64 = 15;
    let _serial = serial();
    let _swap = Swap::shared();
    let folders = [TempDir::new(), TempDir::new()];
    let begin = |at: usize| limited_stream(["none", "noreuse"][at], &folders[at]);
    let running = [0, 1].map(begin);
    wait::until("each limit has been enforced for some passes", SOON, || {
        let mut streams = running.iter().map(|one| one.0.stdout());
        streams.all(|text| text.matches("read\n").count() >= 12)
    });
    let mut out = [0, 0];
    for _ in 0..SAMPLES {
        std::thread::sleep(Duration::from_secs(1));
        for (out, (_, _, hot)) in out.iter_mut().zip(&running) {
            *out += e2e::proc::number(*hot, "VmSwap").expect("it runs") / SAMPLES;
        }
    }
    eprintln!("of the working sets in swap, on average: {out:?}");
    assert!(out[0] >= 2 * MIB && out[1] <= out[0] / 4, "{out:?}");
}

/// Starts a program with a working set of [`HOT_MIB`] MiB, and beside it one that reads a mapped
/// file of four times that size. Then starts a manager that limits both together to 64 MiB. Returns
/// the script that runs both, the manager, and the pid that has the working set.
fn limited_stream(advice: &str, folder: &TempDir) -> (Running, Running, u32) {
    const SCRIPT: &str = "\"$0\" $1 $1 600 --rate 3000 & echo $!; \"$2\" \"$3\" $4";
    let file = page_cache::file(folder, 4 * usize::try_from(HOT_MIB).expect("small"));
    let (hot, stream) = (programs::c("hotset"), programs::c("stream"));
    let words = [
        "sh",
        "-c",
        SCRIPT,
        &hot,
        &HOT_MIB.to_string(),
        &stream,
        &file,
        advice,
    ];
    let running = Run::new(words).start();
    wait::until("both run", SOON, || {
        running.stderr().contains("ready") && running.stdout().contains("read\n")
    });
    let pid = running.stdout().lines().find_map(|line| line.parse().ok());
    let of_script = running.pid().to_string();
    let words = [
        "attach",
        "--memory-max",
        "64M",
        "--age-every",
        "1s",
        &of_script,
    ];
    let attached = pagetide::command(words).start();
    (running, attached, pid.expect("printed first"))
}
