//! Builds the .deb package with debhelper, from the files in `dist/debian`.
//!
//! Invariant: the package is made from an existing program, so that a test can package the program
//! that it has. The maintainer's scripts are complete files, not parts that a helper joins. There
//! is no postrm and there are no conffiles, for which dpkg would keep a part of the package after
//! its removal.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::third_party;
use crate::command::{output, text};
use crate::{names, needs, root};

/// Version of the package: pagetide's version and Debian's revision.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-1");
/// Folders of this repository with files of the package.
const FOLDERS: [&str; 3] = ["dist", "docs", "examples"];

/// Packages a program; returns the path of the package.
///
/// # Errors
/// If a tool fails.
pub(super) fn build(program: &Path, out: &Path) -> Result<PathBuf, String> {
    needs::require(&["dh_builddeb", "dpkg-shlibdeps", "make", "strip"])?;
    let program = std::path::absolute(program).map_err(|error| error.to_string())?;
    let stage = out.join(format!(".stage-{}", std::process::id()));
    let built = fill(&stage).and_then(|()| {
        let mut make = Command::new("make");
        make.args(["--no-print-directory", "-f", "debian/rules", "binary"])
            .current_dir(&stage)
            .env("PROGRAM", program)
            .env("VERSION", VERSION)
            .env("SOURCE_DATE_EPOCH", epoch()?)
            // The number of threads would change the bytes.
            .env("DPKG_DEB_THREADS_MAX", "1");
        output(&mut make)
    });
    // The next build of a process with the same id removes what is left.
    let _ = std::fs::remove_dir_all(&stage);
    built?;
    Ok(out.join(format!("pagetide_{VERSION}_amd64.deb")))
}

/// Makes the folder in which debhelper runs.
fn fill(stage: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", stage.display());
    let (from, to) = (root().join("dist/debian"), stage.join("debian"));
    let _ = std::fs::remove_dir_all(stage);
    std::fs::create_dir_all(&to).map_err(failed)?;
    for folder in FOLDERS {
        symlink(root().join(folder), stage.join(folder)).map_err(failed)?;
    }
    for name in names(&from, "")? {
        std::fs::copy(from.join(&name), to.join(&name)).map_err(failed)?;
    }
    std::fs::write(stage.join("third-party.txt"), third_party::text()?).map_err(failed)
}

/// Returns the time of the commit that is built, in seconds since 1970; no file of the package is
/// newer.
fn epoch() -> Result<String, String> {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let read = || text(Command::new("git").args(["log", "-1", "--format=%ct"]));
    let time = given.map_or_else(read, Ok).map_err(|why| {
        format!("{why}\nset SOURCE_DATE_EPOCH to the time of the sources, in seconds")
    })?;
    Ok(time.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_are_there_and_a_shell_reads_them() {
        for name in ["postinst", "prerm"] {
            let file = root().join("dist/debian").join(name);
            output(Command::new("sh").arg("-n").arg(&file)).expect("it is a script");
            let text = std::fs::read_to_string(&file).expect("it is there");
            let begins = text.starts_with("#!/bin/sh\n") && text.contains("set -e\n");
            assert!(begins, "{name}");
        }
    }
}
