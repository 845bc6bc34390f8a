//! `--listen`: metrics and a page by HTTP.
//!
//! Invariant: its thread decides nothing and reads nothing of the tree: it has what the owner gave it ([`crate::http::Site`]). It can
//! change nothing, and its end is waited for.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use super::history::History;
use super::history::file::load;
use super::keeper::Keeper;
use super::site::Shown;
use super::snapshot::{self, Poster};
use crate::error::{Error, ExitCode};
use crate::http::{Address, Server, Token};

/// What is listened on, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wanted {
    pub(super) addresses: Vec<Address>,
    pub(super) token_file: PathBuf,
    /// None to forget with the process.
    pub(super) history: Option<PathBuf>,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) poster: Poster,
    thread: JoinHandle<()>,
    /// For people.
    pub(super) places: Vec<String>,
    /// What went wrong since.
    pub(super) notes: Receiver<String>,
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
    let mut places: Vec<String> = places.collect();
    let failed = |error| {
        let what = format!("cannot begin to listen: {error}");
        Error::failed(
            what,
            "are the limits of open files and threads high enough?",
        )
    };
    let (poster, board) = snapshot::open().map_err(failed)?;
    let (sender, notes) = channel();
    let (history, note) = wanted
        .history
        .as_deref()
        .map_or(Ok(Default::default()), earlier)?;
    places.extend(note);
    let bell = board.bell.try_clone().map_err(failed)?;
    let mut shown = Shown::new(board, history, Keeper::new(wanted.history.clone(), sender));
    let run = move || {
        server.run(&bell, &mut shown);
        shown.end();
    };
    let thread = std::thread::Builder::new()
        .name("listen".to_owned())
        .spawn(run);
    Ok(Some(Listening {
        poster,
        thread: thread.map_err(failed)?,
        places,
        notes,
    }))
}

/// The history of before, and what is to be told of it.
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

/// Where it is, and what it takes.
fn told(address: &Address, token_file: &Path) -> String {
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
