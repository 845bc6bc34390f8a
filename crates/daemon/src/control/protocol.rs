//! The two JSON lines.
//!
//! Invariant: a line that decodes is one of the enums below; everything else is an error that
//! names what was wrong. Decoding is total: no input makes it panic or allocate beyond the line.

use std::collections::BTreeMap;

pub use host::manage::Ask;
use host::manage::Reclaimed;
use host::report::{AgeSource, LimitsReport, NodeAge, Report};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::options::Limits;

/// Longest request line, bytes, with its newline: a tenant's path fits.
pub const REQUEST_BYTES_MAX: usize = 8192;

/// Longest response line, bytes, with its newline; a report of thousands of children fits, and the counters of ten
/// thousand tenants.
pub const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// What a client asks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The report as it is now.
    Report {},
    /// The counters under the kernel's names.
    Stat {},
    /// Put pages out, whatever the limits.
    Reclaim {
        /// Which.
        what: Ask,
    },
    /// Let go of the target, which stays as it is.
    Detach {
        /// Read back in what is out.
        bring_back: bool,
    },
    /// The limits that hold, or other ones from now on.
    Limits {
        /// Other ones.
        set: Option<Box<Limits>>,
    },
    /// Is this process among those that are managed?
    Manages {
        /// Which.
        pid: u32,
    },
    /// Who manages this target?
    Ping {},
    /// Something of a tenant of a tree.
    Tenant {
        /// Its path; empty for the root.
        path: String,
        /// What.
        ask: TenantAsk,
    },
}

/// What is asked of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantAsk {
    /// Its counters, with all below it.
    Stat,
    /// The counters of each tenant below it, and its own.
    Stats,
    /// What it has, and how old that is.
    Report,
    /// The same in short, of it and of each tenant below it.
    Rows,
    /// Put pages out.
    Reclaim(Ask),
}

/// The counters of many tenants, as a table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// What each column is: names of memory.stat.
    pub names: Vec<String>,
    /// Each tenant's path, and its row.
    pub tenants: Vec<(String, Vec<u64>)>,
}

/// A tenant among others, with all below it. Sizes are bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TenantRow {
    /// Its path; `/` for the root.
    pub tenant: String,
    /// What the kernel charges to its group (memory.current).
    pub charged_bytes: u64,
    /// Anonymous and mapped file memory of its processes, each page once.
    pub resident_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// As its files have them.
    pub limits: LimitsReport,
    /// How old its pages are.
    pub page_age: Vec<NodeAge>,
    /// Resident bytes whose age is not known.
    pub unknown_age_bytes: u64,
    /// Resident bytes that the last look found in use.
    #[serde(default)]
    pub young_bytes: u64,
    /// For how long it has been watched: older than that nothing can be known to be, milliseconds.
    #[serde(default)]
    pub wall_ms: u64,
    /// Between two looks, milliseconds.
    #[serde(default)]
    pub interval_ms: u64,
    /// Where its ages come from.
    #[serde(default)]
    pub age_source: AgeSource,
    /// How many processes it has.
    pub processes: u64,
    /// One of the host's own groups.
    pub of_host: bool,
}

/// Who answered a ping.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pong {
    /// The manager.
    pub manager: u32,
    /// Its version.
    pub version: String,
}

/// Counters under the names of cgroup v2's memory.stat.
pub type Stat = BTreeMap<String, u64>;

/// What a reclaim came to, in pages of 4 KiB.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Pages that were advised to leave.
    pub asked_pages: u64,
    /// Pages that left, by the kernel's word.
    pub evicted_pages: u64,
    /// Pages that would have left, where the manager only tries (`--dry-run`).
    #[serde(default)]
    pub would_pages: u64,
    /// Stayed: mapped more than once.
    pub shared_pages: u64,
    /// Stayed: locked.
    pub locked_pages: u64,
    /// Stayed: given back by their program.
    #[serde(default)]
    pub lazyfree_pages: u64,
    /// Stayed: accessed meanwhile.
    pub referenced_pages: u64,
    /// Stayed: in use by the kernel.
    pub busy_pages: u64,
    /// Stayed, whether tried or not: of unknown age.
    #[serde(default)]
    pub unknown_pages: u64,
    /// Swap is full.
    pub no_swap: bool,
    /// What the kernel said, if it did not let the manager page out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl From<Reclaimed> for Done {
    fn from(reclaimed: Reclaimed) -> Done {
        let kept = reclaimed.kept;
        Done {
            asked_pages: reclaimed.asked_pages,
            evicted_pages: reclaimed.evicted_pages,
            would_pages: reclaimed.would_pages,
            shared_pages: kept.shared,
            locked_pages: kept.locked,
            lazyfree_pages: kept.lazyfree,
            referenced_pages: kept.referenced,
            busy_pages: kept.busy,
            unknown_pages: reclaimed.unknown_pages,
            no_swap: reclaimed.no_swap,
            refused: reclaimed.refused,
        }
    }
}

/// What the manager answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Report`].
    Report(Box<Report>),
    /// To [`Request::Stat`].
    Stat(Stat),
    /// To [`Request::Reclaim`].
    Reclaimed(Done),
    /// To [`Request::Detach`]: pages that were asked back in.
    Detached {
        /// Pages.
        pages: u64,
    },
    /// To [`Request::Limits`]: those that hold.
    Limits(Box<Limits>),
    /// To [`Request::Manages`].
    Manages(bool),
    /// To [`Request::Ping`].
    Pong(Pong),
    /// To [`TenantAsk::Stats`].
    Stats(Stats),
    /// To [`TenantAsk::Rows`].
    Tenants(Vec<TenantRow>),
    /// The request was understood and could not be done, or not understood.
    Error(Error),
    /// The client's user may not ask.
    Denied {
        /// The manager's user.
        owner: u32,
    },
}

impl Request {
    /// Decodes one line, with or without its newline.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Request, Error> {
        if line.len() > REQUEST_BYTES_MAX {
            let why = format!("it is longer than {REQUEST_BYTES_MAX} bytes");
            return Err(unreadable(why));
        }
        serde_json::from_slice(line).map_err(unreadable)
    }

    /// The line, newline included.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        debug_assert!(line.len() <= REQUEST_BYTES_MAX);
        line
    }
}

impl Response {
    /// The line, newline included; a response that is too long becomes an error that says so.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        if line.is_empty() || line.len() >= RESPONSE_BYTES_MAX {
            let what = format!("cannot answer: the answer is {} bytes long", line.len());
            let error = Error::failed(what, "ask for `stat` instead");
            line = serde_json::to_vec(&Response::Error(error)).unwrap_or_default();
        }
        line.push(b'\n');
        line
    }
}

fn unreadable(why: impl std::fmt::Display) -> Error {
    Error::failed(
        format!("cannot read the request: {why}"),
        "use the pagetide command of the same version",
    )
}
