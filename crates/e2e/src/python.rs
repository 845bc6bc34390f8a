//! The Python package: installed from the repository by pip, as users do, and programs that use it.
//!
//! Invariant: nothing is fetched; maturin and what the package can use are where `cargo xtask` puts them. What is built goes
//! to cargo's own target directory, the package and the home of its programs (Ray keeps a token there) to folders that are
//! gone with [`Python`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guard::{Outcome, Run};
use crate::temp::{TempDir, target_dir};

/// The package's own crate may have to be built, with all optimisations; less than `cargo xtask` gives a file of tests.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);

/// An interpreter that has the package.
#[derive(Debug)]
pub struct Python {
    folder: TempDir,
    /// Ray's sockets and logs: a socket's path may have 107 bytes, and the target directory may lie deep.
    short: TempDir,
}

/// The workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Python {
    /// `pip install REPOSITORY`.
    ///
    /// # Panics
    /// If that fails: it says what is missing.
    #[must_use]
    pub fn installed() -> Python {
        let is_there = Path::new(&interpreter()).exists();
        assert!(
            is_there,
            "no {}: `cargo xtask e2e python` makes it",
            interpreter()
        );
        let python = Python {
            folder: TempDir::new(),
            short: TempDir::public(),
        };
        let site = python.folder.file("site");
        let root = workspace().to_string_lossy().into_owned();
        let pip = "-m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --target";
        // Others are measured meanwhile. At a nice of 10 beside two busy loops it took a quarter of an hour.
        let words = ["nice", "-n", "4"].map(str::to_owned).into_iter();
        let words = words
            .chain([interpreter()])
            .chain(pip.split(' ').map(str::to_owned));
        let install = with_tools(Run::new(words.chain([site, root])));
        let outcome = install.finish(BUILD_LIMIT);
        let told = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.status.success(), "pip install: {told}");
        python
    }

    /// A folder of its own, for results.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A script of `tests/python`, or another of the workspace, with these words.
    #[must_use]
    pub fn script(&self, path: &str, words: &[&str]) -> Run {
        let script = workspace().join(path).to_string_lossy().into_owned();
        let words = words.iter().map(|word| (*word).to_owned());
        let run = Run::new([interpreter(), script].into_iter().chain(words));
        let home = self.folder.path().to_string_lossy().into_owned();
        with_tools(run)
            .env("PYTHONPATH", &self.folder.file("site"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("HOME", &home)
            .env("RAY_TMPDIR", &self.short.path().to_string_lossy())
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it does not end well.
    #[must_use]
    #[track_caller]
    pub fn done(&self, path: &str, words: &[&str], limit: Duration) -> Outcome {
        let outcome = self.script(path, words).finish(limit);
        let told = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.status.success(), "{path} {words:?}: {told}");
        outcome
    }
}

/// The one that `cargo xtask` gave what the package needs.
fn interpreter() -> String {
    let path = target_dir().join("python/bin/python");
    path.to_string_lossy().into_owned()
}

/// Where maturin is, and where cargo builds.
fn with_tools(run: Run) -> Run {
    let own = target_dir().join("python/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    run.env("PATH", &format!("{}:{path}", own.display()))
        .env("CARGO_TARGET_DIR", &target_dir().to_string_lossy())
}
