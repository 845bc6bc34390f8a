//! Rule: the public items of each crate that can be published are those of its `surface.txt`, so
//! that no change of them passes unseen.
//!
//! Invariant: what has the word `pub` is public, also in a private module, because the compiler's
//! lint `unreachable_pub` refuses other uses of the word. So each module is listed by itself:
//! sources are parsed, not compiled, and what a macro makes is listed as the macro's call.

use std::collections::BTreeSet;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Visibility};

use super::sources::Source;

/// Returns a problem for each crate whose public items are not those of its snapshot.
pub(super) fn problems(root: &Path, files: &[Source]) -> Vec<String> {
    let of = |name: &String| {
        let before = std::fs::read_to_string(snapshot(root, name)).unwrap_or_default();
        difference(name, &before, &surface(name, files))
    };
    published(root).iter().filter_map(of).collect()
}

/// Writes the snapshots of all crates.
pub(super) fn renew(root: &Path, files: &[Source]) -> std::io::Result<()> {
    let write = |name: &String| std::fs::write(snapshot(root, name), surface(name, files));
    published(root).iter().try_for_each(write)
}

/// Returns the folders in `crates` of the crates that can be published, sorted.
fn published(root: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .flatten();
    let is_published = |folder: &std::fs::DirEntry| {
        let manifest = std::fs::read_to_string(folder.path().join("Cargo.toml"));
        manifest.is_ok_and(|text| !text.contains("publish = false"))
    };
    let names = folders
        .filter(is_published)
        .map(|folder| folder.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn snapshot(root: &Path, name: &str) -> std::path::PathBuf {
    root.join("crates").join(name).join("surface.txt")
}

fn difference(name: &str, before: &str, now: &str) -> Option<String> {
    let only = |one: &str, other: &str, sign: char| -> String {
        let new = one
            .lines()
            .filter(|line| other.lines().all(|has| has != *line));
        new.map(|line| format!("\n  {sign} {line}")).collect()
    };
    let (gone, new) = (only(before, now, '-'), only(now, before, '+'));
    (before != now).then(|| {
        format!(
            "crates/{name}/surface.txt: the public items have changed; if that is meant, run \
             `cargo xtask surface` and commit the file{gone}{new}"
        )
    })
}

/// Returns the public items of a crate, one a line, sorted: its module, then the item.
fn surface(name: &str, files: &[Source]) -> String {
    let folder = format!("crates/{name}/src/");
    let mut lines = Vec::new();
    for file in files {
        let path = file
            .path
            .strip_prefix(&folder)
            .and_then(|path| path.strip_suffix(".rs"));
        let Some(path) = path.filter(|path| !path.split('/').any(|part| part == "tests")) else {
            continue;
        };
        let module = path.trim_end_matches("/mod").replace('/', "::");
        let items = syn::parse_file(&file.text).map_or(Vec::new(), |file| file.items);
        lines.extend(
            items
                .iter()
                .flat_map(described)
                .map(|item| format!("{module}: {item}")),
        );
    }
    // What a private type implements is not public.
    let types = lines
        .iter()
        .filter_map(|line| after(line, ": struct ").or(after(line, ": enum ")));
    let types: BTreeSet<String> = types.map(str::to_owned).collect();
    let is_private = |line: &str| after(line, " for ").is_none_or(|of| !types.contains(of));
    lines.retain(|line| !line.contains(": impl ") || !is_private(line));
    lines.sort();
    lines.join("\n") + "\n"
}

/// Returns the word of a line that follows `mark`.
fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark)?.1.split(' ').next()
}

