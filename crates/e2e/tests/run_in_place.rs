//! `pagetide run` becomes the program: each property that a process keeps across an exec is read
//! without `run` and under `run`, and must be the same.
#![forbid(unsafe_code)]

use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::guard::Run;
use e2e::temp::TempDir;
use e2e::zram::serial_with_swap;
use e2e::{pagetide, proc, wait};

const SOON: Duration = Duration::from_secs(60);

/// What a program printed and how it ended. (All programs run with swap: without it, `run` would
/// print a warning, and the outputs would differ.)
#[derive(PartialEq, Eq, Debug)]
struct Printed {
    stdout: String,
    stderr: String,
    status: Option<i32>,
    signal: Option<i32>,
}

/// Runs a command without input to its end; returns its outputs and status.
fn run_to_end(command: &mut Command) -> Printed {
    use std::os::unix::process::ExitStatusExt;
    let output = command.stdin(Stdio::null()).output().expect("sh is there");
    Printed {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        status: output.status.code(),
        signal: output.status.signal(),
    }
}

/// Runs a shell script with `$RUN COMMAND` in it twice: with an empty `$RUN`, and with `pagetide
/// run` as `$RUN`; returns what each printed.
fn alone_and_managed(script: &str) -> (Printed, Printed) {
    let with = |run: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", "sh", "-c", script]).env("RUN", run);
        run_to_end(&mut command)
    };
    let run = format!("{} run --best-effort --", pagetide::binary());
    (with(""), with(&run))
}

/// Checks that a script has the same result with and without `run`; returns it.
fn check_same(script: &str) -> Printed {
    let (alone, managed) = alone_and_managed(script);
    assert_eq!(alone, managed, "{script}");
    managed
}

#[test]
fn exit_codes_and_signals_are_the_programs_own() {
    let _turn = serial_with_swap();
    for status in [0, 1, 3, 37, 126, 255] {
        let said = check_same(&format!("exec $RUN sh -c 'exit {status}'"));
        assert_eq!(said.status, Some(status));
    }
    for signal in ["KILL", "TERM", "SEGV", "ABRT", "PIPE"] {
        let said = check_same(&format!(
            "ulimit -c 0; $RUN sh -c 'kill -{signal} $$' 2>&-; echo $?"
        ));
        assert!(
            said.stdout
                .trim()
                .parse::<i32>()
                .is_ok_and(|code| code > 128),
            "{said:?}"
        );
    }
}

#[test]
fn the_program_is_the_process_of_run() {
    let _turn = serial_with_swap();
    // pid, parent, group, session, terminal: fields 1, 4, 5, 6, 7 of /proc/self/stat. The shell
    // prints its own pid first and then becomes the program.
    let script = "echo $$ > $DIR/pid; exec $RUN cat /proc/self/stat";
    let folder = TempDir::new();
    for run in [
        String::new(),
        format!("{} run --best-effort --", pagetide::binary()),
    ] {
        let said = run_to_end(
            Command::new("sh")
                .args(["-c", script])
                .env("RUN", run)
                .env("DIR", folder.path()),
        );
        let fields: Vec<&str> = said.stdout.split_whitespace().collect();
        let pid = std::fs::read_to_string(folder.path().join("pid")).expect("told");
        assert_eq!(fields[0], pid.trim(), "{said:?}");
        assert_eq!(
            fields[3],
            std::process::id().to_string(),
            "the parent: {said:?}"
        );
        let own = proc::read(std::process::id(), "stat").expect("we are here");
        let own: Vec<&str> = own
            .rsplit_once(')')
            .expect("a name")
            .1
            .split_whitespace()
            .collect();
        assert_eq!(fields[4..7], own[2..5], "group, session, terminal");
    }
}

#[test]
fn signals_limits_and_masks_are_as_they_were() {
    let _turn = serial_with_swap();
    // Not SigQ: it counts signals of all processes of the user, and two concurrent builds changed
    // its value.
    let lines =
        "grep -E '^(Sig[PBIC]|Shd|Seccomp:|NoNewPrivs|Cap|Cpus_allowed:|Umask)' /proc/self/status";
    for script in [
        format!("$RUN {lines}"),
        format!("trap '' PIPE HUP CHLD; $RUN {lines}"),
        format!("umask 027; ulimit -n 77; ulimit -l 64; ulimit -v 4000000; $RUN {lines}"),
        format!("taskset -c 0 $RUN {lines}"),
        "trap '' CHLD; $RUN cat /proc/self/limits".to_owned(),
        "ulimit -s 4096; ulimit -c 0; nice -n 3 $RUN sh -c 'ulimit -a; nice; cat /proc/self/oom_score_adj'"
            .to_owned(),
        "cd /usr && $RUN pwd".to_owned(),
    ] {
        check_same(&script);
    }
}

