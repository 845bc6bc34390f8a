//! One interface to the two ways of watching a target: by the library in this process, or through a
//! manager.
//!
//! Invariant: commands use only [`Watching`], so tests can replace the watch by reports of their
//! own.

mod managed;

use std::path::{Path, PathBuf};
use std::time::Duration;

use host::report::{AgeSource, Report};
use host::system::{Group, Groups, Proc, family};
use host::watch::{self, Watch, WatchError};

use crate::failure::Failure;
use crate::workloads::By;

/// The target of a watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// A process and its descendants.
    Pid(u32),
    /// The processes of a control group and of those below it.
    Cgroup(PathBuf),
    /// All processes.
    All,
    /// A tenant of `pagetide serve`, by its path.
    Tenant(TenantName),
}

/// A tenant: the tree that it belongs to, and its path in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TenantName {
    /// The root of the tenant's tree.
    pub(crate) root: PathBuf,
    /// The tenant's path, which begins with a slash.
    pub(crate) path: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Pid(pid) => write!(f, "pid {pid}"),
            Target::Cgroup(path) => write!(f, "{}", path.display()),
            Target::All => write!(f, "all processes"),
            Target::Tenant(tenant) => write!(f, "{}", tenant.path),
        }
    }
}

/// The target of a watch, and how to scan it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WatchRequest {
    pub(crate) target: Target,
    /// Time between two scans.
    pub(crate) age_every: Duration,
    /// Longest time for which clearing accessed bits may delay a page fault of the target. If
    /// `None`, it follows from the time between two scans.
    pub(crate) max_wait: Option<Duration>,
    /// The source of ages; `None` for the best one that works here.
    pub(crate) source: Option<AgeSource>,
    /// How the report is divided into parts; `None` for no parts.
    pub(crate) by: Option<By>,
}

/// Scans processes repeatedly.
pub(crate) trait Watching {
    /// Waits until the next scan is to begin (the first begins at once), scans, and reports
    /// everything found so far.
    ///
    /// # Errors
    /// No scan is possible. If the processes have ended, that is no error.
    fn next(&mut self) -> Result<Report, Failure>;

    /// Returns whether all processes have ended, so that no further report will follow.
    fn finished(&self) -> bool;

    /// Returns whether the first report covers time before this command was started.
    fn has_watched(&self) -> bool {
        false
    }
}

/// Begins to watch. If the target has a manager, the reports are the manager's, as it has watched
/// for longer.
///
/// # Errors
/// There is no such target, or this user has no right to watch it.
pub(crate) fn open(settings: &WatchRequest) -> Result<Box<dyn Watching>, Failure> {
    open_in(settings, true)
}

/// Begins to watch like [`open`], but changes nothing of this process, which belongs to another
/// program.
///
/// # Errors
/// Those of [`open`].
pub(crate) fn open_as_guest(settings: &WatchRequest) -> Result<Box<dyn Watching>, Failure> {
    open_in(settings, false)
}

fn open_in(settings: &WatchRequest, own_process: bool) -> Result<Box<dyn Watching>, Failure> {
    if let Some(requested) = managed::ManagedWatch::find(settings) {
        return Ok(Box::new(requested));
    }
    if let Target::Tenant(tenant) = &settings.target {
        if settings.source.is_some() || settings.max_wait.is_some() {
            let what = format!(
                "cannot watch {} in another way than `pagetide serve` does",
                tenant.path
            );
            return Err(Failure::usage(what, "ask without --source and --max-wait"));
        }
        return Ok(Box::new(managed::ManagedWatch::of_tenant(
            tenant,
            settings.age_every,
        )?));
    }
    let mut watch = Watch::open(wanted(settings, own_process)?)?;
    if let Some(by) = settings.by {
        watch.split_by(crate::workloads::names_by(by));
    }
    Ok(Box::new(OwnWatch(watch)))
}

/// Watches processes with the library in this process.
struct OwnWatch(Watch);

impl Watching for OwnWatch {
    fn next(&mut self) -> Result<Report, Failure> {
        let mut report = self.0.scan()?;
        report.set_curve(self.0.curve());
        report.parts = self.0.parts();
        Ok(report)
    }

    fn finished(&self) -> bool {
        self.0.finished()
    }
}

/// Converts the settings to those of the library; names are resolved to processes or groups.
fn wanted(settings: &WatchRequest, own_process: bool) -> Result<watch::WatchSettings, Failure> {
    let target = match &settings.target {
        Target::Pid(pid) => family::Target::Descendants(*pid),
        Target::Cgroup(path) => family::Target::Group(group(path)?),
        Target::All => family::Target::All,
        Target::Tenant(tenant) => {
            let what = format!("cannot watch {}: only `pagetide serve` can", tenant.path);
            return Err(Failure::new(
                what,
                "give its processes or its control group",
            ));
        }
    };
    Ok(watch::WatchSettings {
        target,
        interval: settings.age_every,
        max_wait: settings.max_wait,
        source: settings.source,
        memory: None,
        own_process,
    })
}

/// Resolves a path, in any form that a user may write, to a control group.
fn group(path: &Path) -> Result<Group, Failure> {
    let groups = Groups::find(&Proc::system()?)?;
    Ok(groups.resolve(&path.to_string_lossy())?)
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Failure {
        let what = error.to_string();
        if error.is_missing() {
            return Failure::missing(what, error.hint());
        }
        Failure::new(what, error.hint())
    }
}

impl From<host::system::Error> for Failure {
    fn from(error: host::system::Error) -> Failure {
        WatchError::from(error).into()
    }
}
