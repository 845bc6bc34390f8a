//! The code that an access worker runs: it waits for a request, makes the system calls that the
//! request names, and returns the result.
//!
//! Invariant: no call of the C library, no allocation, no panic (see the parent module). The
//! descriptor of a request is closed before the next request is received.

use libc::{c_int, c_long, c_void};

use super::raw::call;
use super::{DATA_BYTES, HEADER_BYTES, RIGHTS_HEADER, Rights};

/// Maximum length of a request's path in bytes, including its NUL.
pub(crate) const PATH_BYTES: usize = 128;

/// Maximum length of a returned link target, in bytes; a longer one is cut.
pub(crate) const LINK_BYTES: usize = 64;
/// Bytes of directory entries that are read at once. An entry has at least 24 bytes.
const ENTRIES_BYTES: usize = 4096;
/// Maximum number of bytes of link targets, with their NULs, for [`ENTRIES_BYTES`] bytes of
/// directory entries.
const LINKS_BYTES: usize = ENTRIES_BYTES / 24 * (LINK_BYTES + 1);

/// Option of [`Operation::Advise`]: drop the file rights of root and of capabilities for the call.
pub(crate) const WITHOUT_FILE_RIGHTS: u32 = 1;

/// Number of pages read from swap after which [`Operation::ReadEach`] stops.
const SWAPPED_IN_MAX: u64 = 16;
/// Number of offsets after which [`Operation::ReadEach`] checks [`SWAPPED_IN_MAX`].
const OFFSETS_PER_CHECK: u64 = 16;

/// `CAP_DAC_OVERRIDE`, `CAP_DAC_READ_SEARCH` and `CAP_FOWNER`, as bits of a set of capabilities.
const FILE_RIGHTS: u32 = 1 << 1 | 1 << 2 | 1 << 3;

/// Name (`comm`) of a worker's process, as `ps -c` and `pgrep -x` show it.
const NAME: &core::ffi::CStr = c"pagetide-access";

/// The kind of a request: which system calls the worker makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Operation {
    /// Opens the path and reads as much as fits in the data.
    Read,
    /// Reads on in the file that [`Operation::Read`] kept open.
    ReadOn,
    /// Reads `count` bytes at `offset` of the file whose descriptor is sent with the request.
    ReadAt,
    /// Opens the directory at the path and reads the targets of the links in it, as many as fit in
    /// the data. Each is cut to [`LINK_BYTES`] and followed by a NUL.
    Links,
    /// Reads on in the directory that [`Operation::Links`] kept open.
    LinksOn,
    /// Opens the path with `flags`, and returns the new descriptor.
    Open,
    /// Opens the path for writing, and writes `count` bytes of the data in one call.
    Write,
    /// Gives the kernel the advice `flags` about `count` ranges (each an `iovec` in the data) of
    /// the process whose pidfd is sent with the request.
    Advise,
    /// Reads one byte, `flags` times, at each of `count` offsets (8 bytes each in the data) of the
    /// file whose descriptor is sent with the request.
    ReadEach,
}

/// The header of a request and of its result: the request's fields come first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) operation: Operation,
    /// Flags of open(2), or the number of the advice, or the number of reads.
    pub(crate) flags: i32,
    /// [`WITHOUT_FILE_RIGHTS`] or 0.
    pub(crate) options: u32,
    /// Number of bytes, ranges or offsets in the data.
    pub(crate) count: u64,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    /// The path, ending with NUL; relative to the descriptor that is sent with the request, if any.
    pub(crate) path: [u8; PATH_BYTES],
    /// Result of the call: a number of bytes, or a negative error number.
    pub(crate) result: i64,
    /// Duration of the call, in nanoseconds.
    pub(crate) took_ns: u64,
    /// Number of pages that [`Operation::ReadEach`] had the kernel read from swap.
    pub(crate) swapped_in: u64,
    /// Whether more can be read ([`Operation::ReadOn`], [`Operation::LinksOn`]).
    pub(crate) has_more: bool,
    /// The worker's end of the socket: its descriptor when the worker starts.
    socket: c_int,
}

