//! Hosts and users that lack some of what reading ages needs, simulated by namespaces and
//! capabilities. `report` uses the next best source and says why, or ends with 3 and says what to
//! do; `doctor` says the same.
//!
//! All restrictions apply to the command alone, and end with it. Needs root: other users cannot
//! take rights away.
#![forbid(unsafe_code)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::python::workspace;
use e2e::temp::{Serial, TempDir, serial};
use e2e::user::{self, NOBODY};
use e2e::{pagetide, proc, programs, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
/// The end of the shell scripts `SETUP && EXEC_ARGUMENTS`: the shell becomes the command in its
/// arguments.
const EXEC_ARGUMENTS: &str = "exec \"$@\"";
/// The command prefix that takes away the right to load BPF programs.
const NO_BPF: &str = "setpriv --bounding-set=-sys_admin,-bpf";
/// The shell command after which /proc cannot be written.
const READ_ONLY_PROC: &str = "mount -o remount,bind,ro /proc";

/// A directory with copies of `pagetide` and of a program that every user can run; root's running
/// program, which the reports are about; and settings that must not change.
struct Stage {
    folder: TempDir,
    target: Running,
    before: Vec<(String, String)>,
    _serial: Serial,
}

impl Stage {
    /// Starts root's program and waits until it has touched its memory. Panics if the test does not
    /// run as root.
    fn set() -> Stage {
        let is_root = rustix::process::geteuid().is_root();
        assert!(is_root, "taking rights away needs root");
        let serial = serial();
        let folder = TempDir::public();
        for (from, to) in [
            (pagetide::binary(), "pagetide"),
            (programs::c("toucher"), "toucher"),
        ] {
            let to = folder.path().join(to);
            std::fs::copy(from, &to).expect("a program can be copied");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(to, mode).expect("the mode can be set");
        }
        let target = Run::new(toucher(&folder)).start();
        wait_until_touched(&target);
        Stage {
            before: settings(target.pid()),
            folder,
            target,
            _serial: serial,
        }
    }

    /// Runs `WRAP pagetide ARGS` to its end.
    fn pagetide(&self, wrap: &[String], args: &[&str]) -> Outcome {
        let own = [self.folder.file("pagetide")];
        let args = args.iter().map(|word| (*word).to_owned());
        let words = wrap.iter().cloned().chain(own).chain(args);
        let outcome = Run::new(words).finish(LIMIT);
        let reported = format!("{}{}", outcome.stdout, outcome.stderr);
        for bad in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!reported.contains(bad), "{wrap:?}: {reported}");
        }
        let code = outcome.status.code();
        assert!(
            matches!(code, Some(0 | 3)),
            "{wrap:?}: {code:?}: {reported}"
        );
        outcome
    }

    /// Runs `WRAP pagetide report` on a process.
    fn report_of(&self, wrap: &[String], pid: u32) -> Outcome {
        let pid = pid.to_string();
        self.pagetide(wrap, &["report", &pid, "--for", "3s", "--json"])
    }

    /// Returns a report on root's program by `WRAP pagetide report`, which must succeed.
    fn report(&self, wrap: &[String]) -> Value {
        json(&self.report_of(wrap, self.target.pid()))
    }

    /// Returns the findings of `doctor` as JSON; checks its exit code against its output.
    fn doctor(&self, wrap: &[String]) -> Value {
        let outcome = self.pagetide(wrap, &["doctor", "--json"]);
        let value = parse(&outcome);
        let code = if value["ready"] == true { 0 } else { 3 };
        assert_eq!(outcome.status.code(), Some(code), "{value}");
        // `doctor` promises 0.5 s; but other tests run at the same time.
        assert!(outcome.took < Duration::from_secs(5), "{:?}", outcome.took);
        for finding in findings(&value) {
            let (is_ok, remedy) = (finding["state"] == "ok", &finding["remedy"]);
            assert_eq!(is_ok, remedy.is_null(), "{finding}");
        }
        let people = self.pagetide(wrap, &["doctor"]);
        let reported = &people.stdout;
        // The exit code must agree with the output of the same run. Regression: another test
        // removed its swap between two runs.
        let is_ready = reported.contains("\nAll commands work here");
        let expected = if is_ready { 0 } else { 3 };
        assert_eq!(people.status.code(), Some(expected), "{reported}");
        assert!(reported.contains("Reading ages"), "{reported}");
        value
    }
}

/// Checks that no command changed a setting.
impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let after = settings(self.target.pid());
            for (before, after) in self.before.iter().zip(&after) {
                assert_eq!(before, after);
            }
        }
    }
}

