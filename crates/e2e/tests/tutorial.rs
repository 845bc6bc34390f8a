//! The tutorial, typed: its commands as they stand in `docs/tutorial.md`, one after the other in one shell, and what it says of what they print.
//!
//! Otherwise are the port, which may be somebody's here, and the time for which the policy is at work; and the clients are nice, as other tests run beside.
//! The shell has a `/run` of its own, so that it neither finds nor removes swap that a user of this machine has switched on.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use e2e::guard::Run;
use e2e::pagetide;
use e2e::resp::free_port;
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;

const PAGE: &str = include_str!("../../../docs/tutorial.md");
/// What stands at the beginning of a line that is to be typed; other indented lines are what is printed.
const TYPED: [&str; 6] = [
    "sudo",
    "pagetide",
    "redis-server",
    "redis-benchmark",
    "redis-cli",
    "kill",
];
/// The page's, and what is given here: a policy of 10 s finds all of them idle by then.
const OTHERWISE: (&str, &str) = ("--for 40s", "--for 24s");
/// All of it takes a minute.
const LIMIT: Duration = Duration::from_secs(240);

/// In their order.
fn commands() -> Vec<String> {
    let indented = PAGE.lines().filter_map(|line| line.strip_prefix("    "));
    let typed = indented.filter_map(|line| {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let first = line.split(' ').next().unwrap_or_default();
        TYPED.contains(&first).then(|| line.to_owned())
    });
    typed.collect()
}

/// One shell types all of them; what each prints stands behind a line that names it.
fn script(port: u16) -> String {
    let folder = pagetide::binary();
    let folder = Path::new(&folder).parent().expect("a directory");
    let mut script = format!(
        "mount -t tmpfs none /run || exit 99\nsudo() {{ \"$@\"; }}\nPATH={}:$PATH\n\
         trap 'kill $(jobs -p); pagetide swap off' EXIT\n",
        folder.display()
    );
    for (at, command) in commands().iter().enumerate() {
        let mut command = command.replace("7788", &port.to_string());
        command = command.replace(OTHERWISE.0, OTHERWISE.1);
        // The clients ask as fast as they can: others' tests come first.
        if command.ends_with('&') && command.starts_with("redis-benchmark") {
            command = format!("nice -n 19 {command}");
        }
        let _ = write!(
            script,
            "echo; echo '=== {at}'\n{command}\ns=$?; echo; echo \"=== ended with $s\"\n"
        );
        if command.starts_with("redis-server") {
            let _ = writeln!(
                script,
                "until redis-cli -p {port} ping > /dev/null 2>&1; do sleep 0.05; done"
            );
        }
    }
    script
}

/// The number that stands before these words.
fn before(text: &str, words: &str) -> f64 {
    let end = text
        .find(words)
        .unwrap_or_else(|| panic!("no `{words}`: {text}"));
    let number = text[..end]
        .trim_end()
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next();
    let number = number.map(|number| number.replace(',', ""));
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no number before `{words}`: {text}"))
}

#[test]
fn what_the_tutorial_says_is_typed_and_comes_true() {
    let _serial = serial();
    let _swap = Swap::shared();
    let all = commands();
    let script = script(free_port());
    let space = ["unshare", "--mount", "--propagation", "private"];
    // What is killed in the middle takes its swap away.
    let folder = TempDir::new();
    // Not among its words: `pgrep -f` would find the shell.
    let file = folder.file("typed");
    std::fs::write(&file, &script).expect("a file");
    let words = ["timeout", "-k", "20", "200", "bash", &file];
    let words = space.into_iter().chain(words);
    let done = Run::new(words).finish(LIMIT);
    let told = format!("{script}\n{}\n{}", done.stdout, done.stderr);
    let printed: Vec<&str> = done.stdout.split("\n=== ").collect();
    let of = |words: &str| {
        let at = all.iter().position(|command| command.contains(words));
        let at = at.unwrap_or_else(|| panic!("the tutorial has no `{words}`"));
        printed
            .get(1 + 2 * at)
            .copied()
            .unwrap_or_else(|| panic!("{words}: {told}"))
    };
    assert_eq!(printed.len(), 1 + 2 * all.len(), "{told}");
    for (command, ended) in all.iter().zip(printed.iter().skip(2).step_by(2)) {
        assert!(
            ended.starts_with("ended with 0"),
            "{command}: {ended}: {told}"
        );
    }
    assert!(of("doctor").contains("All commands work here"), "{told}");
    // Four fifths of the server are cold, and a safe age brings next to nothing back.
    let report = of("report");
    assert!(before(report, "% (") > 60.0, "{told}");
    assert!(
        report.contains("Page age") && report.contains("come"),
        "{told}"
    );
    let attach = of("attach");
    assert!(
        before(attach, "pages: not accessed for 10s") > 30_000.0,
        "{told}"
    );
    assert!(before(of("--bring-back"), "pages") > 10_000.0, "{told}");
    assert!(of("swap off").contains("swap is off"), "{told}");
}
