//! Debian's Chromium, driven by playwright for Python: `tests/page/look.py`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::guard::Run;
use crate::temp::target_dir;
use crate::web::Place;

/// It starts a browser and looks at six windows.
const LIMIT: Duration = Duration::from_secs(300);

/// What it finds; screenshots go to `folder`. `tenant` is the one that they show.
///
/// # Panics
/// If it does not end well: it says what is missing.
#[must_use]
pub fn look(place: &Place, folder: &Path, tenant: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/page/look.py");
    // Where `cargo xtask` puts playwright.
    let python = target_dir().join("browser/bin/python");
    std::fs::create_dir_all(folder).expect("a folder for pictures");
    let url = format!("http://{}/", place.address());
    let words = [python.as_path(), &script].map(|path| path.display().to_string());
    let more = [
        url,
        place.token(),
        folder.display().to_string(),
        tenant.to_owned(),
    ];
    let outcome = Run::new(words.into_iter().chain(more)).finish(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let found = serde_json::from_str(&outcome.stdout);
    found.unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}
