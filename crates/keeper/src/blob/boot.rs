//! Start, the pair of keepers, and the end.
//!
//! The target's main thread clones a first process (`first`), which clones the keeper (`main`) and
//! exits, so that the keeper is nobody's child that a `wait()` could see. The keeper clones its
//! standby with a shared descriptor table: descriptors survive either of them.
//!
//! Image header, in 8-byte words: 0 ready mark of the manager; 1 done mark of the stub; 2 status
//! (1 serving, negative: stage and error number); 3 keeper's pid; 4 target's pid; 5 image bytes;
//! 6 top of the first of two stacks, 7 bytes of each; 8 stub address, 9 stub bytes; 10 mode
//! (0 fresh, 1 take over descriptors that the manager sends); 11, 12 then: where the table and the
//! file tier's counts are mapped; 13 where the keeper has mapped its table.

use super::sys::{self, CLONE_UNTRACED, CLONE_VM, SIGKILL, clone_onto, sys};
use super::table::{PAGE, Table};
use super::view::{Keeper, state};
use super::{children, recover, registered, serve};
use core::sync::atomic::{AtomicU64, Ordering};
use keeper::layout::{
    CHUNK, CHUNKS_MAX, KEEPER_COMM, MAGIC, REFS_BYTES, TABLE_BYTES, WORDS_OFF, ctl, fd,
};
use uffd::abi::{
    Range, UFFD_API, UFFD_EVENT_FEATURES, UFFD_FEATURE_MOVE, UFFD_FEATURE_SIGBUS, UFFDIO_API,
    UFFDIO_UNREGISTER, UffdioApi, errno, nr,
};

const CLONE_FILES: u64 = 0x400;
const CLONE_PARENT: u64 = 0x8000;
const O_CLOEXEC_NONBLOCK: u64 = 0o2_004_000;
/// Addresses that the tables take at most.
const TABLES_ROOM: u64 = 16 << 30;
const _: () = assert!(((TABLE_BYTES + 2 * REFS_BYTES) as u64) < TABLES_ROOM - 3 * CHUNK);
/// Most of the image is room for what is rare.
const MLOCK_ONFAULT: u64 = 1;

fn header(image: u64, i: usize) -> &'static AtomicU64 {
    // SAFETY: the image starts with a page of header words, mapped as long as any keeper lives.
    unsafe { &*((image as usize + i * 8) as *const AtomicU64) }
}

fn fail(image: u64, stage: i64, error: i64) -> ! {
    let status = -(stage << 16 | (-error & 0xffff));
    header(image, 2).store(status as u64, Ordering::Release);
    sys::exit()
}

/// In the first process, on the boot stack.
pub(super) extern "C" fn first(image: u64) -> ! {
    // SAFETY: no pointers; this process has a descriptor table of its own.
    unsafe {
        sys!(nr::CLOSE_RANGE, 0, u32::MAX, 0);
        sys!(nr::SETSID);
    }
    let top = header(image, 6).load(Ordering::Relaxed);
    // SAFETY: the image holds two unused stacks; `main` never returns.
    let r = unsafe { clone_onto(CLONE_VM | CLONE_UNTRACED, top, main, image) };
    if r < 0 {
        fail(image, 1, r);
    }
    sys::exit()
}

fn check(image: u64, stage: i64, r: i64) -> u64 {
    if r < 0 {
        fail(image, stage, r)
    } else {
        r as u64
    }
}

/// In the keeper: everything is set up here, then it serves for the rest of its life.
extern "C" fn main(image: u64) -> ! {
    name();
    // SAFETY: the only keeper so far.
    let k = unsafe { state() };
    k.image = image;
    k.target = header(image, 4).load(Ordering::Relaxed);
    k.stack = 0;
    k.scratch = keeper::decode::Scratch::new();
    if header(image, 10).load(Ordering::Relaxed) == 0 {
        open_files(image);
        map_tables(k, image);
        reserve(k, image);
    } else {
        inherit(k, image);
    }
    let t = k.table;
    t.set(ctl::TARGET_PID, k.target);
    t.set(ctl::IMAGE_BASE, image);
    t.set(ctl::IMAGE_LEN, header(image, 5).load(Ordering::Relaxed));
    t.set(ctl::STUB_ADDR, header(image, 8).load(Ordering::Relaxed));
    t.set(ctl::STUB_LEN, header(image, 9).load(Ordering::Relaxed));
    t.set(ctl::KEEPER_PID, sys::getpid());
    header(image, 13).store(t.base(), Ordering::Release);
    // SAFETY: locks what is used of the keeper's own image; failing is allowed.
    unsafe { sys!(nr::MLOCK2, image, t.get(ctl::IMAGE_LEN), MLOCK_ONFAULT) };
    let target = check(image, 9, sys::pidfd_open(k.target));
    check(image, 9, sys::dup_to(target as i32, fd::TARGET));
    new_standby(k);
    t.ctl(ctl::MAGIC).store(MAGIC, Ordering::Release);
    header(image, 3).store(sys::getpid(), Ordering::Release);
    header(image, 2).store(1, Ordering::Release);
    serve::serve(k)
}

