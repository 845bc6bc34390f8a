//! Runs the commands of `docs/tutorial.md` exactly as they are written, one after the other in one
//! shell, and checks what the page says of their output.
//!
//! Only three things differ: the port, which may be in use here; the time for which the policy
//! works; and the clients run at low priority, as other tests run at the same time.
#![forbid(unsafe_code)]

use e2e::resp::free_port;
use e2e::temp::{TempDir, serial};
use e2e::typed::Page;
use e2e::zram::Swap;

/// Beginnings of the lines that are commands; other indented lines of the page are output.
const TYPED: [&str; 6] = [
    "sudo",
    "pagetide",
    "redis-server",
    "redis-benchmark",
    "redis-cli",
    "kill",
];

/// The number before `words` in `text`.
fn number_before(text: &str, words: &str) -> f64 {
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

/// Changes a command for this machine: the clients run at low priority, as other tests run at the
/// same time, and wait for the server.
fn adapted_to_this_machine(command: &str, port: u16) -> String {
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
fn the_commands_of_the_tutorial_do_what_it_says() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (port, folder) = (free_port(), TempDir::new());
    let is_typed = |line: &str| TYPED.contains(&line.split(' ').next().unwrap_or_default());
    // Regression: the tutorial switched off the swap that another user of the host had switched on.
    // Removing that swap at the end succeeds only if it is still there.
    let kept = folder.file("kept");
    let first = format!(
        "pagetide swap on --size 16M > /dev/null\n\
         trap 'kill $(jobs -p); pagetide swap off --name tutorial; \
         pagetide swap off --force > {kept}' EXIT\n"
    );
    let page = Page::new(include_str!("../../../docs/tutorial.md"), is_typed)
        .first(&first)
        .substitute("7788", &port.to_string())
        // After 24 s a policy of 10 s has found all cold pages idle.
        .substitute("--for 40s", "--for 24s")
        .each(|command| adapted_to_this_machine(command, port));
    let done = page.run_in(&folder);
    let reported = done.reported();
    assert!(
        done.of("doctor").contains("All commands work here"),
        "{reported}"
    );
    // Four fifths of the server are cold, and a safe age causes next to no refaults.
    let report = done.of("report");
    assert!(number_before(report, "% (") > 60.0, "{reported}");
    assert!(
        report.contains("Page age") && report.contains("Touched again"),
        "{reported}"
    );
    let attach = done.of("attach");
    assert!(
        number_before(attach, "pages: not accessed for 10s") > 30_000.0,
        "{reported}"
    );
    assert!(
        number_before(done.of("--bring-back"), "pages") > 10_000.0,
        "{reported}"
    );
    assert!(done.of("swap off").contains("swap is off"), "{reported}");
    let kept = std::fs::read_to_string(kept).unwrap_or_default();
    assert!(kept.contains("swap is off"), "{kept}: {reported}");
}
