//! Builds the test programs in `tests/programs` if their sources are newer than what was built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::temp::target_dir;

/// The folder of the sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs")
}

/// Path of a source file, for an interpreter.
///
/// # Panics
/// If there is no such file.
#[must_use]
pub fn source(name: &str) -> String {
    let path = sources().join(name);
    let path = path
        .canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path.to_string_lossy().into_owned()
}

/// Time of the latest change of any of the files.
fn newest(files: &[PathBuf]) -> Option<std::time::SystemTime> {
    files
        .iter()
        .filter_map(|file| file.metadata().ok()?.modified().ok())
        .max()
}

/// Builds `name` with the command that `run` makes from the output path, if the output is older
/// than `files`; returns the output path.
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

/// Path of an example program of a crate of this workspace. It is taken from the folder
/// `PAGETIDE_EXAMPLES`; without that variable the cargo that runs the tests builds it.
///
/// Regression: a test waited a quarter of an hour for cargo's lock. A build at the lowest priority
/// had it, and got no processor time beside two busy loops.
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

/// Files in `folder` whose extension is one of `endings`, sorted.
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

/// Compiles C files to the program `name`; headers beside the first file count as sources, too.
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

/// Compiles the C file `tests/programs/NAME.c`; returns the program's path. A warning is an error.
#[must_use]
pub fn c(name: &str) -> String {
    compile_c(name, &[sources().join(format!("{name}.c"))], &[])
}

/// Like [`c`], with more compiler flags; the program is called `built_name`.
#[must_use]
pub fn c_as(name: &str, built_name: &str, flags: &[&str]) -> String {
    compile_c(built_name, &[sources().join(format!("{name}.c"))], flags)
}

/// Compiles the C files in `tests/programs/NAME/` to one program; returns its path.
#[must_use]
pub fn folder(name: &str) -> String {
    folder_as(name, name, &[])
}

/// Like [`folder`], with more compiler flags; the program is called `built_name`.
#[must_use]
pub fn folder_as(name: &str, built_name: &str, flags: &[&str]) -> String {
    compile_c(
        built_name,
        &with_ending(&sources().join(name), &["c"]),
        flags,
    )
}

/// Compiles the hostile workload `tests/programs/hostile`; returns its path.
#[must_use]
pub fn hostile() -> String {
    folder("hostile")
}

/// Compiles the Go file `tests/programs/NAME.go` to a static program; returns its path.
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

/// Compiles the Java file `tests/programs/NAME.java`; returns the folder with the classes.
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
