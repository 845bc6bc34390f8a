//! Who watches: the seam between this program and whoever reads page tables: the library, or a manager.
//!
//! Invariant: commands know [`Watching`] alone, so that they can be tested with reports of our own.

mod managed;

use std::path::{Path, PathBuf};
use std::time::Duration;

use host::report::{AgeSource, Report};
use host::system::{Group, Groups, Proc, family};
use host::watch::{self, Watch, WatchError};

use crate::failure::Failure;
use crate::workloads::By;

/// Whose memory.
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
    /// The root of its tree.
    pub(crate) root: PathBuf,
    /// Its path, which begins with a slash.
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

/// How to look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) target: Target,
    /// Time between two looks.
    pub(crate) age_every: Duration,
    /// The longest that clearing accessed bits may hold up a fault of the target.
    /// Without, what suits the time between two looks.
    pub(crate) max_wait: Option<Duration>,
    /// Another source of accessed bits than the best.
    pub(crate) source: Option<AgeSource>,
    /// Into which parts what is watched is divided; none where nobody asks for parts.
    pub(crate) by: Option<By>,
}

/// Looks at processes again and again.
pub(crate) trait Watching {
    /// Waits until the next look is due (the first one is at once), looks, and reports all until now.
    ///
    /// # Errors
    /// What keeps it from looking at all; that processes end is no error.
    fn next(&mut self) -> Result<Report, Failure>;

    /// Whether all processes are gone: the last report was the last.
    fn finished(&self) -> bool;

    /// Whether the first report is of a time before anybody asked.
    fn has_watched(&self) -> bool {
        false
    }
}

/// Begins to watch; what is managed is asked of its manager, which has watched it for longer.
///
/// # Errors
/// No such target, or not the right to look at it.
pub(crate) fn open(settings: &Settings) -> Result<Box<dyn Watching>, Failure> {
    open_in(settings, true)
}

/// Like [`open`], in a process that is not ours: nothing of it is changed.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_as_guest(settings: &Settings) -> Result<Box<dyn Watching>, Failure> {
    open_in(settings, false)
}

fn open_in(settings: &Settings, own_process: bool) -> Result<Box<dyn Watching>, Failure> {
    if let Some(asked) = managed::Asked::find(settings) {
        return Ok(Box::new(asked));
    }
    if let Target::Tenant(tenant) = &settings.target {
        if settings.source.is_some() || settings.max_wait.is_some() {
            let what = format!(
                "cannot watch {} in another way than `pagetide serve` does",
                tenant.path
            );
            return Err(Failure::usage(what, "ask without --source and --max-wait"));
        }
        return Ok(Box::new(managed::Asked::of_tenant(
            tenant,
            settings.age_every,
        )?));
    }
    let mut watch = Watch::open(wanted(settings, own_process)?)?;
    if let Some(by) = settings.by {
        watch.split_by(crate::workloads::names_by(by));
    }
    Ok(Box::new(Eyes(watch)))
}

/// Watches real processes.
struct Eyes(Watch);

impl Watching for Eyes {
    fn next(&mut self) -> Result<Report, Failure> {
        let mut report = self.0.look()?;
        report.tell_curve(self.0.curve());
        report.parts = self.0.parts();
        Ok(report)
    }

    fn finished(&self) -> bool {
        self.0.finished()
    }
}

/// The settings as the library has them: names become what they name.
fn wanted(settings: &Settings, own_process: bool) -> Result<watch::Settings, Failure> {
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
    Ok(watch::Settings {
        target,
        interval: settings.age_every,
        max_wait: settings.max_wait,
        source: settings.source,
        own_process,
    })
}

/// The control group that a user named by a path of any form.
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
