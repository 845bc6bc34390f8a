//! `pagetide serve`: one manager for a tree of tenants.
//!
//! Invariant: one thread owns the tree ([`host::manage::tenants`]); other threads send it jobs by
//! the request queue. However `serve` ends, tenants, their processes and their limits stay as they
//! are.
//!
//! Floors: `recompress`; `file`, `values`, `affinity`, `notify`, `snapshot`; `config`,
//! `inode`, `reports`, `metrics`, `history`; `content`, `changes`, `configured`, `keeper`, `page`;
//! `request_queue`, `site`; `listen`; `serve_settings`, `directory`; `opened`; `mount`, `talk`;
//! `leave`, `mounter`; here the loop.

mod affinity;
mod file;
mod names;
mod notify;
mod recompress;
mod reports;
mod values;

pub mod config;
mod content;
mod inode;
mod snapshot;

mod changes;
mod configured;
mod history;
mod metrics;

mod keeper;
mod page;
mod request_queue;

mod directory;
mod site;
mod talk;

mod listen;
mod opened;

mod mount;
mod serve_settings;

#[cfg(test)]
mod fuzz;
mod leave;
pub mod mounter;

use std::time::{Duration, Instant};

use host::manage::tenants::Tenants;
use rustix::event::{PollFd, PollFlags};

use crate::control::{ControlServer, LAST_ANSWER, Tenant};
use crate::error::Error;
use crate::preflight;
use crate::rights;
use crate::serve::wake::Wake;
use changes::Changes;
use configured::Configured;
use inode::Inode;
use leave::Leaving;
use listen::Listening;
use mount::Mounted;
use mounter::Mounter;
use notify::Notify;
use recompress::Recompressor;
use reports::Reports;
use request_queue::{ReclaimWriters, RequestReceiver, Shared, Tree};
pub use serve_settings::ServeOptions;
use serve_settings::{ServeSettings, StartSettings};

/// Receives what the manager reports while it runs.
pub trait Log {
    /// Called when the tree is ready: where it is mounted (`None`: nowhere), on which addresses it
    /// listens, and notes for the user.
    fn ready(&mut self, mount: Option<&std::path::Path>, listens: &[String], notes: &[String]);
    /// Receives the manager's actions with their reasons, one line each.
    fn actions(&mut self, lines: &[String]);
}

/// Where requests and signals come from.
struct RequestSources {
    jobs: RequestReceiver,
    control: ControlServer,
    wake: Wake,
    notify: Notify,
    listening: Option<Listening>,
    recompressor: Option<Recompressor>,
    /// The socket at which another process delivers the mount; `None` if there is none.
    mounter: Option<Mounter>,
}

/// Serves until a signal ends it.
///
/// # Errors
/// What the host lacks or refuses, before anything is changed; later, that control groups cannot be
/// read.
pub fn serve(given: &ServeOptions, log: &mut dyn Log) -> Result<(), Error> {
    rights::refuse_file_capabilities()?;
    let requested = given.requested()?;
    requested
        .fixed
        .check_mount_hides_nothing(given.config.as_deref())?;
    let mut notes = Vec::new();
    if let Err(error) = preflight::swap(&crate::options::Options::default(), None) {
        notes.push(format!(
            "only pages of files can be reclaimed: {error}; {}",
            error.hint()
        ));
    }
    let tenants = Tenants::start(&requested.settings())?;
    let tree = Shared::new(Tree {
        tenants,
        reports: Reports::default(),
        changes: Changes::default(),
        waiting: ReclaimWriters::default(),
        configured: Configured::default(),
    });
    let begun =
        Leaving::begin().and_then(|leaving| Ok((leaving, begin(&requested, &tree, &mut notes)?)));
    let (leaving, (mut mounted, mut sources)) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            tree.lock().tenants.end();
            return Err(error);
        }
    };
    notes.extend(requested.missing(&tree.lock()));
    let listens = sources
        .listening
        .as_ref()
        .map_or(&[][..], |one| &one.places);
    log.ready(requested.fixed.mount.as_deref(), listens, &notes);
    sources.notify.ready();
    let about = (given, &requested.fixed);
    let ended = work(about, (&tree, &mut mounted), &mut sources, log);
    sources.notify.stopping();
    // While the tree's owner still runs: unmounting waits for its replies.
    tree.lock().waiting.abandon();
    sources.control.abandon(&talk::ending());
    let leaving = leaving.leave(mounted);
    while !leaving.is_finished() {
        let mut held = tree.lock();
        sources.jobs.work(&mut held);
        held.waiting.abandon();
        drop(held);
        sources.wait(Duration::from_millis(20));
    }
    sources.control.finish(LAST_ANSWER);
    tree.lock().tenants.end();
    if let Some(listening) = sources.listening {
        listening.end();
    }
    ended
}

