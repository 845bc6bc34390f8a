//! Arguments of `serve`.

use std::path::PathBuf;

use daemon::http::Address;
use daemon::options::{Bytes, CpuShare, EvictBy, Millis, Size, bytes, millis};

use super::knobs::evict_by_help;

/// The tree of tenants, where its files appear, and its limits.
#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// Read tenants and settings from this file; options on the command line take precedence
    /// (--evict-by and --write-back-older-than only over the file's top level, not over a tenant's
    /// own setting). SIGHUP reads the file again
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Show the tenants as files in this directory, with the names and formats of cgroup v2
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
    /// Do not mount, but wait at this socket for the process that mounts: the packaged systemd unit
    /// has no right to mount
    #[arg(long, value_name = "PATH", hide = true, requires = "mount")]
    pub(crate) mount_socket: Option<PathBuf>,
    /// Limit for all made tenants together, with --manage-host also for the host's groups [default:
    /// unchanged; without a limit they are reclaimed from when the host has little memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory_max: Option<Size>,
    /// The control group below which tenants are made, relative to the mount of control groups
    /// [default: pagetide]
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Option<PathBuf>,
    /// Scan all pages this often [default: 10s]
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    pub(crate) age_every: Option<Millis>,
    /// Scans may use at most this share of one processor: if they cost more, they are made less
    /// often [default: 10%]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) look_budget: Option<CpuShare>,
    /// Page ages may use at most this much of pagetide's own memory (at most about 25 bytes a
    /// page). Beyond it, the largest processes of the largest tenants are not scanned [default:
    /// three quarters of the memory limit that applies to pagetide]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) own_memory: Option<Size>,
    /// Page out of each tenant the pages that this policy chooses, unless the file sets another
    /// policy for the tenant
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", long_help = evict_by_help())]
    pub(crate) evict_by: Option<EvictBy>,
    /// Write each tenant's pages in zram to the disk behind it once they were not accessed for this
    /// time, unless the file sets another time
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    pub(crate) write_back_older_than: Option<Millis>,
    /// Write at most this much a day, for all tenants together [default: 1G]
    #[arg(long, value_name = "SIZE")]
    #[arg(value_parser = bytes, allow_negative_numbers = true)]
    pub(crate) write_back_max: Option<Bytes>,
    /// Write back from this zram [default: the one that `swap on` made]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) write_back_from: Option<PathBuf>,
    /// Compress pages again after this time in the zram that `swap on --recompress` made
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    pub(crate) recompress_older_than: Option<Millis>,
    /// Policies decide and explain, and page out nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How a reclaim of all tenants chooses tenants [default: memcg-lru]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) global: Option<Global>,
    /// Which of the host's own control groups are tenants, too: those from this group down, or
    /// `none` [default: /]
    #[arg(long, value_name = "PATH")]
    pub(crate) host: Option<String>,
    /// Allow limiting and reclaiming from those groups; without this option they are only watched
    #[arg(long)]
    pub(crate) manage_host: bool,
    /// Serve metrics (at /metrics) and a page (at /) at this address: `unix:PATH`, for this user
    /// and root, or `127.0.0.1:9477`, with a token; may be repeated [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<Address>,
    /// The file with the token that TCP clients must send; its mode is 0600; it is created if it is
    /// missing [default: /run/pagetide/token]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Store the history that the page shows in this file, of at most 16 MiB, or `none` [default:
    /// /var/lib/pagetide/history]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
}

/// How a reclaim of all tenants chooses tenants.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Global {
    /// By the memcg LRU: a few tenants at a time, in the long run all of them
    MemcgLru,
    /// All of them each time: what the memcg LRU replaced, for comparison
    Iterator,
    /// By heat levels, proposed for Linux in 2026: first the tenants from which much was reclaimed
    /// lately, and the others if that is not enough
    HeatLevel,
}
