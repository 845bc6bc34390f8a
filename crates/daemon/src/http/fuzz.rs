//! Random requests: any bytes are parsed, incomplete or refused, and no response redirects to
//! another host.

use ::fuzz::Chance;

use super::answer::Answer;
use super::gate::Gate;
use super::head::{self, HEAD_MAX, Read};
use super::token::Token;

/// Returns a random request: mostly what a browser could send, with parts that an attacker would
/// write.
fn make(chance: &mut Chance, token: &str) -> Vec<u8> {
    let mut text = chance
        .pick(&["GET", "GET", "HEAD", "POST", "get", "PRI", ""])
        .to_owned();
    text += chance.pick(&[" ", " ", " ", "\t", "  "]);
    for _ in 0..chance.below(6) {
        text += chance.pick(&[
            "/", "\\", "//", "a", "..", ".", "%2f", "%5c", "%", "*", "http:", "@x", "\u{e4}",
        ]);
    }
    for separator in ["?", "&", "&"] {
        if chance.one_in(2) {
            text += separator;
            text += chance.pick(&["token=", "tenant=", "=", "a", "%41=", "token"]);
            text += chance.pick(&["", token, "%zz", "a+b", "%00", "\\", "x%0d%0aSet-Cookie:a"]);
        }
    }
    text += chance.pick(&[
        " HTTP/1.1\r\n",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "\r\n",
        " HTTP/2.0\n",
    ]);
    for _ in 0..chance.below(6) {
        text += chance.pick(&[
            "Host: ",
            "Host: ",
            "host:",
            "Origin: ",
            "Cookie: ",
            "Authorization: ",
            "Sec-Fetch-Site: ",
            "X:",
            "",
        ]);
        text += chance.pick(&[
            "localhost:9477",
            "127.0.0.1:9477",
            "evil.example",
            "[::1]:9477",
            "null",
            "Bearer ",
            "pagetide-9477=",
            "cross-site",
            "\u{7f}",
            ":",
        ]);
        text += chance.pick(&["\r\n", "\r\n", "\r\n", "\n", "\r\n ", ""]);
    }
    if chance.one_in(30) {
        text += &"X: y\r\n".repeat(chance.below(5000));
    }
    text += chance.pick(&["\r\n", "\r\n", "\r\n", ""]);
    text.into_bytes()
}

/// Checks that each line of a response's head is a name with a value, and that a redirect stays on
/// this host.
fn check_answer(answer: &Answer) {
    let (head, _) = answer.parts(false);
    let head = String::from_utf8(head).expect("text");
    let lines = head.strip_suffix("\r\n\r\n").expect("it ends");
    for line in lines.split("\r\n").skip(1) {
        let (name, value) = line.split_once(": ").expect("a name and a value");
        assert!(!value.contains(['\r', '\n', '\0']), "{line:?}");
        if name == "Location" {
            assert!(value.starts_with('/') && value.is_ascii(), "{line:?}");
            assert!(!value[1..].starts_with(['/', '\\', '\t', ' ']), "{line:?}");
        }
    }
}

#[test]
fn fuzz_requests_are_read_or_refused_and_lead_nowhere_else() {
    let token = Token::new().expect("chance");
    let bound = "127.0.0.1:9477".parse().expect("an address");
    let tcp = Gate::tcp(bound, token.clone()).expect("chance");
    ::fuzz::run(
        "requests",
        |chance| make(chance, token.text()),
        |bytes| {
            let whole = head::read(bytes);
            for end in [bytes.len() / 2, bytes.len().saturating_sub(1)] {
                let part = head::read(&bytes[..end]);
                assert!(
                    part == Read::More || part == whole || end >= HEAD_MAX,
                    "{part:?}, then {whole:?}"
                );
            }
            let Read::Whole(head) = whole else {
                assert!(
                    whole != Read::More || bytes.len() < HEAD_MAX,
                    "it is waited for for ever"
                );
                return;
            };
            assert!(head.path.starts_with('/'));
            for gate in [&tcp, &Gate::Unix] {
                if let Err(answer) = gate.admit(&head) {
                    check_answer(&answer);
                }
            }
            // No request without the token's text is allowed over TCP.
            let has_word = String::from_utf8_lossy(bytes).contains(token.text());
            assert!(has_word || tcp.admit(&head).is_err());
        },
    );
}