fn name() {
    // SAFETY: a terminated string of at most 16 bytes.
    unsafe { sys!(nr::PRCTL, 15, KEEPER_COMM.as_ptr()) };
}

fn open_files(image: u64) {
    let files: [(&[u8], i32, u64); 6] = [
        // Holds the number until the manager sends a file.
        (b"pagetide-none\0", fd::FILE, 0),
        (b"pagetide-table\0", fd::TABLE, TABLE_BYTES as u64),
        (b"pagetide-pool\0", fd::POOL, 0),
        (b"pagetide-refs\0", fd::REFS, REFS_BYTES as u64),
        (b"pagetide-file-refs\0", fd::FILE_REFS, REFS_BYTES as u64),
        (b"pagetide-snapshot\0", children::SNAPSHOT_FD, 0),
    ];
    // All numbers are taken first, so that no dup3 closes what a later one needs.
    const FREE: i32 = 32;
    for (i, (name, _, len)) in files.iter().enumerate() {
        let f = check(image, 2, sys::memfd(name)) as i32;
        check(image, 2, sys::dup_to(f, FREE + i as i32));
        check(image, 2, sys::ftruncate(FREE + i as i32, *len));
    }
    // SAFETY: no pointers.
    let wake = unsafe { sys!(nr::EVENTFD2, 0, O_CLOEXEC_NONBLOCK) };
    let pagemap = sys::open(b"/proc/self/pagemap\0");
    check(
        image,
        3,
        sys::dup_to(check(image, 3, wake) as i32, FREE + 6),
    );
    check(
        image,
        4,
        sys::dup_to(check(image, 4, pagemap) as i32, FREE + 7),
    );
    let mut pair = [0i32; 2];
    // SAFETY: two descriptors' room.
    let r = unsafe { sys!(nr::SOCKETPAIR, 1, 5 | 0o2_000_000, 0, pair.as_mut_ptr()) };
    check(image, 5, r);
    check(image, 5, sys::dup_to(pair[0], FREE + 8));
    check(image, 5, sys::dup_to(pair[1], FREE + 9));
    for (i, (_, number, _)) in files.iter().enumerate() {
        check(image, 5, sys::dup_to(FREE + i as i32, *number));
    }
    let rest = [fd::WAKE, fd::PAGEMAP, fd::SOCK_MANAGER, fd::SOCK_KEEPER];
    for (i, number) in rest.into_iter().enumerate() {
        check(image, 5, sys::dup_to(FREE + 6 + i as i32, number));
    }
    open_userfaultfds(image);
}

fn open_userfaultfds(image: u64) {
    for (number, features) in [
        (fd::PROBE, 0),
        (fd::EVENTS, UFFD_EVENT_FEATURES | UFFD_FEATURE_MOVE),
        (fd::LIMBO, UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MOVE),
    ] {
        // SAFETY: no pointers.
        let f = unsafe { sys!(nr::USERFAULTFD, O_CLOEXEC_NONBLOCK) };
        let f = check(image, 6, f) as i32;
        check(image, 6, sys::dup_to(f, number));
        let mut api = UffdioApi {
            api: UFFD_API,
            features,
            ioctls: 0,
        };
        check(image, 7, sys::ioctl(number, UFFDIO_API, &mut api));
    }
}

/// Maps `len` bytes above the image at `next`, if there is room: far from where the program maps anything
/// and moves it to and fro (`children::new_table`).
fn map(image: u64, next: &mut u64, len: u64, file: i32) -> u64 {
    let flags = sys::MAP_SHARED_NORESERVE;
    let base = check(image, 8, sys::mmap(*next, len, flags, file));
    *next += len.next_multiple_of(CHUNK);
    for advice in [sys::MADV_DONTFORK, sys::MADV_DONTDUMP] {
        sys::madvise(base, len, advice);
    }
    base
}

/// Where room begins above the image.
fn above(image: u64) -> u64 {
    let len = header(image, 5).load(Ordering::Relaxed);
    (image + len).next_multiple_of(CHUNK) + CHUNK
}

fn map_tables(k: &mut Keeper, image: u64) {
    let mut next = above(image);
    let base = map(image, &mut next, TABLE_BYTES as u64, fd::TABLE);
    // SAFETY: a whole table file, mapped for the keeper's life.
    k.table = unsafe { Table::at(base) };
    k.refs = map(image, &mut next, REFS_BYTES as u64, fd::REFS);
    k.file_refs = map(image, &mut next, REFS_BYTES as u64, fd::FILE_REFS);
    k.table.set(ctl::TABLE_BASE, base);
    k.table.set(ctl::REFS_BASE, k.refs);
    k.table.set(ctl::FILE_REFS_BASE, k.file_refs);
}

