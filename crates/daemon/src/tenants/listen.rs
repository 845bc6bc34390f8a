//! `--listen`: metrics and the dashboard over HTTP.
//!
//! Invariant: its thread decides nothing and reads nothing of the tree: it serves the snapshots
//! that the tree's owner sent ([`crate::http::Site`]). It can change nothing and has no privileges
//! except its open descriptors ([`host::confine`]). The manager waits until the thread has ended.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use super::history::History;
use super::history::file::load;
use super::keeper::Keeper;
use super::site::Shown;
use super::snapshot::{self, SnapshotSender};
use crate::error::{Error, ExitCode};
use crate::http::{Address, Server, Token};

/// Where to listen, the token's file, and the history's file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wanted {
    pub(super) addresses: Vec<Address>,
    pub(super) token_file: PathBuf,
    /// The history's file; `None`: the history is lost when the process ends.
    pub(super) history: Option<PathBuf>,
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) snapshot_sender: SnapshotSender,
    /// Returns the server, so that the manager removes its sockets: the thread has no rights to do
    /// that.
    thread: JoinHandle<Server>,
    /// The addresses on which it listens, as text for the user.
    pub(super) places: Vec<String>,
    /// Messages about failures since the start.
    pub(super) notes: Receiver<String>,
}

/// Starts the thread that listens; `None` if no address is set.
pub(super) fn start(wanted: &Wanted) -> Result<Option<Listening>, Error> {
    if wanted.addresses.is_empty() {
        return Ok(None);
    }
    let has_tcp = wanted
        .addresses
        .iter()
        .any(|one| matches!(one, Address::Tcp(_)));
    // Only TCP needs a token.
    let token = has_tcp
        .then(|| Token::of_file(&wanted.token_file))
        .transpose()?;
    let mut server = Server::bind(&wanted.addresses, token.as_ref())?;
    let places = server
        .addresses()
        .map(|address| reported(&address, &wanted.token_file));
    let mut places: Vec<String> = places.collect();
    let failed = |error| {
        let what = format!("cannot begin to listen: {error}");
        Error::failed(
            what,
            "are the limits of open files and threads high enough?",
        )
    };
    let (snapshot_sender, snapshot_receiver) = snapshot::open().map_err(failed)?;
    let (sender, notes) = channel();
    let (history, note) = wanted
        .history
        .as_deref()
        .map_or(Ok(Default::default()), earlier)?;
    places.extend(note);
    let wakeup = snapshot_receiver.wakeup.try_clone().map_err(failed)?;
    let keeper = Keeper::new(wanted.history.clone(), sender.clone()).map_err(failed)?;
    let mut shown = Shown::new(snapshot_receiver, history, keeper);
    let run = move || {
        let confined = host::confine::confine_to_open_descriptors();
        if !confined.lacks.is_empty() {
            let lacks = confined.lacks.join("; ");
            // The receiver may have ended.
            let _ = sender.send(format!(
                "the thread that listens keeps rights that it does not need: {lacks}"
            ));
        }
        server.run(&wakeup, &mut shown);
        shown.end();
        server
    };
    let thread = std::thread::Builder::new()
        .name("listen".to_owned())
        .spawn(run);
    Ok(Some(Listening {
        snapshot_sender,
        thread: thread.map_err(failed)?,
        places,
        notes,
    }))
}

/// Loads the history of an earlier manager; the second value is a note for the user.
fn earlier(path: &Path) -> Result<(History, Option<String>), Error> {
    load(path).map_err(|error| {
        let what = format!("cannot keep the history in {}: {error}", path.display());
        Error::ending(
            ExitCode::Usage,
            what,
            "give another file with --history, or `none`",
        )
    })
}

/// Formats an address for the user, with what a client needs to use it.
fn reported(address: &Address, token_file: &Path) -> String {
    let text = match address {
        Address::Unix(_) => {
            return format!("metrics and a page at {address}, for this user and root");
        }
        Address::Tcp(_) => {
            format!(
                "metrics and a page at {address}, with the token in {}",
                token_file.display()
            )
        }
    };
    match address.is_open_to_others() {
        true => text + "; not encrypted: others on the network path can read the token",
        false => text,
    }
}

impl Listening {
    /// Ends the thread.
    pub(super) fn end(self) {
        drop(self.snapshot_sender);
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;

    /// Longest time for a thread to start or to end.
    const LIMIT: Duration = Duration::from_secs(30);

    /// Waits until this process's thread of this name has dropped its privileges; returns its
    /// status text.
    fn confined(name: &str) -> String {
        let begin = Instant::now();
        loop {
            let threads = std::fs::read_dir("/proc/self/task")
                .expect("ours")
                .flatten();
            let mut all = threads
                .filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
            let is_it = |status: &String| {
                let has = |line: &str| status.lines().any(|one| one == line);
                has(&format!("Name:\t{name}")) && has("Seccomp:\t2")
            };
            if let Some(found) = all.find(is_it) {
                return found;
            }
            assert!(
                begin.elapsed() < LIMIT,
                "no thread {name} gave up its rights"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn capabilities(status: &str) -> u64 {
        crate::rights::hex(status, "CapEff:").expect("the kernel tells it")
    }

    /// Regression: the thread that serves untrusted clients over HTTP had all of root's
    /// capabilities, and could open every file of the host.
    #[test]
    fn the_http_thread_has_no_privileges_and_answers() {
        let name = format!("pagetide-listen-{}", std::process::id());
        let at = std::env::temp_dir().join(name);
        let history = at.with_extension("history");
        let wanted = Wanted {
            addresses: vec![Address::Unix(at.clone())],
            token_file: PathBuf::new(),
            history: Some(history.clone()),
        };
        let listening = start(&wanted).expect("it listens").expect("it is wanted");
        let status = confined("listen");
        // CAP_IPC_LOCK stays if locked memory has a limit that cannot be lifted.
        let locks = 1 << 14;
        assert_eq!(capabilities(&status) & !locks, 0, "{status}");
        let mut stream = UnixStream::connect(&at).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let head = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(head).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        assert!(text.starts_with("HTTP/1.1 404"), "{text}");
        let notes: Vec<String> = listening.notes.try_iter().collect();
        assert!(notes.is_empty(), "{notes:?}");
        listening.end();
        assert!(!at.exists(), "its socket goes with it");
        let kept = load(&history).expect("ours");
        assert_eq!(kept.1, None);
        std::fs::remove_file(history).expect("it was written");
    }
}
