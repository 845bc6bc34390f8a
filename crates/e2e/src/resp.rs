//! A small redis client: RESP over loopback TCP, with a time limit on every wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Time limit of each wait.
const WAIT: Duration = Duration::from_secs(180);

/// A reply of redis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A short text, such as `+OK`.
    Simple(String),
    /// A number.
    Number(i64),
    /// A string of bytes; `None` if there is no such key.
    Bulk(Option<Vec<u8>>),
    /// A list of replies.
    Array(Vec<Reply>),
}

/// A connection to a redis server.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// A TCP port that was free just now; another program may take it.
///
/// # Panics
/// If loopback has no free port.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

impl Client {
    /// Connects, and waits until the server answers.
    ///
    /// # Panics
    /// If it does not answer within three minutes.
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

    /// Connects; `None` if the server does not answer PING yet.
    fn try_connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(WAIT)).ok()?;
        stream.set_write_timeout(Some(WAIT)).ok()?;
        stream.set_nodelay(true).ok()?;
        let mut client = Client {
            stream: BufReader::new(stream),
        };
        // While the server loads its data, it answers with an error.
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

    /// Sends one command and returns its reply.
    ///
    /// # Panics
    /// On an error reply, or when no reply comes in time.
    pub fn call(&mut self, command: &[&str]) -> Reply {
        let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        self.pipeline(&[&words]).remove(0)
    }

    /// Sends commands without waiting for replies.
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

    /// Reads one reply.
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

    /// Reads a string of `len` bytes; a negative length means that there is no string.
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
