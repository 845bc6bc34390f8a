//! The cost of less memory: curves of live processes, and recordings that are replayed with other
//! sizes.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running, send};
use e2e::temp::{TempDir, serial};
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// A command for bash whose standard input stays open, because `paced` ends with its input. (With a
/// pipe the shell also waited for the sleep, and each test took a minute.)
fn open_ended(command: &str) -> [String; 3] {
    let whole = format!("exec {command} < <(exec sleep 90 2>/dev/null)");
    ["bash".to_owned(), "-c".to_owned(), whole]
}

/// The JSON output of a command, which must have succeeded.
fn json(outcome: &Outcome) -> Value {
    assert!(outcome.status.success(), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// The number with this name in a JSON object.
fn number(value: &Value, name: &str) -> u64 {
    value[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is {}", value[name]))
}

/// Runs `paced` under `run --record` to its end; returns its output, and the report (JSON).
fn run_recorded(folder: &TempDir, options: &str, words: &str) -> (Outcome, Value) {
    let [recording, report] = ["a.rec", "report.json"].map(|name| folder.file(name));
    let command = format!(
        "{} run --dry-run --age-every 200ms --record {recording} --report {report} {options} -- {} {words}",
        pagetide::binary(),
        programs::c("paced")
    );
    let outcome = Run::new(open_ended(&command)).finish(SOON);
    let written = wait::poll(SOON, || {
        let text = std::fs::read_to_string(&report).ok()?;
        serde_json::from_str(&text).ok()
    });
    (outcome, written.expect("a report"))
}

/// Runs `pagetide mrc` on the recording `a.rec` in the folder.
fn run_mrc(folder: &TempDir, options: &[&str]) -> Outcome {
    let file = folder.file("a.rec");
    pagetide::command(["mrc", &file].iter().chain(options).copied()).finish(SOON)
}

/// Starts `paced WORDS` unmanaged; returns it, and its pid as text, when it is ready.
fn start_paced(words: &str) -> (Running, String) {
    let running = Run::new(open_ended(&format!("{} {words}", programs::c("paced")))).start();
    let pid = wait::poll(SOON, || {
        let text = running.stdout();
        text.strip_prefix("ready pid=")?.trim().parse::<u32>().ok()
    });
    (running, pid.expect("it is ready").to_string())
}

/// A running program is recorded from the moment of the attach on; the curve has the misses of a
/// loop that does not fit into memory.
#[test]
fn a_running_program_is_recorded_from_the_attach_on() {
    let _turn = serial();
    let folder = TempDir::new();
    let (_running, pid) = start_paced("loop 16 4096 60");
    let file = folder.file("a.rec");
    let options = ["--dry-run", "--best-effort", "--age-every", "200ms"];
    let words = ["attach", &pid, "--for", "5s", "--record", &file];
    let attached = pagetide::command(words.into_iter().chain(options)).finish(SOON);
    assert!(attached.status.success(), "{}", attached.stderr);
    let curve = json(&run_mrc(
        &folder,
        &["--json", "--sizes", "12M,24M", "--policy", "lru"],
    ));
    let pages = number(&curve, "pages");
    assert!((4096..4096 + 1024).contains(&pages), "{curve}");
    let misses = |at: usize| {
        let ratio = curve["sizes"][at]["miss_ratio"]["lru"].as_f64();
        ratio.expect("a ratio") * curve["references"].as_f64().expect("a number")
    };
    // About 20,000 touches: all miss with 12 MiB; with 24 MiB only the first touch of each page.
    let first = curve["pages"].as_f64().expect("a number");
    assert!(misses(0) > 12_000.0 && misses(1) < first + 1.0, "{curve}");
}

#[test]
fn a_live_process_has_a_curve() {
    let _turn = serial();
    let (_running, pid) = start_paced("hotcold 64 20000 60");
    let words = ["report", &pid, "--for", "6s", "--curve", "--json"];
    let report = json(&pagetide::command(words).finish(SOON));
    let curve = &report["curve"];
    // Two fifths of 64 MiB are in use, with 20,000 touches a second: each scan finds nearly all of
    // these pages accessed.
    let (from, to) = (
        number(curve, "known_from_bytes"),
        number(curve, "known_to_bytes"),
    );
    assert!((20 * MIB..28 * MIB).contains(&from), "{curve}");
    assert!((from..30 * MIB).contains(&to), "{curve}");
    assert!(number(curve, "untouched_bytes") > 36 * MIB, "{curve}");
    let points = curve["points"].as_array().expect("points");
    let rate = |point: &Value| point["refaults_per_minute"].as_f64().expect("a rate");
    assert!(points.is_sorted_by(|one, next| number(one, "bytes") < number(next, "bytes")));
    let all = rate(&points[0]) >= rate(&points[points.len() - 1]);
    assert!(all, "more memory misses no more: {curve}");

    let plain = pagetide::command(words[..5].iter().copied()).finish(SOON);
    for words in ["What less memory would cost", "back a minute", "not known"] {
        assert!(plain.stdout.contains(words), "{}", plain.stdout);
    }
    let without = json(&pagetide::command(["report", &pid, "--for", "2s", "--json"]).finish(SOON));
    assert!(without["curve"].is_null(), "nobody asked for it");
}

/// A recording shows what the program did: its size, and the misses of a loop that does not fit
/// into memory.
#[test]
fn a_recording_is_replayed_with_other_sizes_and_beside_others() {
    let _turn = serial();
    let folder = TempDir::new();
    // The program goes through 16 MiB again and again, 4096 pages a second.
    let (outcome, report) = run_recorded(&folder, "", "loop 16 4096 8");
    assert_eq!(
        outcome.stdout.lines().last(),
        Some("touched 32768"),
        "{}",
        outcome.stderr
    );
    let reported = &report["recording"];
    assert!(
        reported["stopped"].is_null() && number(reported, "looks") > 20,
        "{report}"
    );

    let curve = json(&run_mrc(
        &folder,
        &["--json", "--sizes", "12M,24M", "--policy", "lru,lru-gen"],
    ));
    assert!(
        curve["format"] == "recording" && curve["note"].is_null(),
        "{curve}"
    );
    let pages = number(&curve, "pages");
    assert!((4096..4096 + 1024).contains(&pages), "{curve}");
    let refaults = |at: usize| {
        let ratio = curve["sizes"][at]["miss_ratio"]["lru"]
            .as_f64()
            .expect("a ratio");
        let references = curve["references"].as_f64().expect("a number");
        ratio * references - curve["pages"].as_f64().expect("a number")
    };
    // About 30,000 touches after the fill: all miss with 12 MiB, none with 24 MiB.
    assert!(refaults(0) > 24_000.0 && refaults(1) < 1.0, "{curve}");

    let scenario = folder.file("a.toml");
    let text = "[run]\nduration = \"12s\"\n[[tenant]]\nname = \"one\"\ncount = 3\nmemory-max = \"12M\"\n\
                work = [{ pattern = \"recording\", file = \"a.rec\" }]\n";
    std::fs::write(&scenario, text).expect("a file");
    let sim = pagetide::command(["sim", &scenario, "--json"]).finish(SOON);
    assert!(sim.status.success(), "{}", sim.stderr);
    serde_json::from_str::<Value>(&sim.stdout).expect("results");
}

/// The recording of a killed manager can be read up to its last complete scan.
#[test]
fn a_killed_manager_leaves_a_readable_recording() {
    let _turn = serial();
    let folder = TempDir::new();
    let file = folder.file("a.rec");
    let command = format!(
        "{} run --dry-run --age-every 200ms --record {file} -- {} hotcold 16 4000 6",
        pagetide::binary(),
        programs::c("paced")
    );
    let running = Run::new(open_ended(&command)).start();
    let size = || std::fs::metadata(&file).map_or(0, |meta| meta.len());
    wait::until("something is recorded", SOON, || size() > 2000);
    let manager = wait::poll(SOON, || running_manager(&file));
    send(manager.expect("a manager"), Signal::KILL);
    let outcome = running.wait(SOON);
    assert!(
        outcome.stdout.contains("touched 24000"),
        "the program ran on: {}",
        outcome.stderr
    );
    let curve = json(&run_mrc(&folder, &["--json"]));
    let note = curve["note"].as_str().expect("a note");
    assert!(
        note.contains("it has no end") && note.contains("looks are whole"),
        "{note}"
    );
}

/// Pid of the process that has the file open; `None` if there is none.
fn running_manager(file: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut links = fds
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.any(|link| link == Path::new(file))
    };
    pids.into_iter()
        .find(|pid| has_it(pid) && proc::is_alive(*pid))
}

/// Path of a mounted file system of 16 KiB; `Drop` unmounts it, also if a test fails.
struct Mounted<'a>(&'a str);

impl Mounted<'_> {
    /// Mounts a file system of 16 KiB at this path.
    fn small(at: &str) -> Mounted<'_> {
        let words = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", at];
        let mounted = Run::new(words).finish(SOON);
        assert!(mounted.status.success(), "{}", mounted.stderr);
        Mounted(at)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Run::new(["umount", "-l", self.0]).finish(SOON);
    }
}

