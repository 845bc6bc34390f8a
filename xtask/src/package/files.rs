//! The files of the package, at the paths that Debian requires.
//!
//! Invariant: manual and completions are printed by the program that is packaged, so they match its
//! version.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::stage::Entry;
use super::{control, output, third_party};
use crate::root;

const DOC: &str = "usr/share/doc/pagetide";
/// Names of shells, and the path where Debian's version of each looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/pagetide"),
    ("zsh", "usr/share/zsh/vendor-completions/_pagetide"),
    ("fish", "usr/share/fish/vendor_completions.d/pagetide.fish"),
];
/// Files of this repository, and their paths in the package.
const OURS: [(&str, &str); 3] = [
    ("dist/pagetide.toml", "usr/share/pagetide/pagetide.toml"),
    (
        "dist/pagetide.service",
        "lib/systemd/system/pagetide.service",
    ),
    ("dist/debian/copyright", "usr/share/doc/pagetide/copyright"),
];
/// Folders of this repository that hold examples.
const EXAMPLES: [&str; 4] = ["grafana", "kubernetes", "policies", "prometheus"];
/// Pages that commands and samples refer to.
const PAGES: [&str; 7] = [
    "formats.md",
    "interfaces.md",
    "known-gaps.md",
    "policies.md",
    "simulator.md",
    "traces.md",
    "usage.md",
];

/// Returns all files, sorted by path.
///
/// # Errors
/// If a file of this repository is missing, or the program prints no manual.
pub(super) fn all(program: &Path, epoch: u64) -> Result<Vec<Entry>, String> {
    let mut files = vec![Entry::program("usr/bin/pagetide", read(program)?)];
    for (from, to) in OURS {
        files.push(Entry::new(to, read(&root().join(from))?));
    }
    for (shell, path) in COMPLETIONS {
        let text = output(Command::new(program).args(["completions", shell]))?;
        files.push(Entry::new(path, text));
    }
    files.extend(manual(program)?);
    for folder in EXAMPLES {
        for (name, bytes) in folder_of(&root().join("dist").join(folder))? {
            files.push(Entry::new(format!("{DOC}/examples/{folder}/{name}"), bytes));
        }
    }
    for (name, bytes) in folder_of(&root().join("examples"))? {
        if name.ends_with(".toml") {
            files.push(Entry::new(format!("{DOC}/examples/{name}"), bytes));
        }
    }
    let sample = read(&root().join("dist/pagetide.toml"))?;
    files.push(Entry::new(format!("{DOC}/examples/pagetide.toml"), sample));
    for name in PAGES {
        let text = read(&root().join("docs").join(name))?;
        files.push(Entry::new(format!("{DOC}/docs/{name}.gz"), gzip(&text)?));
    }
    let changelog = control::changelog(epoch)?;
    for (name, text) in [
        ("changelog.Debian", changelog),
        ("third-party.txt", third_party::text()?),
    ] {
        files.push(Entry::new(
            format!("{DOC}/{name}.gz"),
            gzip(text.as_bytes())?,
        ));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Returns the manual page of each command, compressed as Debian requires.
fn manual(program: &Path) -> Result<Vec<Entry>, String> {
    let folder = program.with_extension("man");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let written = output(Command::new(program).args(["man", "--to"]).arg(&folder));
    let pages = written.and_then(|_| folder_of(&folder));
    let _ = std::fs::remove_dir_all(&folder);
    let pages = pages?.into_iter();
    pages
        .map(|(name, text)| {
            let path = format!("usr/share/man/man1/{name}.gz");
            Ok(Entry::new(path, gzip(&text)?))
        })
        .collect()
}

/// Returns name and contents of each file in a folder.
fn folder_of(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((name, read(&entry.path())?));
    }
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Compresses with gzip(1) as much as possible, without file name and time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    through("gzip", &["-9n"], bytes)
}

/// Returns the output of a filter program for these bytes.
///
/// # Errors
/// If the filter cannot be run, or fails.
pub(super) fn through(program: &str, args: &[&str], bytes: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot run {program}: {error}");
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let input = child.stdin.take();
    let bytes = bytes.to_vec();
    // The filter may write before it has read everything, so another thread writes its input.
    let writer = std::thread::spawn(move || input.map(|mut input| input.write_all(&bytes)));
    let output = child.wait_with_output().map_err(failed)?;
    let written = writer
        .join()
        .ok()
        .flatten()
        .is_some_and(|written| written.is_ok());
    match output.status.success() && written {
        true => Ok(output.stdout),
        false => Err(format!("{program} ended with {}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_more_than_a_pipe_holds() {
        let bytes = vec![b'x'; 300_000];
        assert_eq!(through("cat", &[], &bytes), Ok(bytes.clone()));
        assert!(gzip(&bytes).unwrap().len() < 1000);
        assert!(through("false", &[], &bytes).is_err());
    }

    #[test]
    fn what_is_packaged_is_there() {
        for (from, _) in OURS {
            assert!(root().join(from).is_file(), "{from}");
        }
        for folder in EXAMPLES {
            let files = folder_of(&root().join("dist").join(folder)).unwrap();
            assert!(!files.is_empty(), "{folder}");
        }
    }
}
