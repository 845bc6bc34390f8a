//! Rule: the modules of a crate are layered.
//!
//! The `mod` declarations of a file stand in groups with a blank line between them, from the lowest
//! layer to the highest. A module names only modules of lower layers. A call on `self` of a
//! function that another module defines counts as naming that module. Modules of one group name
//! each other only if a comment above the group says so ([`MUTUAL`]).
//!
//! Tests may name every module. A file that no `mod` declares outside of tests counts as a test.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Source;

/// Beginning of the comment above a group whose modules may name each other.
const MUTUAL: &str = "// These modules use each other";

/// Modules that are declared next to each other.
#[derive(Default)]
struct Layer<'a> {
    modules: Vec<&'a str>,
    is_mutual: bool,
}

/// A module: its file, the file's tokens outside of tests, and the modules that it declares.
struct Module<'a> {
    file: &'a str,
    tokens: Vec<&'a str>,
    layers: Vec<Layer<'a>>,
}

/// All modules, by the path of their file without ending (`crates/host/src/watch`); the root of a
/// crate by the folder `src`. A module comes before those that it declares.
type Modules<'a> = BTreeMap<String, Module<'a>>;

/// The functions of types: root of the crate, name of the type and of the function; and the modules
/// that define them.
type Functions<'a> = BTreeMap<(&'a str, &'a str, &'a str), BTreeSet<&'a str>>;

pub(super) fn problems(files: &[Source]) -> Vec<String> {
    let modules = modules(files);
    let mut functions = Functions::new();
    for (path, module) in &modules {
        for block in impls(&module.tokens)
            .iter()
            .filter(|block| !block.is_of_trait)
        {
            for two in block.body.windows(2).filter(|two| two[0] == "fn") {
                let key = (crate_root(path), block.of, two[1]);
                functions.entry(key).or_default().insert(path);
            }
        }
    }
    let mut found = BTreeSet::new();
    for (path, module) in &modules {
        let mut used = named(path, module, &modules);
        used.extend(called(path, module, &functions));
        let wrong = used.iter().filter_map(|other| wrong(path, other, &modules));
        found.extend(wrong.map(|why| format!("{}: {why}", module.file)));
    }
    found.into_iter().collect()
}

fn modules(files: &[Source]) -> Modules<'_> {
    let mut modules = Modules::new();
    let mut sorted: Vec<(String, &Source)> = (files.iter())
        .filter_map(|file| Some((module_path(&file.path)?, file)))
        .collect();
    // Of a crate's two roots, `main.rs` uses `lib.rs`, which comes first.
    sorted.sort_by(|one, other| (&one.0, &one.1.path).cmp(&(&other.0, &other.1.path)));
    for (path, file) in sorted {
        let is_declared = path.rsplit_once('/').is_some_and(|(above, name)| {
            let above: Option<&Module<'_>> = modules.get(above);
            name == "src" || above.is_some_and(|above| layer_of(above, name).is_some())
        });
        if is_declared && !modules.contains_key(&path) {
            let tokens = file.tokens().iter().filter(|token| !token.is_test);
            let module = Module {
                file: &file.path,
                tokens: tokens.map(|token| token.text.as_str()).collect(),
                layers: layers(&file.text),
            };
            modules.insert(path, module);
        }
    }
    modules
}

/// Returns the path of a file's module; `None` for files outside of `src`.
fn module_path(file: &str) -> Option<String> {
    let path = file
        .strip_suffix(".rs")
        .filter(|path| path.contains("/src/"))?;
    let mut ends = ["/mod", "/lib", "/main"].iter();
    let folder = ends.find_map(|end| path.strip_suffix(end));
    Some(folder.unwrap_or(path).to_owned())
}

/// Returns the root of the crate of a module.
fn crate_root(path: &str) -> &str {
    let end = path.find("/src").map_or(path.len(), |at| at + 4);
    &path[..end]
}

/// Returns the groups of `mod` declarations in a file, without those of tests.
fn layers(text: &str) -> Vec<Layer<'_>> {
    let mut layers = Vec::new();
    for group in text.split("\n\n") {
        let mut layer = Layer::default();
        let mut is_test = false;
        for line in group.lines() {
            layer.is_mutual |= line.starts_with(MUTUAL);
            is_test |= line.starts_with("#[cfg(") && line.contains("test");
            if let Some(name) = declared(line) {
                layer.modules.extend((!is_test).then_some(name));
                is_test = false;
            }
        }
        layers.push(layer);
    }
    layers
}

