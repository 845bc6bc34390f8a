//! Rule: the public items of each crate that can be published are those of its `surface.txt`, so
//! that a change of them is seen in review.
//!
//! Invariant: what has the word `pub` is public, also in a private module, because the compiler's
//! lint `unreachable_pub` refuses other uses of the word. So each module is listed by itself:
//! sources are parsed, not compiled, and what a macro makes is listed as the macro's call.
//!
//! Not listed, so that a change of it is not seen: associated types and functions of an implemented
//! trait, traits that types of other crates implement, traits that the compiler implements
//! (`Send`), types behind `impl Trait`, `macro_rules!`, functions in `extern` blocks, conditions
//! (`cfg`), values of statics, and what functions do.

use std::collections::BTreeSet;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Field, ImplItem, Item, TraitItem, Type, Visibility};

use super::sources::Source;

/// Returns a problem for each crate whose public items are not those of its snapshot.
pub(super) fn problems(root: &Path, files: &[Source]) -> Vec<String> {
    let of = |name: &String| {
        let before = std::fs::read_to_string(snapshot(root, name)).unwrap_or_default();
        surface(name, files).map_or_else(Some, |now| difference(name, &before, &now))
    };
    published(root).iter().filter_map(of).collect()
}

/// Writes the snapshots of all crates.
pub(super) fn renew(root: &Path, files: &[Source]) -> std::io::Result<()> {
    let write = |name: &String| {
        let now = surface(name, files).map_err(std::io::Error::other)?;
        std::fs::write(snapshot(root, name), now)
    };
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
///
/// # Errors
/// The problem, if a file cannot be parsed.
fn surface(name: &str, files: &[Source]) -> Result<String, String> {
    let folder = format!("crates/{name}/src/");
    let mut parsed = Vec::new();
    for file in files {
        let path = file
            .path
            .strip_prefix(&folder)
            .and_then(|path| path.strip_suffix(".rs"));
        let Some(path) = path.filter(|path| !path.split('/').any(|part| part == "tests")) else {
            continue;
        };
        let module = path.trim_end_matches("/mod").replace('/', "::");
        let syntax = syn::parse_file(&file.text)
            .map_err(|why| format!("{}: cannot be parsed: {why}", file.path))?;
        parsed.push((module, syntax.items));
    }
    let types = parsed.iter().flat_map(|(_, items)| public_types(items));
    let types: BTreeSet<String> = types.collect();
    let mut lines = Vec::new();
    for (module, items) in &parsed {
        let items = items.iter().flat_map(|item| described(item, &types));
        lines.extend(items.map(|item| format!("{module}: {item}")));
    }
    lines.sort();
    Ok(lines.join("\n") + "\n")
}

/// Returns the names of the public types in a list of items and in modules among them.
fn public_types(items: &[Item]) -> Vec<String> {
    let of = |item: &Item| match item {
        Item::Struct(item) => public(&item.vis, || item.ident.to_string()),
        Item::Enum(item) => public(&item.vis, || item.ident.to_string()),
        Item::Union(item) => public(&item.vis, || item.ident.to_string()),
        Item::Mod(item) => {
            let below = item.content.as_ref();
            below.map_or(Vec::new(), |(_, items)| public_types(items))
        }
        _ => Vec::new(),
    };
    items.iter().flat_map(of).collect()
}

/// Returns what is public of an item: its types, its fields, variants and methods, one a line.
/// `types`: the names of all public types.
fn described(item: &Item, types: &BTreeSet<String>) -> Vec<String> {
    match item {
        Item::Const(item) => public(&item.vis, || {
            let value = text(&item.expr);
            format!("const {}: {} = {value}", item.ident, text(&item.ty))
        }),
        Item::Static(item) => public(&item.vis, || {
            let mutable = text(&item.mutability);
            format!("static {mutable} {}: {}", item.ident, text(&item.ty))
        }),
        Item::Fn(item) => public(&item.vis, || text(&item.sig)),
        Item::Mod(item) if item.attrs.iter().any(|one| text(one).contains("test")) => Vec::new(),
        Item::Mod(item) => {
            let below = item.content.iter().flat_map(|(_, items)| items);
            let own = public(&item.vis, || format!("mod {}", item.ident));
            let below = below.flat_map(|item| described(item, types));
            own.into_iter().chain(below).collect()
        }
        Item::Type(item) => public(&item.vis, || text(item)),
        Item::Use(item) => public(&item.vis, || text(item)),
        Item::Macro(item) if item.ident.is_none() && !item.mac.path.is_ident("thread_local") => {
            vec![text(&item.mac)]
        }
        Item::Struct(item) if is_public(&item.vis) => {
            let (of, seen) = (generics(&item.generics), attributes(&item.attrs));
            let own = format!("struct {} {of} {seen}", item.ident);
            std::iter::once(own)
                .chain(fields(&item.ident, &item.fields, false))
                .collect()
        }
        Item::Union(item) if is_public(&item.vis) => {
            let (of, seen) = (generics(&item.generics), attributes(&item.attrs));
            let own = format!("union {} {of} {seen}", item.ident);
            std::iter::once(own)
                .chain(fields(&item.ident, &item.fields.named, false))
                .collect()
        }
        Item::Enum(item) if is_public(&item.vis) => {
            let (of, seen) = (generics(&item.generics), attributes(&item.attrs));
            let own = format!("enum {} {of} {seen}", item.ident);
            let variants = item.variants.iter().flat_map(|one| {
                let name = format!("{}::{}", item.ident, one.ident);
                std::iter::once(name.clone()).chain(fields(&name, &one.fields, true))
            });
            std::iter::once(own).chain(variants).collect()
        }
        Item::Trait(item) if is_public(&item.vis) => declared(item),
        Item::Impl(item) if is_known(&item.self_ty, types) => implemented(item),
        _ => Vec::new(),
    }
}

/// Returns a trait and its items.
fn declared(item: &syn::ItemTrait) -> Vec<String> {
    let own = format!(
        "trait {} {} : {}",
        item.ident,
        generics(&item.generics),
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

/// Whether a type is one of the crate's public types, also behind a reference; a type of another
/// crate is not.
fn is_known(of: &Type, types: &BTreeSet<String>) -> bool {
    match of {
        Type::Path(of) => {
            let name = of.path.segments.last();
            name.is_some_and(|name| types.contains(&name.ident.to_string()))
        }
        Type::Reference(of) => is_known(&of.elem, types),
        _ => false,
    }
}

/// Returns a line for each public field; of a variant, `all` fields are public.
fn fields<'a>(
    of: &impl std::fmt::Display,
    fields: impl IntoIterator<Item = &'a Field>,
    all: bool,
) -> Vec<String> {
    let shown = fields
        .into_iter()
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
    let (own, clause) = (&item.generics, text(&item.generics.where_clause));
    let mut of = text(&item.self_ty);
    if !clause.is_empty() {
        of = format!("{of} {clause}");
    }
    if let Some((_, name, _)) = &item.trait_ {
        return vec![format!("impl {} {} for {of}", text(own), text(name))];
    }
    if !own.params.is_empty() {
        of = format!("impl {} {of}", text(own));
    }
    let known = item.items.iter().flat_map(|one| match one {
        ImplItem::Fn(one) => public(&one.vis, || format!("{of}::{}", text(&one.sig))),
        ImplItem::Const(one) => public(&one.vis, || {
            let value = text(&one.expr);
            format!("{of}::{}: {} = {value}", one.ident, text(&one.ty))
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

/// Returns generic parameters with their `where` clause.
fn generics(of: &syn::Generics) -> String {
    match &of.where_clause {
        Some(clause) => format!("{} {}", text(of), text(clause)),
        None => text(of),
    }
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

    fn of(text: &str) -> Result<String, String> {
        surface("sys", &[Source::new("crates/sys/src/peer.rs", text)])
    }

    #[test]
    fn a_new_item_is_found_and_the_message_says_how_to_renew() {
        let of = |text: &str| of(text).expect("it is Rust");
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
            of("struct Own { pub a: u8 }\nimpl Drop for Own { fn drop(&mut self) {} }"),
            "\n"
        );
    }

    #[test]
    fn bounds_values_and_statics_are_listed() {
        for (text, line) in [
            ("pub struct A<T> where T: B;", "struct A < T > where T : B "),
            ("pub const A: u8 = 1 << 2;", "const A: u8 = 1 << 2"),
            ("pub static A: u8 = 1;", "static  A: u8"),
            ("pub fn a(b: impl B) {}", "fn a (b : impl B)"),
            ("pub fn a<T>() where T: B {}", "fn a < T > () where T : B"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(&*format!("peer: {line}\n")));
        }
        let text = "pub struct A<T>(T);\n\
            impl<T: B> A<T> where T: C { pub const X: u8 = 3; pub fn a() {} }\n\
            impl<T> D for A<T> where T: C {}\n";
        let now = of(text).expect("it is Rust");
        let own = "peer: impl < T : B > A < T > where T : C::";
        for line in [
            format!("{own}X: u8 = 3\n"),
            format!("{own}fn a ()\n"),
            "peer: impl < T > D for A < T > where T : C\n".to_owned(),
        ] {
            assert!(now.contains(&line), "{now}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_a_problem() {
        let problem = of("pub fn").expect_err("it is no Rust");
        assert!(
            problem.starts_with("crates/sys/src/peer.rs: cannot be parsed"),
            "{problem}"
        );
    }
}