/// The command of a program that uses 32 MiB, from the copy in the folder.
fn toucher(folder: &TempDir) -> Vec<String> {
    let options = [
        "--mib",
        "32",
        "--seconds",
        "300",
        "--think-us",
        "100",
        "hot",
    ];
    let options = options.map(str::to_owned);
    [vec![folder.file("toucher")], options.to_vec()].concat()
}

/// Waits until the program has touched its 32 MiB.
fn wait_until_touched(running: &Running) {
    let all = || proc::rss_anon(running.pid()).is_some_and(|bytes| bytes >= 32 << 20);
    wait::until("32 MiB", LIMIT, all);
}

/// The settings that commands must not change: this test's own mounts, a switch that affects
/// rights, and settings of the program. Settings that other programs change while tests run are not
/// compared: swap, sysctls of memory, mounts of other tests' trees.
fn settings(pid: u32) -> Vec<(String, String)> {
    let host = ["self/mountinfo", "sys/kernel/unprivileged_bpf_disabled"];
    let host = host.map(|name| format!("/proc/{name}"));
    let of_pid = ["cgroup", "limits", "oom_score_adj", "coredump_filter"];
    let of_pid = of_pid.map(|name| format!("/proc/{pid}/{name}"));
    let read = |path: String| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = text
            .lines()
            .filter(|line| !line.contains(" - fuse pagetide "));
        (path, lines.map(|line| format!("{line}\n")).collect())
    };
    host.into_iter().chain(of_pid).map(read).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Returns the command prefix for new namespaces (`options` of unshare(1)), in which the shell
/// command `setup` runs first.
fn unshare(options: &str, setup: &str) -> Vec<String> {
    let shell = ["sh", "-c", &format!("{setup} && {EXEC_ARGUMENTS}"), "sh"].map(str::to_owned);
    [words(&format!("unshare {options}")), shell.to_vec()].concat()
}

/// Returns the command prefix for user `nobody` with these capabilities.
fn nobody_with(capabilities: &[&str]) -> Vec<String> {
    let list: Vec<String> = capabilities.iter().map(|name| format!("+{name}")).collect();
    let list = list.join(",");
    let more = ["inh", "ambient"].map(|of| format!("--{of}-caps={list}"));
    [&user::prefix(NOBODY)[..], &more].concat()
}

fn parse(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr))
}

fn json(outcome: &Outcome) -> Value {
    assert!(outcome.status.success(), "{}", outcome.stderr);
    parse(outcome)
}

/// The findings of `doctor` that are about reading ages.
fn findings(doctor: &Value) -> impl Iterator<Item = &Value> {
    let all = doctor["findings"].as_array().expect("a list");
    all.iter().filter(|finding| finding["part"] == "reading")
}

/// The finding of `doctor` on this topic; panics if there is none.
fn finding<'a>(doctor: &'a Value, topic: &str) -> &'a Value {
    let all = doctor["findings"].as_array().expect("a list");
    all.iter()
        .find(|finding| finding["topic"] == topic)
        .unwrap_or_else(|| panic!("nothing on {topic:?}: {doctor:#}"))
}

#[track_caller]
fn assert_contains(text: &Value, part: &str) {
    let text = text.as_str().unwrap_or_default();
    assert!(text.contains(part), "no {part:?} in {text:?}");
}

#[track_caller]
fn assert_has_note(report: &Value, part: &str) {
    let notes = report["notes"].as_array().expect("a list");
    let found = notes.iter().filter_map(Value::as_str);
    assert!(found.clone().any(|note| note.contains(part)), "{notes:?}");
}

/// Checks that the report uses the next best source, that its notes contain `why` and what helps
/// (`helps`), and that `doctor` agrees.
#[track_caller]
fn check_next_source(report: &Value, doctor: &Value, why: &str, helps: &str) {
    let source = report["age_source"].as_str().unwrap_or_default();
    let grain = match source {
        "idle-bitmap" => "page",
        "referenced" => "mapping",
        _ => panic!("{source}"),
    };
    assert_eq!(report["age_grain"], grain, "{report:#}");
    assert_has_note(report, why);
    assert_has_note(report, helps);
    assert!(
        report["resident_bytes"].as_u64() > Some(30 << 20),
        "{report:#}"
    );
    assert_eq!(doctor["age_source"], source);
    let ages = finding(doctor, "ages of pages");
    assert_eq!(ages["state"], "limited");
    assert_contains(&ages["detail"], why);
    assert_contains(&ages["remedy"], helps);
}

