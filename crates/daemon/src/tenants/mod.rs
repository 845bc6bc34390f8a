//! `pagetide serve`: one manager for a tree of tenants.
//!
//! Invariant: one thread has the tree ([`host::manage::tenants`]); whoever else wants something of it leaves a job at its
//! desk. Ended in any way, it leaves the tenants, their processes and their limits as they are.
//!
//! Floors: `file`, `values`; `inode`, `reports`; `content`, `desk`; `directory`; `mount`; here the loop.

mod content;
mod desk;
mod directory;
mod file;
mod inode;
mod mount;
mod reports;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use engine::units::Limit;
use host::manage::tenants::{Settings, Tenants};
use rustix::io::Errno;

use crate::error::Error;
use crate::preflight;
use crate::serve::wake::Wake;
use desk::{Inbox, Tree};
use reports::Reports;

/// What `serve` is asked for.
#[derive(Clone, Debug)]
pub struct Serve {
    /// The root of the tree, below the mount of control groups.
    pub root: PathBuf,
    /// Where the tree is mounted as files.
    pub mount: Option<PathBuf>,
    /// Time between two looks.
    pub interval: Duration,
    /// What all tenants together may use; as it was if none is given.
    pub max: Option<Limit>,
    /// The root is reclaimed by walking all tenants.
    pub by_iterator: bool,
}

/// Who hears what is done.
pub trait Log {
    /// The tree stands, and is mounted.
    fn ready(&mut self, notes: &[String]);
    /// What was done, and why.
    fn actions(&mut self, lines: &[String]);
}

/// Serves until a signal says to end.
///
/// # Errors
/// What cannot be had, before anything is changed; or the groups cannot be read any more.
pub fn serve(asked: &Serve, log: &mut dyn Log) -> Result<(), Error> {
    let mut notes = Vec::new();
    if let Err(error) = preflight::swap(&crate::options::Options::default()) {
        notes.push(format!(
            "nothing can leave but pages of files: {error}; {}",
            error.hint()
        ));
    }
    let tenants = Tenants::start(&Settings {
        root: asked.root.clone(),
        interval: asked.interval,
        by_iterator: asked.by_iterator,
    })?;
    let mut wake = Wake::new(None)?;
    let (desk, mut inbox) = desk::open().map_err(|error| {
        let what = format!("cannot make a pair of sockets: {error}");
        Error::failed(what, "is the limit of open files (ulimit -n) high enough?")
    })?;
    let mut tree = Tree {
        tenants,
        reports: Reports::default(),
    };
    if let Some(max) = asked.max {
        limit(&mut tree, max)?;
    }
    let mount = asked.mount.as_ref();
    let mounted = match mount.map(|at| mount::mount(at, desk)).transpose() {
        Ok(mounted) => mounted,
        Err(error) => {
            tree.tenants.end();
            return Err(error);
        }
    };
    log.ready(&notes);
    let ended = work(&mut tree, &mut inbox, &mut wake, log);
    // Before the tree's owner is gone: unmounting waits for answers.
    let leaving = std::thread::spawn(move || drop(mounted));
    while !leaving.is_finished() {
        inbox.work(&mut tree);
        wake.wait([inbox.fd()].into_iter(), Duration::from_millis(20));
    }
    tree.tenants.end();
    ended
}

/// What all together may use.
fn limit(tree: &mut Tree, max: Limit) -> Result<(), Error> {
    let root = engine::memcg::MemcgId::ROOT;
    let set = |tree: &mut Tree| -> Result<(), Errno> {
        let mut limits = tree.tenants.limits(root)?;
        limits.max = max;
        tree.tenants.set_limits(root, limits)
    };
    set(tree).map_err(|errno| {
        let what = format!("cannot limit the tenants' root: {errno}");
        Error::failed(what, "may you write to that control group?")
    })
}

fn work(
    tree: &mut Tree,
    inbox: &mut Inbox,
    wake: &mut Wake,
    log: &mut dyn Log,
) -> Result<(), Error> {
    loop {
        let pause = tree.tenants.work()?;
        inbox.work(tree);
        let actions = tree.tenants.actions();
        if !actions.is_empty() {
            log.actions(&actions);
        }
        if wake.is_stopped() {
            return Ok(());
        }
        wake.wait([inbox.fd()].into_iter(), pause);
        inbox.work(tree);
    }
}
