//! Debian's Chromium, driven by playwright for Python: `tests/page/look.py` and `read.py`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::guard::Run;
use crate::temp::target_dir;
use crate::web::Place;

/// It starts a browser and looks at six windows.
const LIMIT: Duration = Duration::from_secs(300);

/// What a reader of the dashboard finds; screenshots go to `folder`. `tenant` is the one that they show.
///
/// # Panics
/// If it does not end well: it says what is missing.
#[must_use]
pub fn look(place: &Place, folder: &Path, tenant: &str) -> Value {
    let url = format!("http://{}/", place.address());
    let folder_of = made(folder);
    driven(
        "look.py",
        [url, place.token(), folder_of, tenant.to_owned()],
    )
}

/// What a reader of a page of `report --html` finds, who has the JSON of the same report; screenshots go to `folder`.
///
/// # Panics
/// If it does not end well: it says what is missing.
#[must_use]
pub fn read(page: &str, json: &str, folder: &Path) -> Value {
    driven("read.py", [page.to_owned(), json.to_owned(), made(folder)])
}

fn made(folder: &Path) -> String {
    std::fs::create_dir_all(folder).expect("a folder for pictures");
    folder.display().to_string()
}

/// What a script says, which is JSON.
fn driven(script: &str, words: impl IntoIterator<Item = String>) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/page")
        .join(script);
    // Where `cargo xtask` puts playwright.
    let python = target_dir().join("browser/bin/python");
    let first = [python.as_path(), &script].map(|path| path.display().to_string());
    let outcome = Run::new(first.into_iter().chain(words)).finish(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let found = serde_json::from_str(&outcome.stdout);
    found.unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}
