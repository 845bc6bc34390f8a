//! One process under management: its keeper, its mappings, its pages.
//!
//! Invariant: the engine's books follow the keeper's log; where entries were lost (or a manager has
//! just taken over) they are made anew from the table, which is always right.

pub(crate) mod adopt;
pub(crate) mod aside;
pub(crate) mod blocks;
pub(crate) mod books;
pub(crate) mod image;
pub(crate) mod inject;
pub(crate) mod kept;
pub(crate) mod link;
pub(crate) mod lru;
pub(crate) mod maps;
pub(crate) mod page_out;
pub(crate) mod proc;
pub(crate) mod reclaim;
pub(crate) mod regions;
pub(crate) mod seize;
pub(crate) mod steady;
pub(crate) mod walk;

use crate::Error;
use crate::options::{Compress, Options, StorePlace};
use crate::store::{self, DiskBacking, MemBacking, Store, Tier};
use engine::Millis;
use keeper::layout::POOL_MAX;
use link::{Link, Lost};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uffd::pagemap::Pagemap;
use uffd::shared::SharedMap;

/// Mappings are looked at anew after this, changed or not.
const MAPS_STALE: Duration = Duration::from_millis(50);
/// And no sooner than this when the address space has another size.
const MAPS_CHANGED: Duration = Duration::from_millis(5);

/// What a target counted since it is managed by this manager.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counters {
    pub(crate) evicted_pages: u64,
    pub(crate) aging_passes: u64,
    /// Pages that stayed at the last try because a child shares them.
    pub(crate) shared_pages: u64,
    /// Pages that stayed at the last try because they were pinned or busy.
    pub(crate) busy_pages: u64,
    /// Pages that found no room in the store at the last try.
    pub(crate) full_pages: u64,
    pub(crate) keepers_replaced: u64,
}

/// A managed process.
pub(crate) struct Target {
    pub(crate) pid: i32,
    pub(crate) link: Link,
    pub(crate) pagemap: Pagemap,
    pub(crate) regions: regions::Regions,
    pub(crate) store: Store,
    pub(crate) lru: lru::Lru,
    pub(crate) blocks: blocks::Blocks,
    pub(crate) newcomers: aside::Newcomers,
    pub(crate) steady: steady::Steady,
    pub(crate) counters: Counters,
    statm: proc::Statm,
    /// Size of the address space at the last look at the mappings, and when that was.
    looked: Option<(u64, Instant)>,
    buffers: page_out::Buffers,
}

/// Reference counts in memory that a keeper shares.
struct SharedCounts(Arc<SharedMap>);

impl store::RefCounts for SharedCounts {
    fn units(&self) -> u64 {
        self.0.len() as u64 / 2
    }

    fn get(&self, unit: u64) -> u16 {
        self.at(unit)
            .map_or(0, |n| n.load(std::sync::atomic::Ordering::Acquire))
    }

    fn set(&self, unit: u64, count: u16) {
        if let Some(n) = self.at(unit) {
            n.store(count, std::sync::atomic::Ordering::Release);
        }
    }

    fn inc(&self, unit: u64) {
        if let Some(n) = self.at(unit) {
            store::inc(n);
        }
    }

    fn dec_and_test(&self, unit: u64) -> bool {
        self.at(unit).is_some_and(store::dec_and_test)
    }
}

impl SharedCounts {
    fn at(&self, unit: u64) -> Option<&std::sync::atomic::AtomicU16> {
        let byte = usize::try_from(unit).ok()?.checked_mul(2)?;
        (byte < self.0.len()).then(|| self.0.u16(byte))
    }
}

impl Target {
    /// Puts a keeper beside `pid` and takes it under management.
    pub(crate) fn start(pid: i32, options: &Options, now: Millis) -> Result<Target, Error> {
        let link = Link::start(pid)?;
        Target::over(link, options, now)
    }

    /// Manages a process whose keeper serves already.
    fn over(link: Link, options: &Options, now: Millis) -> Result<Target, Error> {
        let pid = link.pid;
        let pagemap = Pagemap::open(pid).map_err(|e| {
            let what = format!("cannot read the page map of process {pid}");
            Error::failed(what, e, "run pagetide as the target's user or as root")
        })?;
        let store = open_store(&link, options)?;
        link.beat();
        Ok(Target {
            pid,
            link,
            pagemap,
            regions: regions::Regions::default(),
            store,
            lru: lru::Lru::new(&options.policy, now),
            blocks: blocks::Blocks::default(),
            newcomers: aside::Newcomers::default(),
            steady: steady::Steady::default(),
            counters: Counters::default(),
            statm: proc::Statm::open(pid),
            looked: None,
            buffers: page_out::Buffers::default(),
        })
    }
}

impl Target {
    /// Sizes by the kernel's count; all zero once it is gone.
    pub(crate) fn sizes(&self) -> proc::Sizes {
        self.statm.read()
    }

    /// Looks at the mappings and registers what is new.
    pub(crate) fn refresh(&mut self) -> Result<(), Lost> {
        self.looked = Some((self.sizes().mapped, Instant::now()));
        // A target that is just ending has no mappings to read.
        self.regions.refresh(self.pid, &self.link).unwrap_or(Ok(()))
    }

    /// The same, if anything may have changed since the last look.
    pub(crate) fn refresh_if_stale(&mut self) -> Result<(), Lost> {
        let fresh = self.looked.is_some_and(|(mapped, at)| {
            let same = self.sizes().mapped == mapped;
            at.elapsed() < if same { MAPS_STALE } else { MAPS_CHANGED }
        });
        if fresh { Ok(()) } else { self.refresh() }
    }
}

fn open_store(link: &Link, options: &Options) -> Result<Store, Error> {
    let io = |what: &str, e: std::io::Error| {
        Error::failed(
            format!("cannot open the store: {what}"),
            e,
            "choose another --store",
        )
    };
    let pool_file = link.pool.try_clone().map_err(|e| io("pool", e))?;
    let pool = Tier {
        backing: Box::new(MemBacking(pool_file)),
        refs: Box::new(SharedCounts(Arc::clone(&link.refs))),
    };
    let compress = match options.store.compress {
        Compress::Tiered => store::Compress::Tiered,
        Compress::Lz4 => store::Compress::Lz4,
        Compress::Zstd => store::Compress::Zstd,
        Compress::None => store::Compress::None,
    };
    let disk = match (link.file(), &options.store.place) {
        // What an earlier manager stored is there and nowhere else.
        (Some(file), _) => Some(DiskBacking::new(file)),
        (None, StorePlace::Mem) => None,
        (None, StorePlace::Dir(dir)) => {
            let disk = DiskBacking::create(dir).map_err(|e| io(&dir.display().to_string(), e))?;
            link.give_file(disk.file())?;
            Some(disk)
        }
    };
    // A small pool in front of a file: what comes back soon needs no disk.
    let pool_max = if disk.is_some() { 16 << 20 } else { POOL_MAX };
    let file = disk.map(|disk| Tier {
        backing: Box::new(disk),
        refs: Box::new(SharedCounts(Arc::clone(&link.file_refs))),
    });
    Ok(Store::new(
        pool,
        file,
        store::Options {
            compress,
            pool_max,
            file_max: POOL_MAX,
        },
    ))
}
