//! Tests of the binary as a user sees it: exit codes, what is printed to which stream, and that no
//! failure is a panic. Commands that manage a real process are tested in crate e2e.
#![forbid(unsafe_code)]

use std::process::{Command, Output, Stdio};

/// Runs `pagetide ARGS` without input to its end; returns its output.
fn pagetide(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagetide"));
    command.args(args).stdin(Stdio::null());
    command.output().expect("the binary was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Runs a command that must fail and print nothing to standard output; returns its exit code and
/// its standard error, which must have two lines.
fn failure(args: &[&str]) -> (Option<i32>, String) {
    let output = pagetide(args);
    let reported = text(&output.stderr);
    assert!(output.stdout.is_empty(), "{args:?}: {reported}");
    assert!(reported.starts_with("pagetide: "), "{args:?}: {reported}");
    assert!(
        reported
            .lines()
            .skip(1)
            .all(|line| line.starts_with("  hint: ")),
        "{reported}"
    );
    assert!(reported.lines().count() >= 2, "{args:?}: {reported}");
    (output.status.code(), reported)
}

#[test]
fn bad_usage_ends_with_2() {
    for args in [
        &["frobnicate"][..],
        &["run"],
        &["run", "--memory-max", "-1", "--", "true"],
        &["run", "--memory-max", "12Q", "--", "true"],
        &["run", "--memory-max", "99999999999999999999T", "--", "true"],
        &[
            "run",
            "--memory-max",
            "1M",
            "--memory-min",
            "1G",
            "--",
            "true",
        ],
        &["attach", "not-a-pid"],
        &["attach", "-7"],
        &["report", "1", "--json", "--csv"],
        &["report"],
        &["report", "1", "--all"],
        &["report", "1", "--for", "1s", "--age-every", "1m"],
        &["top", "--every", "1ms"],
        &["swap", "on", "--size", "0"],
        &["swap", "on", "--size", "500%"],
        &["man", "nonsense"],
    ] {
        let (code, reported) = failure(args);
        assert_eq!(code, Some(2), "{args:?}: {reported}");
    }
}

#[test]
fn a_process_that_cannot_be_managed_ends_with_1_and_a_reason() {
    for args in [
        &["attach", "4194305"][..],
        &["report", "4194305"],
        &["report", "--for", "1s", "4194305"],
        &["stat", "4194305"],
        &["reclaim", "4194305", "1M"],
        &["detach", "4194305"],
    ] {
        let (code, reported) = failure(args);
        assert_eq!(code, Some(1), "{args:?}: {reported}");
        let words = ["no such process", "no process 4194305"];
        assert!(
            words.iter().any(|words| reported.contains(words)),
            "{reported}"
        );
    }
    let me = std::process::id().to_string();
    let (code, reported) = failure(&["stat", &me]);
    assert_eq!(code, Some(1), "{reported}");
    assert!(reported.contains("no pagetide manages it") && reported.contains("pagetide attach"));
}

/// A process may read its own sizes on every host, so this test process reports itself.
#[test]
fn a_process_without_a_manager_is_reported() {
    let me = std::process::id().to_string();
    let short = ["--for", "300ms", "--age-every", "100ms", &me];
    let report = |form: &[&str]| {
        let output = pagetide(&[&["report"], form, &short].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let value: serde_json::Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
    assert_eq!(value["pid"].to_string(), me);
    assert!(
        value["resident_bytes"].as_u64() > Some(1 << 20),
        "{value:#}"
    );
    // A busy machine may skip all of the four scans but the first and the last.
    assert!(value["walks"].as_u64() >= Some(2), "{value:#}");
    assert!(report(&[]).contains("resident "));
    let lines = report(&["--csv", "--watch=100ms"]);
    assert!(
        lines.starts_with("pid,command,") && lines.lines().count() >= 3,
        "{lines}"
    );
    let dir = Dir::new("report");
    let page = dir.path("page.html");
    report(&["--html", &page]);
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.ends_with("</html>\n"), "{page}");
}

#[test]
fn top_shows_a_table_once() {
    let output = pagetide(&[
        "top", "--once", "--every", "200ms", "--by", "cgroup", "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert!(
        value["totals"]["resident_bytes"].as_u64() > Some(1 << 20),
        "{value:#}"
    );
    assert!(
        value["rows"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty())
    );
}

#[test]
fn a_report_that_cannot_be_written_fails_before_the_program_runs() {
    let mark = std::env::temp_dir().join(format!("pagetide-ran-{}", std::process::id()));
    let mark = mark.to_str().expect("a plain path");
    let path = "/nonexistent/report.json";
    let (code, reported) = failure(&["run", "--report", path, "--", "touch", mark]);
    assert_eq!(code, Some(1), "{reported}");
    assert!(reported.contains(path), "{reported}");
    assert!(!std::path::Path::new(mark).exists());
}

#[test]
fn help_is_on_standard_output_and_names_no_hidden_command() {
    let output = pagetide(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for name in [
        "run", "attach", "detach", "reclaim", "stat", "report", "top", "doctor",
    ] {
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
    }
    assert!(!help.contains("__"), "{help}");
    let version = text(&pagetide(&["--version"]).stdout);
    assert!(version.starts_with("pagetide "), "{version}");
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&pagetide(&["completions", shell]).stdout);
        assert!(script.contains("memory-max"), "{shell}");
        assert!(
            script.contains("age-every") && script.contains("sort"),
            "{shell}"
        );
        assert!(!script.contains("__manager"), "{shell}");
    }
    let page = text(&pagetide(&["man"]).stdout);
    assert!(
        page.contains(".TH PAGETIDE 1") && page.contains("doctor"),
        "{page}"
    );
    let page = text(&pagetide(&["man", "report"]).stdout);
    assert!(page.contains("cgroup") && page.contains("html"), "{page}");
    let page = text(&pagetide(&["man", "run"]).stdout);
    assert!(
        page.contains(".TH PAGETIDE-RUN 1") && page.contains("evict"),
        "{page}"
    );
}

#[test]
fn the_doctor_agrees_with_its_exit_code() {
    let output = pagetide(&["doctor", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = value["findings"].as_array().expect("a list");
    // Ages have several sources, of which some may be missing; paging needs all of its findings.
    let mut missing = value["age_source"] == "none";
    for finding in findings {
        missing |= finding["part"] == "paging" && finding["state"] == "missing";
    }
    let code = output.status.code();
    assert_eq!(code, Some(if missing { 3 } else { 0 }), "{value:#}");
    assert_eq!(value["ready"], !missing);
    let shown = text(&pagetide(&["doctor"]).stdout);
    assert!(
        shown.contains("Paging: run, attach, reclaim, demo"),
        "{shown}"
    );
    for finding in findings {
        let well = finding["state"] == "ok";
        assert_eq!(finding["remedy"].is_null(), well, "{finding}");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pagetide"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

/// A directory of one test; `Drop` removes it.
struct Dir(std::path::PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let name = format!("pagetide-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        Self(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Returns names and contents of the files in the subdirectory `name`.
    fn files(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(self.0.join(name)).expect("written");
        let mut files: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .map(|path| {
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
                (
                    name.unwrap_or_default(),
                    std::fs::read(&path).expect("readable"),
                )
            })
            .collect();
        files.sort();
        files
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small experiment of `pagetide sim`.
const SMALL: &str = "name = \"small\"\n[run]\nduration = \"2s\"\n[[tenant]]\nname = \"a\"\n\
    memory-max = \"1M\"\nwork = [{ pattern = \"zipf\", exponent = 1, size = \"2M\", rate = 2000 }]\n\
    [sweep]\n\"run.seed\" = [1, 2, 3]\n";

#[test]
fn a_simulation_is_the_same_twice_in_every_form() {
    let dir = Dir::new("sim");
    let file = dir.path("small.toml");
    std::fs::write(&file, SMALL).expect("written");
    for (n, what) in [&[file.as_str()][..], &["memcg-lru", "--scale", "2048"]]
        .iter()
        .enumerate()
    {
        let runs = ["first", "second"].map(|name| {
            let (name, out) = (format!("{name}{n}"), dir.path(&format!("{name}{n}")));
            let args = [&["sim", "--out", out.as_str(), "--seed", "5"], *what].concat();
            let output = pagetide(&args);
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{}",
                text(&output.stderr)
            );
            (text(&output.stdout), dir.files(&name))
        });
        assert_eq!(runs[0], runs[1], "{what:?}");
        let names: Vec<&str> = runs[0].1.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.contains(&"index.html") && names.contains(&"outcome.json"),
            "{names:?}"
        );
        let ends = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
        assert!(
            ends(".csv") > 0 && ends(".csv") == ends(".parquet"),
            "{names:?}"
        );
    }
}

#[test]
fn simulations_that_cannot_be_made_are_refused() {
    let dir = Dir::new("refused");
    let bad = dir.path("bad.toml");
    std::fs::write(&bad, SMALL.replace("memory-max", "memory-mux")).expect("written");
    for (args, code, reported) in [
        (&["sim"][..], 2, "required"),
        (&["sim", "memcg-lur"], 2, "did you mean `memcg-lru`?"),
        (&["sim", "memcg-lru", "--scale", "0"], 2, "--scale"),
        (&["sim", "memcg-lru", "--set", "sede=1"], 2, "seed=N"),
        (&["sim", "--list", "memcg-lru"], 2, "cannot be used with"),
        (
            &["sim", "/nowhere/x.toml"],
            1,
            "cannot read /nowhere/x.toml",
        ),
        (&["sim", &bad], 1, "bad.toml:6: unknown field `memory-mux`"),
        (
            &["sim", "memcg-lru", "--html", "/nowhere/x.html"],
            1,
            "/nowhere/x.html",
        ),
    ] {
        let (exit, text) = failure(args);
        assert_eq!(exit, Some(code), "{args:?}: {text}");
        assert!(text.contains(reported), "{args:?}: {text}");
    }
}

#[test]
fn experiments_are_listed() {
    let output = pagetide(&["sim", "--list"]);
    assert_eq!(output.status.code(), Some(0));
    let listed = text(&output.stdout);
    assert!(
        listed.lines().any(|line| line.starts_with("memcg-lru ")),
        "{listed}"
    );
}

/// Regression: if the file name after `--html` was that of the experiment (as the shell completes
/// it), the page overwrote the experiment.
#[test]
fn a_page_does_not_overwrite_its_experiment() {
    let dir = Dir::new("page-of-itself");
    let file = dir.path("x.toml");
    let text = "[run]\nduration = \"1s\"\n[[tenant]]\nname = \"a\"\nwork = [{ pattern = \"zipf\", exponent = 0.9, size = \"1M\", rate = 10 }]\n";
    std::fs::write(&file, text).expect("written");
    let (code, reported) = failure(&["sim", &file, "--html", &file]);
    assert_eq!(code, Some(1), "{reported}");
    assert!(reported.contains("the experiment reads that"), "{reported}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), text);
}