impl Header {
    pub(super) fn new(socket: c_int) -> Header {
        Header {
            operation: Operation::Read,
            flags: 0,
            options: 0,
            count: 0,
            offset: 0,
            path: [0; PATH_BYTES],
            result: 0,
            took_ns: 0,
            swapped_in: 0,
            has_more: false,
            socket,
        }
    }
}

/// A message of one byte that may carry a descriptor.
#[repr(C, align(8))]
pub(super) struct Message {
    /// The control message: a `cmsghdr` and one descriptor.
    control: [u64; 4],
    /// Points to `byte` ([`Message::header`]).
    part: libc::iovec,
    byte: u8,
}

/// Length of a control message with one descriptor, in bytes: with padding, and without. It
/// consists of a `cmsghdr` of two words, and of the descriptor.
const CONTROL_SPACE: usize = 24;
const CONTROL_LENGTH: u64 = 20;

impl Message {
    pub(super) fn new() -> Message {
        let part = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 1,
        };
        Message {
            control: [0; 4],
            part,
            byte: 0,
        }
    }

    /// Sets the descriptor to send.
    #[expect(clippy::cast_sign_loss, reason = "the bits of a descriptor's number")]
    pub(super) fn put(&mut self, fd: c_int) {
        let kind = (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32;
        self.control = [CONTROL_LENGTH, kind, u64::from(fd as u32), 0];
    }

    /// Returns the header that sendmsg(2) and recvmsg(2) need; it points into this value.
    /// `has_control`: whether to include the control message.
    pub(super) fn header(&mut self, has_control: bool) -> libc::msghdr {
        self.part.iov_base = (&raw mut self.byte).cast();
        // SAFETY: a msghdr is plain numbers and pointers, for which zeros are valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut self.part;
        header.msg_iovlen = 1;
        if has_control {
            header.msg_control = self.control.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_SPACE as _;
        }
        header
    }

    /// The descriptor that a received message carries; `None` if it carries none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "the bits of a descriptor's number"
    )]
    pub(super) fn taken(&self, header: &libc::msghdr) -> Option<c_int> {
        let is_whole = header.msg_controllen as u64 >= CONTROL_LENGTH;
        (is_whole && self.control[0] >= CONTROL_LENGTH).then_some(self.control[2] as u32 as c_int)
    }
}

/// Converts a pointer to an argument of a system call.
fn pointer<T>(at: *const T) -> u64 {
    at.addr() as u64
}

/// Converts a number of bytes, at most [`DATA_BYTES`], to a result.
#[expect(clippy::cast_possible_wrap, reason = "small")]
const fn signed(bytes: usize) -> i64 {
    bytes as i64
}

/// Converts a file descriptor to an argument of a system call.
#[expect(clippy::cast_sign_loss, reason = "the kernel takes the lower half")]
fn number(fd: i64) -> u64 {
    fd as u64
}

/// The worker's state.
struct Server {
    header: *mut Header,
    data: *mut u8,
    /// The file or directory that is read in pieces; a negative error number if none is open.
    open: i64,
}

/// Entry point of a worker; `region` is the address of its region. Does not return while the
/// worker's socket is open.
pub(super) extern "C" fn main(region: *mut c_void) -> c_int {
    let header: *mut Header = region.cast();
    // SAFETY: the region is mapped for as long as the worker lives, and its owner touches the
    // region only after the worker has sent its result. All descriptors are the worker's own
    // copies.
    unsafe {
        let socket = u64::from((*header).socket.unsigned_abs());
        call(libc::SYS_dup3, [socket, 0, 0, 0, 0, 0]);
        call(libc::SYS_close_range, [1, u64::from(u32::MAX), 0, 0, 0, 0]);
        let set_name = u64::from(libc::PR_SET_NAME.unsigned_abs());
        let name = pointer(NAME.as_ptr());
        call(libc::SYS_prctl, [set_name, name, 0, 0, 0, 0]);
        let data = region.cast::<u8>().add(HEADER_BYTES);
        let mut server = Server {
            header,
            data,
            open: -1,
        };
        while let Some(with) = receive() {
            let opened = server.serve_request(with);
            send(opened);
            for fd in [with, opened] {
                close(fd);
            }
        }
        call(libc::SYS_exit_group, [0; 6]);
    }
    0
}

