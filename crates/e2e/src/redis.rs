//! A redis server for one benchmark or test, filled with keys whose values are known.

use crate::guard::{Run, Running, send};
use crate::resp::{Client, Reply, free_port};
use crate::temp::TempDir;
use crate::wait::Chance;
use rustix::process::Signal;

/// Size of each value, bytes.
const VALUE_BYTES: u64 = 4096;
/// Default percentage of a value that is random; zram's lzo-rle compresses such a value 2.5 to 1.
pub const NOISE: u64 = 30;
/// Number of commands that are sent together.
const BATCH: u64 = 100;

/// A running server, with one client.
#[derive(Debug)]
pub struct Redis {
    /// Kills the server when dropped, though redis overwrites the mark in its environment.
    _running: Running,
    /// Pid of the server.
    pub pid: u32,
    client: Client,
    /// Percentage of each value that is random.
    noise: u64,
    _folder: TempDir,
}

impl Redis {
    /// Starts a server; the command that `wrap` makes runs it. `noise` percent of each value are
    /// random and cannot be compressed.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn start(noise: u64, wrap: &dyn Fn(&Run) -> Run) -> Redis {
        let (folder, port) = (TempDir::new(), free_port());
        let (dir, port_text) = (
            folder.path().to_string_lossy().into_owned(),
            port.to_string(),
        );
        let words = ["redis-server", "--port", &port_text, "--bind", "127.0.0.1"];
        let more = ["--save", "", "--appendonly", "no", "--dir", &dir];
        let running = wrap(&Run::new(words.into_iter().chain(more))).start();
        let mut client = Client::connect(port);
        let pid = pid_of(&mut client);
        Redis {
            _running: running,
            pid,
            client,
            noise,
            _folder: folder,
        }
    }

    /// Sets the keys 0 to `keys - 1` to their values.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn fill(&mut self, keys: u64) {
        for first in (0..keys).step_by(100) {
            let pairs: Vec<_> = (first..(first + BATCH).min(keys))
                .map(|number| (key(number), value(number, self.noise)))
                .collect();
            let words: Vec<[&[u8]; 3]> = pairs.iter().map(|(k, v)| [&b"SET"[..], k, v]).collect();
            let commands: Vec<&[&[u8]]> = words.iter().map(|words| &words[..]).collect();
            self.client.pipeline(&commands);
        }
    }

    /// Sets key `number` to its value.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn set(&mut self, number: u64) {
        let (key, value) = (key(number), value(number, self.noise));
        self.client.pipeline(&[&[b"SET", &key, &value]]);
    }

    /// Reads several keys at once, and checks their values.
    ///
    /// # Panics
    /// If a value is wrong.
    pub fn check_all(&mut self, numbers: &[u64]) {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
        let words: Vec<[&[u8]; 2]> = keys.iter().map(|key| [&b"GET"[..], key]).collect();
        let commands: Vec<&[&[u8]]> = words.iter().map(|words| &words[..]).collect();
        let replies = self.client.pipeline(&commands);
        for (number, reply) in numbers.iter().zip(replies) {
            let is_right = reply == Reply::Bulk(Some(value(*number, self.noise)));
            assert!(is_right, "key {number} is wrong");
        }
    }

    /// Reads key `number`, and checks its value.
    ///
    /// # Panics
    /// If the value is wrong.
    pub fn check(&mut self, number: u64) {
        let reply = self.client.pipeline(&[&[b"GET", &key(number)]]);
        let is_right = reply[0] == Reply::Bulk(Some(value(number, self.noise)));
        assert!(is_right, "key {number} is wrong");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        send(self.pid, Signal::KILL);
    }
}

/// Pid of the server, by its own answer: redis changes its name in /proc.
fn pid_of(client: &mut Client) -> u32 {
    let Reply::Bulk(Some(text)) = client.call(&["INFO", "server"]) else {
        panic!("redis has nothing to say about itself");
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let pid = text
        .lines()
        .find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
    pid.expect("redis knows its process id")
}

/// Name of key `number`.
fn key(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// Makes the value of a key from 512 words of 8 bytes. Of each hundred words `noise` are random,
/// evenly spread; all others are the number of the key.
fn value(number: u64, noise: u64) -> Vec<u8> {
    let mut chance = Chance::new(number);
    let words = (0..VALUE_BYTES / 8).map(|at| {
        if at * noise / 100 < (at + 1) * noise / 100 {
            chance.below(u64::MAX)
        } else {
            number
        }
    });
    words.flat_map(u64::to_le_bytes).collect()
}
