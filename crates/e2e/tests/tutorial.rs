//! The tutorial, typed: its commands as they stand in `docs/tutorial.md`, one after the other in one shell, and what it says of what they print.
//!
//! Otherwise are the port, which may be somebody's here, and the time for which the policy is at work; and the clients are nice, as other tests run beside.
#![forbid(unsafe_code)]

use e2e::resp::free_port;
use e2e::temp::{TempDir, serial};
use e2e::typed::Page;
use e2e::zram::Swap;

/// What stands at the beginning of a line that is to be typed; other indented lines are what is printed.
const TYPED: [&str; 6] = [
    "sudo",
    "pagetide",
    "redis-server",
    "redis-benchmark",
    "redis-cli",
    "kill",
];

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

/// The clients ask as fast as they can, and others' tests come first; the server is waited for.
fn here(command: &str, port: u16) -> String {
    if command.ends_with('&') && command.starts_with("redis-benchmark") {
        return format!("nice -n 19 {command}");
    }
    if command.starts_with("redis-server") {
        let up = format!("redis-cli -p {port} ping > /dev/null 2>&1");
        return format!("{command}\nuntil {up}; do sleep 0.05; done");
    }
    command.to_owned()
}

#[test]
fn what_the_tutorial_says_is_typed_and_comes_true() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (port, folder) = (free_port(), TempDir::new());
    let is_typed = |line: &str| TYPED.contains(&line.split(' ').next().unwrap_or_default());
    let page = Page::new(include_str!("../../../docs/tutorial.md"), is_typed)
        .first("trap 'kill $(jobs -p); pagetide swap off' EXIT\n")
        .instead("7788", &port.to_string())
        // A policy of 10 s finds all of them idle by then.
        .instead("--for 40s", "--for 24s")
        .each(|command| here(command, port));
    let done = page.type_in(&folder);
    let told = done.told();
    assert!(
        done.of("doctor").contains("All commands work here"),
        "{told}"
    );
    // Four fifths of the server are cold, and a safe age brings next to nothing back.
    let report = done.of("report");
    assert!(before(report, "% (") > 60.0, "{told}");
    assert!(
        report.contains("Page age") && report.contains("come"),
        "{told}"
    );
    let attach = done.of("attach");
    assert!(
        before(attach, "pages: not accessed for 10s") > 30_000.0,
        "{told}"
    );
    assert!(
        before(done.of("--bring-back"), "pages") > 10_000.0,
        "{told}"
    );
    assert!(done.of("swap off").contains("swap is off"), "{told}");
}
