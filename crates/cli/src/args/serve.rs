//! Arguments of `serve`.

use std::path::PathBuf;

use daemon::http::Address;
use daemon::options::{Bytes, CpuShare, EvictBy, Millis, Size, bytes, millis};

use super::knobs::evict_by_help;

/// The tree of tenants, where it is shown, and its limits.
#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// Read tenants and settings from this file; options here come before it (--evict-by and
    /// --write-back-older-than before its top level alone, not before what a tenant has). SIGHUP
    /// reads it again
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Show the tenants as files in this directory, with the names and formats of cgroup v2
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
    /// Do not mount, but wait at this socket for the process that mounts: the package's unit has no
    /// right to mount
    #[arg(long, value_name = "PATH", hide = true, requires = "mount")]
    pub(crate) mount_socket: Option<PathBuf>,
    /// What all made tenants together may use, with --manage-host the host's groups, too [default:
    /// as it was; without a limit they are reclaimed from when the host has little]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory_max: Option<Size>,
    /// The control group that made tenants are below, from the mount of control groups on [default:
    /// pagetide]
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Option<PathBuf>,
    /// Scan all pages this often [default: 10s]
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    pub(crate) age_every: Option<Millis>,
    /// Scans take no more of one processor than this: if they cost more, they are rarer [default:
    /// 10%]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) look_budget: Option<CpuShare>,
    /// Ages take no more of pagetide's own memory than this, some 25 bytes a page at most: beyond
    /// it the largest processes of the largest tenants are not read [default: three quarters of the
    /// memory limit it runs under]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) own_memory: Option<Size>,
    /// Page out of each tenant what this policy chooses, unless the file sets another for the
    /// tenant
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", long_help = evict_by_help())]
    pub(crate) evict_by: Option<EvictBy>,
    /// Write each tenant's pages in zram to the disk behind it once they were not touched for so
    /// long, unless the file says otherwise
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    pub(crate) write_back_older_than: Option<Millis>,
    /// Write at most so much a day, of all tenants together [default: 1G]
    #[arg(long, value_name = "SIZE")]
    #[arg(value_parser = bytes, allow_negative_numbers = true)]
    pub(crate) write_back_max: Option<Bytes>,
    /// Write back from this zram [default: the one that `swap on` made]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) write_back_from: Option<PathBuf>,
    /// Compress again what has been so long in the zram that `swap on --recompress` made
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    pub(crate) recompress_older_than: Option<Millis>,
    /// Policies decide and explain, and page out nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How a reclaim of all tenants chooses among them [default: memcg-lru]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) global: Option<Global>,
    /// The host's own control groups that are tenants, too, from this one down, or `none` [default:
    /// /]
    #[arg(long, value_name = "PATH")]
    pub(crate) host: Option<String>,
    /// Let those be limited and reclaimed from, too: they are only watched otherwise
    #[arg(long)]
    pub(crate) manage_host: bool,
    /// Serve metrics (at /metrics) and a page (at /) there: `unix:PATH`, for this user and root, or
    /// `127.0.0.1:9477`, with a token; may be set several times [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<Address>,
    /// The token that TCP takes is in this file, of mode 0600; one is made if it is not there
    /// [default: /run/pagetide/token]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Keep what the page shows of the past in this file, 16 MiB at most, or `none` [default:
    /// /var/lib/pagetide/history]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
}

/// How tenants are chosen.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Global {
    /// By the memcg LRU: a few tenants at a time, all of them in the long run
    MemcgLru,
    /// All of them each time: what the memcg LRU replaced, for comparison
    Iterator,
    /// By heat levels, proposed for Linux in 2026: those first that yielded much lately, the others
    /// if that is not enough
    HeatLevel,
}