/// A program in a shell's pipe must be ended by SIGPIPE. Rust's runtime ignores that signal, so
/// `yes | head` would print an error.
#[test]
fn a_broken_pipe_ends_a_program_quietly() {
    let _turn = serial_with_swap();
    let said = check_same("$RUN yes | head -1");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("y\n", ""));
    check_same("trap '' PIPE; $RUN sh -c 'yes 2>&1 | head -1; trap'");
}

#[test]
fn descriptors_are_those_that_were_given() {
    let _turn = serial_with_swap();
    // `ls` itself opens one more descriptor, with and without `run`.
    for around in [
        "",
        "exec 0<&-;",
        "exec 1>&2 2>&-;",
        "exec 5</dev/null 9</etc/passwd;",
        "exec 0<&- 2>&-;",
    ] {
        check_same(&format!(
            "{around} $RUN sh -c 'cd /proc/$$/fd && echo *' 2>&1 >$(mktemp -u) || true"
        ));
        check_same(&format!("{around} $RUN ls /proc/self/fd"));
    }
}

#[test]
fn environment_and_arguments_are_the_same() {
    let _turn = serial_with_swap();
    // RUN is the only variable whose value differs.
    check_same("A='x y' B= $RUN env | grep -v ^RUN= | sort");
    check_same("env -i $RUN /usr/bin/env");
    check_same("unset PATH; $RUN /bin/echo a 'b  c' '' -- --help");
    check_same("$RUN -- 2>/dev/null; $RUN printf '%s|' \"$(printf '\\377')\" '*' \"a\nb\"");
}

/// Returns what a Python script prints.
fn python_output(script: &str) -> String {
    let said = run_to_end(Command::new("python3").args(["-c", script]));
    said.stdout.trim().to_owned()
}

#[test]
fn no_child_is_seen_that_the_program_did_not_start() {
    let _turn = serial_with_swap();
    let script = "import os\n\
        try:\n    print(os.waitpid(-1, 0))\n\
        except ChildProcessError:\n    print('none')\n";
    let said = check_same(&format!("$RUN python3 -c \"{script}\""));
    assert_eq!(said.stdout, "none\n");
    // The shell has started a child before it becomes the program.
    let script = "import os; print(os.waitpid(-1, 0)[1])";
    // The path of the interpreter itself: `python3` may be a shell script, which waits for any
    // process that ends below it.
    let path = python_output("import sys; print(sys.executable)");
    let said = check_same(&format!("sleep 0.2 & exec $RUN {path} -c '{script}'"));
    assert_eq!(said.stdout, "0\n");
}

/// The manager must not keep an end of any pipe open: a reader would wait until the manager ends.
#[test]
fn substitutions_and_pipes_end_with_the_program() {
    let _turn = serial_with_swap();
    let said = check_same("x=$($RUN sh -c 'sleep 0.1; echo done'); echo got $x");
    assert_eq!(said.stdout, "got done\n");
    check_same("$RUN echo one | cat | $RUN cat");
    // The child's output goes elsewhere: it would keep the pipe open, also without `run`.
    check_same("x=$($RUN sh -c 'sleep 3 >/dev/null 2>&1 & echo left'); echo $x");
}

