//! Decides which HTTP requests are allowed.
//!
//! Invariant: over TCP no request is served without the token, and a page of another site cannot
//! make a browser send a valid one. The request's `Host` must be our address, as a number (a name
//! could be made to resolve to our address), and its origin must be our own page. On a unix socket
//! the kernel says which user's process is the peer.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::address::is_loopback;
use super::answer::{Answer, Status};
use super::head::Head;
use super::token::Token;

/// Name of the query parameter with the token, in a browser's first request.
const PARAMETER: &str = "token";

/// The rules for requests to one address that the server listens on.
#[derive(Clone, Debug)]
pub(super) enum Gate {
    /// A unix socket: the peer's user was checked when the peer connected.
    Unix,
    Tcp {
        bound: SocketAddr,
        token: Token,
        /// Value of the cookie that a browser gets in exchange for the token.
        session: Token,
    },
}

impl Gate {
    /// Returns the rules for a bound TCP address.
    pub(super) fn tcp(bound: SocketAddr, token: Token) -> io::Result<Gate> {
        let session = Token::new()?;
        Ok(Gate::Tcp {
            bound,
            token,
            session,
        })
    }

    /// Allows a request, or returns the response that refuses the request.
    pub(super) fn admit(&self, head: &Head) -> Result<(), Box<Answer>> {
        let refuse = |why: &str| Err(Box::new(Answer::line(Status::Forbidden, why)));
        if let Gate::Tcp { bound, .. } = self
            && !head
                .host
                .as_deref()
                .is_some_and(|host| is_ours(host, *bound))
        {
            return refuse(
                "the request names another host: use this host's IP address, or localhost",
            );
        }
        let own = head.host.as_ref().map(|host| format!("http://{host}"));
        if head.origin.is_some() && head.origin != own {
            return refuse("another site's page sent this request");
        }
        if !is_of_this_site(head) {
            return refuse("another site's page sent this request");
        }
        match self {
            Gate::Unix => Ok(()),
            Gate::Tcp {
                bound,
                token,
                session,
            } => admit_with(head, token, (session, bound.port())).map_err(Box::new),
        }
    }
}

/// Allows a request that has the token, in a header or as a query parameter, or the session's
/// cookie.
fn admit_with(head: &Head, token: &Token, (session, port): (&Token, u16)) -> Result<(), Answer> {
    // A browser sends the cookies of a host to all ports of this host, so the cookie's name
    // contains our port.
    let name = format!("pagetide-{port}");
    if let Some(given) = head.query.get(PARAMETER) {
        // In a query `+` means a space, which no token contains.
        if !token.is(&given.replace(' ', "+")) {
            return Err(unauthorized("the token is wrong"));
        }
        let cookie = format!(
            "{name}={}; Path=/; HttpOnly; SameSite=Strict",
            session.text()
        );
        let place = format!("{}{}", head.path, head.query.without(PARAMETER));
        let place = own_path(&place);
        let answer = Answer::line(Status::SeeOther, &place);
        return Err(answer.with("Location", &place).with("Set-Cookie", &cookie));
    }
    if let Some(given) = &head.authorization {
        let (scheme, given) = given.split_once(' ').unwrap_or((given, ""));
        return match scheme.eq_ignore_ascii_case("bearer") && token.is(given.trim()) {
            true => Ok(()),
            false => Err(unauthorized("the token is wrong")),
        };
    }
    let cookies = head.cookie.iter().flat_map(|cookie| cookie.split(';'));
    let mut cookies = cookies.filter_map(|one| one.trim().split_once('='));
    match cookies.any(|(known, value)| known == name && session.is(value)) {
        true => Ok(()),
        false => Err(unauthorized(
            "a token is needed: as `Authorization: Bearer TOKEN`, or in a browser once as `?token=TOKEN`",
        )),
    }
}

/// Returns a redirect target on this host. Browsers take `//x` and `/\x` for the host `x`: they
/// treat `\` as `/`, and skip tabs and line ends.
fn own_path(place: &str) -> String {
    let path = place.trim_start_matches(|c: char| {
        matches!(c, '/' | '\\') || c.is_whitespace() || c.is_control()
    });
    let shown = |c: char| match c {
        '\\' => "%5C".to_owned(),
        c if c.is_ascii_graphic() => c.to_string(),
        c => super::query::encoded(&c.to_string()),
    };
    let path: String = path.chars().map(shown).collect();
    format!("/{path}")
}

fn unauthorized(why: &str) -> Answer {
    let answer = Answer::line(Status::Unauthorized, why);
    answer.with("WWW-Authenticate", "Bearer realm=\"pagetide\"")
}

