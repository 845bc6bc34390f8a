//! What tenants are to their users, for the labels of gauges: units, containers and pods.
//!
//! Invariant: the tree's owner waits for no file of a container runtime: a thread of its own reads them, and the
//! owner takes what was read last.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use host::workload::{self, Kind, Workload};

/// Files of the runtimes are read again after so long, and where there are other tenants.
const STALE: Duration = Duration::from_secs(60);
const SOONEST: Duration = Duration::from_secs(5);

/// By their paths, tenants that are a unit, a container or a pod. Groups within one are not among them: sums by
/// name would count their memory twice.
pub(super) type Names = BTreeMap<PathBuf, Workload>;

/// The owner's end.
#[derive(Debug)]
pub(super) struct Namer {
    asks: SyncSender<Vec<PathBuf>>,
    read: Arc<Mutex<Arc<Names>>>,
    asked: Option<(Instant, Vec<PathBuf>)>,
}

impl Namer {
    /// Starts the thread; it ends with this. Without one nothing has a name.
    pub(super) fn start() -> Namer {
        let (asks, asked) = sync_channel(1);
        let read = Arc::new(Mutex::new(Arc::default()));
        let to = Arc::clone(&read);
        let thread = thread::Builder::new().name("names".to_owned());
        let _ = thread.spawn(move || read_all(&asked, &to));
        Namer {
            asks,
            read,
            asked: None,
        }
    }

    /// Names of these tenants, as they were read last.
    pub(super) fn names(&mut self, paths: Vec<PathBuf>) -> Arc<Names> {
        let is_due = self.asked.as_ref().is_none_or(|(then, before)| {
            let stale = if *before == paths { STALE } else { SOONEST };
            then.elapsed() >= stale
        });
        // A thread that still reads is asked the next time.
        if is_due && self.asks.try_send(paths.clone()).is_ok() {
            self.asked = Some((Instant::now(), paths));
        }
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&read)
    }
}

fn read_all(asked: &Receiver<Vec<PathBuf>>, to: &Mutex<Arc<Names>>) {
    while let Ok(paths) = asked.recv() {
        let names = Arc::new(named(&paths, Path::new("/")));
        *to.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

/// Those of these paths below the root of control groups that are a unit, a container or a pod, with what the files
/// of the runtimes below `root` say.
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

/// Labels of a tenant with their values, those that are known.
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
    fn a_unit_has_its_name_and_what_is_within_it_has_none() {
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
