//! The tree as files (FUSE).
//!
//! Invariant: the thread of the file system decides nothing and keeps nothing of the tree: each call is a job at its desk.
//! What one open file reads is what the tree was when it was first read. What the kernel keeps of names is true until it is
//! told otherwise ([`Mounted::forget`]).

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    MountOption, Notifier, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyPoll,
    ReplyWrite, Request, WriteFlags,
};
use host::system::mountinfo::{self, Device};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{getegid, geteuid};

use super::content::Written;
use super::desk::{Desk, Tree};
use super::directory::{self, Entry};
use super::inode::Inode;
use super::near::Near;
use super::opened::{self, Open, Opened};
use super::values;
use crate::control::Tracer;
use crate::error::Error;

/// For so long the kernel may keep an answer without asking again: for ever, for it is told when a name goes ([`Mounted::forget`]). So
/// it may keep names of directories, and attributes that do not change.
const LASTING_TTL: Duration = Duration::from_secs(1 << 30);
/// The kernel asks each time. It must, for names of files: what sendfile(2) once read of a file is its size to the kernel until it
/// asks again.
const ASKED: Duration = Duration::ZERO;

/// How often it is asked whether the tree is mounted anywhere.
const MOUNTS_EVERY: Duration = Duration::from_secs(5);

/// The mounted tree; dropping it unmounts, unless another process mounted it.
pub(super) struct Mounted {
    /// Another process mounted it, and unmounts it when we have ended.
    is_of_another: bool,
    /// Held for its end.
    session: Option<BackgroundSession>,
    at: PathBuf,
    device: Option<Device>,
    /// When it was asked last where that is mounted.
    asked: Cell<Instant>,
    stale: Sender<(INodeNo, OsString)>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_of_another {
            // Its thread waits for requests until our end.
            std::mem::forget(self.session.take());
            return;
        }
        let is_there = |mounts: &[u8]| fuse_at(mounts, &self.at) == self.device;
        let before = mounts();
        // Its end unmounts whatever is at that place, which may be another's by now.
        // (What cannot be read is taken for ours: else it would stay, and answer nothing.)
        if self.device.is_some() && !before.is_empty() && !is_there(&before) {
            std::mem::forget(self.session.take());
            return;
        }
        drop(self.session.take());
        // Where somebody's working directory or open file is below it, it is still there, and would answer nothing any more.
        if self.device.is_some() && is_there(&mounts()) {
            let _ = unmount(&self.at, UnmountFlags::DETACH);
        }
    }
}

/// The last mount at a place, if it is of FUSE, by a text of `/proc/self/mountinfo`: nothing that would be asked of the mount itself.
fn fuse_at(mounts: &[u8], at: &Path) -> Option<Device> {
    let point = at.as_os_str().as_encoded_bytes();
    let mounts = mountinfo::parse(mounts);
    let last = mounts.iter().rfind(|mount| mount.point == point)?;
    (last.fs_type == b"fuse").then_some(last.device)
}

/// Whether a file system is mounted nowhere, by a text of `/proc/self/mountinfo`. Mounted over is not unmounted, and where that cannot be read (a host
/// may lack descriptors for a moment) nobody knows.
fn is_nowhere(mounts: &[u8], own: Device) -> bool {
    let mounts = mountinfo::parse(mounts);
    !mounts.is_empty() && mounts.iter().all(|one| one.device != own)
}

fn mounts() -> Vec<u8> {
    std::fs::read("/proc/self/mountinfo").unwrap_or_default()
}

impl Mounted {
    fn new(session: BackgroundSession, at: PathBuf, is_of_another: bool) -> io::Result<Mounted> {
        let notifier = session.notifier();
        let (stale, names) = channel();
        let thread = std::thread::Builder::new().name("stale-names".to_owned());
        thread.spawn(move || forget_stale(&notifier, &names))?;
        Ok(Mounted {
            is_of_another,
            session: Some(session),
            device: fuse_at(&mounts(), &at),
            at,
            asked: Cell::new(Instant::now()),
            stale,
        })
    }

    /// Whether nobody answers for it any more: it was unmounted, or its thread has failed.
    pub(super) fn has_ended(&self) -> bool {
        let session = self.session.as_ref();
        session.is_none_or(|session| session.guard.is_finished()) || self.is_elsewhere()
    }

    /// Whether it is mounted nowhere, though an open file or a working directory keeps it alive (`umount -l`). Asked once a while: a host may have
    /// thousands of mounts.
    fn is_elsewhere(&self) -> bool {
        if self.asked.get().elapsed() < MOUNTS_EVERY {
            return false;
        }
        self.asked.set(Instant::now());
        self.device.is_some_and(|own| is_nowhere(&mounts(), own))
    }

