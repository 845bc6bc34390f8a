//! Putting a keeper into a live process.
//!
//! 1. find unused bytes at the end of an executable mapping and a free range for the image;
//! 2. stop the main thread, send it to the stub (written to those bytes), let it go at once;
//! 3. when the stub has mapped the room, write the image and the ready mark;
//! 4. wait for the keeper to say that it serves.
//!
//! Invariant: from step 2 on the thread needs nobody to come back to where it was (`uffd::stub`).

use super::image::{self, Header};
use super::maps::{self, Mapping};
use super::seize::seize;
use crate::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use uffd::ptrace::{Registers, Stopped};
use uffd::{stub, vm};

/// A keeper that was started.
#[derive(Debug)]
pub(crate) struct Injected {
    /// Its process id.
    pub(crate) keeper: i32,
    /// True if it now waits for descriptors (see [`inject`]).
    pub(crate) waits: bool,
}

const LIMIT: Duration = Duration::from_secs(3);

fn failed(pid: i32, why: impl Into<String>, hint: &str) -> Error {
    Error::failed(
        format!("cannot put a keeper into process {pid}"),
        why.into(),
        hint,
    )
}

/// Injects a keeper into `pid`. With `inherit` (where its table and file-tier counts are mapped)
/// it takes over from keepers that were killed: it then waits for descriptors on its socket.
pub(crate) fn inject(pid: i32, inherit: Option<(u64, u64)>) -> Result<Injected, Error> {
    let until = Instant::now() + LIMIT;
    let stub_len = stub::bytes(&params(0, 0)).len() as u64;
    let (maps, place) = find_place(pid, stub_len)?;
    let base = free_range(&maps, image::LEN)
        .ok_or_else(|| failed(pid, "no free address range", "report this program"))?;
    let stub = (place, stub_len);
    send(pid, place, base)?;
    wait_mapped(pid, base, until)?;
    let bytes = image::bytes(
        base,
        &Header {
            target: u64::from(pid.unsigned_abs()),
            stub,
            inherit,
        },
    );
    write_all(pid, base + 8, &bytes[8..])?;
    write_all(pid, base, &stub::READY.to_le_bytes())?;
    let (keeper, waits) = wait_serving(pid, base, until)?;
    Ok(Injected { keeper, waits })
}

