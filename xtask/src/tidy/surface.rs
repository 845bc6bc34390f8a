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
//! (`cfg`), and what functions do.

use std::collections::BTreeSet;

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, Fields, ImplItem, Item, ItemImpl, ItemStruct, Type, Visibility};

use super::sources::Source;
use crate::root;

/// Returns a problem for each crate whose public items are not those of its snapshot.
///
/// # Errors
/// If a crate cannot be read.
pub(super) fn problems(files: &[Source]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for name in published()? {
        let before = std::fs::read_to_string(snapshot(&name)).unwrap_or_default();
        found.extend(difference(&name, &before, &surface(&name, files)?));
    }
    Ok(found)
}

/// Writes the snapshots of all crates.
///
/// # Errors
/// If a file cannot be read or written.
pub(super) fn renew(files: &[Source]) -> Result<(), String> {
    for name in published()? {
        let written = std::fs::write(snapshot(&name), surface(&name, files)?);
        written.map_err(|error| format!("{}: {error}", snapshot(&name).display()))?;
    }
    Ok(())
}

/// Returns the folders in `crates` of the crates that can be published.
fn published() -> Result<Vec<String>, String> {
    let folders = std::fs::read_dir(root().join("crates"));
    let folders = folders.map_err(|error| format!("crates: {error}"))?;
    let is_published = |folder: &std::fs::DirEntry| {
        let manifest = std::fs::read_to_string(folder.path().join("Cargo.toml"));
        manifest.is_ok_and(|text| !text.contains("publish = false"))
    };
    let published = folders.flatten().filter(is_published);
    let names = published.map(|folder| folder.file_name().to_string_lossy().into_owned());
    Ok(names.collect())
}

fn snapshot(name: &str) -> std::path::PathBuf {
    root().join("crates").join(name).join("surface.txt")
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
/// If a file cannot be parsed.
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
        Item::Struct(item) if is_public(&item.vis) => vec![item.ident.to_string()],
        Item::Enum(item) if is_public(&item.vis) => vec![item.ident.to_string()],
        Item::Union(item) if is_public(&item.vis) => vec![item.ident.to_string()],
        Item::Mod(item) => public_types(inner(item)),
        _ => Vec::new(),
    };
    items.iter().flat_map(of).collect()
}

/// Returns the items of a module whose items stand in the same file.
fn inner(module: &syn::ItemMod) -> &[Item] {
    module.content.as_ref().map_or(&[], |(_, items)| items)
}

/// Returns what is public of an item, one a line. `types`: the names of all public types.
fn described(item: &Item, types: &BTreeSet<String>) -> Vec<String> {
    let is_listed = match item {
        Item::Const(item) => is_public(&item.vis),
        Item::Enum(item) => is_public(&item.vis),
        Item::Fn(item) => is_public(&item.vis),
        Item::Static(item) => is_public(&item.vis),
        Item::Struct(item) => is_public(&item.vis),
        Item::Trait(item) => is_public(&item.vis),
        Item::Type(item) => is_public(&item.vis),
        Item::Union(item) => is_public(&item.vis),
        Item::Use(item) => is_public(&item.vis),
        Item::Macro(item) => item.ident.is_none() && !item.mac.path.is_ident("thread_local"),
        Item::Mod(item) if item.attrs.iter().any(|one| text(one).contains("test")) => false,
        Item::Mod(item) => {
            let own = is_public(&item.vis).then(|| format!("pub mod {}", item.ident));
            let below = inner(item).iter().flat_map(|item| described(item, types));
            return own.into_iter().chain(below).collect();
        }
        Item::Impl(item) if is_known(&item.self_ty, types) => return implemented(item),
        _ => false,
    };
    let mut item = item.clone();
    Seen.visit_item_mut(&mut item);
    is_listed.then(|| text(&item)).into_iter().collect()
}

/// Leaves of an item what callers see.
struct Seen;

