//! Users: on whose behalf swap is switched, and whose pages are in it.
//!
//! Invariant: nothing is changed. A process that may not be read has no pages here.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::system::Proc;
use crate::system::text::number32;

/// The `loginuid` of a process that no login started.
const NO_LOGIN: u32 = u32::MAX;
/// Most processes that an error names.
const NAMED_MAX: usize = 3;

/// The user who switched an area on, and the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Maker {
    /// User ID: of the user who typed `sudo`, else of the login, else of the process.
    pub uid: u32,
    /// Seconds since 1970.
    pub at_s: u64,
}

impl Maker {
    /// Returns the user `uid` and the time now.
    pub(super) fn now(uid: u32) -> Maker {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Maker {
            uid,
            at_s: since.map_or(0, |since| since.as_secs()),
        }
    }
}

/// A process that has pages in swap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Swapped {
    pid: u32,
    name: String,
    uid: u32,
    bytes: u64,
}

/// Returns the user on whose behalf this process runs: the user who typed `sudo` (in `sudo_uid`),
/// else the user who logged in, else the process's own.
pub(super) fn caller(sudo_uid: Option<&str>) -> u32 {
    let own = rustix::process::getuid().as_raw();
    let sudo = sudo_uid.filter(|_| own == 0);
    let by_sudo = sudo.and_then(|text| number32(text.as_bytes()));
    let by_login = || {
        Proc::system()
            .ok()
            .and_then(|proc| login(&proc, std::process::id()))
    };
    by_sudo.or_else(by_login).unwrap_or(own)
}

/// Returns the user whose login started a process; `None` if no login did.
fn login(proc: &Proc, pid: u32) -> Option<u32> {
    let uid = proc.parsed(pid, "loginuid", |text| number32(text.trim_ascii()));
    uid.ok()?.filter(|uid| *uid != NO_LOGIN)
}

/// Returns the processes of users other than `uid` that have pages in swap, the one with the most
/// first.
pub(super) fn others(proc: &Proc, uid: u32) -> Vec<Swapped> {
    let process = |pid| {
        let status = proc.status(pid).ok().flatten()?;
        let of = login(proc, pid).unwrap_or(status.uid);
        let is_others = status.swap > 0 && of != uid;
        is_others.then(|| Swapped {
            pid,
            name: proc.name(pid).ok().flatten().unwrap_or_default(),
            uid: of,
            bytes: status.swap,
        })
    };
    let pids = proc.pids().unwrap_or_default();
    let mut all: Vec<Swapped> = pids.into_iter().filter_map(process).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    all
}

/// Names the processes: `redis-server (pid 77 of user 999, 64 MiB)`, and how many more.
pub(super) fn named(all: &[Swapped]) -> String {
    let first = &all[..all.len().min(NAMED_MAX)];
    let name = |one: &Swapped| {
        let (name, pid, uid) = (&one.name, one.pid, one.uid);
        let size = engine::Bytes(one.bytes);
        format!("{name} (pid {pid} of user {uid}, {size})")
    };
    let named: Vec<String> = first.iter().map(name).collect();
    match all.len() - first.len() {
        0 => named.join(", "),
        more => {
            let users: BTreeSet<u32> = all.iter().map(|one| one.uid).collect();
            let (named, users) = (named.join(", "), users.len());
            format!("{named}, and {more} more (of {users} users)")
        }
    }
}
