//! What the tree's owner tells whoever shows it: figures after looks, and what was done.
//!
//! Invariant: the owner never waits for a reader, and composes nothing that nobody asked for (`--listen`) or that would
//! take more than its share of a processor; curves, which are dear, in turn. A reader that is slow misses figures, never what was done, but for the oldest
//! of very much.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::memcg::MemcgId;
use host::manage::tenants::Tenants;
use host::manage::tenants::figures::Figures;
use host::report::{Curve, Price};
use host::system::Proc;
use host::system::thread_cpu;

use super::names::{Namer, Names};

/// Composing may take this part of a processor.
const SHARE: u32 = 20;
/// Snapshots that wait for their reader.
const WAITING_MAX: usize = 4;
/// Curves of a snapshot are composed for so long, at least one: of whom next is told with the next snapshot. Nobody waits for the
/// tree's owner for longer in a reclaim, either.
const CURVES_TIME: Duration = Duration::from_millis(20);
/// Tenants whose curves are told, those above first: 6 KiB each.
const CURVES_MAX: usize = 1000;
/// A page's price is measured anew after so long.
const PRICE_STALE: Duration = Duration::from_secs(60);
/// What was done, as far back as it is kept for a reader who is slow.
const ACTIONS_MAX: usize = 1000;

/// Something that was done, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Action {
    /// When, milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) text: String,
}

/// All tenants after a look.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Snapshot {
    /// When, milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) nodes: Vec<u32>,
    pub(super) figures: Figures,
    /// Of some of the tenants what less memory would cost, as far as that is known.
    pub(super) curves: Vec<(PathBuf, Option<Curve>)>,
    /// What a page costs that comes back.
    pub(super) price: Price,
    /// Units, containers and pods among the tenants.
    pub(super) names: Arc<Names>,
    /// Since the snapshot before.
    pub(super) actions: Vec<Action>,
}

/// The owner's end.
#[derive(Debug)]
pub(super) struct Poster {
    snapshots: SyncSender<Snapshot>,
    bell: UnixStream,
    /// The looks that were told of.
    looks: u64,
    next: Instant,
    /// Whose curve is told next, as a place in the list of tenants.
    turn: usize,
    /// When a page's price was measured, and what it was.
    price: Option<(Instant, Price)>,
    namer: Namer,
    actions: Vec<Action>,
}

/// The reader's end: what has come, and what rings when something has. Closed, the owner has ended.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) snapshots: Receiver<Snapshot>,
    pub(super) bell: UnixStream,
}

/// Both ends.
pub(super) fn open() -> io::Result<(Poster, Board)> {
    let (snapshots, receiver) = sync_channel(WAITING_MAX);
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let poster = Poster {
        snapshots,
        bell: ours,
        looks: 0,
        next: Instant::now(),
        turn: 0,
        price: None,
        namer: Namer::start(),
        actions: Vec::new(),
    };
    let board = Board {
        snapshots: receiver,
        bell: theirs,
    };
    Ok((poster, board))
}

impl Poster {
    /// Tells of the last look, if that is new, and of what was done.
    pub(super) fn post(&mut self, tenants: &mut Tenants, done: &[String]) {
        let at_ms = now_ms();
        self.actions.extend(done.iter().map(|text| Action {
            at_ms,
            text: text.clone(),
        }));
        let much = self.actions.len().saturating_sub(ACTIONS_MAX);
        self.actions.drain(..much);
        let (begin, worked) = (Instant::now(), thread_cpu());
        if tenants.looks() == self.looks || begin < self.next {
            return;
        }
        self.looks = tenants.looks();
        let figures = tenants.figures();
        let paths = figures.tenants.iter().map(|tenant| tenant.path.clone());
        let names = self.namer.names(paths.collect());
        let snapshot = Snapshot {
            at_ms,
            nodes: tenants.nodes().to_vec(),
            figures,
            names,
            curves: self.curves(tenants),
            price: self.price(),
            actions: std::mem::take(&mut self.actions),
        };
        // By the clock, the figures of a busy host's 1,000 tenants were 30 s old: others' time
        // counted.
        self.next = begin + thread_cpu().saturating_sub(worked) * SHARE;
        match self.snapshots.try_send(snapshot) {
            Ok(()) => {
                // A full pipe rings already.
                let _ = self.bell.write(&[1]);
            }
            Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                self.actions = back.actions;
            }
        }
    }

    /// As it was at most a minute ago.
    fn price(&mut self) -> Price {
        let fresh = self.price.take();
        let fresh = fresh.filter(|(then, _)| then.elapsed() < PRICE_STALE);
        let measured = || Proc::system().map(|proc| host::price::price(&proc));
        let fresh = fresh.or_else(|| Some((Instant::now(), measured().ok()?)));
        self.price.clone_from(&fresh);
        fresh.map(|(_, price)| price).unwrap_or_default()
    }

    /// Those that are next, as many as there is time for.
    fn curves(&mut self, tenants: &Tenants) -> Vec<(PathBuf, Option<Curve>)> {
        let begin = Instant::now();
        let all = tenants.below(MemcgId::ROOT);
        let count = all.len().min(CURVES_MAX);
        let mut told = Vec::new();
        while told.len() < count {
            // Some may have gone since.
            self.turn = if self.turn < count { self.turn } else { 0 };
            let memcg = all[self.turn];
            self.turn += 1;
            let path = tenants.path(memcg).map(Path::to_path_buf);
            let [kernel, _] = tenants.kernels_part(memcg).unwrap_or_default();
            let curve = tenants.curve(memcg, kernel);
            told.push((path.unwrap_or_default(), curve.unwrap_or_default()));
            if begin.elapsed() >= CURVES_TIME {
                break;
            }
        }
        told
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What a tenant is called: `/` and its path. A byte that is no UTF-8 is `//` and its hexadecimal digits: no path has
/// two slashes in a row, so no two tenants have one name.
pub(super) fn name_of(path: &Path) -> String {
    let mut name = "/".to_owned();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        name += chunk.valid();
        for byte in chunk.invalid() {
            let _ = write!(name, "//{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_paths() {
        for (path, name) in [
            (&b""[..], "/"),
            (b"web/a b", "/web/a b"),
            ("\u{e4}\u{fffd}".as_bytes(), "/\u{e4}\u{fffd}"),
            (b"a\xff/\xfe", "/a//ff///fe"),
            (br"a\x2d", r"/a\x2d"),
        ] {
            assert_eq!(name_of(Path::new(OsStr::from_bytes(path))), name);
        }
    }

    proptest! {
        #[test]
        fn no_two_paths_have_one_name(
            paths in prop::collection::btree_set(
                prop::collection::vec(prop::collection::vec(
                    prop::sample::select(&b"a/f\xff\xfe\xc3"[..]), 1..4), 1..4), 0..40)
        ) {
            let mut names: BTreeMap<String, Vec<u8>> = BTreeMap::new();
            for parts in paths {
                // A component has no slash.
                let parts: Vec<Vec<u8>> = parts
                    .into_iter()
                    .map(|part| part.into_iter().filter(|byte| *byte != b'/').collect())
                    .filter(|part: &Vec<u8>| !part.is_empty())
                    .collect();
                let path = parts.join(&b'/');
                let name = name_of(Path::new(OsStr::from_bytes(&path)));
                let other = names.insert(name.clone(), path.clone());
                prop_assert!(other.is_none_or(|other| other == path), "{name}");
            }
        }
    }
}