/// Returns what is public of an item: its types, its fields, variants and methods, one a line.
fn described(item: &Item) -> Vec<String> {
    match item {
        Item::Const(item) => public(&item.vis, || {
            format!("const {}: {}", item.ident, text(&item.ty))
        }),
        Item::Fn(item) => public(&item.vis, || text(&item.sig)),
        Item::Mod(item) if item.attrs.iter().any(|one| text(one).contains("test")) => Vec::new(),
        Item::Mod(item) => {
            let below = item.content.iter().flat_map(|(_, items)| items);
            let own = public(&item.vis, || format!("mod {}", item.ident));
            own.into_iter().chain(below.flat_map(described)).collect()
        }
        Item::Type(item) => public(&item.vis, || text(item)),
        Item::Use(item) => public(&item.vis, || text(item)),
        Item::Macro(item) if item.ident.is_none() && !item.mac.path.is_ident("thread_local") => {
            vec![text(&item.mac)]
        }
        Item::Struct(item) => {
            let own = format!(
                "struct {} {} {}",
                item.ident,
                text(&item.generics),
                attributes(&item.attrs)
            );
            let own = public(&item.vis, || own);
            own.into_iter()
                .chain(fields(&item.ident, &item.fields, false))
                .collect()
        }
        Item::Enum(item) if is_public(&item.vis) => {
            let own = format!(
                "enum {} {} {}",
                item.ident,
                text(&item.generics),
                attributes(&item.attrs)
            );
            let variants = item.variants.iter().flat_map(|one| {
                let name = format!("{}::{}", item.ident, one.ident);
                std::iter::once(name.clone()).chain(fields(&name, &one.fields, true))
            });
            std::iter::once(own).chain(variants).collect()
        }
        Item::Trait(item) if is_public(&item.vis) => {
            let own = format!(
                "trait {} {} : {}",
                item.ident,
                text(&item.generics),
                text(&item.supertraits)
            );
            let items = item.items.iter().map(|one| match one {
                TraitItem::Fn(one) if one.default.is_some() => {
                    format!("{}::{} {{ .. }}", item.ident, text(&one.sig))
                }
                TraitItem::Fn(one) => format!("{}::{}", item.ident, text(&one.sig)),
                one => format!("{}::{}", item.ident, text(one)),
            });
            std::iter::once(own).chain(items).collect()
        }
        Item::Impl(item) => implemented(item),
        _ => Vec::new(),
    }
}

/// Returns a line for each public field; of a variant, `all` fields are public.
fn fields(of: &impl std::fmt::Display, fields: &Fields, all: bool) -> Vec<String> {
    let shown = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| all || is_public(&field.vis));
    let shown = shown.map(|(at, field)| {
        let name = field
            .ident
            .as_ref()
            .map_or(at.to_string(), ToString::to_string);
        format!("{of}.{name}: {}", text(&field.ty))
    });
    shown.collect()
}

/// Returns the public functions and constants of an `impl`, or the trait that it implements.
fn implemented(item: &syn::ItemImpl) -> Vec<String> {
    let of = text(&item.self_ty);
    if let Some((_, name, _)) = &item.trait_ {
        return vec![format!(
            "impl {} {} for {of}",
            text(&item.generics),
            text(name)
        )];
    }
    let known = item.items.iter().flat_map(|one| match one {
        ImplItem::Fn(one) => public(&one.vis, || format!("{of}::{}", text(&one.sig))),
        ImplItem::Const(one) => public(&one.vis, || {
            format!("{of}::{}: {}", one.ident, text(&one.ty))
        }),
        _ => Vec::new(),
    });
    known.collect()
}

/// Returns those attributes that callers see: what is derived, and what may still change.
fn attributes(all: &[Attribute]) -> String {
    let is_seen = |one: &&Attribute| {
        ["derive", "non_exhaustive"]
            .iter()
            .any(|name| one.path().is_ident(name))
    };
    all.iter().filter(is_seen).map(text).collect()
}

fn public(vis: &Visibility, line: impl FnOnce() -> String) -> Vec<String> {
    is_public(vis).then(line).into_iter().collect()
}

const fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

/// Returns a part's code, its tokens apart, without the last comma of a list.
fn text(part: &impl ToTokens) -> String {
    part.to_token_stream().to_string().replace(" ,)", ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_item_is_found_and_the_message_says_how_to_renew() {
        let of = |text: &str| surface("sys", &[Source::new("crates/sys/src/peer.rs", text)]);
        let before = of("pub struct Peer { pub id: u32, socket: u8 }\nfn own() {}\n");
        assert_eq!(before, "peer: Peer.id: u32\npeer: struct Peer  \n");
        let now = of("pub struct Peer { pub id: u32 }\nimpl Peer { pub fn new() -> Peer {} }\n");
        let problem = difference("sys", &before, &now).expect("it differs");
        assert!(problem.contains("`cargo xtask surface`"), "{problem}");
        assert!(
            problem.ends_with("file\n  + peer: Peer::fn new () -> Peer"),
            "{problem}"
        );
        assert_eq!(difference("sys", &now, &now), None);
        assert_eq!(
            of("struct Own;\nimpl Drop for Own { fn drop(&mut self) {} }"),
            "\n"
        );
    }
}