/// Checks exit code 3, and that the error says what failed, why, and what to do.
#[track_caller]
fn check_refused(outcome: &Outcome, why: &str) {
    let reported = &outcome.stderr;
    assert_eq!(outcome.status.code(), Some(3), "{reported}");
    assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
    for part in ["pagetide: cannot read pid", why, "\n  hint: run "] {
        assert!(reported.contains(part), "no {part:?} in {reported}");
    }
}

#[test]
fn nothing_is_missing_with_all_rights() {
    let stage = Stage::set();
    let (report, doctor) = (stage.report(&[]), stage.doctor(&[]));
    assert_eq!(report["age_source"], doctor["age_source"]);
    let healthy = doctor["age_source"] == "page-tables";
    assert_eq!(finding(&doctor, "ages of pages")["state"] == "ok", healthy);
}

#[test]
fn without_cap_bpf_the_next_source_is_used() {
    let stage = Stage::set();
    let wrap = words(NO_BPF);
    let (report, doctor) = (stage.report(&wrap), stage.doctor(&wrap));
    check_next_source(&report, &doctor, "cannot make a BPF map", "CAP_BPF");
    assert_contains(
        &finding(&doctor, "right to page tables")["detail"],
        "no CAP_BPF",
    );
}

#[test]
fn without_cap_perfmon_the_next_source_is_used() {
    let stage = Stage::set();
    // The kernel returns the same error as with lockdown=confidentiality.
    let wrap = words("setpriv --bounding-set=-sys_admin,-perfmon");
    let (report, doctor) = (stage.report(&wrap), stage.doctor(&wrap));
    check_next_source(
        &report,
        &doctor,
        "cannot load the BPF program",
        "CAP_PERFMON",
    );
    assert_contains(
        &finding(&doctor, "right to page tables")["detail"],
        "no CAP_PERFMON",
    );
}

/// The manifest for Kubernetes says what each right of the container is for.
///
/// Regression: the manifest claimed that each right had been taken away in turn, without a test.
#[test]
fn the_rights_in_the_daemonset_are_enough_and_needed() {
    let stage = Stage::set();
    let path = workspace().join("dist/kubernetes/daemonset.yaml");
    let manifest = std::fs::read_to_string(path).expect("it is there");
    let (_, behind) = manifest.split_once("add:\n").expect("some are added");
    let lines = behind.lines().map(str::trim);
    let added: Vec<String> = lines
        .take_while(|line| line.starts_with(['#', '-']))
        .filter_map(|line| Some(line.strip_prefix("- ")?.to_lowercase()))
        .collect();
    assert!(added.len() > 3, "{added:?}");
    let only = |without: Option<&String>| {
        let held = added.iter().filter(|name| Some(*name) != without);
        let list: Vec<String> = held.map(|name| format!("+{name}")).collect();
        words(&format!("setpriv --bounding-set=-all,{}", list.join(",")))
    };
    // Tried on a program of root's and on one of another user.
    let other = user::run(NOBODY, toucher(&stage.folder)).start();
    wait_until_touched(&other);
    let best = stage.doctor(&[])["age_source"].clone();
    for pid in [stage.target.pid(), other.pid()] {
        let report = json(&stage.report_of(&only(None), pid));
        assert_eq!(report["age_source"], best, "{report}");
        let (unknown, all) = (&report["unknown_age_bytes"], &report["resident_bytes"]);
        let (unknown, all) = (unknown.as_u64().expect("told"), all.as_u64());
        assert!(Some(unknown * 10) < all, "{report}");
    }
    let doctor = |without| stage.doctor(&only(without)).to_string();
    let whole = doctor(None);
    for name in &added {
        let lack = format!("no CAP_{}: ", name.to_uppercase());
        assert!(!whole.contains(&lack), "{whole}");
        let reported = doctor(Some(name));
        assert!(
            reported.contains(&lack),
            "nothing is missing without {name}: {reported}"
        );
    }
}

#[test]
fn without_type_information_the_next_source_is_used() {
    let stage = Stage::set();
    let nothing = stage.folder.file("nothing");
    std::fs::write(&nothing, "").expect("a file can be written");
    for setup in [
        "mount -t tmpfs none /sys/kernel/btf".to_owned(),
        format!("mount --bind {nothing} /sys/kernel/btf/vmlinux"),
    ] {
        let wrap = unshare("-m", &setup);
        let (report, doctor) = (stage.report(&wrap), stage.doctor(&wrap));
        let why = "type information (/sys/kernel/btf/vmlinux)";
        check_next_source(&report, &doctor, why, "CONFIG_DEBUG_INFO_BTF");
    }
}

