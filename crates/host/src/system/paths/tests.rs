//! Tests of path patterns: with plain paths, with names as a real kernel writes them, and against
//! an exhaustive search.

use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::filesystems::Filesystems;
use super::super::proc::Proc;
use super::*;

/// Parses a pattern; panics if it is invalid.
fn pattern(text: &str) -> PathPattern {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

#[test]
fn stars_stand_for_parts_of_names_and_for_names() {
    for (text, path, is) in [
        ("/a/b", "/a/b", true),
        ("/a/b", "/a/bc", false),
        ("/a/b", "/a/b/c", false),
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/b/c", false),
        ("/a/*", "/a", false),
        ("/a/*.tar", "/a/x.tar", true),
        ("/a/*.tar", "/a/.tar", true),
        ("/a/*.tar", "/a/x.tar.gz", false),
        ("/a/*a*b", "/a/xaabb", true),
        ("/a/*a*b", "/a/xbab.", false),
        ("/a/**", "/a/b/c", true),
        ("/a/**", "/a", true),
        ("/a/**", "/ab/c", false),
        ("/**/x", "/x", true),
        ("/**/x", "/a/b/x", true),
        ("/**/x", "/a/x/y", false),
        ("/a/**/b/*/c", "/a/b/b/1/b/2/c", true),
        ("/a/**/b/*/c", "/a/b/b/1/2/c", false),
        ("/a/\\*", "/a/*", true),
        ("/a/\\*", "/a/b", false),
        ("/a/\\[1\\?", "/a/[1?", true),
        ("/ä*", "/äö", true),
        ("/a", "[heap]", false),
        ("/**", "anon_inode:[eventfd]", false),
        ("/**", "", false),
    ] {
        assert_eq!(pattern(text).is_like(path.as_bytes()), is, "{text} {path}");
    }
}

#[test]
fn kernel_suffixes_are_read_in_both_ways() {
    for (text, reported, is) in [
        ("/a", "/a (deleted)", true),
        ("/a (deleted)", "/a (deleted)", true),
        ("/a", "/a (deleted) (deleted)", false),
        ("/a\nb", "/a\\012b", true),
        ("/a\\\\012b", "/a\\012b", true),
        ("/a\nb", "/a\\012b (deleted)", true),
        ("/a\nb", "/a\\040b", false),
        ("/a b", "/a\\040b", false),
    ] {
        assert_eq!(
            pattern(text).is_like(reported.as_bytes()),
            is,
            "{text:?} {reported}"
        );
    }
}

#[test]
fn invalid_patterns_are_explained() {
    for (text, part) in [
        ("", "relative"),
        ("srv/*", "begin it with /"),
        ("*", "relative"),
        ("/", "empty name"),
        ("/a/", "end with /**"),
        ("/a//b", "empty name"),
        ("/a/../b", ".."),
        ("/./b", "."),
        ("/a**", "alone"),
        ("/a/***", "alone"),
        ("/a?", "\\?"),
        ("/[ab]", "\\["),
        ("/a\\", "follows the last"),
    ] {
        let why = text.parse::<PathPattern>().expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
        assert_eq!(why.lines().count(), 1);
    }
    // A line break in the pattern does not break the message into two lines.
    let why = "a\nb".parse::<PathPattern>().expect_err("relative");
    assert_eq!(why.to_string().lines().count(), 1);
}

/// A mapped file with a line break in its name is found, even after it was removed.
#[test]
fn a_real_file_is_found_by_what_the_kernel_writes() {
    let script = "import mmap, os, sys, tempfile\n\
        folder = tempfile.mkdtemp(dir=sys.argv[1])\n\
        name = folder + '/one\\ntwo'\n\
        file = open(name, 'w+b'); file.truncate(8192)\n\
        area = mmap.mmap(file.fileno(), 8192)\n\
        print(folder, flush=True); sys.stdin.readline()\n\
        os.remove(name); os.rmdir(folder)\n\
        print(flush=True); sys.stdin.readline()\n";
    let here = std::env::current_exe().expect("a program");
    let here = here.parent().expect("a folder on a disk");
    let mut child = Command::new("python3")
        .args(["-c", script])
        .arg(here)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed for this test");
    let stdout = child.stdout.take().expect("piped");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
    let mut line = || lines.next().expect("it lives").expect("a line");
    let folder = line();
    let proc = Proc::system().expect("/proc");
    let mut filesystems = Filesystems::system(&proc).expect("mounts");
    let text = folder.clone() + "/one\ntw*";
    let pid = child.id();
    let mut found = || {
        let maps = proc.named_maps(pid, &mut filesystems);
        let maps = maps.expect("it may be read").expect("it lives");
        let named = maps
            .named()
            .filter(|(_, name)| pattern(&text).is_like(name));
        named
            .map(|(mapping, _)| mapping.end - mapping.start)
            .collect::<Vec<u64>>()
    };
    let there = found();
    let mut stdin = child.stdin.take().expect("piped");
    let mut write = || std::io::Write::write_all(&mut stdin, b"\n").expect("it reads");
    write();
    line();
    let removed = found();
    write();
    child.wait().expect("it ends");
    assert_eq!((there, removed), (vec![8192], vec![8192]));
}

/// Returns whether `path` matches `pattern`, found by trying every possibility.
fn naive(pattern: &[u8], path: &[u8]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), Some((b'/', _)) | None) => naive(rest, path),
        (Some((b'*', rest)), Some((_, behind))) => naive(rest, path) || naive(pattern, behind),
        (Some((one, rest)), Some((other, behind))) => one == other && naive(rest, behind),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stars_match_like_an_exhaustive_search(text in "(/(a|b|a\\*|b\\*|\\*a|\\*b){1,3}){1,3}", path in "(/[ab]{0,6}){1,3}") {
        if let Ok(pattern) = text.parse::<PathPattern>() {
            prop_assert_eq!(pattern.is_like(path.as_bytes()), naive(text.as_bytes(), path.as_bytes()));
        }
    }

    #[test]
    fn anything_goes(text in "\\PC{0,30}", affinity in "/[ab*/\\\\]{0,20}", path in any::<Vec<u8>>()) {
        for text in [text, affinity] {
            if let Ok(pattern) = text.parse::<PathPattern>() {
                let _ = pattern.is_like(&path);
            }
        }
    }
}

/// Many stars against a name that nearly matches, for which an exhaustive search would take
/// forever.
#[test]
fn many_stars_do_not_take_exponential_time() {
    let text = format!("/{}", "*a".repeat(200)) + "b";
    let path = format!("/{}", "a".repeat(4000));
    assert!(!pattern(&text).is_like(path.as_bytes()));
    let deep = format!("/{}", "**/a/".repeat(100)) + "b";
    let path = "/a".repeat(2000);
    assert!(!pattern(&deep).is_like(path.as_bytes()));
}
