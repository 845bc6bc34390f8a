//! Memory that several processes map, of which half is in use: MADV_PAGEOUT skips such pages, so
//! the kernel reclaims them at pagetide's request. The half in use must stay in memory.
#![forbid(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{control, pagetide, proc, programs, wait};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// Memory that the server shares with its workers.
const SHARED_MIB: u64 = 64;
/// Memory to reclaim: three quarters of the pages that are not in use.
const TO_RECLAIM: u64 = 24 * MIB;

/// Time after which the pages that are not in use are older than all others.
const AGES_KNOWN_AFTER: Duration = Duration::from_secs(12);

/// A pre-fork server (`workers.c --half`): its workers read a random half of the shared pages every
/// four seconds.
struct Server {
    running: Running,
    /// The server itself, which only waits: a page that has left its memory does not return to it.
    pid: u32,
    /// Address of the shared memory.
    start: u64,
}

/// Shares of the pages in use and of all other pages that have left memory, in percent.
#[derive(Debug)]
struct SwappedOut {
    hot: f64,
    cold: f64,
}

/// Whether the workers read this page: the program's `mix`.
fn is_hot(page: u64) -> bool {
    let mut x = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) & 1 == 1
}

impl Server {
    /// Starts the server with four workers by the command that `wrap` makes.
    fn start(wrap: &dyn Fn(&Run) -> Run) -> Server {
        Server::started(SHARED_MIB, &["--half"], wrap)
    }

    /// Starts the server with `mib` MiB of shared memory, four workers and further options.
    fn started(mib: u64, options: &[&str], wrap: &dyn Fn(&Run) -> Run) -> Server {
        let (program, mib) = (programs::c("workers"), mib.to_string());
        let words = [&program, "4", &mib, "600"];
        let words = words.iter().chain(options).map(|word| (*word).to_owned());
        let running = wrap(&Run::new(words)).start();
        wait::until("it is ready", SOON, || running.stdout().contains("private"));
        let said = running.stdout();
        let value = |name: &str| {
            let mut words = said.split_whitespace();
            let value = words.find_map(|word| word.strip_prefix(name));
            value.unwrap_or_else(|| panic!("no {name} in {said}"))
        };
        let start = value("start=0x");
        Server {
            pid: value("pid=").parse().expect("a pid"),
            start: u64::from_str_radix(start, 16).expect("an address"),
            running,
        }
    }

    /// Reads which pages have left the server's memory.
    fn swapped_out(&self) -> SwappedOut {
        let pagemap = File::open(format!("/proc/{}/pagemap", self.pid)).expect("it runs");
        let pages = SHARED_MIB * MIB / 4096;
        let mut words = vec![0; usize::try_from(pages).expect("few") * 8];
        let read = pagemap.read_exact_at(&mut words, self.start / 4096 * 8);
        read.expect("its pagemap can be read");
        let words = words.chunks_exact(8);
        let words = words.map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        let mut counts = [(0u64, 0u64); 2];
        for (page, word) in (0..).zip(words) {
            let (all, swapped) = &mut counts[usize::from(is_hot(page))];
            *all += 1;
            *swapped += word >> 62 & 1;
        }
        let share = |(all, swapped): (u64, u64)| swapped as f64 * 100.0 / all as f64;
        SwappedOut {
            hot: share(counts[1]),
            cold: share(counts[0]),
        }
    }

    /// Waits until most of the requested memory has left, and some seconds more. Then checks that
    /// hardly any page in use has left.
    fn check(&self, what: &str) {
        let most = || self.swapped_out().cold > 50.0 || self.swapped_out().hot > 25.0;
        wait::until(what, SOON, most);
        std::thread::sleep(Duration::from_secs(5));
        let out = self.swapped_out();
        eprintln!("{what}: {out:.1?}");
        assert!(out.hot <= 5.0 && out.cold >= 50.0, "{what}: {out:?}");
    }
}

