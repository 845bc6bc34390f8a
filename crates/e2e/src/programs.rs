//! The test programs in `tests/programs`, built when their sources are newer.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::temp::target_dir;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs")
}

/// A source file, for an interpreter.
///
/// # Panics
/// If there is none of this name.
#[must_use]
pub fn source(name: &str) -> String {
    let path = sources().join(name);
    let path = path
        .canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path.to_string_lossy().into_owned()
}

fn newest(files: &[PathBuf]) -> Option<std::time::SystemTime> {
    files
        .iter()
        .filter_map(|file| file.metadata().ok()?.modified().ok())
        .max()
}

/// Where the result of building `files` lies; builds it if it is older than they are.
fn build(name: &str, files: &[PathBuf], run: impl FnOnce(&Path) -> Command) -> String {
    let folder = target_dir().join("e2e/programs");
    std::fs::create_dir_all(&folder).expect("the target directory is writable");
    let out = folder.join(name);
    let built = out.metadata().and_then(|meta| meta.modified()).ok();
    if built.is_none() || built < newest(files) {
        let result = run(&out)
            .output()
            .unwrap_or_else(|error| panic!("building {name}: {error}"));
        let text = String::from_utf8_lossy(&result.stderr).into_owned();
        assert!(
            result.status.success() && text.is_empty(),
            "building {name}:\n{text}"
        );
    }
    out.to_string_lossy().into_owned()
}

/// An example of a crate of ours: of the folder `PAGETIDE_EXAMPLES`, else built by the cargo that runs the tests.
///
/// (The story: beside two busy loops a test waited a quarter of an hour for cargo's lock, which what is built beside the
/// tests at the lowest priority held.)
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn example(package: &str, name: &str) -> String {
    if let Some(folder) = std::env::var_os("PAGETIDE_EXAMPLES") {
        let path = Path::new(&folder).join(name);
        return path.to_string_lossy().into_owned();
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", package, "--example", name])
        .arg("--target-dir")
        .arg(target_dir())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap_or_else(|error| panic!("building {name}: {error}"));
    let text = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "building {name}:\n{text}");
    let path = target_dir().join("debug/examples").join(name);
    path.to_string_lossy().into_owned()
}

fn with_ending(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is = |path: &PathBuf| {
        path.extension()
            .is_some_and(|end| endings.iter().any(|e| end == *e))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is).collect();
    files.sort();
    files
}

fn compile_c(name: &str, units: &[PathBuf], flags: &[&str]) -> String {
    let mut watched = units.to_vec();
    watched.extend(with_ending(&sources(), &["h"]));
    watched.extend(
        units
            .first()
            .into_iter()
            .flat_map(|unit| with_ending(unit.parent().unwrap_or(unit), &["h"])),
    );
    build(name, &watched, |out| {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-pthread", "-Wall", "-Wextra"])
            .args(flags)
            .arg("-o")
            .arg(out);
        cc.args(units).arg("-lm");
        cc
    })
}

/// A program of one C file, `tests/programs/NAME.c`. A warning is an error.
#[must_use]
pub fn c(name: &str) -> String {
    compile_c(name, &[sources().join(format!("{name}.c"))], &[])
}

/// The same, with more flags, under another name.
#[must_use]
pub fn c_as(name: &str, built_name: &str, flags: &[&str]) -> String {
    compile_c(built_name, &[sources().join(format!("{name}.c"))], flags)
}

/// A program that is a folder of C files, `tests/programs/NAME/`.
#[must_use]
pub fn folder(name: &str) -> String {
    folder_as(name, name, &[])
}

/// The same, with more flags, under another name.
#[must_use]
pub fn folder_as(name: &str, built_name: &str, flags: &[&str]) -> String {
    compile_c(
        built_name,
        &with_ending(&sources().join(name), &["c"]),
        flags,
    )
}

/// The hostile workload.
#[must_use]
pub fn hostile() -> String {
    folder("hostile")
}

/// A static Go program.
#[must_use]
pub fn go(name: &str) -> String {
    let file = sources().join(format!("{name}.go"));
    build(name, std::slice::from_ref(&file), |out| {
        let mut go = Command::new("go");
        go.args(["build", "-o"])
            .arg(out)
            .arg(&file)
            .env("CGO_ENABLED", "0");
        go
    })
}

/// The folder with the classes of a Java program.
#[must_use]
pub fn java(name: &str) -> String {
    let file = sources().join(format!("{name}.java"));
    build(
        &format!("{name}.classes"),
        std::slice::from_ref(&file),
        |out| {
            let mut javac = Command::new("javac");
            javac.arg("-d").arg(out).arg(&file);
            javac
        },
    )
}
