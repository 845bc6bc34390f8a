//! Rules about the crates: which crate may depend on which, which may have `unsafe` code, and why
//! each crate from a registry is used.
//!
//! `cargo metadata` reports the dependencies. The rules themselves are tables of pages, so that
//! pages and code say the same.

use std::collections::BTreeSet;

use serde_json::Value;

use super::prose::rows;
use super::sources::Source;
use crate::cargo;
use crate::command::output;

/// The page whose first table names each crate and the crates on which it may depend.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// The page whose table says why a crate from a registry is used.
const DEPENDENCIES: &str = "docs/dependencies.md";
const MAY_BE_UNSAFE: [&str; 2] = ["pagetables", "sys"];
/// Random inputs, on which the tests of every crate may depend.
const FOR_TESTS: &str = "fuzz";

/// A crate of the workspace.
struct Crate {
    name: String,
    /// All dependencies, also those of tests and build scripts.
    dependencies: Vec<Dependency>,
    /// The first file of each target.
    roots: Vec<String>,
}

/// One dependency of a crate.
struct Dependency {
    name: String,
    /// Whether it is in this workspace, not from a registry.
    is_ours: bool,
    /// Whether it is built into the crate, not only into its tests or build script.
    is_normal: bool,
}

pub(super) fn problems(files: &[Source], pages: &[Source]) -> Result<Vec<String>, String> {
    let crates = parse(&metadata()?);
    let page = |path: &str| {
        let page = pages.iter().find(|page| page.path == path);
        page.map_or("", |page| page.text.as_str())
    };
    let mut found = arrows(&crates, page(ARCHITECTURE));
    found.extend(reasons(&crates, page(DEPENDENCIES)));
    found.extend(unsafety(&crates, files));
    found.extend(engine(&crates, files));
    Ok(found)
}

fn metadata() -> Result<Value, String> {
    let text = output(&mut cargo("metadata --no-deps --format-version 1 --quiet"))?;
    serde_json::from_slice(&text)
        .map_err(|error| format!("cargo metadata printed no JSON: {error}"))
}

fn parse(metadata: &Value) -> Vec<Crate> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // Other crates name a crate without the project's prefix.
    let name = |value: &Value| text(&value["name"]).replacen("pagetide-", "", 1);
    let dependency = |value: &Value| Dependency {
        name: name(value),
        is_ours: value["path"].is_string(),
        is_normal: value["kind"].is_null(),
    };
    let folder = text(&metadata["workspace_root"]) + "/";
    let root = |target: &Value| text(&target["src_path"]).replacen(&folder, "", 1);
    let one = |package: &Value| {
        let dependencies = list(&package["dependencies"]);
        Crate {
            name: name(package),
            dependencies: dependencies.iter().map(dependency).collect(),
            roots: list(&package["targets"]).iter().map(root).collect(),
        }
    };
    list(&metadata["packages"]).iter().map(one).collect()
}

/// Returns the dependencies within the workspace that the page does not allow.
fn arrows(crates: &[Crate], page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let rows: Vec<Vec<&str>> = rows(page).collect();
    for Crate {
        name, dependencies, ..
    } in crates
    {
        let row = rows.iter().find(|row| row[0] == format!("`{name}`"));
        let Some(allowed) = row.and_then(|row| row.last()) else {
            found.push(format!("crate {name}: has no row in {ARCHITECTURE}"));
            continue;
        };
        // A crate may depend on itself: its tests need it with one of its features.
        let is_other = |other: &&Dependency| other.is_ours && other.name != *name;
        for Dependency {
            name: other,
            is_normal,
            ..
        } in dependencies.iter().filter(is_other)
        {
            let is_for_tests = other == FOR_TESTS && !is_normal;
            if !is_for_tests && !allowed.contains(&format!("`{other}`")) {
                found.push(format!(
                    "crate {name}: {ARCHITECTURE} does not allow {other}"
                ));
            }
        }
    }
    found
}

/// Compares the crates from registries with the page that says why they are used.
fn reasons(crates: &[Crate], page: &str) -> Vec<String> {
    let all = crates.iter().flat_map(|one| &one.dependencies);
    let used = all.filter(|other| !other.is_ours);
    let used: BTreeSet<&str> = used.map(|other| other.name.as_str()).collect();
    // The first row is the table's heading.
    let rows: Vec<Vec<&str>> = rows(page).skip(1).collect();
    let named: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let mut found = Vec::new();
    for name in used.iter().filter(|name| !named.contains(name)) {
        found.push(format!("{DEPENDENCIES}: no line says why {name} is used"));
    }
    for (name, row) in named.iter().zip(&rows) {
        if !used.contains(name) {
            found.push(format!(
                "{DEPENDENCIES}: {name} is used by no crate; remove its line"
            ));
        }
        if row.last().is_none_or(|why| why.is_empty()) {
            found.push(format!("{DEPENDENCIES}: {name} has no reason"));
        }
    }
    if !named.is_sorted() {
        found.push(format!("{DEPENDENCIES}: the lines are not sorted"));
    }
    found
}