/// The mappings, and where the stub goes. A process that has only just executed its program has
/// hardly any mappings yet: then it is looked at again.
fn find_place(pid: i32, len: u64) -> Result<(Vec<Mapping>, u64), Error> {
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        let maps =
            maps::read(pid).map_err(|e| failed(pid, e.to_string(), "is it still running?"))?;
        if let Some(place) = cave(pid, &maps, len) {
            return Ok((maps, place));
        }
        if Instant::now() > until {
            let why = format!("no executable mapping has {len} unused bytes at its end");
            return Err(failed(pid, why, "report this program"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn params(resume: u64, base: u64) -> stub::Params {
    let layout = image::layout(base);
    stub::Params {
        resume,
        image: base,
        image_len: image::LEN,
        text: layout.text,
        text_len: layout.text_len,
        entry: layout.entry,
        stack: layout.boot_stack,
        sigmask: u64::MAX,
        nap: [0, 200_000],
        looks: 8_000,
    }
}

/// The last bytes of an executable file mapping (or the vdso) that are zero, aligned to 16.
fn cave(pid: i32, maps: &[Mapping], len: u64) -> Option<u64> {
    // The vdso first: the same in every program, and no file's text.
    let executable = || maps.iter().filter(|m| m.prot == [true, false, true]);
    let vdso = executable().filter(|m| m.name == "[vdso]");
    for m in vdso.chain(executable().filter(|m| m.inode != 0)) {
        let mut tail = vec![0u8; 4096.min(usize::try_from(m.len()).ok()?)];
        let from = m.end - tail.len() as u64;
        if !matches!(vm::read(pid, from, &mut tail), Ok(n) if n == tail.len()) {
            continue;
        }
        let zeros = tail.iter().rev().take_while(|b| **b == 0).count() as u64;
        let old_stub = find_stub(&tail);
        // A little room after the last instruction of the program's own.
        if zeros >= len + 64 {
            return Some((m.end - len) & !15);
        }
        if let Some(at) = old_stub {
            return Some(from + at);
        }
    }
    None
}

/// Where a stub of an earlier injection is in `tail`, if there is one at its usual place.
fn find_stub(tail: &[u8]) -> Option<u64> {
    let code = stub::bytes(&params(0, 0));
    let at = tail.len().checked_sub(code.len())? & !15;
    let head = code.len() - size_of::<stub::Params>();
    (tail[at..at + head] == code[..head]).then_some(at as u64)
}

/// A gap for the image, far from where the program's own mappings grow.
fn free_range(maps: &[Mapping], len: u64) -> Option<u64> {
    const LOW: u64 = 0x1_0000_0000;
    let need = len + (32 << 20);
    let mut best = None;
    let mut at = LOW;
    for m in maps.iter().filter(|m| m.end < 0x7fff_ffff_f000) {
        if m.start > at && m.start - at > need {
            // The middle of the largest gap.
            let gap = m.start - at;
            if best.is_none_or(|(_, g)| gap > g) {
                best = Some((at + gap / 2, gap));
            }
        }
        at = at.max(m.end);
    }
    best.map(|(middle, _)| middle & !0xfff)
}

/// Writes the stub and sends the main thread there (another one if that cannot be stopped).
fn send(pid: i32, place: u64, base: u64) -> Result<(), Error> {
    let mut tids: Vec<i32> = threads(pid);
    tids.sort_by_key(|t| *t != pid);
    let mut why = String::from("it has no threads");
    for tid in tids {
        match seize(tid, Duration::from_millis(300)) {
            Ok(thread) => return redirect(pid, &thread, place, base),
            Err(e) => why = format!("thread {tid} cannot be stopped: {e}"),
        }
    }
    Err(failed(
        pid,
        why,
        "is it traced by a debugger, or do you lack ptrace permission?",
    ))
}

fn redirect(pid: i32, thread: &Stopped, place: u64, base: u64) -> Result<(), Error> {
    let io = |e: std::io::Error| failed(pid, e.to_string(), "it may have ended just now");
    let mut regs = thread.registers().map_err(io)?;
    if regs.cs != 0x33 {
        return Err(failed(
            pid,
            "it runs 32-bit code",
            "only 64-bit programs can be managed",
        ));
    }
    let (resume, rax) = resume_point(&regs);
    let code = stub::bytes(&params(resume, base));
    // Text is written through /proc/PID/mem: the kernel makes a private copy of the page.
    let mem = OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .map_err(io)?;
    mem.write_all_at(&code, place).map_err(io)?;
    regs.rip = place;
    regs.rax = rax;
    regs.orig_rax = u64::MAX;
    thread.set_registers(&regs).map_err(io)
}

/// Where a stopped thread goes on, and with which rax: an interrupted system call is made again,
/// as the kernel itself would have arranged it.
fn resume_point(regs: &Registers) -> (u64, u64) {
    const RESTARTBLOCK: u64 = 516;
    const RESTART_SYSCALL: u64 = 219;
    let in_syscall = regs.orig_rax.cast_signed() >= 0;
    match regs.rax.wrapping_neg() {
        // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND
        512..=514 if in_syscall => (regs.rip - 2, regs.orig_rax),
        RESTARTBLOCK if in_syscall => (regs.rip - 2, RESTART_SYSCALL),
        _ => (regs.rip, regs.rax),
    }
}

/// Thread ids of a process.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn wait_mapped(pid: i32, base: u64, until: Instant) -> Result<(), Error> {
    let mut byte = [0u8; 1];
    while vm::read(pid, base, &mut byte).is_err() {
        if Instant::now() > until {
            return Err(failed(
                pid,
                "its thread did not map room for the keeper",
                "an address-space limit (ulimit -v) or a seccomp filter may forbid it",
            ));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

fn write_all(pid: i32, addr: u64, bytes: &[u8]) -> Result<(), Error> {
    match vm::write(pid, addr, bytes) {
        Ok(n) if n == bytes.len() => Ok(()),
        Ok(_) => Err(failed(
            pid,
            "the image was written in part only",
            "it may have ended just now",
        )),
        Err(e) => Err(failed(pid, e.to_string(), "it may have ended just now")),
    }
}

fn wait_serving(pid: i32, base: u64, until: Instant) -> Result<(i32, bool), Error> {
    loop {
        let mut header = [0u8; 32];
        if vm::read(pid, base, &mut header).is_err() {
            return Err(failed(
                pid,
                "it ended or executed another program",
                "try again",
            ));
        }
        let word =
            |i: usize| u64::from_le_bytes(header[i * 8..i * 8 + 8].try_into().unwrap_or_default());
        let status = word(2).cast_signed();
        if status > 0 {
            return Ok((i32::try_from(word(3)).unwrap_or(-1), status == 2));
        }
        if status < 0 {
            return Err(refused(pid, -status >> 16, -status & 0xffff));
        }
        if Instant::now() > until {
            return Err(failed(
                pid,
                "the keeper does not start",
                "its memory or system calls may be limited",
            ));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What the keeper reported while it set itself up.
fn refused(pid: i32, stage: i64, error: i64) -> Error {
    let what = match stage {
        1 => "clone",
        2 => "memfd_create",
        3 => "eventfd2",
        4 => "opening /proc/self/pagemap",
        5 => "its descriptors",
        6 => "userfaultfd",
        7 => "the userfaultfd handshake",
        8 => "mapping its tables",
        9 => "pidfd_open",
        10 => "reserving address space",
        11 => "registering memory",
        _ => "taking over",
    };
    let cause = std::io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(0));
    let why = format!("{what}: {cause}");
    match stage {
        6 | 7 => Error::missing(
            format!("cannot put a keeper into process {pid}"),
            why,
            "the target needs CAP_SYS_PTRACE (or root) and Linux 6.8 or newer; run `pagetide doctor`",
        ),
        _ => failed(pid, why, "run `pagetide doctor`"),
    }
}

#[cfg(test)]
mod fuzz;
