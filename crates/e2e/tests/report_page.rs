//! The page of `report --html`: what a browser shows of the file, compared with the JSON of the
//! same report.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::temp::{TempDir, serial, target_dir};
use e2e::{browser, pagetide, programs, wait};

const SOON: Duration = Duration::from_secs(60);

/// A name of a program that would be markup or a script if the page did not escape it.
const HOSTILE: &str = "</title></script><script>alert(1)</script><img src=http://127.0.0.1:9/ onerror=alert(2)>\"'&\u{202e}";

/// Runs `tests/page/read.py` in a browser, with a light and a dark theme, wide and narrow, without
/// an error of the browser. Bars, heat map and curve show the report's own figures, the program's
/// name is shown as text, the page requests nothing, and all can be reached by keys.
#[test]
fn a_page_shows_what_the_report_says() {
    let _serial = serial();
    let folder = TempDir::new();
    let program = programs::c("paced");
    // The program runs until its standard input is closed, so that stays open.
    let command =
        format!("exec -a \"$0\" {program} tail 64 20000 60 < <(exec sleep 90 2>/dev/null)");
    let running = Run::new(["bash", "-c", &command, HOSTILE]).start();
    let pid = wait::poll(SOON, || {
        let text = running.stdout();
        text.strip_prefix("ready pid=")?.trim().parse::<u32>().ok()
    });
    let pid = pid.expect("it is ready").to_string();
    let [page, json] = ["page.html", "report.json"].map(|name| folder.file(name));
    let words = [
        "report",
        "--for",
        "5s",
        "--age-every",
        "500ms",
        "--curve",
        "--json",
        "--html",
        &page,
        &pid,
    ];
    let outcome = pagetide::command(words).finish(SOON);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    drop(running);
    std::fs::write(&json, &outcome.stdout).expect("written");
    let seen = browser::open_report(&page, &json, &target_dir().join("e2e/page"));
    let problems = seen["problems"].as_array().expect("a list");
    assert!(problems.is_empty(), "{problems:#?}");
}
