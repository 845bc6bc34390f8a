//! A client of `pagetide serve --listen`: sends HTTP requests as bytes over TCP or a Unix socket.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::temp::TempDir;
use crate::tenants::Tree;
use crate::wait;

/// Time limit of an answer; it takes much less.
const LIMIT: Duration = Duration::from_secs(30);

/// Where a `serve` listens.
#[derive(Clone, Debug)]
pub enum ListenAddress {
    /// A TCP address, and the path of the file that holds the access token.
    Tcp(SocketAddr, PathBuf),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The answer to an HTTP request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Status code; 0 if the connection ended without an answer.
    pub status: u16,
    /// The status line and all headers, as text.
    pub headers: String,
    /// The body.
    pub body: String,
}

impl ListenAddress {
    /// The TCP address that `serve` has printed.
    ///
    /// # Panics
    /// If it has printed none.
    #[must_use]
    pub fn tcp_of(tree: &Tree) -> ListenAddress {
        let said = tree.stdout();
        let line = said.lines().find(|line| line.contains("http://"));
        let line = line.unwrap_or_else(|| panic!("no address in {said}"));
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next());
        let address = address.and_then(|text| text.parse().ok());
        let file = line
            .split("token in ")
            .nth(1)
            .map(|rest| rest.split("; ").next().unwrap_or(rest));
        let file = file.unwrap_or_else(|| panic!("no token in {line}"));
        ListenAddress::Tcp(
            address.unwrap_or_else(|| panic!("no address in {line}")),
            file.into(),
        )
    }

    /// The TCP address.
    ///
    /// # Panics
    /// If this is a Unix socket.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match self {
            ListenAddress::Tcp(address, _) => *address,
            ListenAddress::Unix(path) => panic!("{} is a unix socket", path.display()),
        }
    }

    /// The access token, read from its file; empty for a Unix socket.
    ///
    /// # Panics
    /// If the file cannot be read.
    #[must_use]
    pub fn token(&self) -> String {
        let ListenAddress::Tcp(_, file) = self else {
            return String::new();
        };
        let text = std::fs::read_to_string(file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        text.trim().to_owned()
    }

    /// Text of an HTTP request with all headers that `serve` needs.
    #[must_use]
    pub fn request_text(&self, method: &str, path: &str) -> String {
        match self {
            ListenAddress::Tcp(address, _) => {
                let token = self.token();
                format!(
                    "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
                )
            }
            ListenAddress::Unix(_) => {
                format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
            }
        }
    }

    /// Sends a GET request for a path; returns the answer.
    ///
    /// # Panics
    /// If `serve` does not listen.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.send(self.request_text("GET", path).as_bytes())
    }

    /// Sends these bytes; returns the answer.
    ///
    /// # Panics
    /// If `serve` does not listen.
    #[must_use]
    pub fn send(&self, bytes: &[u8]) -> Answer {
        match self {
            ListenAddress::Tcp(address, _) => {
                let stream = TcpStream::connect(address);
                let stream = stream.unwrap_or_else(|error| panic!("{address}: {error}"));
                stream.set_read_timeout(Some(LIMIT)).expect("a limit");
                exchange(stream, bytes)
            }
            ListenAddress::Unix(path) => {
                let stream = UnixStream::connect(path);
                let stream = stream.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                stream.set_read_timeout(Some(LIMIT)).expect("a limit");
                exchange(stream, bytes)
            }
        }
    }
}

/// Sends bytes to a connected stream; returns the answer.
fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Answer {
    // The server may answer before all bytes are written.
    let _ = stream.write_all(bytes);
    let mut text = Vec::new();
    // A connection that is reset ends the answer.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = headers
        .split(' ')
        .nth(1)
        .and_then(|number| number.parse().ok());
    Answer {
        status: status.unwrap_or(0),
        headers: headers.to_owned(),
        body: body.to_owned(),
    }
}

/// The samples of a metrics page in Prometheus's text format: for each name with its labels the
/// value.
///
/// # Panics
/// If a line is no sample.
#[must_use]
pub fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let read = lines.map(|line| sample(line).unwrap_or_else(|| panic!("no sample: {line}")));
    read.collect()
}

/// Starts a `serve` that listens on TCP, with its access token in a file in `folder` and further
/// options `more`. Waits until it serves metrics.
///
/// # Panics
/// If it does not serve them within a minute.
#[must_use]
pub fn listening(folder: &TempDir, more: &[&str]) -> (Tree, ListenAddress) {
    let token = folder.file("token");
    let own = ["--listen", "127.0.0.1:0", "--token-file", &token];
    let options: Vec<&str> = own.iter().chain(more).copied().collect();
    let tree = Tree::serve(&options);
    let place = ListenAddress::tcp_of(&tree);
    wait::until("the first look is told", Duration::from_secs(60), || {
        place.get("/metrics").status == 200
    });
    (tree, place)
}

/// Value of the sample `name` on the metrics page; 0 if there is none.
#[must_use]
pub fn value(place: &ListenAddress, name: &str) -> f64 {
    samples(&place.get("/metrics").body)
        .get(name)
        .copied()
        .unwrap_or(0.0)
}

/// A number of bytes as a floating-point number, to be compared with a sample.
#[expect(clippy::cast_precision_loss, reason = "sizes of test programs")]
#[must_use]
pub fn float(bytes: u64) -> f64 {
    bytes as f64
}
