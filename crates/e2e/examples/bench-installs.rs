//! `cargo xtask bench installs [--json]`
//!
//! Builds and installs pagetide as users do. One way is `cargo install`; the other are the static
//! programs, run in a root file system without any other file. They are built with glibc, and with
//! musl where Rust has its standard library for it. (The .deb is tested by the test `package`.)
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings};
use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::packages::done_within;
use e2e::root::Root;
use e2e::temp::{TempDir, target_dir};
use serde_json::Value;

/// Time limit of a release build with link-time optimisation.
const BUILT: Duration = Duration::from_secs(1800);
/// Time limit of a short command.
const SOON: Duration = Duration::from_secs(60);
/// Rust's name of the target with musl.
const MUSL: &str = "x86_64-unknown-linux-musl";
/// Memory of the program on which a report is made, MiB.
const HAS: u64 = 32;

fn main() -> ExitCode {
    let mut found = Findings::new("installs", &Args::from_env());
    let folder = TempDir::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = sources.to_string_lossy().into_owned();
    let (installed, took) = timed(|| install_by_cargo(&sources, &folder));
    found.figure("cargo install took", took, "s");
    found.figure("the program of cargo install", size(&installed), "MiB");
    let idle_program = IdleProgram::start([], HAS);
    let pid = idle_program.pid().to_string();
    let words = [
        "report",
        &pid,
        "--for",
        "2s",
        "--age-every",
        "500ms",
        "--json",
    ];
    let checked = |name: &str, run: &Run, found: &mut Findings| {
        let what = format!("what a report from {name} says, of what the kernel says");
        let share = reported_resident(run) / idle_program.status("VmRSS") as f64;
        found.at_least(&what, share, "", 0.98);
        found.at_most(&what, share, "", 1.02);
    };
    let installed = installed.to_string_lossy().into_owned();
    let run = Run::new([installed.as_str()].iter().chain(&words).copied());
    checked("cargo install", &run, &mut found);
    for kind in ["static", "musl"] {
        if kind == "musl" && !has_musl() {
            eprintln!("no musl: rustup target add {MUSL}; apt install musl-tools");
            continue;
        }
        let (alone, took) = timed(|| build_static(kind, &sources, &folder));
        found.figure(&format!("package {kind} took"), took, "s");
        found.figure(&format!("its program ({kind})"), size(&alone), "MiB");
        let root = Root::empty();
        std::fs::copy(&alone, root.at("pagetide")).expect("it fits");
        let run = root.command(&[&["/pagetide"], &words[..]].concat());
        checked(&format!("an empty root ({kind})"), &run, &mut found);
    }
    found.finish()
}

/// Does the work; returns its result and the seconds that it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let done = work();
    (done, begin.elapsed().as_secs_f64())
}

/// Size of a file, MiB.
fn size(file: &Path) -> f64 {
    let meta = std::fs::metadata(file).expect("it is there");
    meta.len() as f64 / f64::from(1 << 20)
}

/// Runs cargo with these arguments in the sources; returns the last line that it printed. It must
/// succeed.
fn last_line(sources: &str, words: &[&str]) -> String {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".to_owned());
    let words = words.iter().copied();
    let run = Run::new(
        ["env", "-C", sources, cargo.as_str()]
            .into_iter()
            .chain(words),
    );
    let outcome = done_within(&run, BUILT);
    outcome.stdout.lines().last().unwrap_or_default().to_owned()
}

/// Runs `cargo install` into a folder; returns the path of the installed program.
fn install_by_cargo(sources: &str, folder: &TempDir) -> PathBuf {
    let (root, target) = (folder.file("installed"), target_dir().join("e2e/installs"));
    let words = [
        "install",
        "--locked",
        "--path",
        "crates/cli",
        "--root",
        &root,
    ];
    let target = target.to_string_lossy().into_owned();
    let _ = last_line(sources, &[&words[..], &["--target-dir", &target]].concat());
    PathBuf::from(root).join("bin/pagetide")
}

/// Whether Rust's standard library for musl is installed.
fn has_musl() -> bool {
    let requested = Run::new(["rustc", "--print", "target-libdir", "--target", MUSL]).finish(SOON);
    Path::new(requested.stdout.trim()).exists()
}

/// Builds the static program with `cargo xtask package KIND`; returns its path.
fn build_static(kind: &str, sources: &str, folder: &TempDir) -> PathBuf {
    let out = folder.file(kind);
    let said = last_line(sources, &["xtask", "package", kind, "--out", &out]);
    PathBuf::from(said)
}

/// Runs a command that prints a report; returns the resident bytes in it.
fn reported_resident(run: &Run) -> f64 {
    let outcome = run.finish(SOON);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    let bytes = report["resident_bytes"].as_u64();
    bytes.unwrap_or_else(|| panic!("{}{}", outcome.stdout, outcome.stderr)) as f64
}
