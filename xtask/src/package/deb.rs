//! Builds the .deb package.
//!
//! Invariant: the package is made from an existing program, so that a test can package the program
//! that it has. dpkg-deb(1) is the only tool of Debian that is needed. The maintainer's scripts are
//! complete files in `dist/debian`, not parts that a helper joins.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::{Entry, Stage};
use super::{control, epoch, files, needed, output, stripped};
use crate::root;

/// The maintainer's scripts. There is no postrm and there are no conffiles: for either, dpkg would
/// keep a part of the package after its removal.
const SCRIPTS: [&str; 2] = ["postinst", "prerm"];

/// Packages a program; returns the path of the package.
///
/// # Errors
/// If a tool fails, or the program needs a library of no known package.
pub(super) fn build(binary: &Path, out: &Path) -> Result<PathBuf, String> {
    let epoch = epoch()?;
    let stage = Stage::new(out)?;
    let program = out.join(format!(".pagetide-{}", std::process::id()));
    let built = stripped(binary, &program).and_then(|()| {
        let depends = needed::packages(&program)?;
        let files = files::all(&program, epoch)?;
        stage.put(&files)?;
        stage.put(&about(&depends, &files)?)
    });
    let _ = std::fs::remove_file(&program);
    built?;
    stage.seal(epoch)?;
    let deb = out.join(format!(
        "pagetide_{}_{}.deb",
        control::VERSION,
        control::ARCHITECTURE
    ));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"])
        .arg(stage.path())
        .arg(&deb)
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        // The number of threads would change the bytes.
        .env("DPKG_DEB_THREADS_MAX", "1");
    output(&mut dpkg)?;
    Ok(deb)
}

/// Returns the files of the package that are for dpkg itself.
fn about(depends: &str, files: &[Entry]) -> Result<Vec<Entry>, String> {
    let mut about = vec![
        control::control(depends, files),
        Entry::new("DEBIAN/md5sums", sums(files)?),
    ];
    for name in SCRIPTS {
        let file = root().join("dist/debian").join(name);
        let text = std::fs::read(&file);
        let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        about.push(Entry::program(format!("DEBIAN/{name}"), text));
    }
    Ok(about)
}

/// Returns lines `sum  path`, with which `dpkg --verify` finds changed files.
fn sums(files: &[Entry]) -> Result<String, String> {
    let mut text = String::new();
    for file in files {
        let sum = files::through("md5sum", &[], &file.bytes)?;
        let sum = String::from_utf8_lossy(&sum);
        let sum = sum.split(' ').next().unwrap_or_default();
        text += &format!("{sum}  {}\n", file.path);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_md5sum() {
        let text = sums(&[Entry::new("usr/x", "a\n")]).unwrap();
        assert_eq!(text, "60b725f10c9c85c70d97880dfe8191b3  usr/x\n");
    }

    #[test]
    fn the_scripts_are_there_and_a_shell_reads_them() {
        for name in SCRIPTS {
            let file = root().join("dist/debian").join(name);
            output(Command::new("sh").arg("-n").arg(&file)).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(
                text.starts_with("#!/bin/sh\n") && text.contains("set -e\n"),
                "{name}"
            );
        }
    }
}