/// Waits for a request; returns the descriptor that was sent with it, or -1. `None` if the owner
/// has closed its end of the socket.
unsafe fn receive() -> Option<i64> {
    let mut message = Message::new();
    let mut header = message.header(true);
    // SAFETY: the message's parts live for the call.
    let result = unsafe { call(libc::SYS_recvmsg, [0, pointer(&raw mut header), 0, 0, 0, 0]) };
    (result == 1).then(|| message.taken(&header).map_or(-1, i64::from))
}

/// Reports that the call is done, with the descriptor `opened` if it is not negative.
#[expect(clippy::cast_possible_truncation, reason = "descriptors are small")]
unsafe fn send(opened: i64) {
    let mut message = Message::new();
    message.put(opened as c_int);
    let header = message.header(opened >= 0);
    let flags = u64::from(libc::MSG_NOSIGNAL.unsigned_abs());
    // SAFETY: the message's parts live for the call.
    unsafe {
        call(
            libc::SYS_sendmsg,
            [0, pointer(&raw const header), flags, 0, 0, 0],
        )
    };
}

/// Closes a descriptor of the worker. Does nothing for the socket (0) or a negative number.
unsafe fn close(fd: i64) {
    if fd > 0 {
        // SAFETY: no memory is handed over.
        unsafe { call(libc::SYS_close, [number(fd), 0, 0, 0, 0, 0]) };
    }
}

