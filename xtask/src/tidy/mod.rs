//! `cargo xtask tidy`: checks rules of this repository that no compiler checks.
//!
//! Each rule is a function from texts to problems, so that a unit test can show a failure.

mod tokens;

mod sources;

mod prose;

mod access;
mod citations;
mod clock;
mod crates;
mod floors;
mod lengths;
mod links;
mod names;
mod surface;
mod words;

use crate::root;

/// Returns every problem found in this workspace, one line each; empty if there are none.
///
/// # Errors
/// If the workspace cannot be read.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let (files, pages) = sources::read()?;
    let mut found = crates::problems(&files, &pages)?;
    found.extend(access::problems(&files));
    found.extend(lengths::problems(&files));
    found.extend(floors::problems(&files));
    found.extend(clock::problems(&files));
    found.extend(citations::problems(&files, &pages));
    found.extend(citations::problems(&pages, &pages));
    found.extend(links::problems(&pages, |path| root().join(path).exists()));
    found.extend(names::problems(&files, &pages));
    found.extend(prose::problems(&files, &pages));
    found.extend(words::problems(&files, &pages));
    found.extend(surface::problems(&files)?);
    for name in ["rust-toolchain", "rust-toolchain.toml"] {
        if root().join(name).exists() {
            found.push(format!(
                "{name}: the toolchain is the user's choice; remove the file"
            ));
        }
    }
    Ok(found)
}

/// Writes the snapshots of the crates' public items.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn renew_surface() -> Result<(), String> {
    let (files, _) = sources::read()?;
    surface::renew(&files)
}

/// Prints what [`problems`] finds.
///
/// # Errors
/// If it finds any.
pub(crate) fn run() -> Result<(), String> {
    let found = problems()?;
    for problem in &found {
        println!("{problem}");
    }
    println!("tidy: {} problems", found.len());
    match found.is_empty() {
        true => Ok(()),
        false => Err("tidy has found problems".to_owned()),
    }
}