/// Whether a browser sent this request for our own page, or because the user navigated here, rather
/// than because another site embeds or fetches us. True without these headers: only browsers send
/// them.
fn is_of_this_site(head: &Head) -> bool {
    let is_chosen = head.fetch_mode.as_deref() == Some("navigate");
    match head.fetch_site.as_deref() {
        None | Some("same-origin" | "none") => true,
        Some(_) => is_chosen,
    }
}

/// Whether a request's `Host` is the address that we are bound to.
fn is_ours(host: &str, bound: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        // An IPv6 address without a port ends with a bracket.
        Some((name, port)) if !host.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(80)),
    };
    if port != Some(bound.port()) {
        return false;
    }
    let own = bound.ip().to_canonical();
    let is_any = own.is_unspecified();
    if name.eq_ignore_ascii_case("localhost") {
        return is_any || is_loopback(own);
    }
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let requested: Option<IpAddr> = match bare {
        Some(bare) => bare.parse().ok().filter(IpAddr::is_ipv6),
        None => name.parse().ok().filter(IpAddr::is_ipv4),
    };
    requested.is_some_and(|requested| is_any || requested.to_canonical() == own)
}

#[cfg(test)]
mod tests {
    use super::super::head::{self, Read};
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn gate(bound: &str) -> (Gate, String) {
        let path = std::env::temp_dir().join(format!("pagetide-gate-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, TOKEN).expect("written");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, private).expect("ours");
        let token = Token::of_file(&path).expect("a token");
        std::fs::remove_file(path).expect("ours");
        let gate = Gate::tcp(bound.parse().expect("an address"), token).expect("chance");
        let Gate::Tcp { session, .. } = &gate else {
            unreachable!("it is TCP")
        };
        let cookie = session.text().to_owned();
        (gate, cookie)
    }

    /// Returns the status code of the response that refuses a request; 0 for an allowed request.
    fn status(gate: &Gate, target: &str, headers: &str) -> u16 {
        let text = format!("GET {target} HTTP/1.1\r\n{headers}\r\n");
        match head::read(text.as_bytes()) {
            Read::Whole(head) => gate
                .admit(&head)
                .map_or_else(|no| no.status.number(), |()| 0),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn only_our_own_numeric_hosts_are_accepted() {
        for (bound, host, is) in [
            ("127.0.0.1:9477", "127.0.0.1:9477", true),
            ("127.0.0.1:9477", "localhost:9477", true),
            ("127.0.0.1:9477", "LOCALHOST:9477", true),
            ("127.0.0.1:80", "127.0.0.1", true),
            ("[::1]:9477", "[::1]:9477", true),
            ("[::1]:80", "[::1]", true),
            ("0.0.0.0:9477", "10.1.2.3:9477", true),
            ("[::]:9477", "10.1.2.3:9477", true),
            ("[::]:9477", "[fd00::1]:9477", true),
            ("10.1.2.3:9477", "10.1.2.3:9477", true),
            ("127.0.0.1:9477", "127.0.0.1", false),
            ("127.0.0.1:9477", "127.0.0.1:80", false),
            ("127.0.0.1:9477", "127.0.0.2:9477", false),
            ("127.0.0.1:9477", "evil.example:9477", false),
            ("127.0.0.1:9477", "localhost.evil.example:9477", false),
            ("127.0.0.1:9477", "127.0.0.1.nip.io:9477", false),
            ("127.0.0.1:9477", "", false),
            ("127.0.0.1:9477", ":9477", false),
            ("127.0.0.1:9477", "127.0.0.1:09477x", false),
            ("127.0.0.1:9477", "[127.0.0.1]:9477", false),
            ("127.0.0.1:9477", "0x7f.1:9477", false),
            ("127.0.0.1:9477", "2130706433:9477", false),
            ("10.1.2.3:9477", "localhost:9477", false),
            ("0.0.0.0:9477", "evil.example:9477", false),
            ("[::1]:9477", "::1:9477", false),
        ] {
            let bound = bound.parse().expect("an address");
            assert_eq!(is_ours(host, bound), is, "{host} at {bound}");
        }
    }

    #[test]
    fn only_tokens_allow_requests() {
        let (gate, session) = gate("127.0.0.1:9477");
        let host = "Host: 127.0.0.1:9477\r\n";
        for (headers, expected) in [
            (format!("Authorization: Bearer {TOKEN}\r\n"), 0),
            (format!("authorization: bearer  {TOKEN} \r\n"), 0),
            (format!("Cookie: x=y; pagetide-9477={session}; z\r\n"), 0),
            (String::new(), 401),
            (format!("Authorization: Basic {TOKEN}\r\n"), 401),
            (format!("Authorization: {TOKEN}\r\n"), 401),
            (format!("Authorization: Bearer {TOKEN}0\r\n"), 401),
            ("Authorization: Bearer\r\n".to_owned(), 401),
            (format!("Authorization: Bearer {session}\r\n"), 401),
            (format!("Cookie: pagetide-9477={TOKEN}\r\n"), 401),
            (format!("Cookie: pagetide-9478={session}\r\n"), 401),
            (format!("Cookie: pagetide-9477={session}0\r\n"), 401),
        ] {
            assert_eq!(
                status(&gate, "/", &format!("{host}{headers}")),
                expected,
                "{headers}"
            );
        }
        let foreign = format!("Host: evil.example:9477\r\nAuthorization: Bearer {TOKEN}\r\n");
        assert_eq!(status(&gate, "/", &foreign), 403);
    }

    #[test]
    fn a_token_in_the_target_becomes_a_cookie() {
        let (gate, session) = gate("127.0.0.1:9477");
        let text =
            format!("GET //x?tenant=%2Fa&token={TOKEN} HTTP/1.1\r\nHost: localhost:9477\r\n\r\n");
        let Read::Whole(head) = head::read(text.as_bytes()) else {
            panic!("{text}");
        };
        let answer = gate.admit(&head).expect_err("it leads elsewhere");
        let (head, _) = answer.parts(false);
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("HTTP/1.1 303 "), "{head}");
        assert!(head.contains("\r\nLocation: /x?tenant=%2Fa\r\n"), "{head}");
        let cookie = format!(
            "\r\nSet-Cookie: pagetide-9477={session}; Path=/; HttpOnly; SameSite=Strict\r\n"
        );
        assert!(head.contains(&cookie) && !head.contains(TOKEN), "{head}");
        assert_eq!(status(&gate, "/?token=x", "Host: localhost:9477\r\n"), 401);
    }

    /// Regression: `GET /\host?token=...` was redirected to `/\host`, which browsers take for
    /// `//host`.
    #[test]
    fn no_redirect_leads_to_another_host() {
        for (place, own) in [
            ("//x", "/x"),
            ("/\\x", "/x"),
            ("\\\\x", "/x"),
            ("/\\/x?a=b", "/x?a=b"),
            ("/\t/x", "/x"),
            ("/\u{a0}/x", "/x"),
            ("///\\//x/\\y", "/x/%5Cy"),
            ("/a\r\nb", "/a%0D%0Ab"),
            ("/\u{e4}", "/%C3%A4"),
            ("/%5C%5Cx", "/%5C%5Cx"),
            ("/", "/"),
            ("", "/"),
        ] {
            assert_eq!(own_path(place), own, "{place:?}");
        }
        let (gate, _) = gate("127.0.0.1:9477");
        let text = format!("GET /\\x?token={TOKEN} HTTP/1.1\r\nHost: localhost:9477\r\n\r\n");
        if let Read::Whole(head) = head::read(text.as_bytes()) {
            let answer = gate.admit(&head).expect_err("it leads elsewhere");
            let (head, _) = answer.parts(false);
            let head = String::from_utf8(head).expect("text");
            assert!(head.contains("\r\nLocation: /x\r\n"), "{head}");
        } else {
            panic!("{text}");
        }
    }

    #[test]
    fn requests_from_other_sites_are_refused() {
        let (gate, _) = gate("127.0.0.1:9477");
        let own = format!("Host: 127.0.0.1:9477\r\nAuthorization: Bearer {TOKEN}\r\n");
        for (headers, expected) in [
            ("Origin: http://127.0.0.1:9477\r\n", 0),
            ("Origin: http://localhost:9477\r\n", 403),
            ("Origin: https://127.0.0.1:9477\r\n", 403),
            ("Origin: http://127.0.0.1:9478\r\n", 403),
            ("Origin: null\r\n", 403),
            ("Origin: http://evil.example\r\n", 403),
            ("Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n", 0),
            ("Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n", 0),
            (
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
                0,
            ),
            (
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
                403,
            ),
            ("Sec-Fetch-Site: same-site\r\n", 403),
        ] {
            assert_eq!(
                status(&gate, "/", &format!("{own}{headers}")),
                expected,
                "{headers}"
            );
        }
        let origin = "Host: x\r\nOrigin: http://evil.example\r\n";
        assert_eq!(status(&Gate::Unix, "/", origin), 403);
        assert_eq!(status(&Gate::Unix, "/", "Host: x\r\n"), 0);
    }
}
