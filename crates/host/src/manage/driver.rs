//! Connects the engine with the host: scans report to the engine which pages are in memory, and the
//! kernel pages out the pages that the engine chooses.
//!
//! Invariant: only this module reports processes to the engine and pages out. That holds both for
//! one tenant ([`super::Manager`]) and for a tree of tenants ([`super::tenants`]).

use std::collections::BTreeMap;
use std::time::Duration;

use engine::memcg::MemcgId;
use engine::policy::{AgeHistogram, Order};
use engine::{Bytes, FolioId, Machine, Millis, Pages};

use super::activation::{Activated, Activation, Unfinished};
use super::activation_rules::Budget;
use super::engine_sync::{EngineSync, RefaultAges, ScanFindings, UsedAgain};
use super::files_in_use::FilesInUse;
use super::flags::Flags;
use super::host_memory::HostMemory;
use super::members::Members;
use super::moment::Moment;
use super::noreuse::{Noreuse, NoreuseFiles};
use super::options::Ask;
use super::reclaim_totals::ReclaimTotals;
use super::record::{Recorder, Recording};
use super::scan_budget::ScanBudget;
use super::spent::Spent;
use super::swapped_out_ages::SwappedOutAges;
use super::tenant_map::TenantMap;
use super::unevictable::Unevictable;
use super::wakeup::Pause;
use crate::ages::{Listener, MemoryKind};
use crate::hard_limit::{HardLimit, PendingLimits};
use crate::system::{Identity, Proc, thread_cpu};
use crate::watch::{Sharing, Watch, WatchError};

/// Which pages are paged out, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageOutOptions {
    /// Pages accessed after this time (milliseconds of the age table) are not paged out. `None`:
    /// age does not matter.
    pub(super) idle_since: Option<u64>,
    /// Dry run: no page is paged out.
    pub(super) dry_run: bool,
    /// Also pages out pages with a set accessed bit in processes whose bits scans do not clear,
    /// where a set bit does not show recent use. Without it such pages are not paged out.
    pub(super) all: bool,
    /// Walks clear accessed bits of those processes whose bits scans do not clear ([second
    /// chance](super::second_chance)). Used only without a hard limit: at a hard limit, the kernel
    /// clears the bits.
    pub(super) clears: bool,
    /// The index of the only NUMA node whose pages are paged out ([`crate::ages::Ages::nodes`]);
    /// `None` for all nodes.
    pub(super) node: Option<usize>,
}

/// The engine on a host, with all that scans and reclaim need.
pub(super) struct Driver {
    pub(super) watch: Watch,
    pub(super) machine: Machine,
    pub(super) members: Members,
    tenant_map: TenantMap,
    /// Unevictable pages, which are taken off the engine's lists; `None` if they stay on the lists.
    unevictable: Option<Unevictable>,
    flags: Flags,
    /// The time that activations may take; then the activation that was not finished.
    activation_budget: Budget,
    unfinished: Option<Unfinished>,
    /// For each tenant: number of pages that left memory since the last scan, by page-out and by
    /// reclaim that the kernel was asked for.
    gone: BTreeMap<MemcgId, u64>,
    /// Number of processors that we may use, as found at the start.
    pub(super) processors: usize,
    recorder: Option<Recorder>,
    /// When each swapped-out page was last used; `None` if neither a policy nor writeback needs it.
    out: Option<SwappedOutAges>,
    /// For each tenant with a policy: the pages used again since the last call of `take_refaults`.
    back: BTreeMap<MemcgId, UsedAgain>,
    /// Number of scans until now.
    scans: u64,
    /// Time of the scan before the current one, in milliseconds of the age table.
    scanned_ms: u64,
    /// Findings of the current scan or, between scans, of the last one.
    noticed: ScanFindings,
    /// When the last scan ended; then the processor time of that scan and of the generations opened
    /// after it.
    scanned: Moment,
    scan_took: Duration,
    /// Processor time that the current scan has used so far.
    taken: Duration,
    /// Total time spent reading page tables, as of the beginning of the current scan.
    walked: Duration,
    spent: Spent,
}

