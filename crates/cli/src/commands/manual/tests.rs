//! Tests that compare the manual with the definition of the command line.

use std::path::Path;

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn page(command: &str) -> String {
    let all = whole();
    let found = find(&all, &words(command)).expect("there is such a command");
    String::from_utf8(roff::page(found).expect("it is written to memory")).expect("UTF-8")
}

/// Collects `all` and every command below it.
fn each<'a>(all: &'a Command, found: &mut Vec<&'a Command>) {
    found.push(all);
    below(all).for_each(|sub| each(sub, found));
}

#[test]
fn the_page_in_docs_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let is = std::fs::read_to_string(file).unwrap_or_default();
    let due = markdown::page(&whole());
    let differs = is.lines().zip(due.lines()).find(|(is, due)| is != due);
    assert!(
        is == due,
        "docs/commands.md is out of date: run `cargo run -q -p cli --features simulator -- man --markdown > docs/commands.md`; first at {differs:?}"
    );
}

#[test]
fn every_command_and_option_is_in_both() {
    let (all, mut found) = (whole(), Vec::new());
    each(&all, &mut found);
    // There are sixteen commands, and `swap` and its three: if fewer are found, the search is
    // wrong.
    assert!(found.len() >= 19, "{}", found.len());
    let markdown = markdown::page(&all);
    for command in found {
        let called = called(command);
        assert!(markdown.contains(&format!("\n## {called}\n")), "{called}");
        let page = page(called.strip_prefix("pagetide").expect("it begins so"));
        assert!(page.contains(&format!(".TH {}", name(command).to_uppercase())));
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        for long in shown.filter_map(|arg| arg.get_long()) {
            let roff = format!("\\-\\-{}", long.replace('-', "\\-"));
            assert!(page.contains(&roff), "{called} --{long}: {page}");
            let is_said = markdown.contains(&format!("| `--{long}"));
            assert!(
                is_said || ["help", "version"].contains(&long),
                "{called} --{long}"
            );
        }
    }
}

#[test]
fn examples_keep_their_lines() {
    let page = page("report");
    let (_, examples) = page
        .split_once(".SH EXAMPLES\n.nf\n")
        .expect("there are examples");
    let (examples, _) = examples.split_once("\n.fi\n").expect("they end");
    assert!(examples.lines().count() >= 5, "{examples}");
    // Each line begins with a command, so no example was wrapped or indented.
    assert!(
        examples.lines().all(|line| line.starts_with("pagetide ")),
        "{examples}"
    );
    // A straight quote, which a shell understands, not a typographic one.
    assert!(page.contains("jq \\*(Aq.page_age[].bins\\*(Aq"), "{page}");
    assert!(page.contains(".SH \"SEE ALSO\"\npagetide(1)\n"), "{page}");
}

#[test]
fn a_command_that_is_not_there_is_bad_usage_and_the_others_are_named() {
    let all = whole();
    for (line, hint) in [
        ("swop", "swap"),
        ("swap of", "status, on, off, recompress"),
        ("doctor now", "no commands of its own"),
    ] {
        let reported = format!("{:?}", find(&all, &words(line)).err());
        assert!(
            reported.contains(line) && reported.contains(hint) && reported.contains("exit: 2"),
            "{reported}"
        );
    }
}

#[test]
fn signs_of_markdown_are_text() {
    let text = "a|b `c|d<e>` <f>";
    assert_eq!(markdown::escaped(text), "a|b `c|d<e>` \\<f>");
    assert_eq!(markdown::cell("a\n\nb c"), "a b c");
    assert_eq!(markdown::cell(text), "a\\|b `c\\|d<e>` \\<f>");
}

#[test]
fn pages_are_written_to_a_directory_that_is_made() {
    let folder = std::env::temp_dir().join(format!("pagetide-man-{}", std::process::id()));
    let written = write(&whole(), &folder);
    let names = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    names.sort();
    std::fs::remove_dir_all(&folder).expect("it was made");
    assert!(written.is_ok(), "{written:?}");
    assert!(names.contains(&"pagetide.1".into()), "{names:?}");
    assert!(names.contains(&"pagetide-swap-on.1".into()), "{names:?}");
    assert!(names.contains(&"pagetide-run.1".into()), "{names:?}");
}
