//! Random input for a tree: values of its files, its configuration, lines at its socket.

use ::fuzz::Chance;

use super::config::Config;
use super::values;
use crate::control::{REQUEST_BYTES_MAX, Request, Response};

/// Returns a random text to be written to a tenant's file.
fn value(chance: &mut Chance) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..=chance.below(4) {
        match chance.below(5) {
            0 => text += &chance.number().to_string(),
            1 => text += &format!("0x{:x}", chance.number()),
            2 => text += &format!("0{:o}", chance.number()),
            _ => {
                let words = [
                    "max",
                    "k",
                    "M",
                    "g",
                    "T",
                    "P",
                    "e",
                    "E",
                    " ",
                    "\n",
                    "-",
                    "+",
                    "0",
                    "9",
                    "swappiness=",
                    " swappiness=200",
                    " node=0",
                    " node=",
                    "\u{663}",
                    "\u{a0}",
                    "",
                ];
                text += chance.pick(&words);
            }
        }
    }
    text.into_bytes()
}

/// Parses a size digit by digit, as the kernel's memparse does, to compare the results.
fn naive_bytes(text: &str) -> Option<u64> {
    let text: Vec<char> = text.trim().chars().collect();
    let is_hex = text.len() > 1 && text[0] == '0' && matches!(text[1], 'x' | 'X');
    let (from, base) = match is_hex {
        true => (2, 16),
        false
            if text.len() > 1
                && text[0] == '0'
                && text[1].is_ascii_hexdigit()
                && !matches!(text[1], 'e' | 'E') =>
        {
            (1, 8)
        }
        false => (0, 10),
    };
    let (mut number, mut digits, mut at) = (0_u64, 0, from);
    while let Some(digit) = text.get(at).and_then(|c| c.to_digit(base)) {
        number = number
            .checked_mul(u64::from(base))?
            .checked_add(u64::from(digit))?;
        (digits, at) = (digits + 1, at + 1);
    }
    let shift = match text.get(at..)? {
        [] => 0,
        ['k' | 'K'] => 10,
        ['m' | 'M'] => 20,
        ['g' | 'G'] => 30,
        ['t' | 'T'] => 40,
        ['p' | 'P'] => 50,
        ['e' | 'E'] => 60,
        _ => return None,
    };
    (digits > 0).then(|| number.saturating_mul(1 << shift))
}

#[test]
fn fuzz_values_are_those_of_the_kernel_and_come_back() {
    ::fuzz::run("values", value, |bytes| {
        let Ok(text) = std::str::from_utf8(values::c_string(bytes)) else {
            return;
        };
        assert_eq!(values::bytes(text).ok(), naive_bytes(text), "{text:?}");
        if let Ok(limit) = values::limit(text) {
            assert_eq!(values::limit(&values::print(limit)), Ok(limit), "{text:?}");
        }
        if let Ok((size, _)) = values::reclaim(text) {
            let first = text.split_ascii_whitespace().next().expect("a size");
            assert_eq!(naive_bytes(first), Some(size), "{text:?}");
        }
        if let Ok(pid) = values::process(text, 7) {
            assert!(pid > 0 && pid <= i32::MAX.unsigned_abs(), "{text:?}");
        }
    });
}

const KEYS: &[&str] = &[
    "mount",
    "root",
    "memory-max",
    "age-every",
    "look-budget",
    "own-memory",
    "policy",
    "global",
    "host",
    "manage-host",
    "noreuse-paths",
    "listen",
    "token-file",
    "history",
    "memory-min",
    "memory-high",
    "swap-max",
    "noreuse",
    "write-back-older-than",
    "by",
    "dry-run",
    "memory-mx",
    "\u{e4}",
    "\"a b\"",
];

const VALUES: &[&str] = &[
    "\"1G\"",
    "\"50%\"",
    "\"max\"",
    "\"10s\"",
    "true",
    "0",
    "-1",
    "9223372036854775807",
    "1e300",
    "nan",
    "[]",
    "[\"/a\", \"*\"]",
    "{ by = \"cold-age\", older-than = \"10s\" }",
    "{ by = \"none\", x = 1 }",
    "\"127.0.0.1:9477\"",
    "\"\\u0000\"",
    "\"\\u202e\"",
    "\"\"",
    "\"/\"",
    "1979-05-27",
    "'''\nx'''",
    "{",
    "[[",
];

const NAMES: &[&str] = &[
    "a",
    "a/b",
    "host/x",
    "..",
    "",
    "/",
    "node0",
    "memory.max",
    "\\u001b",
    "\u{202e}",
    "a//b",
];

