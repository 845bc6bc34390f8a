//! Requests and responses of the control socket, each one line of JSON.
//!
//! Invariant: a line that decodes is one of the enums below; every other line is an error that says
//! what is wrong. No input makes decoding panic, or allocate more than the line's length.

use std::collections::BTreeMap;

pub use host::manage::Ask;
use host::manage::Reclaimed;
use host::report::{AgeSource, LimitsReport, NodeAge, Report};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::options::Limits;

/// Longest request line in bytes, newline included: enough for a tenant's path.
pub const REQUEST_BYTES_MAX: usize = 8192;

/// Longest response line in bytes, newline included: enough for a report of thousands of children,
/// or for the counters of ten thousand tenants.
pub const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// A request of a client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Return the report as it is now.
    Report {},
    /// Return the counters under the names of cgroup v2's memory.stat.
    Stat {},
    /// Page out, whether or not a limit is exceeded.
    Reclaim {
        /// Which pages.
        what: Ask,
    },
    /// End management of the target. Pages that are swapped out stay so, unless `bring_back` is
    /// set.
    Detach {
        /// Read swapped-out pages back in before management ends.
        bring_back: bool,
    },
    /// Return the limits in force, or set others.
    Limits {
        /// The new limits; `None` to change nothing.
        set: Option<Box<Limits>>,
    },
    /// Return whether this manager manages a process.
    Manages {
        /// Pid of the process.
        pid: u32,
    },
    /// Return the manager's pid and version.
    Ping {},
    /// A request about one tenant of the tree that `serve` manages.
    Tenant {
        /// The tenant's path; empty for the root.
        path: String,
        /// What to do for the tenant.
        ask: TenantAsk,
    },
}

/// A request about one tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantAsk {
    /// Return the tenant's counters, with those of all groups below it.
    Stat,
    /// Return the counters of the tenant, and of each tenant below it, as a table.
    Stats,
    /// Return the tenant's report: sizes and ages.
    Report,
    /// Return a short report, one row, of the tenant and of each tenant below it.
    Rows,
    /// Page out from the tenant.
    Reclaim(Ask),
}

/// The counters of many tenants, as a table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// The column names, as in memory.stat.
    pub names: Vec<String>,
    /// For each tenant: its path; its counters in the order of `names`.
    pub tenants: Vec<(String, Vec<u64>)>,
}

/// A short report of a tenant with all groups below it. Sizes in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TenantRow {
    /// The tenant's path; `/` for the root.
    pub tenant: String,
    /// Bytes that the kernel charges to the tenant's group (memory.current).
    pub charged_bytes: u64,
    /// Resident bytes of the tenant's processes: anonymous and mapped file memory, each page
    /// counted once.
    pub resident_bytes: u64,
    /// Bytes in swap.
    pub swapped_bytes: u64,
    /// The tenant's limits, as in its files.
    pub limits: LimitsReport,
    /// Bytes by age, for each NUMA node.
    pub page_age: Vec<NodeAge>,
    /// Resident bytes of unknown age.
    pub unknown_age_bytes: u64,
    /// Resident bytes that the last scan found accessed.
    #[serde(default)]
    pub young_bytes: u64,
    /// Milliseconds for which the tenant has been scanned: no age is known to be longer.
    #[serde(default)]
    pub wall_ms: u64,
    /// Time between two scans, milliseconds.
    #[serde(default)]
    pub interval_ms: u64,
    /// From which kernel interface the ages come.
    #[serde(default)]
    pub age_source: AgeSource,
    /// Number of the tenant's processes.
    pub processes: u64,
    /// Whether the tenant is one of the host's own groups, which pagetide did not make.
    pub of_host: bool,
}

/// The response to a ping.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pong {
    /// The manager's pid.
    pub manager: u32,
    /// The manager's version of pagetide.
    pub version: String,
}

/// Counters under the names of cgroup v2's memory.stat.
pub type Stat = BTreeMap<String, u64>;

/// The result of a reclaim, in pages of 4 KiB.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Pages that the kernel was advised to page out.
    pub asked_pages: u64,
    /// Pages that were paged out, as verified afterwards.
    pub evicted_pages: u64,
    /// Pages that a manager with `--dry-run` would have paged out.
    #[serde(default)]
    pub would_pages: u64,
    /// Pages that stayed because they are mapped more than once.
    pub shared_pages: u64,
    /// Pages that stayed because they are locked (mlock(2)).
    pub locked_pages: u64,
    /// Pages that stayed because they are lazyfree (MADV_FREE).
    #[serde(default)]
    pub lazyfree_pages: u64,
    /// Pages that stayed because they were accessed meanwhile.
    pub referenced_pages: u64,
    /// Pages that stayed because the kernel was using them.
    pub busy_pages: u64,
    /// Pages that stayed because a driver has pinned them (buffers of io_uring, of RDMA).
    #[serde(default)]
    pub pinned_pages: u64,
    /// Pages that stayed because their age is unknown; not all of them were tried.
    #[serde(default)]
    pub unknown_pages: u64,
    /// Whether swap is full.
    pub no_swap: bool,
    /// The kernel's error if it refused to page out; `None` otherwise.
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
            pinned_pages: reclaimed.pinned_pages,
            unknown_pages: reclaimed.unknown_pages,
            no_swap: reclaimed.no_swap,
            refused: reclaimed.refused,
        }
    }
}

/// The response of a manager.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Report`].
    Report(Box<Report>),
    /// To [`Request::Stat`].
    Stat(Stat),
    /// To [`Request::Reclaim`].
    Reclaimed(Done),
    /// To [`Request::Detach`]: management has ended.
    Detached {
        /// Number of pages that the kernel was requested to read back in.
        pages: u64,
    },
    /// To [`Request::Limits`]: the limits in force.
    Limits(Box<Limits>),
    /// To [`Request::Manages`].
    Manages(bool),
    /// To [`Request::Ping`].
    Pong(Pong),
    /// To [`TenantAsk::Stats`].
    Stats(Stats),
    /// To [`TenantAsk::Rows`].
    Tenants(Vec<TenantRow>),
    /// The request could not be parsed, or could not be done.
    Error(Error),
    /// The client's user may not send requests to this manager.
    Denied {
        /// User id of the manager.
        owner: u32,
    },
}

impl Request {
    /// Decodes one line, with or without its newline.
    ///
    /// # Errors
    /// An error that says what is wrong with the line.
    pub fn parse(line: &[u8]) -> Result<Request, Error> {
        if line.len() > REQUEST_BYTES_MAX {
            let why = format!("it is longer than {REQUEST_BYTES_MAX} bytes");
            return Err(unreadable(why));
        }
        serde_json::from_slice(line).map_err(unreadable)
    }

    /// Encodes the request as a line, newline included.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        debug_assert!(line.len() <= REQUEST_BYTES_MAX);
        line
    }
}

impl Response {
    /// Encodes the response as a line, newline included; one that is too long becomes an error
    /// response.
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
