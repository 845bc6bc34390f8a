//! A client of `pagetide serve --listen`: questions by HTTP over TCP or a unix socket, as bytes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::temp::TempDir;
use crate::tenants::Tree;
use crate::wait;

/// An answer comes in much less.
const LIMIT: Duration = Duration::from_secs(30);

/// Where it listens.
#[derive(Clone, Debug)]
pub enum Place {
    /// With the file that has the token.
    Tcp(SocketAddr, PathBuf),
    /// By its path.
    Unix(PathBuf),
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 200 and the like; 0 of a connection that ended without one.
    pub status: u16,
    /// All headers as they came.
    pub headers: String,
    /// What was behind them.
    pub body: String,
}

impl Place {
    /// The TCP address that a tree says it listens on.
    ///
    /// # Panics
    /// If it says none.
    #[must_use]
    pub fn tcp_of(tree: &Tree) -> Place {
        let said = tree.said();
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
        Place::Tcp(
            address.unwrap_or_else(|| panic!("no address in {line}")),
            file.into(),
        )
    }

    /// Its address.
    ///
    /// # Panics
    /// If it is no TCP address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match self {
            Place::Tcp(address, _) => *address,
            Place::Unix(path) => panic!("{} is a unix socket", path.display()),
        }
    }

    /// What stands in the file of the token.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn token(&self) -> String {
        let Place::Tcp(_, file) = self else {
            return String::new();
        };
        let text = std::fs::read_to_string(file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        text.trim().to_owned()
    }

    /// A question with all that it needs.
    #[must_use]
    pub fn question(&self, method: &str, path: &str) -> String {
        match self {
            Place::Tcp(address, _) => {
                let token = self.token();
                format!(
                    "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
                )
            }
            Place::Unix(_) => format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        }
    }

    /// What is at a path.
    ///
    /// # Panics
    /// If nobody listens.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.ask(self.question("GET", path).as_bytes())
    }

    /// The answer to these bytes.
    ///
    /// # Panics
    /// If nobody listens.
    #[must_use]
    pub fn ask(&self, bytes: &[u8]) -> Answer {
        match self {
            Place::Tcp(address, _) => {
                let stream = TcpStream::connect(address);
                let stream = stream.unwrap_or_else(|error| panic!("{address}: {error}"));
                stream.set_read_timeout(Some(LIMIT)).expect("a limit");
                talk(stream, bytes)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path);
                let stream = stream.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                stream.set_read_timeout(Some(LIMIT)).expect("a limit");
                talk(stream, bytes)
            }
        }
    }
}

fn talk(mut stream: impl Read + Write, bytes: &[u8]) -> Answer {
    // It may be answered before all of it is written.
    let _ = stream.write_all(bytes);
    let mut text = Vec::new();
    // A connection that is torn down ends what was said.
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

/// The samples of a page of metrics: by name and labels, as they stand there.
///
/// # Panics
/// If a line is none.
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

/// A tree that listens on TCP, with its token in a folder of the test's.
///
/// # Panics
/// If it tells nothing within a minute.
#[must_use]
pub fn listening(folder: &TempDir, more: &[&str]) -> (Tree, Place) {
    let token = folder.file("token");
    let own = ["--listen", "127.0.0.1:0", "--token-file", &token];
    let options: Vec<&str> = own.iter().chain(more).copied().collect();
    let tree = Tree::serve(&options);
    let place = Place::tcp_of(&tree);
    wait::until("the first look is told", Duration::from_secs(60), || {
        place.get("/metrics").status == 200
    });
    (tree, place)
}

/// A sample; 0 if there is none.
#[must_use]
pub fn value(place: &Place, name: &str) -> f64 {
    samples(&place.get("/metrics").body)
        .get(name)
        .copied()
        .unwrap_or(0.0)
}

/// A number of bytes as samples have it.
#[expect(clippy::cast_precision_loss, reason = "sizes of test programs")]
#[must_use]
pub fn float(bytes: u64) -> f64 {
    bytes as f64
}