/// Returns the module that a line declares: `mod a;`, also with its visibility.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.rsplit_once(' ')?;
    let is_mod = before == "mod" || before.starts_with("pub") && before.ends_with(" mod");
    is_mod.then_some(name)
}

/// Returns the number of the layer in which a module declares another one.
fn layer_of(above: &Module<'_>, name: &str) -> Option<usize> {
    let mut layers = above.layers.iter();
    layers.position(|layer| layer.modules.contains(&name))
}

/// Returns why the module at `from` may not name the one at `to`, if so.
fn wrong(from: &str, to: &str, modules: &Modules<'_>) -> Option<String> {
    let [from, to] = [from, to].map(|path| path.split('/').collect::<Vec<_>>());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other);
    let common = common.count();
    let (name, other) = (from.get(common)?, to.get(common)?);
    let above = modules.get(&from[..common].join("/"))?;
    let (own, its) = (layer_of(above, name)?, layer_of(above, other)?);
    let is_right = its < own || its == own && above.layers[own].is_mutual;
    let file = above.file;
    (!is_right).then(|| format!("uses {other}, which {file} does not list above {name}"))
}

/// Returns the modules that paths in a module name: paths that begin with `crate`, `self` or
/// `super`, also with braces.
fn named(path: &str, module: &Module<'_>, modules: &Modules<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, token) in module.tokens.iter().enumerate() {
        let is_behind_path = at > 0 && module.tokens[at - 1] == ":";
        if matches!(*token, "crate" | "self" | "super") && !is_behind_path {
            found.extend(followed(&module.tokens[at..], path, modules));
        }
    }
    found
}

/// Returns the modules that the path at the beginning of `tokens` names, seen from the module at
/// `from`.
fn followed(tokens: &[&str], from: &str, modules: &Modules<'_>) -> Vec<String> {
    let mut found = Vec::new();
    // The modules before open braces.
    let mut open: Vec<String> = Vec::new();
    let (mut module, mut before) = (from.to_owned(), ":");
    for token in tokens {
        match *token {
            ":" | "as" => (),
            "{" if before == ":" => open.push(module.clone()),
            "," | "}" if !open.is_empty() => {
                found.push(module);
                module = open.last().cloned().unwrap_or_default();
                if *token == "}" {
                    open.pop();
                }
            }
            name if matches!(before, ":" | "{" | ",") => module = step(&module, name, modules),
            _ if open.is_empty() => break,
            _ => (),
        }
        before = token;
    }
    found.push(module);
    found
}

/// Returns the module that `name` leads to from `module`; the same module if it leads to an item.
fn step(module: &str, name: &str, modules: &Modules<'_>) -> String {
    let below = format!("{module}/{name}");
    match name {
        "crate" => crate_root(module).to_owned(),
        "super" => module
            .rsplit_once('/')
            .map_or("", |(above, _)| above)
            .to_owned(),
        _ if modules.contains_key(&below) => below,
        _ => module.to_owned(),
    }
}

/// An `impl` block.
struct Impl<'a> {
    /// Name of the type.
    of: &'a str,
    is_of_trait: bool,
    body: &'a [&'a str],
}

/// Returns the `impl` blocks among tokens. (`impl` is also a part of types.)
fn impls<'a>(tokens: &'a [&'a str]) -> Vec<Impl<'a>> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or(";", |before| tokens[before]);
        if *token != "impl" || !matches!(before, ";" | "}" | "{" | "]" | "unsafe") {
            continue;
        }
        let rest = &tokens[at + 1..];
        let head = rest
            .iter()
            .take_while(|token| !matches!(**token, "{" | "where"));
        let (mut angles, mut of, mut is_of_trait, mut before) = (0, "", false, "");
        for token in head {
            match *token {
                "<" => angles += 1,
                ">" if before != "-" => angles -= 1,
                "for" if angles == 0 => is_of_trait = true,
                name if angles == 0 && name.starts_with(char::is_uppercase) => of = name,
                _ => (),
            }
            before = token;
        }
        let begin = rest
            .iter()
            .position(|token| *token == "{")
            .unwrap_or_default();
        let mut depth = 0;
        let end = rest[begin..].iter().position(|token| {
            depth += i32::from(*token == "{") - i32::from(*token == "}");
            depth == 0
        });
        found.push(Impl {
            of,
            is_of_trait,
            body: &rest[begin..begin + end.unwrap_or_default()],
        });
    }
    found
}

