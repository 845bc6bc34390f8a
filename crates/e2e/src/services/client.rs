//! Clients of the services. A client requests a value by its key and returns the bytes of the
//! answer. Every wait has a time limit.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit for each read and each write.
const WAIT: Duration = Duration::from_secs(60);

/// Address of a service and its protocol.
#[derive(Clone, Debug)]
pub enum Address {
    /// HTTP/1.1; the TCP port.
    Http(u16),
    /// Redis's protocol RESP; the TCP port.
    Redis(u16),
    /// memcached's text protocol; the TCP port.
    Memcached(u16),
    /// `FastCGI`; the TCP port, and the path of the script.
    FastCgi(u16, String),
    /// `PostgreSQL`'s protocol; the path of the Unix socket.
    Postgres(PathBuf),
}

/// A client that is connected to a service.
pub trait Client: Send {
    /// Requests the value of a key.
    ///
    /// # Errors
    /// If the connection fails, or the answer is invalid.
    fn get(&mut self, key: u64) -> io::Result<Vec<u8>>;
}

impl Address {
    /// Connects a client.
    ///
    /// # Errors
    /// If the service does not accept connections yet.
    pub fn connect(&self) -> io::Result<Box<dyn Client>> {
        Ok(match self {
            Address::Http(port) => Box::new(Http(tcp(*port)?)),
            Address::Redis(port) => Box::new(Redis(tcp(*port)?)),
            Address::Memcached(port) => Box::new(Memcached(tcp(*port)?)),
            Address::FastCgi(port, script) => Box::new(FastCgi(*port, script.clone())),
            Address::Postgres(path) => Box::new(Postgres::connect(path)?),
        })
    }

    /// Stores `value(key)` for all keys below `keys` in redis or memcached; does nothing for other
    /// services, which make their values when they start.
    ///
    /// # Errors
    /// If the service refuses.
    pub fn fill(&self, keys: u64, value: &dyn Fn(u64) -> Vec<u8>) -> io::Result<()> {
        match self {
            Address::Redis(port) => {
                let mut stream = tcp(*port)?;
                (0..keys).try_for_each(|key| redis_set(&mut stream, key, &value(key)))
            }
            Address::Memcached(port) => {
                let mut stream = tcp(*port)?;
                (0..keys).try_for_each(|key| memcached_set(&mut stream, key, &value(key)))
            }
            Address::Http(_) | Address::FastCgi(..) | Address::Postgres(_) => Ok(()),
        }
    }
}