impl Driver {
    pub(super) fn new(watch: Watch, machine: Machine) -> Driver {
        Driver {
            flags: Flags::open(watch.proc()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            watch,
            machine,
            members: Members::default(),
            tenant_map: TenantMap::default(),
            unevictable: None,
            activation_budget: Budget::new(),
            unfinished: None,
            gone: BTreeMap::new(),
            recorder: None,
            out: None,
            back: BTreeMap::new(),
            scans: 0,
            scanned_ms: 0,
            noticed: ScanFindings::default(),
            scanned: Moment::default(),
            scan_took: Duration::ZERO,
            taken: Duration::ZERO,
            walked: Duration::ZERO,
            spent: Spent::default(),
        }
    }

    /// Reads the clock. A manager calls this at the beginning of each step and after work that may
    /// have taken long, and passes the result to the code that decides.
    pub(super) fn now(&self) -> Moment {
        Moment::new(self.watch.elapsed())
    }

    /// Whether the kernel drops mapped files that a tenant's programs use, at the limit of its
    /// cgroup, although anonymous memory could be swapped out instead.
    pub(super) fn drops_files_in_use(
        &self,
        memcg: MemcgId,
        (files, hard_limit): (&mut FilesInUse, &HardLimit),
        now: Moment,
    ) -> bool {
        let tree = self.machine.tree();
        let counters = || hard_limit.refaults().ok();
        let swappiness = tree.get(memcg).swappiness();
        let are_dropped = files.are_dropped(now.millis(), swappiness, counters);
        let free = || self.watch.proc().swap_free_pages();
        are_dropped && tree.swap_available(memcg) > Pages(0) && free().is_ok_and(|free| free > 0)
    }

    /// Scans all page tables and updates the engine: accessed pages join the youngest generation.
    /// `tenant_of` maps a process to its tenant.
    pub(super) fn scan(
        &mut self,
        tenant_of: &dyn Fn(Identity) -> MemcgId,
    ) -> Result<ScanFindings, WatchError> {
        self.begin_scan(tenant_of, None)?;
        self.go_on_with_scan(tenant_of, &Pause::never())?;
        Ok(self.noticed)
    }

    /// Begins a scan that [`Driver::go_on_with_scan`] continues in time slices.
    pub(super) fn begin_scan(
        &mut self,
        tenant_of: &dyn Fn(Identity) -> MemcgId,
        sharing: Option<&Sharing<'_>>,
    ) -> Result<(), WatchError> {
        (self.noticed, self.taken) = (ScanFindings::default(), Duration::ZERO);
        self.walked = self.watch.ages().costs().reading;
        self.scanned_ms = self.watch.ages().age_table().last_scan_ms();
        self.watch.advance();
        self.scans += 1;
        let now = self.now();
        if let Some(unevictable) = &mut self.unevictable {
            unevictable.rescue(&mut self.machine, now);
        }
        self.slice(tenant_of, |watch, engine_sync| {
            watch.begin_shared_scan(engine_sync, sharing)
        })
    }

    /// Continues the scan. Returns true if it is complete, false if `pause` ended the time slice.
    pub(super) fn go_on_with_scan(
        &mut self,
        tenant_of: &dyn Fn(Identity) -> MemcgId,
        pause: &Pause,
    ) -> Result<bool, WatchError> {
        let is_over = self.slice(tenant_of, |watch, engine_sync| {
            watch.continue_scan(engine_sync, &mut || pause.is_due())
        })?;
        if is_over {
            self.gone.clear();
            self.note_used_again();
            self.scanned = self.now();
            self.scan_took = self.taken;
            let reading = self.watch.ages().costs().reading;
            self.spent.walks.note(reading.saturating_sub(self.walked));
            if let Some(recorder) = &mut self.recorder {
                recorder.end_scan(self.watch.scanned_ms());
            }
        }
        Ok(is_over)
    }

    /// Runs one time slice of a scan, and counts its processor time. Elapsed time would include the
    /// work of other programs. On a busy host, a scan of a terabyte of shadow memory
    /// (ThreadSanitizer) then seemed so expensive that the next scan, and with it reclaim, came too
    /// late.
    fn slice<T>(
        &mut self,
        tenant_of: &dyn Fn(Identity) -> MemcgId,
        scan: impl FnOnce(&mut Watch, &mut dyn Listener) -> Result<T, WatchError>,
    ) -> Result<T, WatchError> {
        let worked = thread_cpu();
        let by_others = self.watch.ages().costs().by_others;
        let (before_ms, now_ms) = (self.scanned_ms, self.watch.elapsed_ms());
        let returns = self.out.as_mut().map(|out| RefaultAges {
            out,
            back: &mut self.back,
            before_ms,
            now_ms,
        });
        let mut engine_sync = EngineSync::new(
            &mut self.machine,
            (&mut self.tenant_map, tenant_of),
            &mut self.members,
            returns,
        );
        let answer = match &mut self.recorder {
            None => scan(&mut self.watch, &mut engine_sync)?,
            Some(recorder) => {
                let mut both: (&mut dyn Listener, &mut dyn Listener) = (&mut engine_sync, recorder);
                scan(&mut self.watch, &mut both)?
            }
        };
        self.noticed.add(engine_sync.noticed);
        let by_others = self
            .watch
            .ages()
            .costs()
            .by_others
            .saturating_sub(by_others);
        // Time of this thread only: another thread may recompress zram for a minute.
        let work = thread_cpu().saturating_sub(worked) + by_others;
        self.taken += work;
        self.spent.scan += work;
        Ok(answer)
    }

    /// Opens a generation of a tenant's own pages; adds the time of that to the cost of the last
    /// scan. Opens none if all pages are in the oldest generation: reclaim by age then uses the age
    /// table.
    pub(super) fn age(&mut self, memcg: MemcgId, now: Millis) {
        let worked = thread_cpu();
        self.machine.age_after_scan(memcg, now);
        self.scan_took += thread_cpu().saturating_sub(worked);
    }

    /// Adds `time` to the cost of the last scan, for work other than reading and aging.
    pub(super) fn also_took(&mut self, time: Duration) {
        self.scan_took += time;
        self.spent.scan += time;
    }

    /// Begins to record scans.
    pub(super) fn record(&mut self, recording: Recording) {
        let (interval, now_ms) = (self.watch.interval(), self.watch.elapsed_ms());
        self.recorder = Some(Recorder::new(recording, interval, now_ms));
    }

    /// Returns the recorder, if scans are recorded.
    pub(super) fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_mut()
    }