/// The time of the monotonic clock, in nanoseconds.
unsafe fn now_ns() -> u64 {
    let mut time = [0u64; 2];
    let clock = u64::from(libc::CLOCK_MONOTONIC.unsigned_abs());
    let arguments = [clock, pointer(time.as_mut_ptr()), 0, 0, 0, 0];
    // SAFETY: the kernel writes two words to a place of ours.
    unsafe { call(libc::SYS_clock_gettime, arguments) };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

impl Server {
    /// Makes the system calls of the request in the header, with the descriptor `with` that was
    /// sent with the request. Returns the descriptor that was opened for the owner, or -1.
    unsafe fn serve_request(&mut self, with: i64) -> i64 {
        // SAFETY: the owner has sent a request, and waits.
        unsafe {
            let begin = now_ns();
            (*self.header).has_more = false;
            let mut opened = -1;
            let result = match (*self.header).operation {
                Operation::Read => {
                    close(self.open);
                    self.open = self.open_path(with, libc::O_RDONLY);
                    self.read()
                }
                Operation::ReadOn => self.read(),
                Operation::ReadAt => self.read_at(with),
                Operation::Links => {
                    close(self.open);
                    self.open = self.open_path(with, libc::O_RDONLY | libc::O_DIRECTORY);
                    self.links()
                }
                Operation::LinksOn => self.links(),
                Operation::Open => {
                    opened = self.open_path(with, (*self.header).flags);
                    opened.min(0)
                }
                Operation::Write => self.write(with),
                Operation::Advise => self.advise(with),
                Operation::ReadEach => self.read_each(with),
            };
            (*self.header).result = result;
            (*self.header).took_ns = now_ns().wrapping_sub(begin);
            opened
        }
    }

    /// Opens the header's path, relative to the directory `at` if that is not negative.
    unsafe fn open_path(&self, at: i64, flags: c_int) -> i64 {
        let at = if at >= 0 {
            at
        } else {
            i64::from(libc::AT_FDCWD)
        };
        let flags = u64::from((flags | libc::O_CLOEXEC).unsigned_abs());
        // SAFETY: the path ends with NUL, as the owner has seen to.
        unsafe {
            let path = pointer(&raw const (*self.header).path);
            call(libc::SYS_openat, [number(at), path, flags, 0, 0, 0])
        }
    }

    /// Fills the data from the open file; returns the number of bytes, or a negative error number.
    unsafe fn read(&mut self) -> i64 {
        if self.open < 0 {
            return self.open;
        }
        let mut done = 0;
        while done < DATA_BYTES {
            // SAFETY: the data from `done` on belong to the worker, and `most` bytes fit there.
            let result = unsafe {
                let to = pointer(self.data.add(done));
                let most = (DATA_BYTES - done) as u64;
                call(libc::SYS_read, [number(self.open), to, most, 0, 0, 0])
            };
            match usize::try_from(result) {
                Ok(0) => return self.end_reading(signed(done)),
                Ok(result) => done += result,
                Err(_) if result == -i64::from(libc::EINTR) => {}
                Err(_) => return self.end_reading(result),
            }
        }
        // SAFETY: as in `serve_request`.
        unsafe { (*self.header).has_more = true };
        signed(done)
    }

    /// Fills the data with the targets of links in the open directory; returns the number of bytes,
    /// or a negative error number.
    unsafe fn links(&mut self) -> i64 {
        let mut done = 0;
        let mut entries = [0u64; ENTRIES_BYTES / 8];
        while self.open >= 0 && done + LINKS_BYTES <= DATA_BYTES {
            let at = entries.as_mut_ptr().cast::<u8>();
            let arguments = [
                number(self.open),
                pointer(at),
                ENTRIES_BYTES as u64,
                0,
                0,
                0,
            ];
            // SAFETY: the kernel writes at most `ENTRIES_BYTES` bytes to `entries`, which is ours.
            let result = unsafe { call(libc::SYS_getdents64, arguments) };
            match usize::try_from(result) {
                Ok(0) => return self.end_reading(signed(done)),
                // SAFETY: the kernel has filled `result` bytes with whole entries, and the data
                // have room for their links.
                Ok(result) => done += unsafe { self.links_of(at, result.min(ENTRIES_BYTES), done) },
                Err(_) => return self.end_reading(result),
            }
        }
        if self.open < 0 {
            return self.open;
        }
        // SAFETY: as in `serve_request`.
        unsafe { (*self.header).has_more = true };
        signed(done)
    }

    /// Appends the targets of the links with the names in `entries` to the data, from offset `from`
    /// on. `bytes`: length of `entries`. Returns the number of bytes that it appended.
    unsafe fn links_of(&self, entries: *const u8, bytes: usize, from: usize) -> usize {
        // A directory entry has an inode number and an offset (8 bytes each), its length (2), a
        // type (1), and its name with a NUL.
        const LENGTH: usize = 16;
        const NAME: usize = 19;
        let (mut entry, mut into) = (0, from);
        while entry + NAME < bytes {
            // SAFETY: within what the kernel has filled; lengths are at least that of an entry, or
            // the loop ends.
            unsafe {
                let length =
                    usize::from(entries.add(entry + LENGTH).cast::<u16>().read_unaligned());
                let name = pointer(entries.add(entry + NAME));
                let to = pointer(self.data.add(into));
                let arguments = [number(self.open), name, to, LINK_BYTES as u64, 0, 0];
                if let Ok(link) = usize::try_from(call(libc::SYS_readlinkat, arguments)) {
                    into += link.min(LINK_BYTES);
                    self.data.add(into).write(0);
                    into += 1;
                }
                entry += length.max(NAME + 1);
            }
        }
        into - from
    }

    /// Reads `count` bytes of `file` into the data; returns their number, or a negative error
    /// number.
    unsafe fn read_at(&self, file: i64) -> i64 {
        // SAFETY: as in `serve_request`; the data have room for `count` bytes.
        unsafe {
            let count = (*self.header).count.min(DATA_BYTES as u64);
            let offset = (*self.header).offset;
            let to = pointer(self.data);
            call(libc::SYS_pread64, [number(file), to, count, offset, 0, 0])
        }
    }

    /// Closes the file that is read in pieces; returns `result`.
    fn end_reading(&mut self, result: i64) -> i64 {
        // SAFETY: the file is the worker's own.
        unsafe { close(self.open) };
        self.open = i64::from(-libc::EBADF);
        result
    }

    /// Writes `count` bytes of the data to the header's path, relative to the directory `at`.
    /// Returns the number of written bytes, or a negative error number.
    unsafe fn write(&self, at: i64) -> i64 {
        // SAFETY: as in `serve_request`; the data hold `count` bytes, which is no more than there
        // is room for.
        unsafe {
            let file = self.open_path(at, libc::O_WRONLY);
            if file < 0 {
                return file;
            }
            let count = (*self.header).count.min(DATA_BYTES as u64);
            let arguments = [number(file), pointer(self.data), count, 0, 0, 0];
            let done = call(libc::SYS_write, arguments);
            close(file);
            done
        }
    }

    /// Gives the kernel advice about a process; returns the number of bytes that the kernel
    /// processed, or a negative error number.
    unsafe fn advise(&self, pidfd: i64) -> i64 {
        // SAFETY: as in `serve_request`; the data hold `count` ranges. No memory's contents change.
        unsafe {
            let header = &*self.header;
            let before = match header.options & WITHOUT_FILE_RIGHTS {
                0 => None,
                _ => give_up_file_rights(),
            };
            let advice = u64::from(header.flags.unsigned_abs());
            let arguments = [
                number(pidfd),
                pointer(self.data),
                header.count,
                advice,
                0,
                0,
            ];
            let done = call(libc::SYS_process_madvise, arguments);
            if let Some(before) = before {
                set_rights(&before);
            }
            done
        }
    }
}

impl Server {
    /// Reads a byte at each offset in the data of `file`, as often as the header says. Returns the
    /// number of offsets at which every read succeeded. Stops after [`SWAPPED_IN_MAX`] pages that
    /// the kernel had to read from swap, and sets their number in the header.
    unsafe fn read_each(&self, file: i64) -> i64 {
        // SAFETY: as in `serve_request`; the data hold `count` offsets, which is no more than there
        // is room for, and the kernel writes one byte to a place of ours.
        unsafe {
            let count = (*self.header).count.min(DATA_BYTES as u64 / 8);
            let (times, begin) = ((*self.header).flags, major_faults());
            let (mut byte, mut done) = (0u8, 0);
            (*self.header).swapped_in = 0;
            let mut next = self.data.cast::<u64>();
            for at in 0..count {
                let offset = next.read();
                next = next.add(1);
                let arguments = [number(file), pointer(&raw mut byte), 1, offset, 0, 0];
                let is_read = (0..times).all(|_| call(libc::SYS_pread64, arguments) == 1);
                done += i64::from(is_read);
                if (at + 1) % OFFSETS_PER_CHECK == 0 || at + 1 == count {
                    let swapped_in = major_faults().wrapping_sub(begin);
                    (*self.header).swapped_in = swapped_in;
                    if swapped_in >= SWAPPED_IN_MAX {
                        break;
                    }
                }
            }
            done
        }
    }
}

/// Returns how often the kernel read a page from swap or a disk for this worker.
unsafe fn major_faults() -> u64 {
    // SAFETY: an rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let arguments = [0, pointer(&raw mut usage), 0, 0, 0, 0];
    // SAFETY: the kernel writes one rusage to a place of ours. 0 is `RUSAGE_SELF`.
    unsafe { call(libc::SYS_getrusage, arguments) };
    u64::try_from(usage.ru_majflt).unwrap_or(0)
}

/// Removes the file rights from the worker's effective capabilities. Returns the capabilities
/// before; `None` if they cannot be read.
unsafe fn give_up_file_rights() -> Option<Rights> {
    let mut before: Rights = [0; 6];
    let (mut header, mut without) = (RIGHTS_HEADER, before);
    let arguments = [
        pointer(header.as_mut_ptr()),
        pointer(before.as_mut_ptr()),
        0,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes six numbers to a place of ours.
    if unsafe { call(libc::SYS_capget as c_long, arguments) } != 0 {
        return None;
    }
    without.copy_from_slice(&before);
    without[0] &= !FILE_RIGHTS;
    // SAFETY: the set is the worker's own.
    unsafe { set_rights(&without) };
    Some(before)
}

/// Sets the worker's capabilities.
unsafe fn set_rights(rights: &Rights) {
    let header = RIGHTS_HEADER;
    let arguments = [
        pointer(header.as_ptr()),
        pointer(rights.as_ptr()),
        0,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel reads six numbers of ours.
    unsafe { call(libc::SYS_capset as c_long, arguments) };
}
