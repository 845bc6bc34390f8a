//! The texts that the rules read: every Rust and C source of the work tree.

use std::path::Path;
use std::sync::OnceLock;

use super::code::code_only;

/// A source file: its path relative to the workspace, with slashes, and its text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    /// [`Self::code`], once a rule has asked for it.
    code: OnceLock<String>,
}

impl Source {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn new(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            code: OnceLock::new(),
        }
    }

    /// The text without comments and literals ([`code_only`]): several rules read it.
    pub(super) fn code(&self) -> &str {
        self.code.get_or_init(|| code_only(&self.text))
    }
}

const ENDINGS: [&str; 7] = ["rs", "c", "h", "py", "go", "java", "js"];

pub(super) fn read(workspace: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "tests", "fuzz"] {
        walk(workspace, &workspace.join(folder), &mut files);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn walk(workspace: &Path, folder: &Path, files: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            walk(workspace, &path, files);
        } else if path
            .extension()
            .is_some_and(|end| ENDINGS.iter().any(|known| end == *known))
        {
            let relative = path.strip_prefix(workspace).unwrap_or(&path);
            let relative = relative.to_string_lossy().into_owned();
            // A source that cannot be read as text has no lines.
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            files.push(Source::new(&relative, &text));
        }
    }
}
