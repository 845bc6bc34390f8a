//! Snapshots: the figures after a scan, and the actions since the last one. The tree's owner sends
//! them to the thread that shows them.
//!
//! Invariant: the owner never waits for a reader. It composes snapshots only if they are wanted
//! (`--listen`), and within its share of a processor; as curves are costly, each snapshot has only
//! some tenants' curves. A slow reader misses figures but no actions, except the oldest of very
//! many.

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
use host::report::{Curve, Price, SwapStore};
use host::swap::Swap;
use host::system::Proc;
use host::system::thread_cpu;

use super::names::{Namer, Names};

/// Divisor: composing snapshots takes at most `1 / SHARE` of a processor.
const SHARE: u32 = 20;
/// Most snapshots that wait until their reader takes them.
const WAITING_MAX: usize = 4;
/// Longest time for composing a snapshot's curves, of which at least one is composed; the next
/// snapshot continues with the next tenant. Requests wait as long as for a slice of a reclaim.
const CURVES_TIME: Duration = Duration::from_millis(20);
/// Most tenants that have curves, those nearest to the root: a curve takes 6 KiB.
const CURVES_MAX: usize = 1000;
/// Time after which the price of a refault is measured again.
const PRICE_STALE: Duration = Duration::from_secs(60);
/// Most actions that are kept for a slow reader.
const ACTIONS_MAX: usize = 1000;

/// An action of the manager, and its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Action {
    /// Time of the action, in milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) text: String,
}

/// The figures of all tenants after a scan.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Snapshot {
    /// Time of the snapshot, in milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) nodes: Vec<u32>,
    pub(super) figures: Figures,
    /// Curves of some of the tenants (what less memory would cost), by path; `None` if unknown.
    pub(super) curves: Vec<(PathBuf, Option<Curve>)>,
    /// What a refault costs.
    pub(super) price: Price,
    /// What the host's swap holds in memory; `None` if unknown.
    pub(super) swap: Option<SwapStore>,
    /// Units, containers and pods among the tenants.
    pub(super) names: Arc<Names>,
    /// Actions since the previous snapshot.
    pub(super) actions: Vec<Action>,
}

/// The end of the channel that the tree's owner has.
#[derive(Debug)]
pub(super) struct SnapshotSender {
    snapshots: SyncSender<Snapshot>,
    wakeup: UnixStream,
    /// Number of scans of the tree when the last snapshot was sent.
    scans: u64,
    next_at: Instant,
    /// Index of the tenant with which the next snapshot's curves begin.
    next_curve: usize,
    /// The time when the price of a refault was measured, and the price.
    price: Option<(Instant, Price)>,
    namer: Namer,
    actions: Vec<Action>,
}

/// The end of the channel that the reader has, with a descriptor that is readable when a snapshot
/// has come. That descriptor's other end is closed when the tree's owner has ended.
#[derive(Debug)]
pub(super) struct SnapshotReceiver {
    pub(super) snapshots: Receiver<Snapshot>,
    pub(super) wakeup: UnixStream,
}

/// Creates both ends of the channel.
pub(super) fn open() -> io::Result<(SnapshotSender, SnapshotReceiver)> {
    let (snapshots, receiver) = sync_channel(WAITING_MAX);
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let snapshot_sender = SnapshotSender {
        snapshots,
        wakeup: ours,
        scans: 0,
        next_at: Instant::now(),
        next_curve: 0,
        price: None,
        namer: Namer::start(),
        actions: Vec::new(),
    };
    let snapshot_receiver = SnapshotReceiver {
        snapshots: receiver,
        wakeup: theirs,
    };
    Ok((snapshot_sender, snapshot_receiver))
}

impl SnapshotSender {
    /// Sends a snapshot if there was a new scan. Until then keeps the actions `done` for the next
    /// snapshot.
    pub(super) fn post(&mut self, tenants: &mut Tenants, done: &[String]) {
        let at_ms = now_ms();
        self.actions.extend(done.iter().map(|text| Action {
            at_ms,
            text: text.clone(),
        }));
        let much = self.actions.len().saturating_sub(ACTIONS_MAX);
        self.actions.drain(..much);
        let (begin, worked) = (Instant::now(), thread_cpu());
        if tenants.scans() == self.scans || begin < self.next_at {
            return;
        }
        self.scans = tenants.scans();
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
            swap: Swap::system().store(),
            actions: std::mem::take(&mut self.actions),
        };
        // The pause is a multiple of the processor time that this snapshot took. By elapsed time, a
        // busy host would lengthen the pause, and the figures would be out of date.
        self.next_at = begin + thread_cpu().saturating_sub(worked) * SHARE;
        match self.snapshots.try_send(snapshot) {
            Ok(()) => {
                // The write fails if the pipe is full; then the reader is woken already.
                let _ = self.wakeup.write(&[1]);
            }
            Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                self.actions = back.actions;
            }
        }
    }

    /// Returns the price of a refault, measured at most [`PRICE_STALE`] ago.
    fn price(&mut self) -> Price {
        let fresh = self.price.take();
        let fresh = fresh.filter(|(then, _)| then.elapsed() < PRICE_STALE);
        let measured = || Proc::system().map(|proc| host::price::price(&proc));
        let fresh = fresh.or_else(|| Some((Instant::now(), measured().ok()?)));
        self.price.clone_from(&fresh);
        fresh.map(|(_, price)| price).unwrap_or_default()
    }

    /// Returns the curves of the next tenants, as many as [`CURVES_TIME`] allows.
    fn curves(&mut self, tenants: &Tenants) -> Vec<(PathBuf, Option<Curve>)> {
        let begin = Instant::now();
        let all = tenants.below(MemcgId::ROOT);
        let count = all.len().min(CURVES_MAX);
        let mut reported = Vec::new();
        while reported.len() < count {
            // There may be fewer tenants than at the last snapshot.
            self.next_curve = if self.next_curve < count {
                self.next_curve
            } else {
                0
            };
            let memcg = all[self.next_curve];
            self.next_curve += 1;
            let path = tenants.path(memcg).map(Path::to_path_buf);
            let [kernel, _] = tenants.kernels_part(memcg).unwrap_or_default();
            let curve = tenants.curve(memcg, kernel);
            reported.push((path.unwrap_or_default(), curve.unwrap_or_default()));
            if begin.elapsed() >= CURVES_TIME {
                break;
            }
        }
        reported
    }
}

/// The time now, milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a tenant's name: `/` and its path. A byte that is not UTF-8 becomes `//` and two
/// hexadecimal digits; as no path has two slashes in a row, different tenants have different names.
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
                // A path component contains no slash.
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
