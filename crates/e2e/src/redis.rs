//! A redis server of a bench's own, filled with keys whose values are known.

use crate::guard::{Run, Running, send};
use crate::resp::{Client, Reply, free_port};
use crate::temp::TempDir;
use crate::wait::Chance;
use rustix::process::Signal;

/// Of each value.
const VALUE_BYTES: u64 = 4096;
/// Percent of a value that is noise unless a bench says otherwise: 2.5 to 1 for zram's lzo-rle.
pub const NOISE: u64 = 30;
/// Commands on their way at once.
const BATCH: u64 = 100;

/// A server that runs, with one client.
#[derive(Debug)]
pub struct Redis {
    /// Ends what it started when it goes; but redis overwrites the mark that it is found by.
    _running: Running,
    /// Its process.
    pub pid: u32,
    client: Client,
    noise: u64,
    _folder: TempDir,
}

impl Redis {
    /// Starts one, as the argument of what `wrap` makes of it; `noise` percent of its values cannot be compressed.
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

    /// Sets keys 0 to `keys`.
    ///
    /// # Panics
    /// If it does not take them.
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

    /// Sets a key to what it is.
    ///
    /// # Panics
    /// If it does not take it.
    pub fn set(&mut self, number: u64) {
        let (key, value) = (key(number), value(number, self.noise));
        self.client.pipeline(&[&[b"SET", &key, &value]]);
    }

    /// Reads some keys at once, and checks what comes.
    ///
    /// # Panics
    /// If one is not what was set.
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

    /// Reads a key, and checks what comes.
    ///
    /// # Panics
    /// If it is not what was set.
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

/// The server's own process id; its name in /proc is what redis makes of it.
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

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// Some words in each hundred are noise, spread evenly; the rest is the same in the whole value.
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