/// Connects to a port on loopback, with time limits.
fn tcp(port: u16) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Error for an invalid answer.
fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads a line, without its end.
fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// Reads `count` bytes.
fn bytes(stream: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a value of `length` bytes, and the text `end` behind it; returns the value.
fn value(stream: &mut impl Read, length: usize, end: &str) -> io::Result<Vec<u8>> {
    let mut value = bytes(stream, length + end.len())?;
    value.truncate(length);
    Ok(value)
}

/// Sends a request to store a value; an error if the answer is not `word`.
fn is_stored(stream: &mut BufReader<TcpStream>, request: &[u8], word: &str) -> io::Result<()> {
    stream.get_mut().write_all(request)?;
    let reply = line(stream)?;
    match reply == word {
        true => Ok(()),
        false => Err(wrong(&reply)),
    }
}

/// Client of an HTTP service.
struct Http(BufReader<TcpStream>);

impl Client for Http {
    fn get(&mut self, key: u64) -> io::Result<Vec<u8>> {
        let request = format!("GET /{key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes())?;
        let status = line(&mut self.0)?;
        let mut length = 0;
        loop {
            let header = line(&mut self.0)?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(text) = header.strip_prefix("content-length:") {
                length = text.trim().parse().map_err(|_| wrong("a length"))?;
            }
        }
        let body = bytes(&mut self.0, length)?;
        match status.split(' ').nth(1) {
            Some("200") => Ok(body),
            _ => Err(wrong(&status)),
        }
    }
}

/// Stores a value in redis.
fn redis_set(stream: &mut BufReader<TcpStream>, key: u64, value: &[u8]) -> io::Result<()> {
    let key = format!("key:{key}");
    let mut out = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n", key.len()).into_bytes();
    out.extend(format!("${}\r\n", value.len()).into_bytes());
    out.extend(value);
    out.extend(b"\r\n");
    is_stored(stream, &out, "+OK")
}

/// Client of redis.
struct Redis(BufReader<TcpStream>);

impl Client for Redis {
    fn get(&mut self, key: u64) -> io::Result<Vec<u8>> {
        let key = format!("key:{key}");
        let out = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
        self.0.get_mut().write_all(out.as_bytes())?;
        let head = line(&mut self.0)?;
        let length = head.strip_prefix('$').and_then(|text| text.parse().ok());
        value(&mut self.0, length.ok_or_else(|| wrong(&head))?, "\r\n")
    }
}

/// Stores a value in memcached.
fn memcached_set(stream: &mut BufReader<TcpStream>, key: u64, value: &[u8]) -> io::Result<()> {
    let mut out = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    out.extend(value);
    out.extend(b"\r\n");
    is_stored(stream, &out, "STORED")
}

/// Client of memcached.
struct Memcached(BufReader<TcpStream>);

impl Client for Memcached {
    fn get(&mut self, key: u64) -> io::Result<Vec<u8>> {
        self.0
            .get_mut()
            .write_all(format!("get {key}\r\n").as_bytes())?;
        let head = line(&mut self.0)?;
        let length = head.split(' ').nth(3).and_then(|text| text.parse().ok());
        value(
            &mut self.0,
            length.ok_or_else(|| wrong(&head))?,
            "\r\nEND\r\n",
        )
    }
}

/// Client of a `FastCGI` service: the port and the script. Each request has a connection of its
/// own, as web servers do by default. (The `FastCGI` specification 1.0, 3.3 and 5.)
struct FastCgi(u16, String);

/// A `FastCGI` record of request 1.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap_or(0).to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, high, low, 0, 0];
    bytes.extend(content);
    bytes
}

impl Client for FastCgi {
    fn get(&mut self, key: u64) -> io::Result<Vec<u8>> {
        const BEGIN: u8 = 1;
        const END: u8 = 3;
        const PARAMS: u8 = 4;
        const STDIN: u8 = 5;
        const STDOUT: u8 = 6;
        let query = key.to_string();
        let params = [
            ("SCRIPT_FILENAME", self.1.as_str()),
            ("REQUEST_METHOD", "GET"),
            ("QUERY_STRING", &query),
        ];
        let mut pairs = Vec::new();
        for (name, value) in params {
            // A length of up to 127 takes one byte.
            pairs.extend([name, value].map(|text| u8::try_from(text.len()).unwrap_or(127)));
            pairs.extend(name.bytes().chain(value.bytes()));
        }
        let parts = [
            record(BEGIN, &[0, 1, 0, 0, 0, 0, 0, 0]),
            record(PARAMS, &pairs),
            record(PARAMS, &[]),
            record(STDIN, &[]),
        ];
        let mut stream = tcp(self.0)?;
        stream.get_mut().write_all(&parts.concat())?;
        let mut answer = Vec::new();
        loop {
            let head = bytes(&mut stream, 8)?;
            let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
            let mut content = bytes(&mut stream, length + usize::from(head[6]))?;
            content.truncate(length);
            match head[1] {
                STDOUT => answer.extend(content),
                END => break,
                _ => {}
            }
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        let body = text.split_once("\r\n\r\n");
        let body = body.filter(|(headers, _)| !headers.contains("Status:"));
        body.map(|(_, body)| body.as_bytes().to_vec())
            .ok_or_else(|| wrong(&text))
    }
}

/// Client of `PostgreSQL` by simple queries. (`PostgreSQL` 15 documentation, 55.2 and 55.7.)
struct Postgres(BufReader<UnixStream>);

impl Postgres {
    /// Connects to a socket as user `postgres`.
    fn connect(path: &std::path::Path) -> io::Result<Postgres> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(WAIT))?;
        let mut this = Postgres(BufReader::new(stream));
        let words = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        let length = u32::try_from(words.len() + 4).unwrap_or(0).to_be_bytes();
        this.0.get_mut().write_all(&[&length[..], words].concat())?;
        this.until_ready()?;
        Ok(this)
    }

    /// Reads messages until the server is ready for a query; returns the first column of the last
    /// row, or the error that the server sent.
    fn until_ready(&mut self) -> io::Result<Vec<u8>> {
        let (mut row, mut error) = (None, None);
        loop {
            let head = bytes(&mut self.0, 5)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let length = usize::try_from(length).unwrap_or(0).saturating_sub(4);
            let content = bytes(&mut self.0, length)?;
            match head[0] {
                // A row begins with the number of columns, then the length of the first one.
                b'D' => row = content.get(6..).map(<[u8]>::to_vec),
                b'E' => error = Some(wrong(&String::from_utf8_lossy(&content))),
                b'Z' => break,
                _ => {}
            }
        }
        error.map_or(Ok(row.unwrap_or_default()), Err)
    }
}

impl Client for Postgres {
    fn get(&mut self, key: u64) -> io::Result<Vec<u8>> {
        let query = format!("SELECT value FROM pairs WHERE key = {key}\0");
        let length = u32::try_from(query.len() + 4).unwrap_or(0).to_be_bytes();
        let message = [b"Q", &length[..], query.as_bytes()].concat();
        self.0.get_mut().write_all(&message)?;
        self.until_ready()
    }
}