    /// There is no such tenant in that directory any more. Who removes one by the file system need not say so.
    pub(super) fn forget(&self, parent: Inode, name: OsString) {
        // Without the thread, which ends with the mount, nobody asks either.
        let _ = self.stale.send((INodeNo(parent.number()), name));
    }
}

/// Tells the kernel which names are gone. It waits there for whoever works in that directory, who may wait for an answer of
/// ours: so this is a thread of its own.
fn forget_stale(notifier: &Notifier, stale: &Receiver<(INodeNo, OsString)>) {
    for (parent, name) in stale {
        // It may know no such name.
        let _ = notifier.inval_entry(parent, &name);
    }
}

/// Checks that the tree can be mounted at a directory, as far as that can be told before: nothing stands there. A
/// killed one's mount is taken away.
///
/// # Errors
/// There is no such directory, or somebody else's mount.
pub(super) fn check_mount_point(at: &Path) -> Result<(), Error> {
    // A killed one's mount answers nothing any more, but for what the kernel keeps of it; below it there may be another's.
    while rustix::fs::statfs(at).is_err_and(|errno| errno == Errno::NOTCONN) {
        if unmount(at, UnmountFlags::DETACH).is_err() {
            break;
        }
    }
    let cannot = |why: &dyn std::fmt::Display| {
        format!("cannot mount the tenants at {}: {why}", at.display())
    };
    match std::fs::metadata(at) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(Error::failed(
                cannot(&"it is no directory"),
                "give another --mount",
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let hint = format!("mkdir -p {}", at.display());
            return Err(Error::failed(cannot(&"there is no such directory"), hint));
        }
        Err(error) => return Err(Error::failed(cannot(&error), "give another --mount")),
    }
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    fuse.map_err(|error| {
        let hint = "it takes FUSE: `modprobe fuse`, or a container with --device /dev/fuse; `--mount` can be left out";
        Error::missing(cannot(&format!("/dev/fuse: {error}")), hint)
    })?;
    let place = at.canonicalize().unwrap_or_else(|_| at.to_owned());
    if fuse_at(&mounts(), &place).is_some() {
        let what = format!(
            "cannot mount the tenants at {}: another program's files are mounted there",
            at.display()
        );
        return Err(Error::failed(
            what,
            "is it another `pagetide serve`? Each has a directory of its own: give another --mount",
        ));
    }
    Ok(())
}

/// Mounts the tree at a directory, which is a place for it ([`check_mount_point`]).
///
/// # Errors
/// FUSE cannot be had.
pub(super) fn mount(at: &Path, desk: Desk) -> Result<Mounted, Error> {
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        MountOption::FSName("pagetide".to_owned()),
        MountOption::Subtype("pagetide".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
    ];
    // Named before it is mounted: after that its own thread would be asked.
    let place = at.canonicalize().unwrap_or_else(|_| at.to_owned());
    let session = fuser::spawn_mount(Files::new(desk), at, &config);
    let mounted = session.and_then(|session| Mounted::new(session, place, false));
    mounted.map_err(|error| {
        let what = format!("cannot mount the tenants at {}: {error}", at.display());
        Error::missing(
            what,
            "is it a directory of yours, and is there /dev/fuse? `--mount` can be left out",
        )
    })
}

/// The tree at a directory that another process has mounted, by its descriptor of `/dev/fuse`.
///
/// # Errors
/// The descriptor is none of a fresh mount.
pub(super) fn adopt(at: &Path, fuse: OwnedFd, desk: Desk) -> Result<Mounted, Error> {
    let (acl, config) = (fuser::SessionACL::Owner, fuser::Config::default());
    let place = std::path::absolute(at).unwrap_or_else(|_| at.to_owned());
    let session = fuser::Session::from_fd(Files::new(desk), fuse, acl, config);
    let session = session.and_then(fuser::Session::spawn);
    let mounted = session.and_then(|session| Mounted::new(session, place, true));
    mounted.map_err(|error| {
        let what = format!("cannot serve the mount of {}: {error}", at.display());
        Error::failed(what, "start the service again")
    })
}

struct Files {
    desk: Desk,
    next: AtomicU64,
    open: Open,
    near: Near,
    tracer: Tracer,
}

/// Its thread has ended, and so has the mount: the owner is to know.
impl Drop for Files {
    fn drop(&mut self) {
        self.desk.leave(|_| {});
    }
}

impl Files {
    fn new(desk: Desk) -> Files {
        Files {
            desk,
            next: AtomicU64::new(1),
            open: Open::default(),
            near: Near::begin(),
            tracer: Tracer::this_process(),
        }
    }

