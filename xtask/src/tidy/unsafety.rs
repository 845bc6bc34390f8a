//! Rule: `unsafe` is allowed in `pagetables` and `sys` only; every other crate forbids it.

use super::code::has_word;
use super::sources::Source;

const MAY_BE_UNSAFE: [&str; 2] = ["pagetables", "sys"];

pub(super) fn problems(roots: &[(String, String)], files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, path) in roots {
        let text = files
            .iter()
            .find(|file| file.path == *path)
            .map(|file| file.text.as_str());
        let forbids = text.is_some_and(|text| text.contains("#![forbid(unsafe_code)]"));
        if !MAY_BE_UNSAFE.contains(&name.as_str()) && !forbids {
            found.push(format!("{path}: does not say #![forbid(unsafe_code)]"));
        }
    }
    for file in files
        .iter()
        .filter(|file| file.is_rust() && !may_be_unsafe(&file.path))
    {
        if has_word(file.code(), "unsafe") {
            found.push(format!(
                "{}: unsafe belongs in pagetables or sys",
                file.path
            ));
        }
    }
    found
}

fn may_be_unsafe(path: &str) -> bool {
    MAY_BE_UNSAFE
        .iter()
        .any(|name| path.starts_with(&format!("crates/{name}/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_does_not_forbid_is_found() {
        let roots = [("host".to_owned(), "crates/host/src/lib.rs".to_owned())];
        let open = [Source::new("crates/host/src/lib.rs", "//! x")];
        assert_eq!(problems(&roots, &open).len(), 1);
        let closed = [Source::new(
            "crates/host/src/lib.rs",
            "#![forbid(unsafe_code)]",
        )];
        assert!(problems(&roots, &closed).is_empty());
    }

    #[test]
    fn unsafe_code_is_found_outside_the_two_crates_only() {
        let code = "fn f() { unsafe { g() } }";
        assert_eq!(
            problems(&[], &[Source::new("crates/cli/src/run.rs", code)]).len(),
            1
        );
        assert!(problems(&[], &[Source::new("crates/pagetables/src/lib.rs", code)]).is_empty());
        let comment = "// unsafe would be wrong here";
        assert!(problems(&[], &[Source::new("crates/cli/src/run.rs", comment)]).is_empty());
    }
}