/// Finds crates that do not forbid `unsafe` code and may not have it. (Where it is forbidden, the
/// compiler refuses it.)
fn unsafety(crates: &[Crate], files: &[Source]) -> Vec<String> {
    let others = (crates.iter()).filter(|one| !MAY_BE_UNSAFE.contains(&one.name.as_str()));
    let roots: Vec<&String> = others.flat_map(|one| &one.roots).collect();
    let is_open = |file: &&Source| {
        roots.contains(&&file.path) && !file.text.contains("#![forbid(unsafe_code)]")
    };
    let open = files.iter().filter(is_open);
    let found = open.map(|file| format!("{}: does not say #![forbid(unsafe_code)]", file.path));
    found.collect()
}

/// Checks that the engine can use no clock, thread, file, process, hash map or randomness: it is
/// without the standard library, which has these, and depends on no other crate.
fn engine(crates: &[Crate], files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for one in crates.iter().filter(|one| one.name == "engine") {
        let normal = one.dependencies.iter().filter(|other| other.is_normal);
        found.extend(normal.map(|other| format!("crate engine: may not depend on {}", other.name)));
    }
    let is_product =
        |path: &str| path.starts_with("crates/engine/src/") && !path.contains("/tests");
    for file in files.iter().filter(|file| is_product(&file.path)) {
        let is_root = file.path.ends_with("src/lib.rs");
        let has_std = file
            .tokens()
            .windows(2)
            .any(|two| two[0].text == "crate" && two[1].text == "std" && !two[1].is_test);
        if has_std || is_root && !file.text.contains("#![no_std]") {
            found.push(format!("{}: the engine is #![no_std]", file.path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| crate | what | may depend on |\n|---|---|---|\n\
        | `engine` | decisions | no other crate |\n| `cli` | the program | `engine`, `host` |\n";
    const REASONS: &str = "| crate | used by | why |\n|---|---|---|\n";

    fn depends(name: &str, on: &str, is_ours: bool, is_normal: bool) -> Vec<Crate> {
        let dependency = Dependency {
            name: on.to_owned(),
            is_ours,
            is_normal,
        };
        vec![Crate {
            name: name.to_owned(),
            dependencies: vec![dependency],
            roots: vec![format!("crates/{name}/src/lib.rs")],
        }]
    }

    #[test]
    fn the_metadata_of_this_workspace_are_read() {
        let crates = parse(&metadata().expect("cargo works"));
        let engine = crates.iter().find(|one| one.name == "engine");
        assert_eq!(
            engine.expect("it is there").roots[0],
            "crates/engine/src/lib.rs"
        );
        let own = crates
            .iter()
            .find(|one| one.name == "xtask")
            .expect("it is there");
        let of = |name: &str| own.dependencies.iter().find(|one| one.name == name);
        assert!(of("syn").is_some_and(|one| !one.is_ours && one.is_normal));
        assert!(of("touches").is_some_and(|one| one.is_ours));
    }

    #[test]
    fn a_wrong_dependency_and_an_unknown_crate_are_found() {
        assert_eq!(
            arrows(&depends("engine", "host", true, true), TABLE).len(),
            1
        );
        assert_eq!(
            arrows(&depends("engine", "sim", true, false), TABLE).len(),
            1
        );
        assert_eq!(
            arrows(&depends("newcomer", "engine", true, true), TABLE).len(),
            1
        );
        assert_eq!(arrows(&depends("cli", "host", true, true), TABLE), [""; 0]);
        assert_eq!(arrows(&depends("cli", "fuzz", true, false), TABLE), [""; 0]);
        assert_eq!(arrows(&depends("cli", "fuzz", true, true), TABLE).len(), 1);
    }

    #[test]
    fn a_registry_crate_needs_a_reason() {
        let clap = depends("cli", "clap", false, true);
        let of = |rows: &str| reasons(&clap, &format!("{REASONS}{rows}")).len();
        assert_eq!(of("| clap | cli | arguments |\n"), 0);
        assert_eq!((of(""), of("| clap | cli | |\n")), (1, 1));
        assert_eq!(
            of("| clap | cli | arguments |\n| serde | cli | reports |\n"),
            1
        );
        assert_eq!(
            of("| serde | cli | reports |\n| clap | cli | arguments |\n"),
            2
        );
    }

    #[test]
    fn a_root_that_does_not_forbid_unsafe_code_is_found() {
        let of = |name: &str, text: &str| {
            let file = Source::new(&format!("crates/{name}/src/lib.rs"), text);
            unsafety(&depends(name, "clap", false, true), &[file]).len()
        };
        assert_eq!((of("host", "//! x"), of("sys", "//! x")), (1, 0));
        assert_eq!(of("host", "#![forbid(unsafe_code)]"), 0);
    }

    #[test]
    fn an_engine_with_std_or_a_dependency_is_found() {
        let of = |text: &str| {
            let file = Source::new("crates/engine/src/lib.rs", text);
            engine(&[], &[file]).len()
        };
        assert_eq!((of("//! x"), of("#![no_std]\nextern crate std;")), (1, 1));
        assert_eq!(of("#![no_std]\n#[cfg(test)]\nextern crate std;"), 0);
        assert_eq!(
            engine(&depends("engine", "serde", false, true), &[]).len(),
            1
        );
        assert_eq!(
            engine(&depends("engine", "proptest", false, false), &[]),
            [""; 0]
        );
    }
}