/// Returns a random configuration: known keys, values of all kinds, and tables of tenants with odd
/// names.
fn config(chance: &mut Chance) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..chance.below(12) {
        match chance.below(8) {
            0 => text += &format!("[tenants.\"{}\"]\n", chance.pick(NAMES)),
            1 => text += &format!("[{}]\n", chance.pick(KEYS)),
            2 => {
                text += &format!(
                    "{} = {}\n",
                    chance.pick(KEYS),
                    "[".repeat(chance.below(3000))
                )
            }
            _ => text += &format!("{} = {}\n", chance.pick(KEYS), chance.pick(VALUES)),
        }
    }
    text.into_bytes()
}

#[test]
fn fuzz_configurations_are_taken_or_refused_with_a_reason() {
    ::fuzz::run("config", config, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        match Config::parse(text) {
            Ok(config) => assert!(
                !config
                    .tenants
                    .keys()
                    .any(|path| path.split('/').any(|part| part == ".."))
            ),
            Err(why) => assert!(!why.trim().is_empty(), "{text:?}"),
        }
    });
}

const WORDS: &[&str] = &[
    "op",
    "report",
    "stat",
    "reclaim",
    "detach",
    "limits",
    "manages",
    "ping",
    "tenant",
    "what",
    "pid",
    "set",
    "path",
    "ask",
    "bring_back",
    "rows",
    "bytes",
    "size",
    "swappiness",
    "error",
    "denied",
    "owner",
    "pong",
    "reclaimed",
    "pages",
    "memory_max",
    "max",
    "\\u0000",
    "\\ud800",
    "/../",
    "\u{202e}",
];

const WHOLE: &[&str] = &[
    r#"{"op":"ping"}"#,
    r#"{"op":"detach","bring_back":true}"#,
    r#"{"op":"manages","pid":7}"#,
    r#"{"op":"tenant","path":"/a","ask":"stat"}"#,
    r#"{"op":"limits","set":null}"#,
    r#"{"op":"stat"}"#,
    r#"{"pong":{"manager":1,"version":"x"}}"#,
    r#"{"denied":{"owner":0}}"#,
    r#"{"manages":true}"#,
    r#"{"stats":{"names":["a"],"tenants":[["/",[1]]]}}"#,
];

/// Appends random JSON, nested at most `depth` deep.
fn json(chance: &mut Chance, depth: usize, out: &mut String) {
    match chance.below(if depth == 0 { 4 } else { 7 }) {
        0 => *out += &chance.number().to_string(),
        1 => {
            *out += chance.pick(&[
                "true",
                "false",
                "null",
                "-1",
                "1e999",
                "0.5",
                "18446744073709551616",
            ])
        }
        2 | 3 => *out += &format!("\"{}\"", chance.pick(WORDS)),
        4 => {
            out.push('[');
            for n in 0..chance.below(4) {
                *out += if n > 0 { "," } else { "" };
                json(chance, depth - 1, out);
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for n in 0..chance.below(4) {
                *out += if n > 0 { "," } else { "" };
                *out += &format!("\"{}\":", chance.pick(WORDS));
                json(chance, depth - 1, out);
            }
            out.push('}');
        }
    }
}

/// Returns a random line at the socket: mostly JSON of a request or a response, with odd values.
fn line(chance: &mut Chance) -> Vec<u8> {
    match chance.below(4) {
        0 => chance.pick(WHOLE).as_bytes().to_vec(),
        1 => "["
            .repeat(chance.below(REQUEST_BYTES_MAX + 10))
            .into_bytes(),
        _ => {
            let mut text = String::new();
            json(chance, 4, &mut text);
            text.into_bytes()
        }
    }
}

#[test]
fn fuzz_lines_at_the_socket_are_understood_or_refused_and_come_back() {
    ::fuzz::run("control", line, |bytes| {
        match Request::parse(bytes) {
            Ok(request) => assert_eq!(Request::parse(&request.line()), Ok(request)),
            // The error may quote only a part of the line.
            Err(error) => {
                let reported = error.to_string();
                assert!(
                    !reported.is_empty() && reported.len() < bytes.len() + 1000,
                    "{reported}"
                );
            }
        }
        if let Ok(response) = serde_json::from_slice::<Response>(bytes) {
            let line = response.line();
            let again: Response = serde_json::from_slice(&line).expect("its own line");
            assert_eq!(again.line(), line);
        }
    });
}
