//! `cargo xtask bench dashboard [--tenants 100] [--json]`
//!
//! Opens the dashboard of many tenants with a day of history in Debian's Chromium. Measures the
//! time until it shows something, and the time that the server takes. Screenshots go to
//! `target/e2e/dashboard`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::past::{self, Past};
use e2e::temp::{TempDir, target_dir};
use e2e::tenants::Tree;
use e2e::web::ListenAddress;
use e2e::{browser, proc, wait};

/// Time limit for the metrics of all tenants.
const SOON: Duration = Duration::from_secs(60);
/// Number of requests for each figure.
const ROUNDS: usize = 20;

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("dashboard", &args);
    let tenants = args.number("--tenants", 100);
    let folder = TempDir::new();
    let (token, history) = (folder.file("token"), folder.file("history"));
    let made: Vec<String> = (1..tenants).map(|number| format!("t{number}")).collect();
    let names: Vec<String> = std::iter::once("/".to_owned())
        .chain(made.iter().map(|name| format!("/{name}")))
        .collect();
    past::write(history.as_ref(), &Past::some(&names, 1));
    let size = std::fs::metadata(&history).map_or(0, |meta| meta.len());
    let mut tree = Tree::serve(&[
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        &token,
        "--history",
        &history,
    ]);
    made.iter().for_each(|name| tree.make(name));
    let place = ListenAddress::tcp_of(&tree);
    wait::until("all are told", SOON, || {
        place
            .get("/metrics")
            .body
            .contains(&format!("/t{}\"", tenants - 1))
    });

    found.figure(
        "the history on disk",
        size as f64 / f64::from(1 << 20),
        "MiB",
    );
    let page = place.get("/?range=day");
    found.figure("the page", page.body.len() as f64 / 1024.0, "KiB");
    measure_server(&place, &mut found);
    let pictures = target_dir().join("e2e/dashboard");
    std::fs::create_dir_all(&pictures).expect("a folder for pictures");
    std::fs::write(
        pictures.join("page.html"),
        place.get("/?range=day&tenant=/t7").body,
    )
    .expect("written");
    let seen = browser::open_dashboard(&place, &pictures, "/t7");
    add_browser_figures(&seen, &mut found);
    let resident = proc::number(tree.pid(), "VmRSS").unwrap_or(0);
    found.figure(
        "serve is resident with",
        resident as f64 / f64::from(1 << 20),
        "MiB",
    );
    let _ = tree.end();
    found.finish()
}

/// Measures the time until the server has answered, without a browser.
fn measure_server(place: &ListenAddress, found: &mut Findings) {
    for (what, path) in [
        ("the server, for the page", "/?range=day"),
        ("the server, for /metrics", "/metrics"),
    ] {
        let times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let begin = Instant::now();
                let answer = place.get(path);
                assert_eq!(answer.status, 200);
                begin.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        found.figure(what, median(&times), "ms");
    }
}

/// Reports the times that were measured in the browser, and the problems that it found.
fn add_browser_figures(seen: &serde_json::Value, found: &mut Findings) {
    let paints = seen["paints_ms"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_f64);
    let paints: Vec<f64> = paints.collect();
    found.at_most("first paint, the median", median(&paints), "ms", 1000.0);
    found.at_most(
        "first paint, the slowest",
        paints.iter().copied().fold(0.0, f64::max),
        "ms",
        1000.0,
    );
    let problems = seen["problems"].as_array().map_or(usize::MAX, Vec::len);
    found.at_most("problems on it", problems as f64, "", 0.0);
    eprintln!("{}", seen["problems"]);
}
