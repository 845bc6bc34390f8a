//! `pagetide serve`: one manager for a tree of tenants.
//!
//! Invariant: one thread has the tree ([`host::manage::tenants`]); whoever else wants something of it leaves a job at its
//! desk. Ended in any way, it leaves the tenants, their processes and their limits as they are.
//!
//! Floors: `awake`, `recompress`; `file`, `values`, `near`, `notify`, `snapshot`; `config`, `inode`, `reports`, `metrics`, `history`; `content`, `changes`, `configured`, `keeper`,
//! `page`; `desk`, `site`; `listen`; `asked`, `directory`; `opened`; `mount`, `talk`; `leave`, `mounter`; here the loop.

mod asked;
mod awake;
mod changes;
pub mod config;
mod configured;
mod content;
mod desk;
mod directory;
mod file;
#[cfg(test)]
mod fuzz;
mod history;
mod inode;
mod keeper;
mod leave;
mod listen;
mod metrics;
mod mount;
pub mod mounter;
mod names;
mod near;
mod notify;
mod opened;
mod page;
mod recompress;
mod reports;
mod site;
mod snapshot;
mod talk;
mod values;

use std::time::{Duration, Instant};

use host::manage::tenants::Tenants;
use rustix::event::{PollFd, PollFlags};

use crate::control::{ControlServer, LAST_ANSWER, Tenant};
use crate::error::Error;
use crate::preflight;
use crate::rights;
use crate::serve::wake::Wake;
pub use asked::Given;
use asked::{Asked, Fixed};
use changes::Changes;
use configured::Configured;
use desk::{Inbox, Shared, Tree, Waiting};
use inode::Inode;
use leave::Leaving;
use listen::Listening;
use mount::Mounted;
use mounter::Mounter;
use notify::Notify;
use recompress::Recompressor;
use reports::Reports;

/// Who hears what is done.
pub trait Log {
    /// The tree stands, is mounted there, if anywhere, and listens there.
    fn ready(&mut self, mount: Option<&std::path::Path>, listens: &[String], notes: &[String]);
    /// What was done, and why.
    fn actions(&mut self, lines: &[String]);
}

/// Where questions come from, and what ends a wait.
struct Ears {
    inbox: Inbox,
    control: ControlServer,
    wake: Wake,
    notify: Notify,
    listening: Option<Listening>,
    recompressor: Option<Recompressor>,
    /// Where another process brings the mount.
    mounter: Option<Mounter>,
}

/// Serves until a signal says to end.
///
/// # Errors
/// What cannot be had, before anything is changed; or the groups cannot be read any more.
pub fn serve(given: &Given, log: &mut dyn Log) -> Result<(), Error> {
    rights::refuse_file_capabilities()?;
    let asked = given.asked()?;
    asked.fixed.hides_nothing(given.config.as_deref())?;
    let mut notes = Vec::new();
    if let Err(error) = preflight::swap(&crate::options::Options::default(), None) {
        notes.push(format!(
            "nothing can leave but pages of files: {error}; {}",
            error.hint()
        ));
    }
    let tenants = Tenants::start(&asked.settings())?;
    let tree = Shared::new(Tree {
        tenants,
        reports: Reports::default(),
        changes: Changes::default(),
        waiting: Waiting::default(),
        configured: Configured::default(),
    });
    let begun =
        Leaving::begin().and_then(|leaving| Ok((leaving, begin(&asked, &tree, &mut notes)?)));
    let (leaving, (mut mounted, mut ears)) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            tree.lock().tenants.end();
            return Err(error);
        }
    };
    notes.extend(asked.missing(&tree.lock()));
    let listens = ears.listening.as_ref().map_or(&[][..], |one| &one.places);
    log.ready(asked.fixed.mount.as_deref(), listens, &notes);
    ears.notify.ready();
    let about = (given, &asked.fixed);
    let ended = work(about, (&tree, &mut mounted), &mut ears, log);
    ears.notify.stopping();
    // Before the tree's owner is gone: unmounting waits for answers.
    tree.lock().waiting.abandon();
    ears.control.abandon(&talk::ending());
    let leaving = leaving.leave(mounted);
    while !leaving.is_finished() {
        let mut held = tree.lock();
        ears.inbox.work(&mut held);
        held.waiting.abandon();
        drop(held);
        ears.wait(Duration::from_millis(20));
    }
    ears.control.finish(LAST_ANSWER);
    tree.lock().tenants.end();
    if let Some(listening) = ears.listening {
        listening.end();
    }
    ended
}

