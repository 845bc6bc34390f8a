//! The Python package of pagetide, installed from the repository by pip as users do, and programs
//! that use it.
//!
//! Invariant: nothing is downloaded; `cargo xtask` has installed maturin and the optional
//! dependencies. Builds go to cargo's own target directory. The package and the home directory of
//! its programs (Ray keeps a token there) are in folders that are removed with [`Python`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guard::{Outcome, Run};
use crate::temp::{TempDir, target_dir};

/// Time limit for building the package's crate with all optimisations. It is less than the time
/// that `cargo xtask` allows for a file of tests.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);

/// A Python interpreter that can import the package.
#[derive(Debug)]
pub struct Python {
    /// Folder of the installed package, also the home directory of its programs.
    folder: TempDir,
    /// Folder of Ray's sockets and logs. The path of a socket is limited to 107 bytes, and the path
    /// of cargo's target directory may be long.
    short: TempDir,
}

/// Path of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Python {
    /// Installs the package with `pip install REPOSITORY`.
    ///
    /// # Panics
    /// If that fails; the message says what is missing.
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
        // Low priority, as other tests measure meanwhile. At a nice value of 10, beside two busy
        // loops, a build took a quarter of an hour.
        let words = ["nice", "-n", "4"].map(str::to_owned).into_iter();
        let words = words
            .chain([interpreter()])
            .chain(pip.split(' ').map(str::to_owned));
        let install = with_tools(Run::new(words.chain([site, root])));
        let outcome = install.finish(BUILD_LIMIT);
        let reported = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.status.success(), "pip install: {reported}");
        python
    }

    /// The folder of the package, where programs may write results.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command that runs the Python script `path` of the workspace with the arguments `words`.
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

    /// Runs the Python script `path` of the workspace, which must succeed within `limit`; returns
    /// its output.
    ///
    /// # Panics
    /// If it fails or does not end in time.
    #[must_use]
    #[track_caller]
    pub fn done(&self, path: &str, words: &[&str], limit: Duration) -> Outcome {
        let outcome = self.script(path, words).finish(limit);
        let reported = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.status.success(), "{path} {words:?}: {reported}");
        outcome
    }
}

/// Path of the interpreter for which `cargo xtask` has installed the package's dependencies.
fn interpreter() -> String {
    let path = target_dir().join("python/bin/python");
    path.to_string_lossy().into_owned()
}

/// Sets the PATH on which pip finds maturin, and cargo's target directory.
fn with_tools(run: Run) -> Run {
    let own = target_dir().join("python/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    run.env("PATH", &format!("{}:{path}", own.display()))
        .env("CARGO_TARGET_DIR", &target_dir().to_string_lossy())
}