#[test]
fn programs_that_cannot_run_end_as_in_a_shell() {
    let _turn = serial_with_swap();
    let folder = TempDir::public();
    std::fs::write(folder.path().join("plain"), "echo hello\n").expect("a file");
    std::fs::write(folder.path().join("locked"), "#!/bin/sh\n").expect("a file");
    std::fs::write(folder.path().join("lost"), "#!/no/such/shell\n").expect("a file");
    for name in ["plain", "lost"] {
        let file = folder.file(name);
        assert!(run_to_end(Command::new("chmod").args(["755", &file])).status == Some(0));
    }
    let dir = folder.path().display();
    for (command, code) in [
        ("/no/such/program".to_owned(), 127),
        ("no-such-program-anywhere".to_owned(), 127),
        (format!("{dir}/locked"), 126),
        (format!("{dir}/lost"), 127),
        ("/tmp".to_owned(), 126),
    ] {
        let (alone, managed) = alone_and_managed(&format!("env $RUN {command}"));
        assert_eq!(
            (alone.status, managed.status),
            (Some(code), Some(code)),
            "{managed:?}"
        );
        assert!(managed.stderr.contains("hint:"), "{managed:?}");
        assert!(managed.stderr.contains(&command), "{managed:?}");
    }
    // A script without a `#!` line is run by sh, as execvp(3) does.
    let said = check_same(&format!("env $RUN {dir}/plain"));
    assert_eq!(said.stdout, "hello\n");
}

#[test]
fn wrappers_around_run_and_inside_it_change_nothing() {
    let _turn = serial_with_swap();
    check_same("timeout 20 nice -n 1 env X=1 $RUN sh -c 'sh -c \"exit 5\"'");
    check_same("$RUN timeout 20 sh -c 'exit 6'");
    check_same("$RUN setsid -w sh -c 'exit 7'");
    check_same("su nobody -s /bin/sh -c 'exit 8'; $RUN su nobody -s /bin/sh -c 'id -un; exit 8'");
}

/// If a user lacks the rights that managing needs, `run` fails before it starts the program, or
/// (with `--best-effort`) runs it unmanaged.
#[test]
fn a_user_without_rights_is_refused_before_the_start() {
    let _turn = serial_with_swap();
    let folder = TempDir::public();
    let copy = folder.file("pagetide");
    std::fs::copy(pagetide::binary(), &copy).expect("room for a copy");
    let as_nobody = |words: &str| {
        let script = format!("{copy} run --memory-max 64M {words} -- echo started");
        run_to_end(Command::new("su").args(["nobody", "-s", "/bin/sh", "-c", &script]))
    };
    let refused = as_nobody("");
    assert_eq!(
        (refused.status, refused.stdout.as_str()),
        (Some(3), ""),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("hint:"), "{refused:?}");
    let runs = as_nobody("--best-effort");
    assert_eq!(
        (runs.status, runs.stdout.as_str()),
        (Some(0), "started\n"),
        "{runs:?}"
    );
    assert!(runs.stderr.contains("continues with less"), "{runs:?}");
}

#[test]
fn the_report_comes_when_the_last_process_has_ended() {
    let _turn = serial_with_swap();
    let folder = TempDir::new();
    let path = folder.file("report.json");
    let script = format!(
        "{} run --best-effort --report {path} -- sh -c 'sleep 1 >/dev/null & exit 9' 2>/dev/null",
        pagetide::binary()
    );
    let said = run_to_end(Command::new("sh").args(["-c", &script]));
    assert_eq!(said.status, Some(9));
    let read = || {
        std::fs::read_to_string(&path)
            .ok()
            .filter(|text| !text.is_empty())
    };
    let text = wait::poll(SOON, read).expect("the report comes");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON, all of it");
    assert!(report["exit"] == 9 || report["exit"].is_null(), "{report}");
    let bad = format!(
        "{} run --report /no/such/dir/x -- echo started",
        pagetide::binary()
    );
    let reported = run_to_end(Command::new("sh").args(["-c", &bad]));
    assert_eq!(
        (reported.status, reported.stdout.as_str()),
        (Some(1), ""),
        "{reported:?}"
    );
}

/// Regression: `--report /dev/stderr` truncated the log that the shell appends to, and overwrote
/// the program's output.
#[test]
fn a_report_to_an_open_log_is_appended() {
    let _turn = serial_with_swap();
    let folder = TempDir::new();
    for (name, fd) in [("stderr", 2), ("fd/3", 3)] {
        let log = folder.file("log");
        std::fs::write(&log, "before\n").expect("room");
        let script = format!(
            "exec {} run --best-effort --report /dev/{name} -- sh -c 'echo mine >&{fd}' {fd}>>{log}",
            pagetide::binary()
        );
        let said = run_to_end(Command::new("sh").args(["-c", &script]));
        assert_eq!(said.status, Some(0), "{said:?}");
        let text = || std::fs::read_to_string(&log).unwrap_or_default();
        wait::until("the report comes", SOON, || text().ends_with("}\n"));
        let text = text();
        // Warnings of `--best-effort` come before the program starts.
        let report = text.split_once("mine\n").map(|(_, report)| report);
        let report = serde_json::from_str::<serde_json::Value>(report.unwrap_or_default());
        assert!(text.starts_with("before\n") && report.is_ok(), "{text}");
    }
}

