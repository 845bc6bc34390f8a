//! Parses the head of an HTTP request: the requested path and the headers.
//!
//! Invariant: at most [`HEAD_MAX`] bytes and [`HEADERS_MAX`] lines are parsed. A head with two
//! possible meanings (two hosts, a target with a host of its own) is refused. Bodies are never
//! read: no request to this server has one.

use super::answer::Status;
use super::query::Query;

/// Longest head of a request in bytes; a browser's has about 1,000.
pub(super) const HEAD_MAX: usize = 16 << 10;
/// Most header lines of a request.
const HEADERS_MAX: usize = 64;

/// A parsed request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// Whether the method is HEAD: the response is sent without its body.
    pub is_head: bool,
    /// The request's target from the first `/` to the `?`, as it was sent.
    pub path: String,
    /// The parameters of the target, behind the `?`.
    pub query: Query,
    pub(super) host: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) authorization: Option<String>,
    pub(super) cookie: Option<String>,
    /// What a browser says about the origin of the request (Sec-Fetch-Site, Sec-Fetch-Mode).
    pub(super) fetch_site: Option<String>,
    pub(super) fetch_mode: Option<String>,
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) why: &'static str,
}

const fn refusal(status: Status, why: &'static str) -> Refusal {
    Refusal { status, why }
}

/// The result of parsing the bytes so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Read {
    Whole(Box<Head>),
    /// The bytes are the beginning of a head: more must arrive.
    More,
    Refused(Refusal),
}

/// Parses the head of a request.
pub(super) fn read(bytes: &[u8]) -> Read {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let read = request.parse(&bytes[..bytes.len().min(HEAD_MAX)]);
    let refused = |status, why| Read::Refused(refusal(status, why));
    match read {
        Ok(httparse::Status::Complete(_)) => match checked_head(&request) {
            Ok(head) => Read::Whole(Box::new(head)),
            Err(refusal) => Read::Refused(refusal),
        },
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_MAX => {
            refused(Status::TooLarge, "the head of the request is too long")
        }
        Ok(httparse::Status::Partial) => Read::More,
        Err(httparse::Error::TooManyHeaders) => {
            refused(Status::TooLarge, "the request has too many headers")
        }
        Err(httparse::Error::Version) => refused(Status::Version, "HTTP/1.1 is spoken here"),
        Err(_) => refused(Status::Bad, "that is no HTTP/1.1"),
    }
}

/// Converts a completely parsed head; refuses an ambiguous one.
fn checked_head(request: &httparse::Request<'_, '_>) -> Result<Head, Refusal> {
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            return Err(refusal(
                Status::Method,
                "only GET and HEAD: nothing is changed here",
            ));
        }
    };
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if !path.starts_with('/') {
        return Err(refusal(Status::Bad, "the target is no path"));
    }
    let query = Query::parse(query).ok_or(refusal(Status::Bad, "the query is not encoded well"))?;
    let mut head = Head {
        is_head,
        path: path.to_owned(),
        query,
        ..Head::default()
    };
    let has_version_1 = request.version == Some(1);
    for header in request.headers.iter() {
        let Some(place) = field_of(&mut head, header.name) else {
            continue;
        };
        let value = std::str::from_utf8(header.value);
        let value = value.map_err(|_| refusal(Status::Bad, "a header is not UTF-8"))?;
        if place.replace(value.trim().to_owned()).is_some() {
            return Err(refusal(Status::Bad, "a header stands there twice"));
        }
    }
    if has_version_1 && head.host.is_none() {
        return Err(refusal(Status::Bad, "there is no Host"));
    }
    Ok(head)
}

/// Returns the field of `head` for the header `name`; `None` for a header that is not used.
fn field_of<'a>(head: &'a mut Head, name: &str) -> Option<&'a mut Option<String>> {
    let places = [
        ("host", &mut head.host),
        ("origin", &mut head.origin),
        ("authorization", &mut head.authorization),
        ("cookie", &mut head.cookie),
        ("sec-fetch-site", &mut head.fetch_site),
        ("sec-fetch-mode", &mut head.fetch_mode),
    ];
    let mut places = places.into_iter();
    let found = places.find(|(known, _)| name.eq_ignore_ascii_case(known));
    found.map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> u16 {
        match read(text.as_bytes()) {
            Read::Refused(refusal) => refusal.status.number(),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn a_request_is_parsed() {
        let text = "GET /?tenant=%2Fa%20b HTTP/1.1\r\nHost: a:1 \r\nORIGIN: http://a:1\r\nX: y\r\n\r\nrest";
        let Read::Whole(head) = read(text.as_bytes()) else {
            panic!("{:?}", read(text.as_bytes()));
        };
        assert_eq!((head.path.as_str(), head.is_head), ("/", false));
        assert_eq!(head.query.get("tenant"), Some("/a b"));
        assert_eq!(head.host.as_deref(), Some("a:1"));
        assert_eq!(head.origin.as_deref(), Some("http://a:1"));
        for end in 0..text.len() - "\nrest".len() {
            assert_eq!(read(&text.as_bytes()[..end]), Read::More, "{end}");
        }
    }

    #[test]
    fn an_unsupported_request_is_refused() {
        let lines = "X: y\r\n".repeat(HEADERS_MAX + 1);
        for (text, status) in [
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /?%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nCookie: x\r\ncookie: y\r\n\r\n",
                400,
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\n continued\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            ("\u{16}\u{3}\u{1}", 400),
            (&format!("GET / HTTP/1.1\r\n{lines}\r\n"), 431),
            (&format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_MAX)), 431),
            (
                &format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(HEAD_MAX)),
                431,
            ),
        ] {
            assert_eq!(refused(text), status, "{}", &text[..text.len().min(60)]);
        }
    }

    /// Bytes made of parts of requests, valid and odd ones.
    fn request_parts() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            Just("GET ".to_owned()),
            Just("HEAD ".to_owned()),
            Just("/metrics".to_owned()),
            Just(" HTTP/1.1\r\n".to_owned()),
            Just(" HTTP/1.0\n".to_owned()),
            Just("Host: a:1\r\n".to_owned()),
            Just("Cookie: a=b; c\r\n".to_owned()),
            Just("\r\n".to_owned()),
            Just("?a=%41&%".to_owned()),
            "\\PC{0,6}",
            "[ -~]{0,9}",
        ];
        let text = prop::collection::vec(word, 0..9).prop_map(|words| words.concat().into_bytes());
        prop_oneof![text, prop::collection::vec(any::<u8>(), 0..90)]
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in request_parts()) {
            if let Read::Whole(head) = read(&bytes) {
                prop_assert!(head.path.starts_with('/'));
                // More bytes change nothing: what is behind the head is not parsed.
                let longer = [&bytes[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
                prop_assert_eq!(read(&longer), Read::Whole(head));
            }
        }

        #[test]
        fn a_head_that_comes_in_pieces_is_the_same(path in "/[a-z.%]{0,20}", value in "[!-~]{0,40}") {
            let text = format!("GET {path} HTTP/1.1\r\nHost: {value}\r\nUser-Agent: x\r\n\r\n");
            let whole = read(text.as_bytes());
            for end in 0..text.len() {
                let part = read(&text.as_bytes()[..end]);
                prop_assert!(part == Read::More || part == whole, "{end} of {text:?}: {part:?}");
            }
        }
    }
}
