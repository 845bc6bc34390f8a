//! One interface to all that can watch a target: the library in this process, or a manager.
//!
//! Invariant: commands use [`Watching`] alone, so tests can replace it with reports of their own.

mod managed;

use std::path::{Path, PathBuf};
use std::time::Duration;

use host::report::{AgeSource, Report};
use host::system::{Group, Groups, Proc, family};
use host::watch::{self, Watch, WatchError};

use crate::failure::Failure;
use crate::workloads::By;

/// What is watched.
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

/// A tenant: which tree, and where in it.
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

/// What to watch, and how to scan it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WatchRequest {
    pub(crate) target: Target,
    /// Time between two scans.
    pub(crate) age_every: Duration,
    /// Longest time that clearing accessed bits may delay a fault of the target. If `None`, the
    /// time between two scans determines it.
    pub(crate) max_wait: Option<Duration>,
    /// The source of ages; `None`: the best one that works here.
    pub(crate) source: Option<AgeSource>,
    /// How the report is divided into parts; `None` without parts.
    pub(crate) by: Option<By>,
}

/// Scans processes again and again.
pub(crate) trait Watching {
    /// Waits until the next scan (the first one is at once), scans, and reports all until now.
    ///
    /// # Errors
    /// What prevents every scan; the end of processes is no error.
    fn next(&mut self) -> Result<Report, Failure>;

    /// Whether all processes have ended, so no further report will come.
    fn finished(&self) -> bool;

    /// Whether the first report covers time before this command.
    fn has_watched(&self) -> bool {
        false
    }
}

/// Begins to watch. If the target has a manager, reports come from it: it has watched for longer.
///
/// # Errors
/// No such target, or no right to watch it.
pub(crate) fn open(settings: &WatchRequest) -> Result<Box<dyn Watching>, Failure> {
    open_in(settings, true)
}

/// Begins to watch like [`open`], but changes nothing of this process, which belongs to the caller.
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

/// Watches real processes.
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

/// Converts the settings to the library's: names are resolved to what they name.
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

/// Resolves the control group that a user named by a path of any form.
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