/// Sets the limit `name` of a managed program.
fn set_limit(pid: u32, name: &str, bytes: u64) {
    let limits = |line: &str| Some(control::request(pid, line)?["limits"].clone());
    let mut now = limits(r#"{"op":"limits"}"#).expect("it is managed");
    now[name] = json!(bytes);
    let set = limits(&json!({"op": "limits", "set": now}).to_string());
    assert!(set.is_some_and(|set| set != Value::Null), "{now}");
}

/// The charge of the control group of a process, in bytes.
fn usage(pid: u32) -> u64 {
    let groups = proc::read(pid, "cgroup").expect("it runs");
    let line = groups.lines().find(|line| line.contains(":memory:"));
    let path = line
        .and_then(|line| line.rsplit(':').next())
        .expect("version 1");
    let file = format!("/sys/fs/cgroup/memory{path}/memory.usage_in_bytes");
    let text = std::fs::read_to_string(file).expect("its group is there");
    text.trim().parse().expect("a number")
}

/// Regression: the kernel was asked right after a scan had cleared the accessed bits, and took a
/// third of the shared pages in use, as many as of the cold ones.
#[test]
fn shared_pages_in_use_stay_when_a_limit_of_run_is_lowered() {
    let _serial = serial();
    for name in ["max", "high"] {
        let _swap = Swap::shared();
        let options = ["--age-every", "2s", "--memory-max", "4G"];
        let server = Server::start(&|run| pagetide::run(&options, run));
        std::thread::sleep(AGES_KNOWN_AFTER);
        set_limit(server.pid, name, usage(server.pid) - TO_RECLAIM);
        server.check(name);
        let said = pagetide::report(server.pid)["actions"].to_string();
        assert!(said.contains("were skipped as shared"), "{said}");
        drop(server.running);
    }
}

/// The same for a tenant of `serve`: by a limit, and on request.
#[test]
fn shared_pages_in_use_of_a_tenant_stay_when_memory_is_reclaimed() {
    let _serial = serial();
    for file in ["memory.max", "memory.high", "memory.reclaim"] {
        let _swap = Swap::shared();
        let tree = Tree::serve(&["--age-every", "2s"]);
        tree.make("a");
        let server = Server::start(&|run| run.under(tree.inside("a")));
        std::thread::sleep(AGES_KNOWN_AFTER);
        match file {
            "memory.reclaim" => {
                let done = tree.try_write("a/memory.reclaim", &TO_RECLAIM.to_string());
                assert_eq!(done, Ok(()), "{}", tree.stdout());
            }
            limit => {
                let bytes = tree.number("a/memory.current") - TO_RECLAIM;
                tree.write(&format!("a/{limit}"), &bytes.to_string());
            }
        }
        server.check(file);
        drop(server.running);
    }
}

/// How long a server is held at its limit, and how often for each command.
const HOLD_TIME: Duration = Duration::from_secs(8);
const ROUNDS: usize = 2;

/// A pre-fork server that uses all of its 96 MiB each second is held at three quarters of them. The
/// kernel alone kills a worker in most rounds, although swap is free.
#[test]
fn no_worker_is_killed_at_three_quarters_of_its_memory() {
    let _serial = serial();
    let kills = |server: &mut Server| {
        std::thread::sleep(HOLD_TIME);
        let current = usage(server.pid);
        assert!(current <= 73 * MIB, "{current} bytes are charged");
        (server.running.ended()).map(|status| format!("{status}: {}", server.running.stderr()))
    };
    for _ in 0..ROUNDS {
        let _swap = Swap::shared();
        let options = ["--age-every", "1s", "--memory-max", "72M"];
        let mut server = Server::started(80, &[], &|run| pagetide::run(&options, run));
        assert_eq!(kills(&mut server), None, "under run");
        drop(server.running);
        let tree = Tree::serve(&["--age-every", "1s"]);
        tree.make("a");
        let mut server = Server::started(80, &[], &|run| run.under(tree.inside("a")));
        std::thread::sleep(Duration::from_secs(3));
        tree.write("a/memory.max", "72m");
        wait::until("it is held", SOON, || usage(server.pid) <= 73 * MIB);
        assert_eq!(kills(&mut server), None, "under serve");
        assert_eq!(tree.line("a/memory.events", "oom_kill"), 0);
        drop(server.running);
    }
}