/// The manager runs beside the program: it serves requests that name the program's pid, and it can
/// be detached, after which the program goes on.
#[test]
fn a_program_under_run_is_managed_once_and_can_be_detached() {
    let _turn = serial_with_swap();
    let run = pagetide::run(&["--best-effort"], &e2e::guard::Run::new(["sleep", "60"]));
    let running = run.start();
    let pid = running.pid();
    wait::until("it is sleep", SOON, || {
        proc::comm(pid).as_deref() == Some("sleep")
    });
    let stat = pagetide::on("stat", pid);
    assert!(stat.status.success(), "{}", stat.stderr);
    let second = pagetide::command(["attach", "--best-effort", "--for", "1s", &pid.to_string()]);
    let second = second.finish(SOON);
    assert_eq!(second.status.code(), Some(1), "{}", second.stderr);
    assert!(second.stderr.contains("manages it"), "{}", second.stderr);
    let detached = pagetide::on("detach", pid);
    assert!(detached.status.success(), "{}", detached.stderr);
    // Checked at once. Regression: after `detach` of a program, a further command reported that the
    // program has a manager.
    let reported = pagetide::on("stat", pid);
    assert!(
        !reported.status.success(),
        "nobody manages it: {}",
        reported.stdout
    );
    let again = ["attach", "--best-effort", "--for", "1s", &pid.to_string()];
    let again = pagetide::command(again).finish(SOON);
    assert!(again.status.success(), "{}", again.stderr);
    assert!(proc::is_alive(pid), "the program runs on");
}

/// Regression: for the first ten seconds a report on the program described pagetide, which the
/// process had been until its exec.
#[test]
fn a_report_in_the_first_seconds_is_about_the_program() {
    let _turn = serial_with_swap();
    let words = ["run", "--age-every", "60s", "--", "sleep", "60"].map(str::to_owned);
    let running = pagetide::command(words).start();
    wait::until("it is the program's", Duration::from_secs(20), || {
        let pid = running.pid().to_string();
        let reported = pagetide::command(["report", "--json", &pid]).finish(SOON);
        let report = serde_json::from_str::<serde_json::Value>(&reported.stdout);
        report.is_ok_and(|report| report["processes"][0]["command"] == "sleep 60")
    });
}

/// On cgroup version 1, `run` creates no cgroup if only swap is limited. The report contains a note
/// on that, and the program's standard error is unchanged.
#[test]
fn a_limit_of_swap_alone_is_noted_in_the_report() {
    let _turn = serial_with_swap();
    let folder = TempDir::new();
    let report = folder.file("report");
    let script = ["sh", "-c", "echo y; echo z >&2"];
    let words = ["run", "--swap-max", "1G", "--report", &report, "--"];
    let reported = pagetide::command(words.into_iter().chain(script)).finish(SOON);
    assert_eq!(
        (reported.stdout.as_str(), reported.stderr.as_str()),
        ("y\n", "z\n")
    );
    wait::until("its report says it", SOON, || {
        std::fs::read_to_string(&report).is_ok_and(|text| text.contains("--swap-max"))
    });
}

