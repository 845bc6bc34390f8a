//! Names of tenants for the labels of metrics: units, containers and pods.
//!
//! Invariant: the tree's owner waits for no file of a container runtime: a separate thread reads
//! the files, and the owner uses what that thread read last.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use host::workload::{self, Kind, Workload};

/// Time after which the runtimes' files are read again. If there are new tenants, they are read
/// sooner, but not before `SOONEST`.
const STALE: Duration = Duration::from_secs(60);
const SOONEST: Duration = Duration::from_secs(5);

/// The tenants that are a unit, a container or a pod, by path. Groups within such a tenant are left
/// out, because a sum by name would count their memory twice.
pub(super) type Names = BTreeMap<PathBuf, Workload>;

/// The tree owner's end of the channel to the thread that reads names.
#[derive(Debug)]
pub(super) struct Namer {
    paths_sender: SyncSender<Vec<PathBuf>>,
    read: Arc<Mutex<Arc<Names>>>,
    requested: Option<(Instant, Vec<PathBuf>)>,
}

impl Namer {
    /// Starts the thread, which ends when this value is dropped. If it cannot start, tenants have
    /// no names.
    pub(super) fn start() -> Namer {
        let (paths_sender, requested) = sync_channel(1);
        let read = Arc::new(Mutex::new(Arc::default()));
        let to = Arc::clone(&read);
        let thread = thread::Builder::new().name("names".to_owned());
        let _ = thread.spawn(move || read_all(&requested, &to));
        Namer {
            paths_sender,
            read,
            requested: None,
        }
    }

    /// Returns the names that the thread read last, and requests a read for these paths if it is
    /// time.
    pub(super) fn names(&mut self, paths: Vec<PathBuf>) -> Arc<Names> {
        let is_due = self.requested.as_ref().is_none_or(|(then, before)| {
            let stale = if *before == paths { STALE } else { SOONEST };
            then.elapsed() >= stale
        });
        // If the thread is still reading, the request is made at the next call.
        if is_due && self.paths_sender.try_send(paths.clone()).is_ok() {
            self.requested = Some((Instant::now(), paths));
        }
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&read)
    }
}

fn read_all(requested: &Receiver<Vec<PathBuf>>, to: &Mutex<Arc<Names>>) {
    while let Ok(paths) = requested.recv() {
        let names = Arc::new(named(&paths, Path::new("/")));
        *to.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

/// Returns which of these paths (below the root of control groups) are a unit, a container or a
/// pod, with names from the runtimes' files below `root`.
fn named(paths: &[PathBuf], root: &Path) -> Names {
    let (mut tenants, mut workloads) = (Vec::new(), Vec::new());
    for path in paths {
        let whole = Path::new("/").join(path);
        let workload = Workload::of(&whole);
        if workload.path == whole && workload.kind != Kind::Group {
            tenants.push(path.clone());
            workloads.push(workload);
        }
    }
    workload::name(&mut workloads, root);
    tenants.into_iter().zip(workloads).collect()
}

/// Returns the labels of a tenant that are known, with their values.
pub(super) fn labels(workload: &Workload) -> impl Iterator<Item = (&'static str, &str)> {
    let all = [
        ("unit", &workload.unit),
        ("namespace", &workload.namespace),
        ("pod", &workload.pod),
        ("container", &workload.container),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_a_name_and_groups_within_it_have_none() {
        let paths = [
            "",
            "web",
            "system.slice",
            "system.slice/redis.service",
            "system.slice/redis.service/worker",
        ];
        let names = named(&paths.map(PathBuf::from), Path::new("/nowhere"));
        let [(path, redis)] = names.iter().collect::<Vec<_>>()[..] else {
            panic!("{names:?}");
        };
        assert_eq!(path, Path::new("system.slice/redis.service"));
        let labels: Vec<_> = labels(redis).collect();
        assert_eq!(labels, [("unit", "redis.service")]);
    }

    #[test]
    fn names_come_without_waiting() {
        let mut namer = Namer::start();
        let path = PathBuf::from("system.slice/redis.service");
        let begin = Instant::now();
        while namer.names(vec![path.clone()]).is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(30), "it is read");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
