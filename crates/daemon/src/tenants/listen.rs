//! `--listen`: metrics by HTTP, from snapshots.
//!
//! Invariant: its thread decides nothing and reads nothing of the tree: it shows the last snapshot that the owner gave it,
//! so whoever asks, and however often, costs the owner nothing. It can change nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::metrics;
use super::snapshot::{self, Board, Poster, Snapshot};
use crate::error::Error;
use crate::http::{Address, Answer, Head, Server, Site, Status, Token};

/// Nothing is due by itself.
const IDLE: Duration = Duration::from_secs(3600);

/// What is listened on, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wanted {
    pub(super) addresses: Vec<Address>,
    pub(super) token_file: PathBuf,
}

/// The thread, which ends with this.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) poster: Poster,
    thread: JoinHandle<()>,
    /// For people.
    pub(super) places: Vec<String>,
}

/// Listens; nothing where nothing is wanted.
pub(super) fn start(wanted: &Wanted) -> Result<Option<Listening>, Error> {
    if wanted.addresses.is_empty() {
        return Ok(None);
    }
    let has_tcp = wanted
        .addresses
        .iter()
        .any(|one| matches!(one, Address::Tcp(_)));
    // Without TCP nobody has any use for a token.
    let token = has_tcp
        .then(|| Token::of_file(&wanted.token_file))
        .transpose()?;
    let server = Server::bind(&wanted.addresses, token.as_ref())?;
    let places = server
        .addresses()
        .map(|address| told(&address, &wanted.token_file));
    let places = places.collect();
    let failed = |error| {
        let what = format!("cannot begin to listen: {error}");
        Error::failed(
            what,
            "are the limits of open files and threads high enough?",
        )
    };
    let (poster, board) = snapshot::open().map_err(failed)?;
    let run = move || {
        let bell = board.bell.try_clone();
        let mut shown = Shown { board, last: None };
        if let Ok(bell) = bell {
            server.run(&bell, &mut shown);
        }
    };
    let thread = std::thread::Builder::new()
        .name("listen".to_owned())
        .spawn(run);
    Ok(Some(Listening {
        poster,
        thread: thread.map_err(failed)?,
        places,
    }))
}

/// Where it is, and what it takes.
fn told(address: &Address, token_file: &Path) -> String {
    let text = match address {
        Address::Unix(_) => return format!("metrics at {address}, for this user and root"),
        Address::Tcp(_) => format!(
            "metrics at {address}, with the token in {}",
            token_file.display()
        ),
    };
    match address.is_open_to_others() {
        true => text + "; not encrypted: whoever is on the way can read the token",
        false => text,
    }
}

impl Listening {
    /// Ends it.
    pub(super) fn end(self) {
        drop(self.poster);
        let _ = self.thread.join();
    }
}

/// What is shown.
struct Shown {
    board: Board,
    last: Option<Last>,
}

struct Last {
    snapshot: Snapshot,
    /// Once composed.
    metrics: Option<Arc<[u8]>>,
}

impl Site for Shown {
    fn answer(&mut self, head: &Head) -> Answer {
        let Some(last) = &mut self.last else {
            return Answer::line(
                Status::Unavailable,
                "nothing was looked at yet: ask again in a moment",
            );
        };
        match head.path.as_str() {
            "/metrics" => {
                let compose = || metrics::text(&last.snapshot).into_bytes().into();
                let body = last.metrics.get_or_insert_with(compose);
                Answer::new(Status::Ok, metrics::CONTENT_TYPE, Arc::clone(body))
            }
            _ => Answer::line(Status::NotFound, "there is no such thing here: /metrics is"),
        }
    }

    fn wake(&mut self) {
        while let Ok(snapshot) = self.board.snapshots.try_recv() {
            self.last = Some(Last {
                snapshot,
                metrics: None,
            });
        }
    }

    fn pause(&self) -> Duration {
        IDLE
    }
}
