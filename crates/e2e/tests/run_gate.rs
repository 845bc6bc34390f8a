//! `pagetide run --fail-above`: the command fails if its program needs too much memory, and for no
//! other reason.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, Run};
use e2e::pagetide;
use e2e::temp::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// A Python program that writes 200 MiB once, and then uses 20 MiB of them for 20 s.
const TWENTY_OF_200: &str = "import mmap, time\n\
    b = mmap.mmap(-1, 200 << 20)\n\
    for at in range(0, 200 << 20, 4096): b[at] = 1\n\
    end = time.monotonic() + 20\n\
    while time.monotonic() < end:\n\
    \x20   for at in range(0, 20 << 20, 4096): b[at] = 2\n\
    \x20   time.sleep(0.1)\n";

/// Runs a command under `pagetide run --dry-run OPTIONS` to its end.
fn run_gated(options: &[&str], command: &[&str]) -> Outcome {
    let command = Run::new(command.iter().copied());
    pagetide::run(
        &[&["--dry-run", "--age-every", "1s"], options].concat(),
        &command,
    )
    .finish(LIMIT)
}

#[test]
fn a_program_fails_for_the_chosen_figure() {
    let folder = TempDir::new();
    let file = folder.file("memory.xml");
    let program = ["python3", "-c", TWENTY_OF_200];
    // After twenty seconds the confidence is low: beside other programs the needed size was up to
    // 116 MiB instead of 20, or the peak (docs/known-gaps.md). The bound of 150 MiB lies between
    // the two; the peak is never below it.
    let mut needed = run_gated(&["--fail-above", "150M"], &program);
    for _ in 0..2 {
        if needed.status.code() == Some(4) {
            needed = run_gated(&["--fail-above", "150M"], &program);
        }
    }
    assert_eq!(needed.status.code(), Some(0), "{}", needed.stderr);
    assert!(
        needed.stderr.contains("low confidence"),
        "{}",
        needed.stderr
    );
    let options = ["--fail-above", "150M", "--by", "peak", "--format", "github"];
    let peak = run_gated(&[&options[..], &["--junit", &file]].concat(), &program);
    assert_eq!(peak.status.code(), Some(4), "{}", peak.stderr);
    assert!(peak.stderr.contains("::error::memory:"), "{}", peak.stderr);
    let junit = std::fs::read_to_string(&file).expect("it was written");
    assert!(junit.contains("failures=\"1\""), "{junit}");
}

/// Regression: a program that ended before the first scan passed with every limit, because its peak
/// was reported as 0 B.
#[test]
fn a_program_that_was_never_scanned_fails_above_its_limit() {
    let folder = TempDir::new();
    let file = folder.file("memory.xml");
    let odd = "import sys; b = bytearray(b'x') * (40 << 20) # \u{1}<\"&\u{1b}";
    for by in ["needed", "peak"] {
        let options = ["--fail-above", "30M", "--by", by, "--junit", &file];
        let done = run_gated(&options, &["python3", "-c", odd]);
        assert_eq!(done.status.code(), Some(4), "{by}: {}", done.stderr);
    }
    // An XML parser reads the file, whatever characters the command has.
    let read = "import sys, xml.dom.minidom as dom\n\
        case = dom.parse(sys.argv[1]).getElementsByTagName('testcase')[0]\n\
        print(case.getAttribute('name').startswith('python3 -c import'))\n";
    let parsed = Run::new(["python3", "-c", read, &file]).finish(LIMIT);
    assert_eq!(parsed.stdout, "True\n", "{}", parsed.stderr);
}

#[test]
fn streams_and_exit_codes_are_the_programs_own() {
    let options = ["--fail-above", "1K", "--by", "peak"];
    let done = run_gated(&options, &["sh", "-c", "echo out; exit 7"]);
    assert_eq!(
        (done.status.code(), done.stdout.as_str()),
        (Some(7), "out\n")
    );
    let killed = run_gated(&options, &["sh", "-c", "kill -KILL $$"]);
    assert_eq!(killed.status.code(), Some(137), "{}", killed.stderr);
    let term = run_gated(
        &options,
        &[
            "sh",
            "-c",
            "trap 'exit 9' TERM; kill -TERM $PPID; sleep 20 & wait",
        ],
    );
    assert_eq!(term.status.code(), Some(9), "{}", term.stderr);
    let absent = run_gated(&options, &["/no/such/program"]);
    assert_eq!(absent.status.code(), Some(127), "{}", absent.stderr);
}
