//! `cargo xtask tidy`: checks rules of this repository that no compiler checks.
//!
//! Each rule is a function from texts to problems, so that a unit test can show a failure.

mod access;
mod arrows;
mod citations;
mod clock;
mod code;
mod dependencies;
mod engine;
mod floors;
mod functions;
mod links;
mod metadata;
mod names;
mod prose;
mod sizes;
mod sources;
mod surface;
mod unsafety;
mod words;

use crate::root;

/// Returns every problem found in this workspace, one line each; empty if there are none.
pub(crate) fn problems() -> Vec<String> {
    let metadata = match metadata::read(&root()) {
        Ok(metadata) => metadata,
        Err(why) => return vec![why],
    };
    let files = sources::read(&root());
    let mut found = arrows::problems(&metadata);
    found.extend(access::problems(&files));
    found.extend(unsafety::problems(&metadata.roots, &files));
    found.extend(sizes::problems(&files));
    found.extend(functions::problems(&files));
    found.extend(floors::problems(&files));
    found.extend(engine::problems(&metadata, &files));
    found.extend(clock::problems(&files));
    let pages = citations::read(&root());
    let named = citations::Pages::of(&pages);
    found.extend(citations::problems(&named, &files));
    found.extend(citations::problems(&named, &pages));
    found.extend(links::problems(&pages, |path| root().join(path).exists()));
    found.extend(names::problems(&files, &pages));
    found.extend(prose::problems(&files, &pages));
    found.extend(words::Replaced::of(&pages).problems(&files, &pages));
    let table = std::fs::read_to_string(root().join(dependencies::TABLE)).unwrap_or_default();
    found.extend(dependencies::problems(&metadata, &table));
    found.extend(surface::problems(&root(), &files));
    for name in ["rust-toolchain", "rust-toolchain.toml"] {
        if root().join(name).exists() {
            found.push(format!(
                "{name}: the toolchain is the user's choice; remove the file"
            ));
        }
    }
    found
}

/// Writes the snapshots of the crates' public items; returns whether that went well.
pub(crate) fn renew_surface() -> bool {
    let renewed = surface::renew(&root(), &sources::read(&root()));
    renewed
        .inspect_err(|why| println!("surface: {why}"))
        .is_ok()
}

/// Prints what [`problems`] finds; returns whether there are none.
pub(crate) fn run() -> bool {
    let found = problems();
    for problem in &found {
        println!("{problem}");
    }
    println!("tidy: {} problems", found.len());
    found.is_empty()
}