#[test]
fn another_user_reports_only_its_own_processes() {
    let stage = Stage::set();
    let wrap = user::prefix(NOBODY).to_vec();
    let doctor = stage.doctor(&wrap);
    for topic in ["right to page tables", "right to others"] {
        assert_eq!(finding(&doctor, topic)["state"], "limited");
    }
    let own = Run::new([wrap.clone(), toucher(&stage.folder)].concat()).start();
    wait_until_touched(&own);
    let report = json(&stage.report_of(&wrap, own.pid()));
    check_next_source(&report, &doctor, "cannot make a BPF map", "CAP_BPF");
    check_refused(
        &stage.report_of(&wrap, stage.target.pid()),
        "Permission denied",
    );
    // Two capabilities are enough for processes of the same user, but not for those of other users.
    let wrap = nobody_with(&["bpf", "perfmon"]);
    let report = json(&stage.report_of(&wrap, own.pid()));
    assert_eq!(report["age_source"], "page-tables", "{report:#}");
    assert_eq!(stage.doctor(&wrap)["age_source"], "page-tables");
    check_refused(
        &stage.report_of(&wrap, stage.target.pid()),
        "Permission denied",
    );
}

/// Starts a program in new namespaces and returns the report on it, which is made inside them.
fn report_from_inside(stage: &Stage, unshare: &str, setup: &str) -> Value {
    let toucher = toucher(&stage.folder).join(" ");
    let pagetide = stage.folder.file("pagetide");
    let script = format!(
        "{setup} && {{ {toucher} >/dev/null & sleep 1; \
         {pagetide} report $! --for 3s --json; code=$?; kill $!; exit $code; }}"
    );
    let shell = ["sh", "-c", &script].map(str::to_owned);
    json(&Run::new([words(unshare), shell.to_vec()].concat()).finish(LIMIT))
}

#[test]
fn in_a_user_namespace_the_next_source_is_used() {
    let stage = Stage::set();
    let wrap = words("unshare -Ur");
    check_refused(
        &stage.report_of(&wrap, stage.target.pid()),
        "Permission denied",
    );
    let doctor = stage.doctor(&wrap);
    let report = report_from_inside(&stage, "unshare -Ur", "true");
    check_next_source(&report, &doctor, "cannot make a BPF map", "user namespaces");
    let namespace = finding(&doctor, "user namespace");
    assert_contains(&namespace["detail"], "uid_map: 0 0 1");
    assert_contains(&finding(&doctor, "process events")["detail"], "namespace");
}

#[test]
fn in_a_container_missing_features_are_reported() {
    let stage = Stage::set();
    let unified = !Path::new("/sys/fs/cgroup/memory").is_dir();
    let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"][usize::from(unified)];
    let setup = format!("mount -o remount,ro,bind {groups}");
    let report = report_from_inside(&stage, "unshare -mpf --mount-proc", &setup);
    let doctor = stage.doctor(&unshare("-mpf --mount-proc", &setup));
    assert_eq!(report["age_source"], doctor["age_source"]);
    assert_has_note(&report, "forks and exits are found only by scans");
    assert_eq!(finding(&doctor, "process events")["state"], "limited");
    assert_contains(&finding(&doctor, "control groups")["detail"], "read-only");
    assert_contains(&finding(&doctor, "control groups")["remedy"], "remount,rw");
    assert_contains(&finding(&doctor, "who else clears")["detail"], "hidden");
}

#[test]
fn if_bits_may_not_be_cleared_ages_are_unknown() {
    let stage = Stage::set();
    let read_only = unshare("-m", READ_ONLY_PROC);
    let almost = nobody_with(&["bpf", "perfmon", "sys_ptrace", "dac_read_search"]);
    for wrap in [&read_only, &almost] {
        let report = stage.report(wrap);
        assert_eq!(report["age_source"], "page-tables");
        // The memory in use is not reported as cold.
        let unknown = report["unknown_age_bytes"].as_u64();
        assert!(unknown > Some(1 << 20), "{report:#}");
        assert_contains(
            &report["unknown_because"][0]["reason"],
            "may not be cleared",
        );
    }
    let clearing = stage.doctor(&read_only);
    let clearing = finding(&clearing, "clearing bits");
    assert_eq!(clearing["state"], "missing");
    assert_contains(&clearing["remedy"], "remount,rw /proc");
    let rights = stage.doctor(&almost);
    assert_contains(
        &finding(&rights, "right to others")["detail"],
        "no CAP_DAC_OVERRIDE",
    );
}