/// Reserves limbo and the transit window, and registers them.
fn reserve(k: &mut Keeper, image: u64) {
    let mut chunks = CHUNKS_MAX;
    let base = loop {
        let hint = above(image) + TABLES_ROOM;
        let len = (chunks + 2) as u64 * CHUNK;
        let r = sys::mmap(hint, len, sys::MAP_ANON_NORESERVE, -1);
        if r > 0 {
            break r as u64;
        }
        chunks /= 2;
        if chunks < 64 {
            fail(image, 10, r);
        }
    };
    let len = (chunks + 2) as u64 * CHUNK;
    k.table.set(ctl::RESERVE_BASE, base);
    for advice in [sys::MADV_DONTFORK, sys::MADV_DONTDUMP] {
        sys::madvise(base, len, advice);
    }
    // The window first, then limbo: two registrations split the mapping once, here.
    k.transit = base.next_multiple_of(CHUNK);
    k.limbo = k.transit + CHUNK;
    k.limbo_chunks = chunks;
    for (number, start, len) in [
        (fd::EVENTS, k.transit, CHUNK),
        (fd::LIMBO, k.limbo, chunks as u64 * CHUNK),
    ] {
        check(image, 11, registered::register(number, start, start + len));
    }
    let t = k.table;
    check(image, 10, sys::forbid(registered::unreadable(k), PAGE));
    t.set(ctl::TRANSIT_BASE, k.transit);
    t.set(ctl::LIMBO_BASE, k.limbo);
    t.set(ctl::LIMBO_CHUNKS, chunks as u64);
    t.set(ctl::LIMBO_WINDOW, 64);
}

/// A new image after both keepers were killed: the manager kept the descriptors and sends them;
/// all mappings are still where they were.
fn inherit(k: &mut Keeper, image: u64) {
    let mut pair = [0i32; 2];
    // SAFETY: two descriptors' room.
    let r = unsafe { sys!(nr::SOCKETPAIR, 1, 5 | 0o2_000_000, 0, pair.as_mut_ptr()) };
    check(image, 5, r);
    check(image, 5, sys::dup_to(pair[0], 40));
    check(image, 5, sys::dup_to(pair[1], fd::SOCK_KEEPER));
    check(image, 5, sys::dup_to(40, fd::SOCK_MANAGER));
    header(image, 3).store(sys::getpid(), Ordering::Release);
    header(image, 2).store(2, Ordering::Release);
    for number in [
        fd::TABLE,
        fd::POOL,
        fd::REFS,
        fd::FILE_REFS,
        children::SNAPSHOT_FD,
        fd::WAKE,
        fd::PAGEMAP,
        fd::EVENTS,
        fd::LIMBO,
        fd::FILE,
        fd::PROBE,
    ] {
        check(image, 12, receive(number));
    }
    // SAFETY: the table file is still mapped where the dead keeper mapped it; the header says so.
    k.table = unsafe { Table::at(header(image, 11).load(Ordering::Acquire)) };
    let t = k.table;
    k.refs = t.get(ctl::REFS_BASE);
    k.file_refs = header(image, 12).load(Ordering::Acquire);
    k.transit = t.get(ctl::TRANSIT_BASE);
    k.limbo = t.get(ctl::LIMBO_BASE);
    k.limbo_chunks = (t.get(ctl::LIMBO_CHUNKS) as usize).min(CHUNKS_MAX);
    check(image, 13, children::inherit(k));
    recover::recover(k);
    children::forget_lost_forks(k);
}

/// Receives one descriptor over the keeper's socket as `number`, waiting at most two seconds.
pub(super) fn receive(number: i32) -> i64 {
    let mut fds = [sys::PollFd {
        fd: fd::SOCK_KEEPER,
        events: 1,
        revents: 0,
    }];
    if sys::poll(&mut fds, 2000) <= 0 {
        return -errno::EAGAIN;
    }
    let mut byte = [0u8; 8];
    let iov = [byte.as_mut_ptr() as u64, 8];
    let mut control = [0u64; 4];
    let msg = [
        0u64,
        0,
        iov.as_ptr() as u64,
        1,
        control.as_mut_ptr() as u64,
        32,
        0,
    ];
    // SAFETY: a msghdr with one buffer of eight bytes and 32 bytes of control room.
    let r = unsafe { sys!(nr::RECVMSG, fd::SOCK_KEEPER, msg.as_ptr(), 0x4000_0000) };
    if r < 0 {
        return r;
    }
    // cmsghdr: length 20, level SOL_SOCKET 1, type SCM_RIGHTS 1; then the descriptor.
    if control[0] != 20 || control[1] != 1 << 32 | 1 {
        return -errno::EINVAL;
    }
    sys::dup_to(control[2] as u32 as i32, number)
}