/// Applies the settings to the tree, and opens the mount, the sockets and the wait for signals.
fn begin(
    requested: &ServeSettings,
    tree: &Shared,
    notes: &mut Vec<String>,
) -> Result<(Option<Mounted>, RequestSources), Error> {
    let wake = Wake::that_reloads()?;
    // The threads that serve HTTP have an even stricter filter of system calls.
    if let Err(error) = host::confine::forbid_what_no_manager_does() {
        notes.push(format!(
            "calls that it never makes are not forbidden to it: {error}"
        ));
    }
    let mount = requested.fixed.mount.as_ref();
    let socket = requested.fixed.mount_socket.as_ref();
    if let (Some(at), None) = (mount, socket) {
        mount::check_mount_point(at)?;
    }
    let (request_queue, jobs) = request_queue::open(tree).map_err(|error| {
        let what = format!("cannot make a pair of sockets: {error}");
        Error::failed(what, "is the limit of open files (ulimit -n) high enough?")
    })?;
    let (control, unreached) = ControlServer::bind(&Tenant::Tree(requested.fixed.root.clone()))?;
    notes.extend(unreached);
    let age = requested.fixed.recompress_older_than;
    let recompressor = age.map(Recompressor::begin).transpose()?;
    let listening = listen::start(&requested.fixed.listen)?;
    // Changes to the host come last: if an earlier step fails, nothing of the host has been
    // changed.
    let changed = requested.apply(&mut tree.lock());
    restore_noted(&mut tree.lock());
    let mounted = changed.and_then(|()| match (mount, socket) {
        (Some(at), Some(socket)) => Ok((None, Some(Mounter::listen(socket, at, request_queue)?))),
        (Some(at), None) => Ok((Some(mount::mount(at, request_queue)?), None)),
        (None, _) => Ok((None, None)),
    });
    let (mounted, mounter) = match mounted {
        Ok(mounted) => mounted,
        Err(error) => {
            if let Some(listening) = listening {
                listening.end();
            }
            return Err(error);
        }
    };
    let sources = RequestSources {
        jobs,
        control,
        wake,
        notify: Notify::new(),
        listening,
        recompressor,
        mounter,
    };
    Ok((mounted, sources))
}

impl RequestSources {
    /// Serves all pending requests, and completes the writes to memory.reclaim that have ended.
    fn answer(&mut self, tree: &mut Tree) {
        self.jobs.work(tree);
        self.control
            .poll_later(&mut |request| talk::answer(tree, request));
        for number in tree.waiting.interrupted() {
            tree.tenants.cancel(number);
        }
        for number in self.control.hung_up() {
            tree.tenants.cancel(number);
        }
        for (number, got) in tree.tenants.reclaimed() {
            if let Some(got) = tree.waiting.answer(number, got) {
                self.control.complete(number, &talk::reclaimed(got));
            }
        }
    }

    /// Waits for a request or a signal, for at most `time`.
    fn wait(&mut self, time: Duration) {
        let time = time.min(self.control.patience());
        let jobs = PollFd::from_borrowed_fd(self.jobs.fd(), PollFlags::IN);
        let mounter = self.mounter.as_ref().map(Mounter::fd);
        let mounter = mounter.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let fds = std::iter::once(jobs).chain(mounter);
        let fds = fds.chain(self.control.fds());
        self.wake.wait(fds, time);
    }
}

