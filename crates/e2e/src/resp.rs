//! A redis client of a few lines: RESP over loopback TCP, with a limit on every wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(180);

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// `+OK`.
    Simple(String),
    /// A number.
    Number(i64),
    /// A string; `None` if there is no such key.
    Bulk(Option<Vec<u8>>),
    /// Several replies.
    Array(Vec<Reply>),
}

/// A connection to a redis server.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// A port that was free a moment ago.
///
/// # Panics
/// If loopback has none.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

impl Client {
    /// Connects, once the server answers.
    ///
    /// # Panics
    /// If it does not within a minute.
    #[must_use]
    pub fn connect(port: u16) -> Client {
        let end = Instant::now() + WAIT;
        while Instant::now() < end {
            if let Some(client) = Client::try_connect(port) {
                return client;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("redis on port {port} does not answer");
    }

    fn try_connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(WAIT)).ok()?;
        stream.set_write_timeout(Some(WAIT)).ok()?;
        stream.set_nodelay(true).ok()?;
        let mut client = Client {
            stream: BufReader::new(stream),
        };
        // While it loads its dump it answers with an error.
        client.send(&[&[b"PING"]]).ok()?;
        matches!(client.receive(), Ok(Reply::Simple(_))).then_some(client)
    }

    /// Sends commands and returns their replies, in order.
    ///
    /// # Panics
    /// On an error reply, or when no reply comes in time.
    pub fn pipeline(&mut self, commands: &[&[&[u8]]]) -> Vec<Reply> {
        self.send(commands).expect("redis takes commands");
        commands
            .iter()
            .map(|_| {
                self.receive()
                    .unwrap_or_else(|error| panic!("redis: {error}"))
            })
            .collect()
    }

    /// One command.
    ///
    /// # Panics
    /// As [`Client::pipeline`].
    pub fn call(&mut self, command: &[&str]) -> Reply {
        let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        self.pipeline(&[&words]).remove(0)
    }

    fn send(&mut self, commands: &[&[&[u8]]]) -> std::io::Result<()> {
        let mut out = Vec::new();
        for command in commands {
            write!(out, "*{}\r\n", command.len())?;
            for word in *command {
                write!(out, "${}\r\n", word.len())?;
                out.extend_from_slice(word);
                out.extend_from_slice(b"\r\n");
            }
        }
        self.stream.get_mut().write_all(&out)
    }

    fn receive(&mut self) -> Result<Reply, String> {
        let mut line = String::new();
        self.stream
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        let rest = line.get(1..).unwrap_or_default().trim_end();
        let number = || {
            rest.parse::<i64>()
                .map_err(|_| format!("not a number: {line:?}"))
        };
        match line.as_bytes().first() {
            Some(b'+') => Ok(Reply::Simple(rest.to_owned())),
            Some(b':') => Ok(Reply::Number(number()?)),
            Some(b'$') => self.bulk(number()?),
            Some(b'*') => (0..number()?)
                .map(|_| self.receive())
                .collect::<Result<_, _>>()
                .map(Reply::Array),
            _ => Err(format!("the server says {line:?}")),
        }
    }

    fn bulk(&mut self, len: i64) -> Result<Reply, String> {
        let Ok(len) = usize::try_from(len) else {
            return Ok(Reply::Bulk(None));
        };
        let mut bytes = vec![0; len + 2];
        self.stream
            .read_exact(&mut bytes)
            .map_err(|error| error.to_string())?;
        bytes.truncate(len);
        Ok(Reply::Bulk(Some(bytes)))
    }
}
