//! The output of `cargo metadata` about the workspace's own crates.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// One dependency of one crate, of any kind (normal, dev, build).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Whether the dependency is in this workspace, not from a registry.
    pub(crate) is_ours: bool,
    /// Whether the dependency is built into the crate, not only into its tests or build script.
    pub(crate) is_normal: bool,
}

/// The crates, their dependencies, and the root files of their targets.
#[derive(Clone, Default, Debug)]
pub(crate) struct Metadata {
    pub(crate) crates: BTreeSet<String>,
    pub(crate) edges: Vec<Edge>,
    /// Name of a crate, and path of a target's first file, relative to the workspace.
    pub(crate) roots: Vec<(String, String)>,
}

/// Reads the metadata with `cargo metadata`.
///
/// # Errors
/// If cargo cannot be run or its output is not as documented.
pub(crate) fn read(workspace: &Path) -> Result<Metadata, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version", "1", "--quiet"])
        .current_dir(workspace)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let json = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
    Ok(parse(&json, workspace))
}

fn parse(json: &Value, workspace: &Path) -> Metadata {
    let mut metadata = Metadata::default();
    for package in list(&json["packages"]) {
        let name = short(&package["name"]);
        metadata.crates.insert(name.clone());
        for dependency in list(&package["dependencies"]) {
            metadata.edges.push(Edge {
                from: name.clone(),
                to: short(&dependency["name"]),
                is_ours: dependency["path"].is_string(),
                is_normal: dependency["kind"].is_null(),
            });
        }
        for target in list(&package["targets"]) {
            let path = text(&target["src_path"]);
            let relative = Path::new(&path)
                .strip_prefix(workspace)
                .unwrap_or(Path::new(&path));
            metadata
                .roots
                .push((name.clone(), relative.to_string_lossy().into_owned()));
        }
    }
    metadata
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a crate's name without the project's prefix, as other crates name it.
fn short(name: &Value) -> String {
    let name = text(name);
    let short = name.strip_prefix("pagetide-").map(str::to_owned);
    short.unwrap_or(name)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_crates_edges_and_roots() {
        let json = serde_json::json!({"packages": [{
            "name": "cli",
            "dependencies": [
                {"name": "pager", "path": "/w/crates/pager", "kind": null},
                {"name": "clap", "kind": null},
                {"name": "proptest", "kind": "dev"}],
            "targets": [{"src_path": "/w/crates/cli/src/main.rs"}]}]});
        let metadata = parse(&json, Path::new("/w"));
        assert!(metadata.crates.contains("cli"));
        let ours: Vec<bool> = metadata.edges.iter().map(|edge| edge.is_ours).collect();
        assert_eq!(ours, [true, false, false]);
        let normal: Vec<bool> = metadata.edges.iter().map(|edge| edge.is_normal).collect();
        assert_eq!(normal, [true, true, false]);
        assert_eq!(
            metadata.roots,
            [("cli".to_owned(), "crates/cli/src/main.rs".to_owned())]
        );
    }

    #[test]
    fn this_workspace_has_an_engine() {
        let metadata = read(&crate::root()).expect("cargo metadata works here");
        assert!(metadata.crates.contains("engine"));
    }
}
