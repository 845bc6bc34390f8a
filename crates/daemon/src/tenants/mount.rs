//! The tree as files (FUSE).
//!
//! Invariant: the file system's thread decides nothing and keeps nothing of the tree: each call is
//! a job in the request queue. An open file shows the tree as it was at the file's first read.
//! Names that the kernel caches are valid until we invalidate them ([`Mounted::forget`]).

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::units::PAGE_LEN;
use fuser::{
    BackgroundSession, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    MountOption, Notifier, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyPoll,
    ReplyWrite, Request, WriteFlags,
};
use host::system::{Device, mountinfo};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{getegid, geteuid};

use super::affinity::CpuAffinity;
use super::content::Written;
use super::directory::{self, Entry};
use super::inode::Inode;
use super::opened::{self, Open, OpenFile};
use super::request_queue::{RequestQueue, Tree};
use super::values;
use crate::control::Tracer;
use crate::error::Error;

/// Time for which the kernel may cache names of directories, and attributes that never change: for
/// ever, because we invalidate the names that are removed ([`Mounted::forget`]).
const LASTING_TTL: Duration = Duration::from_secs(1 << 30);
/// Time for which the kernel may cache names of files: none. If the kernel cached a file's
/// attributes, it would keep the number of bytes that one sendfile(2) has read as the file's size.
const FILE_NAME_TTL: Duration = Duration::ZERO;

/// Time between two checks whether the tree is still mounted.
const MOUNTS_EVERY: Duration = Duration::from_secs(5);

/// The mounted tree; dropping it unmounts, unless another process mounted it.
pub(super) struct Mounted {
    /// Whether another process mounted the tree, and unmounts it when this process has ended.
    is_mounted_elsewhere: bool,
    /// The FUSE session with its thread; `None` once it is ended.
    session: Option<BackgroundSession>,
    at: PathBuf,
    device: Option<Device>,
    /// Time when the list of mounts was last checked.
    checked_at: Cell<Instant>,
    stale_names: Sender<(INodeNo, OsString)>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted_elsewhere {
            // The session's thread waits for requests until this process ends.
            std::mem::forget(self.session.take());
            return;
        }
        let is_there = |mounts: &[u8]| fuse_at(mounts, &self.at) == self.device;
        let before = mounts();
        // Ending the session unmounts what is at the path, which may be another mount by now. (If
        // the list of mounts cannot be read, assume ours: else ours would stay, and never reply.)
        if self.device.is_some() && !before.is_empty() && !is_there(&before) {
            std::mem::forget(self.session.take());
            return;
        }
        drop(self.session.take());
        // While a process has a working directory or an open file below the mount, the mount stays,
        // though nothing replies there any more: detach it.
        if self.device.is_some() && is_there(&mounts()) {
            let _ = unmount(&self.at, UnmountFlags::DETACH);
        }
    }
}

/// Returns the device of the last mount at a path, if that is FUSE; `None` otherwise. Reads only
/// the text of `/proc/self/mountinfo`, and does not access the mount.
fn fuse_at(mounts: &[u8], at: &Path) -> Option<Device> {
    let point = at.as_os_str().as_encoded_bytes();
    let mounts = mountinfo::parse(mounts);
    let last = mounts.iter().rfind(|mount| mount.point == point)?;
    (last.fs_type == b"fuse").then_some(last.device)
}

/// Whether no mount in the text of `/proc/self/mountinfo` has this device; one that is mounted over
/// still counts. False if the text is empty, since a host may lack descriptors for a moment.
fn is_nowhere(mounts: &[u8], own: Device) -> bool {
    let mounts = mountinfo::parse(mounts);
    !mounts.is_empty() && mounts.iter().all(|one| one.device != own)
}

fn mounts() -> Vec<u8> {
    std::fs::read("/proc/self/mountinfo").unwrap_or_default()
}

impl Mounted {
    fn new(
        session: BackgroundSession,
        at: PathBuf,
        is_mounted_elsewhere: bool,
    ) -> io::Result<Mounted> {
        let notifier = session.notifier();
        let (stale_names, names) = channel();
        let thread = std::thread::Builder::new().name("stale-names".to_owned());
        thread.spawn(move || forget_stale(&notifier, &names))?;
        Ok(Mounted {
            is_mounted_elsewhere,
            session: Some(session),
            device: fuse_at(&mounts(), &at),
            at,
            checked_at: Cell::new(Instant::now()),
            stale_names,
        })
    }

    /// Whether nothing serves the mount any more: it was unmounted, or its thread has failed.
    pub(super) fn has_ended(&self) -> bool {
        let session = self.session.as_ref();
        session.is_none_or(|session| session.guard.is_finished()) || self.is_elsewhere()
    }