/// Gives the tree what was asked for, and opens all ways to ask it.
fn begin(
    asked: &Asked,
    tree: &Shared,
    notes: &mut Vec<String>,
) -> Result<(Option<Mounted>, Ears), Error> {
    let wake = Wake::that_reloads()?;
    // Threads that listen have fewer calls yet, by a filter of their own.
    if let Err(error) = host::confine::forbid_what_no_manager_does() {
        notes.push(format!(
            "calls that it never makes are not forbidden to it: {error}"
        ));
    }
    let mount = asked.fixed.mount.as_ref();
    let socket = asked.fixed.mount_socket.as_ref();
    if let (Some(at), None) = (mount, socket) {
        mount::check_mount_point(at)?;
    }
    let (desk, inbox) = desk::open(tree).map_err(|error| {
        let what = format!("cannot make a pair of sockets: {error}");
        Error::failed(what, "is the limit of open files (ulimit -n) high enough?")
    })?;
    let (control, unreached) = ControlServer::bind(&Tenant::Tree(asked.fixed.root.clone()))?;
    notes.extend(unreached);
    let age = asked.fixed.recompress_older_than;
    let recompressor = age.map(Recompressor::begin).transpose()?;
    let listening = listen::start(&asked.fixed.listen)?;
    // What changes the host comes last. (The story: a directory that was not there, and the root kept the limit of a `serve` that had never begun.)
    let changed = asked.apply(&mut tree.lock());
    take_up(&mut tree.lock());
    let mounted = changed.and_then(|()| match (mount, socket) {
        (Some(at), Some(socket)) => Ok((None, Some(Mounter::listen(socket, at, desk)?))),
        (Some(at), None) => Ok((Some(mount::mount(at, desk)?), None)),
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
    let ears = Ears {
        inbox,
        control,
        wake,
        notify: Notify::new(),
        listening,
        recompressor,
        mounter,
    };
    Ok((mounted, ears))
}

impl Ears {
    /// All who ask, and those whose reclaim is over.
    fn answer(&mut self, tree: &mut Tree) {
        self.inbox.work(tree);
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

    /// Until somebody asks, or a signal comes, or for so long.
    fn wait(&mut self, time: Duration) {
        let time = time.min(self.control.patience());
        let inbox = PollFd::from_borrowed_fd(self.inbox.fd(), PollFlags::IN);
        let mounter = self.mounter.as_ref().map(Mounter::fd);
        let mounter = mounter.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let fds = std::iter::once(inbox).chain(mounter);
        let fds = fds.chain(self.control.fds());
        self.wake.wait(fds, time);
    }
}

fn work(
    (given, fixed): (&Given, &Fixed),
    (tree, mounted): (&Shared, &mut Option<Mounted>),
    ears: &mut Ears,
    log: &mut dyn Log,
) -> Result<(), Error> {
    loop {
        // Read while others have the tree: the file may lie where it is we who answer.
        let reloaded = ears.wake.take_reload().then(|| {
            ears.notify.reloading();
            given.asked()
        });
        if let Some(came) = ears.mounter.as_mut().and_then(Mounter::take) {
            *mounted = Some(came?);
        }
        let mounted = mounted.as_ref();
        let mut held = tree.lock();
        let tree = &mut *held;
        ears.inbox.work(tree);
        tree.tenants.set_refresh(tree.reports.shortest());
        let pause = tree.tenants.work()?;
        ears.answer(tree);
        if let Some(asked) = reloaded {
            log.actions(&[reload(asked, fixed, tree)]);
            ears.notify.ready();
        }
        tell(tree, mounted, ears.listening.as_mut(), log);
        let again = ears
            .recompressor
            .iter()
            .flat_map(|one| one.notes.try_iter());
        let again: Vec<String> = again.collect();
        if !again.is_empty() {
            log.actions(&again);
        }
        if mounted.is_some_and(Mounted::has_ended) {
            return Err(Error::failed(
                "the tenants are not mounted any more: somebody has unmounted them",
                "start it again: tenants, their processes and their limits are as they were",
            ));
        }
        if ears.wake.is_stopped() {
            return Ok(());
        }
        let pause = pause.min(wake(tree));
        // While we wait others do their jobs themselves.
        drop(held);
        let pause = pause.min(ears.notify.alive());
        if !pause.is_zero() {
            ears.wait(pause);
        }
    }
}

/// Whoever waits for a file to change asks anew if it has; how long nobody need be looked after.
fn wake(tree: &mut Tree) -> Duration {
    let mut changes = std::mem::take(&mut tree.changes);
    let pause = changes.wake(Instant::now(), |inode| directory::read(tree, inode).ok());
    tree.changes = changes;
    pause
}

/// Reports of tenants that have come are as they were asked for.
fn take_up(tree: &mut Tree) {
    for serial in tree.tenants.came() {
        content::take_up(&mut tree.tenants, &mut tree.reports, serial);
    }
}

/// What the tree has to say since the last time: to who waits for reports, to the kernel, to people and to who shows it.
fn tell(
    tree: &mut Tree,
    mounted: Option<&Mounted>,
    listening: Option<&mut Listening>,
    log: &mut dyn Log,
) {
    take_up(tree);
    let Tree {
        tenants, reports, ..
    } = tree;
    let now = tenants.elapsed_ms();
    for memcg in tenants.pressed() {
        if let Some(serial) = tenants.serial(memcg) {
            reports.press(serial, now);
        }
    }
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
        listening.poster.post(tenants, &actions);
        let notes: Vec<String> = listening.notes.try_iter().collect();
        if !notes.is_empty() {
            log.actions(&notes);
        }
    }
}

/// The configuration was read once more; a mistake in it changes nothing. What came of it.
fn reload(asked: Result<Asked, Error>, fixed: &Fixed, tree: &mut Tree) -> String {
    let asked = match asked {
        Ok(asked) => asked,
        Err(error) => return format!("nothing is changed: {error}; {}", error.hint()),
    };
    if let Err(error) = asked.apply(tree) {
        return format!("not all is changed: {error}; {}", error.hint());
    }
    match asked.fixed == *fixed {
        true => {
            let done = "the configuration is read once more".to_owned();
            [vec![done], asked.missing(tree)].concat().join("; ")
        }
        // Of groups that are not followed yet nothing can be said.
        false => "the configuration is read once more; some of it takes a restart, as the sample says (`mount`, `root`, `host`, `manage-host`, `global`, `age-every`, `listen`, `token-file`, `history`, `recompress-older-than`)".to_owned(),
    }
}
