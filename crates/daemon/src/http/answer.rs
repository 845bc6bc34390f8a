//! An HTTP response: its head and its body.
//!
//! Invariant: every response states its length, that the connection closes after it, and that the
//! client may not cache, frame or sniff it; no header's value contains a line end.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::date::http_date;

/// The status of an HTTP response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// 200: the body is what was requested.
    Ok,
    /// 303: the page is elsewhere (`Location`).
    SeeOther,
    /// 400: the request cannot be parsed.
    Bad,
    /// 401: a token is needed.
    Unauthorized,
    /// 403: the client may not send this request.
    Forbidden,
    /// 404: there is no such page.
    NotFound,
    /// 405: only GET and HEAD are allowed.
    Method,
    /// 431: the head is too long.
    TooLarge,
    /// 503: there is no data yet.
    Unavailable,
    /// 505: the request has another protocol version.
    Version,
}

impl Status {
    /// Returns the status code (RFC 9110, RFC 6585).
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::SeeOther => 303,
            Status::Bad => 400,
            Status::Unauthorized => 401,
            Status::Forbidden => 403,
            Status::NotFound => 404,
            Status::Method => 405,
            Status::TooLarge => 431,
            Status::Unavailable => 503,
            Status::Version => 505,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::SeeOther => "See Other",
            Status::Bad => "Bad Request",
            Status::Unauthorized => "Unauthorized",
            Status::Forbidden => "Forbidden",
            Status::NotFound => "Not Found",
            Status::Method => "Method Not Allowed",
            Status::TooLarge => "Request Header Fields Too Large",
            Status::Unavailable => "Service Unavailable",
            Status::Version => "HTTP Version Not Supported",
        }
    }
}

/// The Content-Security-Policy that allows a page to load, run and frame nothing.
const NOTHING: &str = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/// An HTTP response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub(super) status: Status,
    content_type: &'static str,
    policy: String,
    headers: Vec<(&'static str, String)>,
    body: Arc<[u8]>,
}

impl Answer {
    /// Returns a response with a body of this content type.
    #[must_use]
    pub fn new(status: Status, content_type: &'static str, body: impl Into<Arc<[u8]>>) -> Answer {
        Answer {
            status,
            content_type,
            policy: format!("{NOTHING}; form-action 'none'"),
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Returns a response with one line of text.
    #[must_use]
    pub fn line(status: Status, text: &str) -> Answer {
        let body = format!("{text}\n").into_bytes();
        Answer::new(status, "text/plain; charset=utf-8", body)
    }

    /// Sets which scripts, styles and pictures a page may load: sources as in a
    /// Content-Security-Policy.
    #[must_use]
    pub fn allowing(mut self, sources: &str) -> Answer {
        self.policy = format!("{NOTHING}; {sources}");
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Answer {
        self.headers.push((name, value.replace(['\r', '\n'], "")));
        self
    }

    /// Returns the bytes of the head, then the body; the body is `None` for a HEAD request
    /// (`is_head`).
    pub(super) fn parts(&self, is_head: bool) -> (Vec<u8>, Option<Arc<[u8]>>) {
        let (number, words) = (self.status.number(), self.status.words());
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let date = http_date(since.map_or(0, |since| since.as_secs()));
        let mut head = format!("HTTP/1.1 {number} {words}\r\nDate: {date}\r\n");
        let length = self.body.len().to_string();
        let all = [
            ("Content-Type", self.content_type),
            ("Content-Length", &length),
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", &self.policy),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        ];
        let own = self
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        for (name, value) in all.into_iter().chain(own) {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let body = (!is_head && !self.body.is_empty()).then(|| Arc::clone(&self.body));
        (head.into_bytes(), body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_complete_and_a_body_follows() {
        let answer = Answer::line(Status::Method, "no").with("Allow", "GET\r\nX: y");
        let (head, body) = answer.parts(false);
        let head = String::from_utf8(head).expect("text");
        assert!(
            head.starts_with("HTTP/1.1 405 Method Not Allowed\r\nDate: "),
            "{head}"
        );
        assert!(
            head.contains("\r\nContent-Length: 3\r\nConnection: close\r\n"),
            "{head}"
        );
        assert!(
            head.contains("\r\nAllow: GETX: y\r\n") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        assert!(head.contains("default-src 'none'"), "{head}");
        assert_eq!(body.as_deref(), Some(&b"no\n"[..]));
        let (same, none) = answer.parts(true);
        assert!(String::from_utf8_lossy(&same).contains("Content-Length: 3\r\n"));
        assert_eq!(none, None);
    }
}