    /// Whether the tree is mounted nowhere, though an open file or a working directory keeps it
    /// alive (`umount -l`). Checked rarely, since a host may have thousands of mounts.
    fn is_elsewhere(&self) -> bool {
        if self.checked_at.get().elapsed() < MOUNTS_EVERY {
            return false;
        }
        self.checked_at.set(Instant::now());
        self.device.is_some_and(|own| is_nowhere(&mounts(), own))
    }

    /// Makes the kernel forget the name of a tenant that is gone from the directory `parent`. Not
    /// needed for a tenant that was removed through the mount.
    pub(super) fn forget(&self, parent: Inode, name: OsString) {
        // Sending fails if the mount has ended; then the kernel has cached no name.
        let _ = self.stale_names.send((INodeNo(parent.number()), name));
    }
}

/// Makes the kernel forget the names of tenants that are gone. Runs in a separate thread: the
/// kernel waits for other operations in that directory, which may wait for a reply of ours.
fn forget_stale(notifier: &Notifier, stale_names: &Receiver<(INodeNo, OsString)>) {
    for (parent, name) in stale_names {
        // This fails if the kernel has not cached this name; then it need not forget it.
        let _ = notifier.inval_entry(parent, &name);
    }
}

/// Checks that the tree can be mounted at a directory: that nothing else is mounted there. Removes
/// the mount of a killed manager.
///
/// # Errors
/// There is no such directory, or it has another mount.
pub(super) fn check_mount_point(at: &Path) -> Result<(), Error> {
    // A killed manager's mount replies only from the kernel's cache. There may be another mount
    // below it.
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

/// Mounts the tree at a directory that [`check_mount_point`] has accepted.
///
/// # Errors
/// FUSE is not available.
pub(super) fn mount(at: &Path, request_queue: RequestQueue) -> Result<Mounted, Error> {
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        MountOption::FSName("pagetide".to_owned()),
        MountOption::Subtype("pagetide".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
    ];
    // Resolve the path before mounting: afterwards this thread would have to reply to itself.
    let place = at.canonicalize().unwrap_or_else(|_| at.to_owned());
    let session = fuser::spawn_mount(Files::new(request_queue), at, &config);
    let mounted = session.and_then(|session| Mounted::new(session, place, false));
    mounted.map_err(|error| {
        let what = format!("cannot mount the tenants at {}: {error}", at.display());
        Error::missing(
            what,
            "is it a directory of yours, and is there /dev/fuse? `--mount` can be left out",
        )
    })
}

/// Serves the tree at a directory that another process has mounted, by its descriptor of
/// `/dev/fuse`.
///
/// # Errors
/// The descriptor does not belong to a fresh mount.
pub(super) fn adopt(
    at: &Path,
    fuse: OwnedFd,
    request_queue: RequestQueue,
) -> Result<Mounted, Error> {
    let (acl, config) = (fuser::SessionACL::Owner, fuser::Config::default());
    let place = std::path::absolute(at).unwrap_or_else(|_| at.to_owned());
    let session = fuser::Session::from_fd(Files::new(request_queue), fuse, acl, config);
    let session = session.and_then(fuser::Session::spawn);
    let mounted = session.and_then(|session| Mounted::new(session, place, true));
    mounted.map_err(|error| {
        let what = format!("cannot serve the mount of {}: {error}", at.display());
        Error::failed(what, "start the service again")
    })
}

struct Files {
    request_queue: RequestQueue,
    next: AtomicU64,
    open: Open,
    affinity: CpuAffinity,
    tracer: Tracer,
}

/// Notifies the tree's owner when the file system's thread, and so the mount, ends.
impl Drop for Files {
    fn drop(&mut self) {
        self.request_queue.enqueue(|_| {});
    }
}

impl Files {
    fn new(request_queue: RequestQueue) -> Files {
        Files {
            request_queue,
            next: AtomicU64::new(1),
            open: Open::default(),
            affinity: CpuAffinity::default(),
            tracer: Tracer::this_process(),
        }
    }

    fn handle(&self) -> FileHandle {
        FileHandle(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the requester may use the tree. The kernel admits only processes with our user id
    /// (the mount lacks `allow_other`); for root that is not enough. The pid is still the
    /// requester's, which sleeps until the reply. Another pid namespace is allowed, unlike at the
    /// control socket.
    fn allows(&self, request: &Request) -> bool {
        request.uid() != 0 || self.tracer.allows(request.pid())
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

/// Returns the time for which the kernel may cache the attributes of an inode.
fn ttl_of(entry: &Entry) -> Duration {
    if entry.is_lasting {
        LASTING_TTL
    } else {
        FILE_NAME_TTL
    }
}

/// Replies with an entry of a directory.
fn reply_entry(reply: ReplyEntry, found: Result<Entry, Errno>) {
    match found {
        Ok(entry) => {
            let name = match entry.inode.is_directory() {
                true => LASTING_TTL,
                false => FILE_NAME_TTL,
            };
            let attr = attributes(&entry);
            reply.entry_with_ttls(&ttl_of(&entry), &name, &attr, Generation(0));
        }
        Err(errno) => reply.error(refusal(errno)),
    }
}

/// The attributes as stat(2) returns them.
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
        // For a directory, 1 means that the number of subdirectories is unknown.
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Returns the bytes of a text from `offset` on, at most `size` of them.
fn part(text: &[u8], offset: u64, size: u32) -> &[u8] {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let from = from.min(text.len());
    let to = from.saturating_add(size as usize).min(text.len());
    &text[from..to]
}

/// Returns the inode with this number; ENOENT if there is none.
fn inode(number: INodeNo) -> Result<Inode, Errno> {
    Inode::of(number.0).ok_or(Errno::NOENT)
}

impl Filesystem for Files {
    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _answering = self.affinity.begin_request(request.pid());
        let name = name.to_owned();
        self.request_queue.run_or_enqueue(move |tree| {
            let found = inode(parent).and_then(|parent| directory::find(tree, parent, &name));
            reply_entry(reply, found);
        });
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _answering = self.affinity.begin_request(request.pid());
        self.request_queue.run_or_enqueue(move |tree| {
            match inode(number).and_then(|inode| directory::entry(tree, inode)) {
                Ok(entry) => reply.attr(&ttl_of(&entry), &attributes(&entry)),
                Err(errno) => reply.error(refusal(errno)),
            }
        });
    }

    /// Allows a shell's `>` to truncate a file first; no other attribute of a file can be changed.
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
        // Setting the mode that the file has already is allowed, since scripts do so after each
        // mkdir. Any other mode is refused, as it would have no effect.
        self.request_queue.run_or_enqueue(move |tree| {
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
        if !self.allows(request) {
            return reply.error(fuser::Errno::EACCES);
        }
        let name = name.to_owned();
        self.request_queue.enqueue(move |tree| {
            let made = inode(parent).and_then(|parent| directory::make(tree, parent, &name));
            reply_entry(reply, made);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !self.allows(request) {
            return reply.error(fuser::Errno::EACCES);
        }
        let name = name.to_owned();
        self.request_queue.enqueue(move |tree| {
            match inode(parent).and_then(|parent| directory::remove(tree, parent, &name)) {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(refusal(errno)),
            }
        });
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(fuser::Errno::EPERM);
    }

    /// Refused, as are the next two operations: the kernel's control groups do not have them. (FUSE
    /// itself would return ENOSYS: scripts that write to a file that does not exist take that for a
    /// broken machine.)
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
        let _answering = self.affinity.begin_request(request.pid());
        if !self.allows(request) {
            return reply.error(fuser::Errno::EACCES);
        }
        // The file is opened with direct I/O, because its size is not known before it is read.
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
        let _answering = self.affinity.begin_request(request.pid());
        // The client has read the beginning of this text by this handle: return its next part,
        // which is usually the empty part behind the end.
        if offset > 0
            && let Some(OpenFile {
                text: Some(text), ..
            }) = self.open.lock().get(&handle.0)
        {
            return reply.data(part(text, offset, size));
        }
        let (open, reader) = (self.open.clone(), request.pid());
        self.request_queue.run_or_enqueue(move |tree| {
            let reported = inode(number).ok();
            let reported = reported.and_then(|inode| directory::report_of(tree, inode));
            let reported = reported.map(|serial| tree.reports.reported(serial));
            match inode(number).and_then(|inode| directory::read_for(tree, inode, reader)) {
                Ok(text) => {
                    let answer = part(&text, offset, size).to_vec();
                    // The text is stored before the reply, because the process may close the file
                    // as soon as it has the reply.
                    let mut open = open.lock();
                    let opened = open.entry(handle.0).or_default();
                    (opened.text, opened.reported) = (Some(text), reported);
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
        notifier: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        let open = self.open.clone();
        let job = move |tree: &mut Tree| {
            let file = (inode(number).ok(), handle.0);
            reply.poll(opened::poll(tree, &open, file, notifier));
        };
        match inode(number).is_ok_and(directory::tells_changes) {
            // The job is queued, because after it the tree's owner may have to wake up earlier.
            true => self.request_queue.enqueue(job),
            false => self.request_queue.run_or_enqueue(job),
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
            // The kernel accepts at most a page.
            _ if data.len() > PAGE_LEN => return reply.error(refusal(Errno::TOOBIG)),
            Ok(text) => text.to_owned(),
            _ => return reply.error(fuser::Errno::EINVAL),
        };
        let writer = request.pid();
        self.request_queue.enqueue(move |tree: &mut Tree| {
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
        // ENOSYS: nothing is buffered, so the kernel need not call flush again.
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
            self.request_queue
                .run_or_enqueue(move |tree| opened::close(tree, file));
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
        let _answering = self.affinity.begin_request(request.pid());
        self.request_queue.run_or_enqueue(move |tree| {
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

    /// Regression: at a moment without free descriptors `serve` ended as if its mount were gone.
    #[test]
    fn an_unreadable_mount_list_does_not_mean_unmounted() {
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