/// Makes the keeper that stands by, on the stack that is not ours.
pub(super) fn new_standby(k: &mut Keeper) {
    let (top, len) = (header(k.image, 6), header(k.image, 7));
    let other = top.load(Ordering::Relaxed) + (1 - k.stack) * len.load(Ordering::Relaxed);
    let flags = CLONE_VM | CLONE_FILES | CLONE_PARENT | CLONE_UNTRACED;
    // SAFETY: the other stack's keeper is dead or was never born; `standby` never returns.
    let pid = unsafe { clone_onto(flags, other, standby, k.image) };
    if pid < 0 {
        k.table.anomaly(64, pid);
        return;
    }
    k.table.set(ctl::STANDBY_PID, pid as u64);
    let peer = sys::pidfd_open(pid as u64);
    if peer >= 0 {
        sys::dup_to(peer as i32, fd::PEER);
    }
}

/// In the standby: waits for the serving keeper's death, then serves.
extern "C" fn standby(image: u64) -> ! {
    name();
    let me = sys::getpid();
    // The image header and the control words are all that is looked at before taking over.
    let table = loop {
        let t = header(image, 13).load(Ordering::Acquire);
        if t != 0 {
            // SAFETY: the serving keeper published where its table is mapped.
            break unsafe { Table::at(t) };
        }
        sys::sleep_us(500);
    };
    let peer = sys::pidfd_open(table.get(ctl::KEEPER_PID));
    if peer >= 0 {
        loop {
            let mut fds = [sys::PollFd {
                fd: peer as i32,
                events: 1,
                revents: 0,
            }];
            if sys::poll(&mut fds, -1) > 0 {
                break;
            }
        }
        sys::close(peer as i32);
    }
    if table.get(ctl::LEAVING) == 1 {
        sys::exit();
    }
    // SAFETY: the keeper that held the state is dead.
    let k = unsafe { state() };
    k.stack = 1 - k.stack;
    table.set(ctl::KEEPER_PID, me);
    table.count(ctl::TAKEOVERS, 1);
    recover::recover(k);
    new_standby(k);
    serve::serve(k)
}

/// The end of both keepers, when the target is gone: its memory goes with them.
pub(super) fn leave(k: &mut Keeper) -> ! {
    end_peer(k);
    sys::exit()
}

fn end_peer(k: &mut Keeper) {
    k.table.ctl(ctl::LEAVING).store(1, Ordering::Release);
    let peer = k.table.get(ctl::STANDBY_PID);
    if peer > 1 && sys::same_memory(peer, sys::getpid()) == Some(true) {
        sys::kill(peer, SIGKILL);
        let mut fds = [sys::PollFd {
            fd: fd::PEER,
            events: 1,
            revents: 0,
        }];
        sys::poll(&mut fds, 1000);
    }
}

/// The end of both keepers while the target lives: everything of ours is unmapped.
pub(super) fn leave_no_trace(k: &mut Keeper) -> ! {
    end_peer(k);
    let (image, stub) = (k.image, k.table.get(ctl::STUB_ADDR));
    let len = k.table.get(ctl::IMAGE_LEN);
    let limbo_len = (k.limbo_chunks + 2) as u64 * CHUNK;
    let limbo_base = k.table.get(ctl::RESERVE_BASE);
    let table = k.table.base();
    // Unmapping what is registered with events would wait for ourselves to read one.
    let mut window = Range {
        start: k.transit,
        len: CHUNK,
    };
    sys::ioctl(fd::EVENTS, UFFDIO_UNREGISTER, &mut window);
    sys::munmap(limbo_base, limbo_len);
    sys::munmap(k.refs, REFS_BYTES as u64);
    sys::munmap(k.file_refs, REFS_BYTES as u64);
    sys::munmap(table, TABLE_BYTES as u64);
    // The stub's `syscall; exit`: the image that this code is in goes before the exit.
    // SAFETY: the stub is still in the target's text; nothing of the image is used afterwards.
    unsafe {
        core::arch::asm!("jmp {to}", to = in(reg) stub + LEAVE_OFFSET, in("rax") nr::MUNMAP as u64,
            in("rdi") image, in("rsi") len, options(noreturn, nostack));
    }
}

/// Offset of the stub's last two system calls (`uffd::stub::LEAVE_OFFSET`).
const LEAVE_OFFSET: u64 = 2;

const _: () = assert!(WORDS_OFF.is_multiple_of(4096));