#[test]
fn a_recording_that_fails_does_not_harm_the_program() {
    let _turn = serial();
    let folder = TempDir::new();
    let (outcome, report) = run_recorded(&folder, "--record-max 2K", "zipf 16 4000 3");
    assert_eq!(
        outcome.stdout.lines().last(),
        Some("touched 12000"),
        "{}",
        outcome.stderr
    );
    let stopped = report["recording"]["stopped"].as_str().expect("a reason");
    assert!(stopped.contains("--record-max"), "{stopped}");
    assert!(
        report["notes"]
            .to_string()
            .contains("the recording ends before the program")
    );
    assert!(
        std::fs::metadata(folder.file("a.rec"))
            .expect("a file")
            .len()
            <= 2048
    );

    // If the disk is full, the recording has complete scans, and the program does not notice.
    let full = folder.file("full");
    std::fs::create_dir(&full).expect("a folder");
    let mounted = Mounted::small(&full);
    let report = folder.file("of-full.json");
    let command = format!(
        "{} run --dry-run --age-every 100ms --record {full}/a.rec --report {report} -- {} zipf 64 40000 3",
        pagetide::binary(),
        programs::c("paced")
    );
    let outcome = Run::new(open_ended(&command)).finish(SOON);
    let reported = wait::poll(SOON, || {
        serde_json::from_str::<Value>(&std::fs::read_to_string(&report).ok()?).ok()
    });
    let read = pagetide::command(["mrc", "--json", &format!("{full}/a.rec")]).finish(SOON);
    drop(mounted);
    assert!(
        outcome.stdout.contains("touched 120000"),
        "{}",
        outcome.stderr
    );
    let reported = reported.expect("a report");
    let stopped = reported["recording"]["stopped"].as_str().expect("a reason");
    assert!(stopped.contains("No space left"), "{stopped}");
    assert!(json(&read)["references"].as_u64() > Some(0));

    for (file, reported) in [
        ("/dev/null", "no regular file"),
        ("/nowhere/a.rec", "No such file"),
    ] {
        let refused = pagetide::command(["run", "--record", file, "--", "true"]).finish(SOON);
        assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains(reported), "{}", refused.stderr);
    }
}
