//! Debian's Chromium, driven by the Python scripts in `tests/page`, which use playwright.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::guard::Run;
use crate::temp::target_dir;
use crate::web::ListenAddress;

/// Time limit for starting a browser and for six windows.
const LIMIT: Duration = Duration::from_secs(300);

/// Opens the dashboard in a browser; returns what it shows. Screenshots go to `folder`, and
/// `tenant` is the tenant that they show.
///
/// # Panics
/// If the browser fails; the message says what is missing.
#[must_use]
pub fn open_dashboard(place: &ListenAddress, folder: &Path, tenant: &str) -> Value {
    let url = format!("http://{}/", place.address());
    let folder_of = make_folder(folder);
    run_script(
        "look.py",
        [url, place.token(), folder_of, tenant.to_owned()],
    )
}

/// Opens `page`, which `report --html` wrote, in a browser, and compares it with `json`, the same
/// report as JSON. Returns what was found; screenshots go to `folder`.
///
/// # Panics
/// If the browser fails; the message says what is missing.
#[must_use]
pub fn open_report(page: &str, json: &str, folder: &Path) -> Value {
    run_script(
        "read.py",
        [page.to_owned(), json.to_owned(), make_folder(folder)],
    )
}

/// Makes a folder; returns its path as text.
fn make_folder(folder: &Path) -> String {
    std::fs::create_dir_all(folder).expect("a folder for pictures");
    folder.display().to_string()
}

/// Runs a script and returns its output, which is JSON.
fn run_script(script: &str, words: impl IntoIterator<Item = String>) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/page")
        .join(script);
    // `cargo xtask` installs playwright there.
    let python = target_dir().join("browser/bin/python");
    let first = [python.as_path(), &script].map(|path| path.display().to_string());
    let outcome = Run::new(first.into_iter().chain(words)).finish(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let found = serde_json::from_str(&outcome.stdout);
    found.unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}