    fn handle(&self) -> FileHandle {
        FileHandle(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// As at the socket, but for pid namespaces. The kernel lets in nobody but whoever has our number (the mount is without `allow_other`); of root
    /// that is not enough. An asker sleeps until it is answered, so its number is its own.
    fn lets(&self, request: &Request) -> bool {
        request.uid() != 0 || self.tracer.lets(request.pid())
    }
}

fn refusal(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

fn kind(inode: Inode) -> FileType {
    match inode.is_directory() {
        true => FileType::Directory,
        false => FileType::RegularFile,
    }
}

/// For how long the kernel may keep what it is told of an inode.
fn ttl_of(entry: &Entry) -> Duration {
    if entry.is_lasting { LASTING_TTL } else { ASKED }
}

/// Tells of a name in a directory.
fn tell(reply: ReplyEntry, found: Result<Entry, Errno>) {
    match found {
        Ok(entry) => {
            let name = match entry.inode.is_directory() {
                true => LASTING_TTL,
                false => ASKED,
            };
            let attr = attributes(&entry);
            reply.entry_with_ttls(&ttl_of(&entry), &name, &attr, Generation(0));
        }
        Err(errno) => reply.error(refusal(errno)),
    }
}

/// As stat(2) tells it.
fn attributes(entry: &Entry) -> FileAttr {
    let began: SystemTime = UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(entry.inode.number()),
        size: entry.size,
        blocks: 0,
        atime: began,
        mtime: began,
        ctime: began,
        crtime: began,
        kind: kind(entry.inode),
        perm: entry.mode,
        // Of directories it would be said how many are in it: 1 is not known.
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// What is left of a text from an offset on, at most so much.
fn part(text: &[u8], offset: u64, size: u32) -> &[u8] {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let from = from.min(text.len());
    let to = from.saturating_add(size as usize).min(text.len());
    &text[from..to]
}

/// The inode of a number; none is ENOENT.
fn inode(number: INodeNo) -> Result<Inode, Errno> {
    Inode::of(number.0).ok_or(Errno::NOENT)
}

impl Filesystem for Files {
    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _answering = self.near.question(request.pid());
        let name = name.to_owned();
        self.desk.ask(move |tree| {
            let found = inode(parent).and_then(|parent| directory::find(tree, parent, &name));
            tell(reply, found);
        });
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _answering = self.near.question(request.pid());
        self.desk.ask(move |tree| {
            match inode(number).and_then(|inode| directory::entry(tree, inode)) {
                Ok(entry) => reply.attr(&ttl_of(&entry), &attributes(&entry)),
                Err(errno) => reply.error(refusal(errno)),
            }
        });
    }

    /// A shell's `>` cuts a file first; nothing else of a control group's file can be changed.
    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        _: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (me, ours) = (geteuid().as_raw(), getegid().as_raw());
        if uid.is_some_and(|uid| uid != me) || gid.is_some_and(|gid| gid != ours) {
            reply.error(fuser::Errno::EPERM);
            return;
        }
        let Some(mode) = mode else {
            self.getattr(request, number, handle, reply);
            return;
        };
        // As it is already it may be: scripts set it after each mkdir. Other rights could be given to nobody.
        self.desk.ask(move |tree| {
            let entry = inode(number).and_then(|inode| directory::entry(tree, inode));
            match entry {
                Ok(entry) if mode & 0o7777 == u32::from(entry.mode) => {
                    reply.attr(&ttl_of(&entry), &attributes(&entry));
                }
                Ok(_) => reply.error(fuser::Errno::EPERM),
                Err(errno) => reply.error(refusal(errno)),
            }
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        if !self.lets(request) {
            return reply.error(fuser::Errno::EACCES);
        }
        let name = name.to_owned();
        self.desk.leave(move |tree| {
            let made = inode(parent).and_then(|parent| directory::make(tree, parent, &name));
            tell(reply, made);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !self.lets(request) {
            return reply.error(fuser::Errno::EACCES);
        }
        let name = name.to_owned();
        self.desk.leave(move |tree| {
            match inode(parent).and_then(|parent| directory::remove(tree, parent, &name)) {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(refusal(errno)),
            }
        });
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(fuser::Errno::EPERM);
    }

    /// The kernel's control groups have no such operation, nor the next two. (FUSE itself would say ENOSYS, which scripts that write to a
    /// file we do not have take for a broken machine.)
    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(fuser::Errno::EACCES);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(fuser::Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(fuser::Errno::EPERM);
    }

    fn open(&self, request: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _answering = self.near.question(request.pid());
        if !self.lets(request) {
            return reply.error(fuser::Errno::EACCES);
        }
        // Sizes are not known before a file is read.
        reply.opened(self.handle(), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<fuser::LockOwner>,
        reply: ReplyData,
    ) {
        let _answering = self.near.question(request.pid());
        // The rest of what this handle has read before, its end above all, is here.
        if offset > 0
            && let Some(Opened {
                text: Some(text), ..
            }) = self.open.lock().get(&handle.0)
        {
            return reply.data(part(text, offset, size));
        }
        let (open, reader) = (self.open.clone(), request.pid());
        self.desk.ask(move |tree| {
            let told = inode(number).ok();
            let told = told.and_then(|inode| directory::report_of(tree, inode));
            let told = told.map(|serial| tree.reports.told(serial));
            match inode(number).and_then(|inode| directory::read_for(tree, inode, reader)) {
                Ok(text) => {
                    let answer = part(&text, offset, size).to_vec();
                    // Before the answer: whoever has it may close the file.
                    let mut open = open.lock();
                    let opened = open.entry(handle.0).or_default();
                    (opened.text, opened.told) = (Some(text), told);
                    drop(open);
                    reply.data(&answer);
                }
                Err(errno) => reply.error(refusal(errno)),
            }
        });
    }

    fn poll(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        who: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        let open = self.open.clone();
        let job = move |tree: &mut Tree| {
            let file = (inode(number).ok(), handle.0);
            reply.poll(opened::poll(tree, &open, file, who));
        };
        match inode(number).is_ok_and(directory::tells_changes) {
            // The owner waits for less from now on.
            true => self.desk.leave(job),
            false => self.desk.ask(job),
        }
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<fuser::LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let text = match std::str::from_utf8(values::c_string(data)) {
            // The kernel takes a page at most.
            _ if data.len() > 4096 => return reply.error(refusal(Errno::TOOBIG)),
            Ok(text) => text.to_owned(),
            _ => return reply.error(fuser::Errno::EINVAL),
        };
        let writer = request.pid();
        self.desk.leave(move |tree: &mut Tree| {
            match inode(number).and_then(|inode| directory::write(tree, inode, (&text, writer))) {
                Ok(Written::Done) => reply.written(length),
                Ok(Written::Reclaiming { number, pages }) => {
                    tree.waiting.put((number, writer), move |got| match got {
                        Ok(got) if got.evicted_pages < pages => reply.error(fuser::Errno::EAGAIN),
                        Ok(_) => reply.written(length),
                        Err(errno) => reply.error(refusal(errno)),
                    });
                }
                Err(errno) => reply.error(refusal(errno)),
            }
        });
    }

    fn flush(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: fuser::LockOwner,
        reply: ReplyEmpty,
    ) {
        // Nothing is held back: the kernel need not ask again.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<fuser::LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let opened = self.open.lock().remove(&handle.0);
        if opened.is_some_and(|opened| opened.has_polled) {
            let file = (inode(number).ok(), handle.0);
            self.desk.ask(move |tree| opened::close(tree, file));
        }
        reply.ok();
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _answering = self.near.question(request.pid());
        self.desk.ask(move |tree| {
            let listed = match inode(number).and_then(|inode| directory::list(tree, inode)) {
                Ok(listed) => listed,
                Err(errno) => return reply.error(refusal(errno)),
            };
            for (at, name, inode) in directory::behind(offset, listed) {
                if reply.add(INodeNo(inode.number()), at, kind(inode), name) {
                    break;
                }
            }
            reply.ok();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (One moment without descriptors, and `serve` ended as unmounted.)
    #[test]
    fn what_cannot_be_read_is_not_unmounted() {
        let own = Device {
            major: 0,
            minor: 50,
        };
        assert!(!is_nowhere(b"", own));
        assert!(!is_nowhere(
            b"90 25 0:50 / /srv rw - fuse pagetide rw\n",
            own
        ));
        assert!(is_nowhere(b"91 25 0:51 / /srv rw - tmpfs none rw\n", own));
    }

    #[test]
    fn the_last_mount_at_a_place_counts() {
        let fuse = "90 25 0:50 / /srv/a\\040b rw - fuse pagetide rw\n";
        let other = "91 25 0:51 / /srv/a\\040b rw - tmpfs none rw\n";
        let at = Path::new("/srv/a b");
        let of = |text: &str, at: &Path| fuse_at(text.as_bytes(), at);
        let ours = Device {
            major: 0,
            minor: 50,
        };
        assert_eq!(of(&format!("{other}{fuse}"), at), Some(ours));
        assert_eq!(of(&format!("{fuse}{other}"), at), None);
        assert_eq!(of(fuse, Path::new("/srv")), None);
    }
}