    /// Forgets all pages of a tenant that is about to be removed. Its processes have ended or are
    /// in other tenants now, where the next scan finds their pages. Later the tenant's id may be
    /// used again.
    pub(super) fn evacuate(&mut self, memcg: MemcgId) {
        if let Some(unevictable) = &mut self.unevictable {
            unevictable.forget(memcg);
        }
        if let Some(out) = &mut self.out {
            out.drop_tenant(memcg);
        }
        self.gone.remove(&memcg);
        self.untrack_refaults(memcg);
        let ids = self.tenant_map.evacuate(memcg);
        self.machine.unmap_range(memcg, FolioId(0), ids);
    }

    /// Begins to keep the ages of swapped-out pages.
    pub(super) fn track_out(&mut self) {
        self.out.get_or_insert_default();
    }

    /// Begins to count the pages of a tenant that are used again, by the time for which they were
    /// idle.
    pub(super) fn track_refaults(&mut self, memcg: MemcgId) {
        self.track_out();
        self.back.insert(memcg, UsedAgain::default());
    }

    /// Ends [`Driver::track_refaults`].
    pub(super) fn untrack_refaults(&mut self, memcg: MemcgId) {
        self.back.remove(&memcg);
    }

    /// Counts the pages that the last scan found used again, without those that had been swapped
    /// out.
    fn note_used_again(&mut self) {
        if self.back.is_empty() {
            return;
        }
        let age_table = self.watch.ages().age_table();
        let before = Millis(age_table.scan_before_ms());
        for (owner, home) in self.tenant_map.all() {
            let Some(back) = self.back.get_mut(&home) else {
                continue;
            };
            for (_, last, pages) in age_table.again(owner) {
                back.ages.add(before.since(Millis(last)), Pages(pages));
            }
        }
    }