impl VisitMut for Seen {
    /// What is derived, and what may still change.
    fn visit_attributes_mut(&mut self, all: &mut Vec<Attribute>) {
        all.retain(|one| one.path().is_ident("derive") || one.path().is_ident("non_exhaustive"));
    }

    fn visit_block_mut(&mut self, body: &mut Block) {
        body.stmts.clear();
    }

    fn visit_item_struct_mut(&mut self, item: &mut ItemStruct) {
        match &mut item.fields {
            Fields::Named(fields) => {
                let all = std::mem::take(&mut fields.named).into_iter();
                fields.named = all.filter(|field| is_public(&field.vis)).collect();
            }
            Fields::Unnamed(fields) => {
                for field in fields.unnamed.iter_mut() {
                    if !is_public(&field.vis) {
                        field.ty = syn::parse_quote!(_);
                    }
                }
            }
            Fields::Unit => (),
        }
        visit_mut::visit_item_struct_mut(self, item);
    }
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

/// Returns the public functions and constants of an `impl`, or the trait that it implements.
fn implemented(item: &ItemImpl) -> Vec<String> {
    let with = |items: Vec<ImplItem>| {
        let mut part = ItemImpl {
            items,
            ..item.clone()
        };
        Seen.visit_item_impl_mut(&mut part);
        text(&part)
    };
    if item.trait_.is_some() {
        return vec![with(Vec::new())];
    }
    let public = item.items.iter().filter(|one| match one {
        ImplItem::Fn(one) => is_public(&one.vis),
        ImplItem::Const(one) => is_public(&one.vis),
        _ => false,
    });
    public.map(|one| with(vec![one.clone()])).collect()
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
        assert_eq!(before, "peer: pub struct Peer { pub id : u32 }\n");
        let now = of(&format!("{before}impl Peer {{ pub fn new() -> Peer {{ new(1) }} }}")[6..]);
        let problem = difference("sys", &before, &now).expect("it differs");
        assert!(problem.contains("`cargo xtask surface`"), "{problem}");
        let new = "file\n  + peer: impl Peer { pub fn new () -> Peer { } }";
        assert!(problem.ends_with(new), "{problem}");
        assert_eq!(difference("sys", &now, &now), None);
    }

    #[test]
    fn what_callers_see_is_listed() {
        for (text, lines) in [
            (
                "pub struct A<T> where T: B;",
                "pub struct A < T > where T : B ;",
            ),
            ("pub struct A(pub u8, u16);", "pub struct A (pub u8 , _) ;"),
            (
                "/// Doc.\n#[derive(B)] #[must_use] pub enum A { B }",
                "# [derive (B)] pub enum A { B }",
            ),
            ("pub const A: u8 = 1 << 2;", "pub const A : u8 = 1 << 2 ;"),
            (
                "pub fn a<T>(b: impl B) where T: B {}",
                "pub fn a < T > (b : impl B) where T : B { }",
            ),
            (
                "pub trait A: B { fn c() { d() } }",
                "pub trait A : B { fn c () { } }",
            ),
        ] {
            assert_eq!(of(text).as_deref(), Ok(&*format!("peer: {lines}\n")));
        }
        let text = "pub struct A<T>(T);\n\
            impl<T: B> A<T> where T: C { pub const X: u8 = 3; fn b() {} }\n\
            impl<T> D for A<T> where T: C { fn e() {} }\n";
        let now = of(text).expect("it is Rust");
        for line in [
            "peer: impl < T : B > A < T > where T : C { pub const X : u8 = 3 ; }\n",
            "peer: impl < T > D for A < T > where T : C { }\n",
        ] {
            assert!(now.contains(line), "{now}");
        }
        let own = "struct Own { pub a: u8 }\nimpl Drop for Own { fn drop(&mut self) {} }";
        assert_eq!(of(own).as_deref(), Ok("\n"));
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_a_problem() {
        let problem = of("pub fn").expect_err("it is no Rust");
        let begin = "crates/sys/src/peer.rs: cannot be parsed";
        assert!(problem.starts_with(begin), "{problem}");
    }
}