/// A command that comes before the manager accepts requests waits for the manager.
///
/// Regression: in `pagetide run ... & pagetide reclaim $!` the command `reclaim` took the socket
/// name of the manager, and the program was not started; `stat` and `detach` reported that there is
/// no manager.
#[test]
fn an_early_command_waits_for_the_manager() {
    let _turn = serial_with_swap();
    for verb in ["reclaim", "stat", "detach"] {
        let folder = TempDir::new();
        let report = folder.file("report");
        let made = Command::new("mkfifo").arg(&report).status();
        assert!(made.is_ok_and(|status| status.success()));
        // `run` waits for the reader of its report (a pipe) before it starts its manager.
        let words = ["run", "--report", &report, "--", "sleep", "60"].map(str::to_owned);
        let running = pagetide::command(words).start();
        let pid = running.pid().to_string();
        let words = [verb.to_owned(), pid].into_iter();
        let size = (verb == "reclaim").then(|| "4K".to_owned());
        let asks = pagetide::command(words.chain(size)).start();
        std::thread::sleep(Duration::from_millis(300));
        let _reader = std::fs::File::open(&report).expect("a pipe");
        let reported = asks.wait(SOON);
        // A program that has just begun may have no page that is old enough to be paged out. Its
        // manager then says so, and the test accepts that answer.
        let is_answered =
            reported.status.success() || reported.stderr.contains("could be paged out");
        assert!(is_answered, "{verb}: {}", reported.stderr);
        let name = || std::fs::read_to_string(format!("/proc/{}/comm", running.pid()));
        let is_program = || name().is_ok_and(|name| name == "sleep\n").then_some(());
        if wait::poll(SOON, is_program).is_none() {
            let said = (reported.stdout, reported.stderr);
            panic!("{verb} said {said:?}; run: {:?}", running.wait(SOON));
        }
    }
}

/// Regression: in `pagetide run ... & pagetide reclaim $!`, `reclaim` acted on a shell that had not
/// become `run` yet, and `stat` reported that there is no manager.
#[test]
fn a_command_before_the_shell_has_become_run_waits() {
    let _turn = serial_with_swap();
    for verb in ["reclaim", "stat", "detach"] {
        let size = if verb == "reclaim" { "4K" } else { "" };
        let script = format!(
            "(sleep .05; exec \"$0\" run -- sh -c 'sleep 1; echo its own') & \"$0\" {verb} $! {size} >&2; wait $!"
        );
        let words = ["sh", "-c", &script, &pagetide::binary()].map(str::to_owned);
        let outcome = Run::new(words).finish(SOON);
        assert_eq!(outcome.stdout, "its own\n", "{verb}: {}", outcome.stderr);
        let is_unknown = outcome.stderr.contains("manages it");
        assert!(!is_unknown, "{verb}: {}", outcome.stderr);
    }
}

/// Regression: a child that began after the last scan did not count as managed, so that `attach` to
/// it sometimes started a second manager and sometimes was refused.
#[test]
fn a_child_is_managed_from_its_birth_on() {
    let _turn = serial_with_swap();
    let folder = TempDir::new();
    let path = folder.file("child");
    // The child begins after the first seconds, in which scans are frequent.
    let script = format!("sleep 3; sleep 60 & echo $! >{path}; wait");
    let words = [
        "run",
        "--best-effort",
        "--age-every",
        "60s",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let _running = pagetide::command(words.map(str::to_owned)).start();
    let child = || std::fs::read_to_string(&path).ok()?.trim().parse().ok();
    let child: u32 = wait::poll(SOON, child).expect("a child");
    let stat = pagetide::on("stat", child);
    assert!(stat.status.success(), "{}", stat.stderr);
    let second = ["attach", "--best-effort", "--for", "1s", &child.to_string()].map(str::to_owned);
    let second = pagetide::command(second).finish(SOON);
    assert_eq!(second.status.code(), Some(1), "{}", second.stderr);
}

/// Regression: the program was the first process of a container, so its end also killed its
/// manager, and each report was an empty file.
#[test]
fn a_report_of_process_1_of_a_container_is_refused() {
    let _turn = serial_with_swap();
    let folder = TempDir::new();
    let path = folder.file("report.json");
    std::fs::write(&path, "before").expect("room");
    let script = |option: &str| {
        let pagetide = pagetide::binary();
        format!(
            "unshare --pid --fork --mount-proc {pagetide} run {option} --report {path} -- echo mine"
        )
    };
    for (option, status, stdout) in [("", 1, ""), ("--best-effort", 0, "mine\n")] {
        let reported = run_to_end(Command::new("sh").args(["-c", &script(option)]));
        assert_eq!(
            (reported.status, reported.stdout.as_str()),
            (Some(status), stdout),
            "{reported:?}"
        );
        assert!(reported.stderr.contains("process 1"), "{reported:?}");
        assert_eq!(
            std::fs::read_to_string(&path).ok().as_deref(),
            Some("before")
        );
    }
}