    /// Returns the pages of a tenant that were used again since the last call, and forgets them.
    pub(super) fn take_refaults(&mut self, memcg: MemcgId) -> UsedAgain {
        let back = self.back.get_mut(&memcg);
        back.map(std::mem::take).unwrap_or_default()
    }

    /// Returns the ages of a tenant's own pages in memory; pages of unknown age are not included.
    pub(super) fn ages_of(&self, memcg: MemcgId, now: Millis) -> AgeHistogram {
        let mut ages = AgeHistogram::new();
        let watched = self.watch.ages();
        for owner in self.tenant_map.ids(memcg).owners() {
            // If a tenant's scan is late, ages are as of its last scan.
            let known = match watched.known_ms(owner) < watched.age_table().last_scan_ms() {
                true => Millis(watched.known_ms(owner)),
                false => now,
            };
            for (_, last, pages) in watched.age_table().ages(owner) {
                ages.add(known.since(Millis(last)), Pages(pages));
            }
        }
        ages
    }

    /// Returns how many pages of the processes `who` the request `ask` does not reclaim because
    /// their age is unknown. [`Ask::All`] reclaims pages of unknown age, except in an address space
    /// where accesses set no bit that we can see.
    pub(super) fn unknown(&self, who: impl Iterator<Item = Identity>, ask: Ask) -> u64 {
        let ages = self.watch.ages();
        let spaces = who.filter_map(|one| ages.space(one));
        let stays = spaces.filter(|space| ask != Ask::All || space.is_hidden());
        let unknown = |owner| {
            let of = |class| ages.age_table().unknown(owner, class);
            MemoryKind::classes().map(of).sum::<u64>()
        };
        stays.map(|space| unknown(space.owner)).sum()
    }

    /// Returns the ages of a tenant's swapped-out pages; empty if ages are not kept.
    pub(super) fn ages_out(&self, memcg: MemcgId, now: Millis) -> AgeHistogram {
        let out = self.out.as_ref().map(|out| out.ages(memcg, now));
        out.unwrap_or_default()
    }

    /// Returns four things that other modules need: the tenant map, the processes, `/proc`, and the
    /// ages of swapped-out pages (`None` if they are not kept).
    pub(super) fn outside(&mut self) -> (&TenantMap, &Members, &Proc, Option<&mut SwappedOutAges>) {
        let proc = self.watch.proc();
        (&self.tenant_map, &self.members, proc, self.out.as_mut())
    }

    /// From now on, takes pages that the kernel refuses to page out off the engine's lists.
    pub(super) fn track_unevictable(&mut self) {
        self.unevictable = Some(Unevictable::default());
    }

    /// Returns how many unevictable pages of these tenants are shared ones: kernel reclaim of their
    /// cgroup would take them.
    pub(super) fn shared(&self, tenants: &[MemcgId]) -> u64 {
        let unevictable = self.unevictable.as_ref();
        unevictable.map_or(0, |unevictable| unevictable.shared(tenants))
    }