/// Returns the modules that define the functions which a module calls on `self` and `Self`, if
/// exactly one module defines a function of this name.
fn called(path: &str, module: &Module<'_>, functions: &Functions<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for block in impls(&module.tokens) {
        for part in block.body.windows(4) {
            let name = match part {
                ["self", ".", name, "(" | ":"] | ["Self", ":", ":", name] => name,
                _ => continue,
            };
            let known = functions.get(&(crate_root(path), block.of, *name));
            let known: Vec<&&str> = known.into_iter().flatten().collect();
            if let [only] = known[..] {
                found.push((*only).to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the problems of a crate with the modules `low`, `beside` and `high`, one of which
    /// has this text.
    fn of(name: &str, text: &str) -> Vec<String> {
        with(name, text, "mod beside;\npub mod low;\n\nmod high;\n")
    }

    fn with(name: &str, text: &str, root: &str) -> Vec<String> {
        let mut files = vec![Source::new("crates/a/src/lib.rs", root)];
        for module in ["beside", "low", "high"] {
            let its = match module == name {
                true => text.to_owned(),
                false => format!("impl T {{ fn of_{module}(&self) {{}} }}"),
            };
            files.push(Source::new(&format!("crates/a/src/{module}.rs"), &its));
        }
        problems(&files)
    }

    #[test]
    fn a_module_above_or_beside_is_found() {
        for text in [
            "use crate::high::X;",
            "use super::high;",
            "use crate::{beside::{X, Y}, other};",
            "fn f() { crate::high::f(); }",
            "fn f() { println!(\"{}\", super::beside::X) }",
        ] {
            assert_eq!(of("low", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_call_on_self_is_found() {
        for text in [
            "impl T { fn f(&self) { self.of_high() } }",
            "impl<'a, F: Fn() -> u8> T<'a, F> where F: B { fn f() { Self::of_high() } }",
            "impl X for T { fn f(&self) { self.of_beside(); } }",
        ] {
            assert_eq!(of("low", text).len(), 1, "{text}");
        }
        assert_eq!(
            of("low", "impl Other { fn f(&self) { self.of_high() } }"),
            [""; 0]
        );
        assert_eq!(
            of("high", "impl T { fn f(&self) { self.of_low() } }"),
            [""; 0]
        );
    }

    #[test]
    fn what_is_below_is_fine_and_tests_may_all() {
        assert_eq!(of("high", "use crate::{beside, low::X};"), [""; 0]);
        assert_eq!(
            of("low", "#[cfg(test)]\nmod tests { use crate::high::X; }"),
            [""; 0]
        );
        assert_eq!(of("low", "// crate::high\nuse crate::highest::X;"), [""; 0]);
        let test = "#[cfg(test)]\nmod low;\nmod high;\nmod beside;\n";
        assert_eq!(with("low", "use crate::high::X;", test), [""; 0]);
    }

    #[test]
    fn a_group_may_name_its_own_modules_if_a_comment_says_so() {
        let root = format!("{MUTUAL}.\nmod beside;\nmod low;\n\nmod high;\n");
        assert_eq!(with("low", "use crate::beside::X;", &root), [""; 0]);
        assert_eq!(with("low", "use crate::high::X;", &root).len(), 1);
    }

    #[test]
    fn modules_below_a_module_count_as_that_module() {
        let files = [
            Source::new("crates/a/src/lib.rs", "mod low;\n\nmod high;\n"),
            Source::new("crates/a/src/low/mod.rs", "mod one;\n\nmod two;\n"),
            Source::new("crates/a/src/low/one.rs", "use super::two::X;"),
            Source::new(
                "crates/a/src/low/two.rs",
                "use super::{one::X, super::high};",
            ),
            Source::new("crates/a/src/high.rs", "use super::low::two::X;"),
        ];
        let found = problems(&files);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