#[test]
fn without_any_source_only_sizes_are_reported() {
    let stage = Stage::set();
    if Path::new("/sys/kernel/mm/page_idle/bitmap").exists() {
        eprintln!("left out: the idle-page bitmap is a source");
        return;
    }
    let wrap = [unshare("-m", READ_ONLY_PROC), words(NO_BPF)].concat();
    let (report, doctor) = (stage.report(&wrap), stage.doctor(&wrap));
    assert_eq!(report["age_source"], "none");
    assert_eq!(report["age_grain"], "none");
    assert_has_note(&report, "sizes only");
    // The two values are of different scans of a running program: once the second scan found a page
    // more (33,800,192 and 33,804,288 bytes).
    let bytes = |name: &str| report[name].as_u64().expect(name);
    let apart = bytes("unknown_age_bytes").abs_diff(bytes("resident_bytes"));
    assert!(apart <= 16 * 4096, "{apart} bytes apart");
    assert_eq!(doctor["age_source"], "none");
    assert_eq!(doctor["ready"], false);
    assert_eq!(finding(&doctor, "ages of pages")["state"], "missing");
}

/// POSIX_FADV_NOREUSE is seen if pagetide's own file is on a disk, also below an overlay as in a
/// container. It is not seen if that file is in memory, where the kernel ignores the advice.
#[test]
fn doctor_says_which_access_hints_are_seen() {
    let stage = Stage::set();
    let own = stage.folder.file("pagetide");
    let hints = |wrap: &[String]| finding(&stage.doctor(wrap), "access hints").clone();
    let on_disk = hints(&[]);
    assert_eq!(on_disk["state"], "ok", "{on_disk}");
    assert_contains(&on_disk["detail"], "POSIX_FADV_NOREUSE are seen");

    let folder = stage.folder.path().display();
    let copied = format!("mount -t tmpfs none /mnt && cp {own} /mnt && mount --bind /mnt {folder}");
    let in_memory = hints(&unshare("-m", &copied));
    assert_eq!(in_memory["state"], "limited", "{in_memory}");
    assert_contains(
        &in_memory["detail"],
        "MADV_SEQUENTIAL and MADV_RANDOM are seen",
    );
    assert_contains(&in_memory["remedy"], "noreuse-paths");

    let overlaid = format!(
        "mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work && mount -t overlay none \
         -o lowerdir={folder},upperdir=/mnt/up,workdir=/mnt/work {folder}"
    );
    assert_eq!(hints(&unshare("-m", &overlaid)), on_disk);
}

#[test]
fn missing_process_events_are_reported() {
    let stage = Stage::set();
    let wrap = words("unshare -n");
    let (report, doctor) = (stage.report(&wrap), stage.doctor(&wrap));
    assert_eq!(report["age_source"], doctor["age_source"]);
    assert_has_note(&report, "no process events");
    let events = finding(&doctor, "process events");
    assert_eq!(events["state"], "limited");
    assert_contains(&events["remedy"], "network namespace");
}

#[test]
fn capabilities_of_the_executable_are_enough() {
    let stage = Stage::set();
    assert!(
        proc::in_path("setcap"),
        "setcap is needed: install libcap2-bin"
    );
    let give = |capabilities: &str| {
        let words = ["setcap", capabilities, &stage.folder.file("pagetide")];
        let outcome = Run::new(words).finish(LIMIT);
        assert!(outcome.status.success(), "{}", outcome.stderr);
    };
    // The shell drops the rights that remain after setpriv, so that pagetide has only the rights of
    // its file.
    let shell = ["sh", "-c", EXEC_ARGUMENTS, "sh"].map(str::to_owned);
    let wrap = [user::prefix(NOBODY), shell].concat();
    let own = user::run(NOBODY, toucher(&stage.folder)).start();
    wait_until_touched(&own);
    // Regression: in /proc a program that gets capabilities from its file belongs to root, so
    // pagetide could not read its own page tables, and reported an unknown kernel.
    for capabilities in [
        "cap_bpf,cap_perfmon+ep",
        "cap_bpf,cap_perfmon,cap_dac_read_search,cap_dac_override+ep",
    ] {
        give(capabilities);
        let (report, doctor) = (
            json(&stage.report_of(&wrap, own.pid())),
            stage.doctor(&wrap),
        );
        assert_eq!(report["age_source"], "page-tables", "{report:#}");
        assert_eq!(finding(&doctor, "ages of pages")["state"], "ok");
        assert_eq!(finding(&doctor, "clearing bits")["state"], "ok");
    }
}