fn work(
    (given, fixed): (&ServeOptions, &StartSettings),
    (tree, mounted): (&Shared, &mut Option<Mounted>),
    sources: &mut RequestSources,
    log: &mut dyn Log,
) -> Result<(), Error> {
    loop {
        // The tree is unlocked meanwhile: the file may lie in our own mount, and reading it needs a
        // reply.
        let reloaded = sources.wake.take_reload().then(|| {
            sources.notify.reloading();
            given.requested()
        });
        if let Some(came) = sources.mounter.as_mut().and_then(Mounter::take) {
            *mounted = Some(came?);
        }
        let mounted = mounted.as_ref();
        let mut held = tree.lock();
        let tree = &mut *held;
        sources.jobs.work(tree);
        tree.tenants.set_refresh(tree.reports.shortest());
        let pause = tree.tenants.work()?;
        sources.answer(tree);
        if let Some(requested) = reloaded {
            log.actions(&[reload(requested, fixed, tree)]);
            sources.notify.ready();
        }
        let next = publish(tree, mounted, sources.listening.as_mut(), log);
        let pause = next.map_or(pause, |next| pause.min(next));
        let again = sources
            .recompressor
            .iter()
            .flat_map(|one| one.notes.try_iter());
        let again: Vec<String> = again.collect();
        if !again.is_empty() {
            log.actions(&again);
        }
        if mounted.is_some_and(Mounted::has_ended) {
            return Err(Error::failed(
                "the tenants are not mounted any more: another process has unmounted them",
                "start it again: tenants, their processes and their limits are as they were",
            ));
        }
        if sources.wake.is_stopped() {
            return Ok(());
        }
        let pause = pause.min(wake(tree));
        // The tree is unlocked while the owner waits: requesting threads do their jobs themselves.
        drop(held);
        let pause = pause.min(sources.notify.alive());
        if !pause.is_zero() {
            sources.wait(pause);
        }
    }
}

/// Wakes clients that wait for a file that has changed; returns the time until the next check.
fn wake(tree: &mut Tree) -> Duration {
    let mut changes = std::mem::take(&mut tree.changes);
    let pause = changes.wake(Instant::now(), |inode| directory::read(tree, inode).ok());
    tree.changes = changes;
    pause
}

/// Restores the report settings of new tenants.
fn restore_noted(tree: &mut Tree) {
    for serial in tree.tenants.came() {
        content::restore_noted(&mut tree.tenants, &mut tree.reports, serial);
    }
}

/// Passes on what is new in the tree: to clients that read reports, to the kernel, to the log and
/// to the dashboard. Returns the time until the next call; `None` if it has no deadline.
fn publish(
    tree: &mut Tree,
    mounted: Option<&Mounted>,
    listening: Option<&mut Listening>,
    log: &mut dyn Log,
) -> Option<Duration> {
    restore_noted(tree);
    let Tree {
        tenants, reports, ..
    } = tree;
    let now = tenants.elapsed_ms();
    for memcg in tenants.take_reclaimed() {
        if let Some(serial) = tenants.serial(memcg) {
            reports.note_reclaim(serial, now);
        }
    }
    let next = reports.notify_pressure(now);
    let gone = tenants.gone();
    if !gone.is_empty() {
        reports.retain(|serial| tenants.by_serial(serial).is_some());
    }
    for (parent, name) in gone {
        if let Some(mounted) = mounted {
            mounted.forget(Inode::Tenant(parent), name);
        }
    }
    let actions = tenants.actions();
    if !actions.is_empty() {
        log.actions(&actions);
    }
    if let Some(listening) = listening {
        listening.snapshot_sender.post(tenants, &actions);
        let notes: Vec<String> = listening.notes.try_iter().collect();
        if !notes.is_empty() {
            log.actions(&notes);
        }
    }
    next
}

/// Applies a configuration that was read again; if it contains a mistake, nothing changes. Returns
/// a message about the result.
fn reload(
    requested: Result<ServeSettings, Error>,
    fixed: &StartSettings,
    tree: &mut Tree,
) -> String {
    let requested = match requested {
        Ok(requested) => requested,
        Err(error) => return format!("nothing is changed: {error}; {}", error.hint()),
    };
    if let Err(error) = requested.apply(tree) {
        return format!("not all is changed: {error}; {}", error.hint());
    }
    match requested.fixed == *fixed {
        true => {
            let done = "the configuration is read once more".to_owned();
            [vec![done], requested.missing(tree)].concat().join("; ")
        }
        // Groups of a new `host` are not scanned before the restart, so none counts as missing.
        false => "the configuration is read once more; some of it takes a restart, as the sample says (`mount`, `root`, `host`, `manage-host`, `global`, `age-every`, `listen`, `token-file`, `history`, `recompress-older-than`)".to_owned(),
    }
}
