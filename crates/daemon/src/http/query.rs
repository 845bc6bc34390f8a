//! The query of a request's target, behind the `?`: names and values.
//!
//! Invariant: decoding a text that [`encoded`] has encoded yields the same text. If a name occurs
//! twice, its first value counts.

use std::fmt::Write;

/// Names with their values, in the order of the query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=b&c=d`; `None` for an invalid escape or bytes that are not UTF-8.
    pub(crate) fn parse(text: &str) -> Option<Query> {
        let parts = text.split('&').filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decoded(name)?, decoded(value)?))
        };
        parts.map(pair).collect::<Option<_>>().map(Query)
    }

    /// Returns the first value of a name; `None` if the query does not have the name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the query as text with its `?`, without the parameter `name`; empty if nothing
    /// remains.
    pub(super) fn without(&self, name: &str) -> String {
        let mut text = String::new();
        for (known, value) in self.0.iter().filter(|(known, _)| known != name) {
            text.push(if text.is_empty() { '?' } else { '&' });
            text += &format!("{}={}", encoded(known), encoded(value));
        }
        text
    }
}

/// Whether a byte needs no escape in a query (RFC 3986, unreserved).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Encodes a text, so that it can be a value in a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match is_plain(byte) {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Decodes a name or a value; `None` for an invalid escape or invalid UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            // HTML forms encode a space as `+`.
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_values() {
        let query = Query::parse("a=1&b&a=2&=x&c=%2Fweb%2Fa+b&").expect("encoded well");
        let got = ["a", "b", "c", "", "d"].map(|name| query.get(name));
        assert_eq!(
            got,
            [Some("1"), Some(""), Some("/web/a b"), Some("x"), None]
        );
        assert_eq!(query.without("a"), "?b=&=x&c=%2Fweb%2Fa%20b");
        assert_eq!(Query::default().without("a"), "");
        for text in ["%", "a=%1", "a=%zz", "%ff", "a=%C3%28", "%+1"] {
            assert_eq!(Query::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_encoded_text_is_decoded(name in "\\PC{1,9}", value in any::<String>(), any in any::<String>()) {
            let query = Query::parse(&format!("{}={}", encoded(&name), encoded(&value)));
            let query = query.expect("encoded well");
            prop_assert_eq!(query.get(&name), Some(value.as_str()));
            let _ = Query::parse(&any);
        }
    }
}