    /// Records that kernel reclaim of these tenants' cgroup took `pages`.
    pub(super) fn note_reclaimed(&mut self, tenants: &[MemcgId], pages: u64) {
        if let Some(unevictable) = &mut self.unevictable {
            unevictable.note_reclaimed(tenants, pages);
        }
        if let Some(first) = tenants.first() {
            *self.gone.entry(*first).or_insert(0) += pages;
        }
    }

    /// Activates those pages of a group that are in use, before the kernel is requested to reclaim
    /// `requested` pages from the group ([`super::activation`]). `tenants` are the group's tenant
    /// and those below it. Ends with the slice; the next call then continues.
    pub(super) fn activate(
        &mut self,
        tenants: &[MemcgId],
        requested: Pages,
        pause: &Pause,
    ) -> Activated {
        let now = self.now().millis();
        let (Some(left), Some(first)) = (self.activation_budget.left(now), tenants.first()) else {
            return Activated::default();
        };
        let (begin, target) = (thread_cpu(), *first);
        let is_spent = || thread_cpu().saturating_sub(begin) >= left;
        let scans = self.scans;
        let idle_before = Millis(now.since(Millis::from(self.watch.interval() * 2)).0);
        let unfinished = self.unfinished.take();
        let unfinished = unfinished.filter(|one| one.is_of(target, scans));
        let gone = tenants.iter().filter_map(|one| self.gone.get(one)).sum();
        let (ages, proc) = self.watch.ages_and_proc();
        let mut activation = Activation {
            tenant_map: &self.tenant_map,
            members: &self.members,
            ages,
            proc,
            flags: &self.flags,
        };
        let from = unfinished.map(|one| one.place);
        let amount = (requested, Pages(gone));
        let is_over = || pause.is_due() || is_spent();
        let mut done = activation.run((tenants, from), amount, idle_before, &is_over);
        if is_spent() {
            // The rest is left to the kernel's choice.
            done.rest = None;
        }
        let scan = unfinished.map_or(scans, |one| one.scan);
        let unfinished = |place| Unfinished {
            target,
            scan,
            place,
        };
        self.unfinished = done.rest.map(unfinished);
        let took = thread_cpu().saturating_sub(begin);
        self.activation_budget.spend(took);
        self.spent.page_out += took;
        done
    }

    /// Makes the kernel reclaim for a group's pending memory.high (version 2), after the pages in
    /// use were activated for a slice. Returns the number of pages; `None` if the next call must
    /// continue to activate before the kernel is asked.
    pub(super) fn reclaim_above_high(
        &mut self,
        tenants: &[MemcgId],
        (pending, hard_limit): (&mut PendingLimits, &HardLimit),
        slice: &Pause,
    ) -> Option<Pages> {
        let amount = Bytes(pending.above_high(hard_limit)).pages();
        if amount == Pages(0) {
            return Some(amount);
        }
        if self.activate(tenants, amount, slice).rest.is_some() {
            return None;
        }
        let got = Bytes(pending.reclaim_above_high(hard_limit)).pages();
        self.note_reclaimed(tenants, got.0);
        Some(got)
    }

    /// Sets which files are used only once ([`Noreuse`]). If the set has changed, the next scan
    /// reads all processes, idle ones included.
    pub(super) fn set_noreuse(&mut self, noreuse: Noreuse) {
        if self.tenant_map.set_noreuse(noreuse) {
            let needs_names = self.tenant_map.needs_names();
            let members = self.watch.members().to_vec();
            let (ages, _) = self.watch.ages_and_proc();
            ages.need_names(needs_names);
            members.into_iter().for_each(|one| ages.read_again(one));
        }
    }

    /// Adds files that are used only once, for a tenant that has not been scanned yet.
    pub(super) fn add_noreuse(&mut self, memcg: MemcgId, files: NoreuseFiles) {
        self.tenant_map.add_noreuse(memcg, files);
        let needs_names = self.tenant_map.needs_names();
        self.watch.ages_and_proc().0.need_names(needs_names);
    }

