//! What /proc says of a process. A process that is gone says nothing: `None`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a file may take that the kernel prints under a lock of the process.
const LOCKED: Duration = Duration::from_secs(1);

/// A thread that reads files, and may have to be left where it waits.
struct Reader {
    ask: Sender<String>,
    answer: Receiver<Option<Vec<u8>>>,
}

/// The thread, if it is free, and the processes that it was left at.
static READER: Mutex<(Option<Reader>, BTreeSet<u32>)> = Mutex::new((None, BTreeSet::new()));

impl Reader {
    fn start() -> Reader {
        let (ask, asked) = channel::<String>();
        let (tell, answer) = channel();
        std::thread::spawn(move || {
            // Whoever asked may have stopped waiting: then the channel is closed.
            while let Ok(path) = asked.recv() {
                if tell.send(fs::read(path).ok()).is_err() {
                    break;
                }
            }
        });
        Reader { ask, answer }
    }
}

/// A file of a process, as bytes; none if the process is gone, or holds the lock that the kernel prints the file under.
///
/// Regression: a test that read the environment of every process waited for 20 minutes for one that was stopped within an
/// munmap(2), and so did the whole check.
fn bytes(pid: u32, name: &str) -> Option<Vec<u8>> {
    let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    if reader.1.contains(&pid) {
        return None;
    }
    let now = reader.0.take().unwrap_or_else(Reader::start);
    now.ask.send(format!("/proc/{pid}/{name}")).ok()?;
    let Ok(answer) = now.answer.recv_timeout(LOCKED) else {
        reader.1.insert(pid);
        return None;
    };
    // One that was in time is there for the next.
    reader.0 = Some(now);
    answer
}

/// A file in `/proc/PID`.
#[must_use]
pub fn read(pid: u32, name: &str) -> Option<String> {
    bytes(pid, name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A line of `/proc/PID/status`, without its name.
#[must_use]
pub fn status(pid: u32, name: &str) -> Option<String> {
    let text = read(pid, "status")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// A line of `/proc/PID/status` that is a number, or a size in kB given in bytes.
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

/// A number of `/proc/PID/stat`, by its place as proc(5) counts them, from the fourth on: behind the name, which may hold anything.
#[must_use]
pub fn stat(pid: u32, field: usize) -> Option<u64> {
    let text = read(pid, "stat")?;
    let (_, behind) = text.rsplit_once(')')?;
    behind.split_whitespace().nth(field - 3)?.parse().ok()
}

/// What a manager has used of processors, in seconds: threads that have ended and its own children, too, in hundredths.
#[must_use]
pub fn processor_seconds(pid: u32) -> Option<f64> {
    let own = stat(pid, 14)? + stat(pid, 15)? + stat(pid, 16)? + stat(pid, 17)?;
    // Its access workers are processes.
    let is_child = |one: &u32| stat(*one, 4) == Some(u64::from(pid));
    let of_child = |one: u32| Some(stat(one, 14)? + stat(one, 15)?);
    let children = all().into_iter().filter(is_child).filter_map(of_child);
    let ticks = own + children.sum::<u64>();
    Some(std::time::Duration::from_millis(ticks * 10).as_secs_f64())
}

/// How many files it has open.
///
/// # Panics
/// If it is gone.
#[must_use]
pub fn open_files(pid: u32) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    open.expect("it runs").count()
}

/// Whether it has a file open, by this name.
#[must_use]
pub fn has_open(pid: u32, path: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut names = open.into_iter().flatten().flatten();
    names.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(path)))
}

/// The name of its main thread.
#[must_use]
pub fn comm(pid: u32) -> Option<String> {
    read(pid, "comm").map(|text| text.trim_end().to_owned())
}

/// Its state letter; `Z` for a zombie.
#[must_use]
pub fn state(pid: u32) -> Option<char> {
    status(pid, "State")?.chars().next()
}

/// Whether it exists and is not a zombie.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Anonymous memory that is resident, in bytes.
#[must_use]
pub fn rss_anon(pid: u32) -> Option<u64> {
    number(pid, "RssAnon")
}

/// A process and its children, to any depth.
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

/// Whether a pagetide has claimed a process's accessed bits: it holds the lock of the byte that stands for the process
/// (`ages/claim.rs`).
#[must_use]
pub fn is_claimed(pid: u32) -> bool {
    const PID_BITS: u32 = 22;
    let byte = stat(pid, 22).map(|started| started << PID_BITS | u64::from(pid));
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().rev().nth(1).and_then(|word| word.parse().ok());
        words.contains(&"OFDLCK") && at.is_some() && at == byte
    })
}

/// Every process id.
#[must_use]
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The processes whose environment holds `marker` (`NAME=value`): all that a marked command started,
/// unless they cleared their environment. Zombies have none.
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

/// Whether any mapping of it is registered with a userfaultfd (VmFlags um).
#[must_use]
pub fn has_userfaultfd_range(pid: u32) -> bool {
    read(pid, "smaps").is_some_and(|text| {
        let mut flags = text
            .lines()
            .filter_map(|line| line.strip_prefix("VmFlags:"));
        flags.any(|flags| flags.split_whitespace().any(|flag| flag == "um"))
    })
}

/// Its mappings, one line each: range, permissions and name.
#[must_use]
pub fn maps(pid: u32) -> Vec<String> {
    read(pid, "maps")
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Whether a program can be found in PATH.
#[must_use]
pub fn in_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(command).is_file())
}

/// A counter of the machine since it started; 0 of none.
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
