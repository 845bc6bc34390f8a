//! Reads /proc files of processes. Functions that return an `Option` return `None` for a process
//! that has ended.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time limit for reading a file. To print some files the kernel needs a lock of the process, which
/// may be held for long.
const LOCKED: Duration = Duration::from_secs(1);

/// A thread that reads files of processes. If a read blocks forever, only this thread is lost.
struct Reader {
    /// Paths of files to be read.
    paths: Sender<String>,
    /// Contents of each file; `None` if it cannot be read.
    answer: Receiver<Option<Vec<u8>>>,
}

/// The reader thread, `None` while it is in use; and the pids of the processes whose files blocked
/// a reader.
static READER: Mutex<(Option<Reader>, BTreeSet<u32>)> = Mutex::new((None, BTreeSet::new()));

impl Reader {
    fn start() -> Reader {
        let (paths, requested) = channel::<String>();
        let (tell, answer) = channel();
        std::thread::spawn(move || {
            // The caller may have stopped waiting: then the channel is closed.
            while let Ok(path) = requested.recv() {
                if tell.send(fs::read(path).ok()).is_err() {
                    break;
                }
            }
        });
        Reader { paths, answer }
    }
}

/// Reads `/proc/PID/NAME` as bytes; `None` if the process has ended, or if the kernel cannot take
/// the lock that it needs for printing the file.
///
/// Regression: a test that read the environment of every process waited for 20 minutes for one
/// process, which was stopped within munmap(2); the whole check waited for that test.
fn bytes(pid: u32, name: &str) -> Option<Vec<u8>> {
    let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    if reader.1.contains(&pid) {
        return None;
    }
    let now = reader.0.take().unwrap_or_else(Reader::start);
    now.paths.send(format!("/proc/{pid}/{name}")).ok()?;
    let Ok(answer) = now.answer.recv_timeout(LOCKED) else {
        reader.1.insert(pid);
        return None;
    };
    // A reader that answered in time serves the next call.
    reader.0 = Some(now);
    answer
}

/// Reads `/proc/PID/NAME` as text.
#[must_use]
pub fn read(pid: u32, name: &str) -> Option<String> {
    bytes(pid, name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Value of the line `name` in `/proc/PID/status`.
#[must_use]
pub fn status(pid: u32, name: &str) -> Option<String> {
    let text = read(pid, "status")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Number in the line `name` of `/proc/PID/status`; a size in kB is returned in bytes.
#[must_use]
pub fn number(pid: u32, name: &str) -> Option<u64> {
    let text = status(pid, name)?;
    let number: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(if text.ends_with("kB") {
        number * 1024
    } else {
        number
    })
}

/// Number in `/proc/PID/stat`, by its number in proc(5). Fields are found from the fourth on, as
/// the second may hold any character.
#[must_use]
pub fn stat(pid: u32, field: usize) -> Option<u64> {
    let text = read(pid, "stat")?;
    let (_, behind) = text.rsplit_once(')')?;
    behind.split_whitespace().nth(field - 3)?.parse().ok()
}

/// Processor time of a manager, seconds: that of the manager itself, its running child processes,
/// and its ended children. The kernel counts it in hundredths of a second.
#[must_use]
pub fn processor_seconds(pid: u32) -> Option<f64> {
    let own = stat(pid, 14)? + stat(pid, 15)? + stat(pid, 16)? + stat(pid, 17)?;
    // Access workers are child processes of the manager.
    let is_child = |one: &u32| stat(*one, 4) == Some(u64::from(pid));
    let of_child = |one: u32| Some(stat(one, 14)? + stat(one, 15)?);
    let children = all().into_iter().filter(is_child).filter_map(of_child);
    let ticks = own + children.sum::<u64>();
    Some(std::time::Duration::from_millis(ticks * 10).as_secs_f64())
}

/// Number of open files of a process.
///
/// # Panics
/// If it has ended.
#[must_use]
pub fn open_files(pid: u32) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    open.expect("it runs").count()
}

/// Whether the process has the file at `path` open.
#[must_use]
pub fn has_open(pid: u32, path: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut names = open.into_iter().flatten().flatten();
    names.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(path)))
}

/// The name of a process's main thread.
#[must_use]
pub fn comm(pid: u32) -> Option<String> {
    read(pid, "comm").map(|text| text.trim_end().to_owned())
}

/// State letter of a process; `Z` for a zombie.
#[must_use]
pub fn state(pid: u32) -> Option<char> {
    status(pid, "State")?.chars().next()
}

/// Whether the process exists and is not a zombie.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Resident anonymous memory of a process, bytes.
#[must_use]
pub fn rss_anon(pid: u32) -> Option<u64> {
    number(pid, "RssAnon")
}

/// Pids of a process, its children, their children and so on.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, Option<u32>)> = all()
        .into_iter()
        .map(|one| (one, status(one, "PPid").and_then(|text| text.parse().ok())))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let of = |(one, its): &(u32, Option<u32>)| (*its == Some(parent)).then_some(*one);
        found.extend(parents.iter().filter_map(of));
        next += 1;
    }
    found
}

/// Whether some pagetide has claimed a process's accessed bits. A claim is a lock on the byte that
/// stands for the process in a lock file of pagetide (`ages/claim.rs`).
#[must_use]
pub fn is_claimed(pid: u32) -> bool {
    /// Low bits of the byte's number that hold the pid; the higher bits hold the start time.
    const PID_BITS: u32 = 22;
    let byte = stat(pid, 22).map(|started| started << PID_BITS | u64::from(pid));
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().rev().nth(1).and_then(|word| word.parse().ok());
        words.contains(&"OFDLCK") && at.is_some() && at == byte
    })
}

/// The pids of all processes.
#[must_use]
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Processes whose environment holds `marker` (`NAME=value`). They are all processes that a command
/// with this marker started, unless they cleared their environment. Zombies have no environment.
#[must_use]
pub fn marked(marker: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        bytes(*pid, "environ").is_some_and(|bytes| {
            bytes
                .split(|byte| *byte == 0)
                .any(|entry| entry == marker.as_bytes())
        })
    };
    all().into_iter().filter(has).collect()
}

/// Whether any mapping of the process is registered with a userfaultfd (`um` in VmFlags).
#[must_use]
pub fn has_userfaultfd_range(pid: u32) -> bool {
    read(pid, "smaps").is_some_and(|text| {
        let mut flags = text
            .lines()
            .filter_map(|line| line.strip_prefix("VmFlags:"));
        flags.any(|flags| flags.split_whitespace().any(|flag| flag == "um"))
    })
}

/// Mappings of a process, one string each, as in `/proc/PID/maps`: range, permissions and name.
#[must_use]
pub fn maps(pid: u32) -> Vec<String> {
    read(pid, "maps")
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Whether PATH has a program of this name.
#[must_use]
pub fn in_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(command).is_file())
}

/// Counter `name` of `/proc/vmstat`, counted since the machine started; 0 if there is no such
/// counter.
#[must_use]
pub fn vmstat(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    };
    text.lines().find_map(count).unwrap_or(0)
}