    /// Returns `order` with its maximum lowered to the tenant's unprotected memory. Otherwise a dry
    /// run would count protected pages.
    pub(super) fn unprotected(&self, memcg: MemcgId, order: Order) -> Order {
        let most = order.most.min(self.machine.unprotected(memcg));
        Order { most, ..order }
    }

    /// Returns the time since the last scan.
    pub(super) fn scan_age(&self, now: Moment) -> Duration {
        now.since(self.scanned)
    }

    /// Returns the time until an extra scan for reclaim may begin.
    pub(super) fn until_extra_scan(&self, budget: ScanBudget, now: Moment) -> Duration {
        budget.until_extra_scan(self.scan_age(now), self.scan_took)
    }

    /// Returns the processor time of the last scan and of the generations opened after it.
    pub(super) fn scan_took(&self) -> Duration {
        self.scan_took
    }

    /// Returns the processor time of the last scan by which the next scan is planned. A tenant
    /// whose scan costs more than its share counts only with that share: only this tenant is
    /// scanned late.
    pub(super) fn scan_counts(&self) -> Duration {
        match self.watch.shared_cost() {
            Some((cost, counts)) => self.scan_took.saturating_sub(cost) + counts,
            None => self.scan_took,
        }
    }

    /// Returns the processor time of the last scan without reading the processes.
    pub(super) fn scan_took_beside(&self) -> Duration {
        let cost = self
            .watch
            .shared_cost()
            .map_or(Duration::ZERO, |(cost, _)| cost);
        self.scan_took.saturating_sub(cost)
    }

    /// Returns the number of scans until now.
    pub(super) fn scans(&self) -> u64 {
        self.scans
    }

    /// Returns the time that scans and paging out have taken until now.
    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// Returns the tenant map: which tenant each address space belongs to.
    pub(super) fn tenant_map(&self) -> &TenantMap {
        &self.tenant_map
    }

    /// Calls `reclaim` with the engine and with the host as the engine's memory. Returns two
    /// things: totals of what was paged out, and the result of `reclaim`.
    pub(super) fn page_out<T>(
        &mut self,
        how: PageOutOptions,
        reclaim: impl FnOnce(&mut Machine, &mut HostMemory<'_>) -> T,
    ) -> (ReclaimTotals, T) {
        let mut totals = ReclaimTotals::default();
        let answer = self.page_out_until((how, &Pause::never()), &mut totals, reclaim);
        (totals, answer)
    }

    /// Like [`Driver::page_out`], in time slices: the engine stops when `pause` ends the slice.
    /// Adds what was paged out to `totals`.
    pub(super) fn page_out_until<T>(
        &mut self,
        (how, pause): (PageOutOptions, &Pause),
        totals: &mut ReclaimTotals,
        reclaim: impl FnOnce(&mut Machine, &mut HostMemory<'_>) -> T,
    ) -> T {
        totals.begin(self.scans);
        let (of_thread, now) = (thread_cpu(), self.now());
        let (ages, proc) = self.watch.ages_and_proc();
        let mut kernel = HostMemory {
            tenant_map: &self.tenant_map,
            members: &mut self.members,
            ages,
            proc,
            flags: &self.flags,
            processors: self.processors,
            idle_since: how.idle_since,
            dry_run: how.dry_run,
            all: how.all,
            clears: how.clears,
            node: how.node,
            now,
            unevictable: self.unevictable.as_mut(),
            gone: &mut self.gone,
            out: self.out.as_mut(),
            pause,
            totals: std::mem::take(totals),
        };
        let by_others = kernel.totals.by_others;
        let answer = reclaim(&mut self.machine, &mut kernel);
        let by_others = kernel.totals.by_others.saturating_sub(by_others);
        self.spent.page_out += thread_cpu().saturating_sub(of_thread) + by_others;
        *totals = kernel.totals;
        answer
    }
}
