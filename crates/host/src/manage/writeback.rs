//! Writeback (zram): the oldest swapped-out pages of a tenant are written from compressed memory to
//! a disk, which frees that memory.
//!
//! Invariants:
//!
//! - The engine chooses the pages, and how many ([`WriteBack`]).
//! - The swap slot of a page is read again right before its writeback is requested. If the slot is
//!   given to another page in between, that page is written, which does no harm and is counted.
//! - No page is requested twice while it is swapped out.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use engine::memcg::MemcgId;
use engine::policy::{Chosen, Why, WriteBack, WriteBudget};
use engine::{FolioId, Millis, Pages};
use pagetables::access;

use super::actions::Actions;
use super::driver::Driver;
use super::members::Members;
use super::moment::Moment;
use super::options::WritebackSettings;
use super::stopwatch::Stopwatch;
use super::tenant_map::TenantMap;
use super::wakeup::{Pause, Wakeup};
use super::work_share::WorkShare;
use crate::age_table::Owner;
use crate::report::WriteBackReport;
use crate::swap::{SwapError, Tier, slots};
use crate::system::Proc;

/// Maximum time of one series of writeback requests. Other users of the engine wait for that long,
/// and before that while all swap slots are read.
const WRITE_BACK_SLICE: Duration = Duration::from_millis(20);
/// Maximum number of pages chosen at once; reading their swap slots takes some milliseconds.
const AT_ONCE: Pages = Pages(512);
/// Number of pages whose swap slots are read again together, right before their writeback is
/// requested.
const BATCH: usize = 128;
/// Time without requests after the kernel refused one: a full disk stays full for a while.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// Writes back swapped-out pages of tenants, by one policy and budget.
#[derive(Debug)]
pub(super) struct Writeback {
    requested: WritebackSettings,
    policy: WriteBack,
    /// When the next request may be made.
    share: WorkShare,
    /// Whether more pages may be old enough: a scan has ended since the last pass over the tenants,
    /// or that pass did not complete.
    has_more: bool,
    /// Tenant from which pages were written last.
    last: Option<MemcgId>,
    /// What was written since the start.
    reported: WriteBackReport,
    actions: Actions,
}

/// A tenant with writeback.
pub(super) struct WrittenTenant {
    pub(super) memcg: MemcgId,
    /// Time for which a page must be unused to be written.
    pub(super) older_than: Millis,
    /// Names the tenant in messages, for example ` of /web`; empty for a single target.
    pub(super) of: String,
}

/// A page to be written: its address space, its address, then its id.
type Page = (Owner, u64, FolioId);

impl Writeback {
    pub(super) fn new(requested: WritebackSettings, now: Moment) -> Writeback {
        Writeback {
            policy: WriteBack::new(requested.budget, now.millis()),
            requested,
            share: WorkShare::default(),
            has_more: false,
            last: None,
            reported: WriteBackReport::default(),
            actions: Actions::default(),
        }
    }

    /// Replaces the settings. Pages already written in the current period still count against the
    /// budget.
    pub(super) fn ask(&mut self, requested: WritebackSettings) {
        self.policy.set_budget(requested.budget);
        self.requested = requested;
    }

    /// Returns the time until the next pass over the tenants; `None` if there is none before the
    /// next scan.
    pub(super) fn due_in(&self, now: Moment) -> Option<Duration> {
        self.has_more.then(|| self.share.pause(now))
    }

    /// Makes a pass over the tenants if it is time: after a scan, or to continue an incomplete
    /// pass. `tenants` returns the tenants in the order in which they are served; its argument is
    /// the tenant from which pages were written last. Returns messages about what was done.
    pub(super) fn run(
        &mut self,
        driver: &mut Driver,
        has_scanned: bool,
        tenants: impl FnOnce(Option<MemcgId>) -> Vec<WrittenTenant>,
    ) -> Vec<String> {
        self.has_more |= has_scanned;
        if !self.has_more || !self.share.is_open(driver.now()) {
            return Vec::new();
        }
        self.has_more = false;
        let tenants = tenants(self.last).into_iter();
        tenants
            .filter_map(|one| self.write_one(driver, &one))
            .collect()
    }

    /// Requests writeback of a tenant's swapped-out pages that were not used for long enough, at
    /// most [`AT_ONCE`], the oldest first. Returns a message about what was done; `None` if nothing
    /// was.
    fn write_one(&mut self, driver: &mut Driver, tenant: &WrittenTenant) -> Option<String> {
        let (now, memcg) = (driver.now(), tenant.memcg);
        if !self.share.is_open(now) {
            self.has_more = true;
            return None;
        }
        let watch = Stopwatch::start();
        let (.., out) = driver.outside();
        let pages = out
            .map(|out| out.not_requested(memcg))
            .into_iter()
            .flatten();
        let age = (now.millis(), tenant.older_than);
        let chosen = self.policy.choose(age, AT_ONCE, pages)?;
        self.last = Some(memcg);
        let before = self.reported.clone();
        let refused = self.write(driver, memcg, &chosen);
        match refused {
            Ok(()) => self.share.note(driver.now(), watch.took()),
            Err(_) => self.share.stop(driver.now(), REFUSED_PAUSE),
        }
        self.has_more |= chosen.pages.len() as u64 == AT_ONCE.0
            || self.reported.asked_pages > before.asked_pages;
        self.say(now.millis(), &before, &tenant.of, chosen.why, refused.err())
    }

    /// Requests writeback of the chosen pages, for at most one time slice.
    fn write(
        &mut self,
        driver: &mut Driver,
        memcg: MemcgId,
        chosen: &Chosen<FolioId>,
    ) -> Result<(), String> {
        let reported = |error: SwapError| format!("{error}; {}", error.hint());
        self.requested.tier.check().map_err(reported)?;
        let (tenant_map, members, proc, Some(out)) = driver.outside() else {
            return Ok(());
        };
        let mut pagemaps = Pagemaps {
            members,
            proc,
            open: None,
        };
        let pages = places(tenant_map, memcg, &chosen.pages);
        let mut placed: Vec<(u64, Page)> = Vec::with_capacity(pages.len());
        for (page, index) in pages
            .iter()
            .zip(pagemaps.indexes(&self.requested.tier, &pages))
        {
            match index {
                Some(index) => placed.push((index, *page)),
                None => {
                    // Not requested again: if the page is ever on this device, it was swapped out
                    // again and has been recorded anew.
                    self.reported.elsewhere_pages += 1;
                    out.note_requested(memcg, page.2);
                }
            }
        }
        // The slice begins only now: in a guest, reading the slots alone took longer than a slice,
        // and only one page was written in each.
        let slice = Pause::after(&Wakeup::default(), WRITE_BACK_SLICE);
        placed.sort_unstable();
        for batch in placed.chunks(BATCH) {
            // The slots are read again, because a page may be back in memory, and its slot may have
            // another page now.
            let still = pagemaps.still(&self.requested.tier, batch);
            self.reported.elsewhere_pages += (batch.len() - still.len()) as u64;
            let indexes: Vec<u64> = still.iter().map(|(index, _)| *index).collect();
            let requested = match self.requested.dry_run {
                true => {
                    // In a dry run, the budget is spent as if the pages had been written.
                    self.policy.note(Pages(indexes.len() as u64));
                    indexes.len()
                }
                false => self.ask_for(&indexes, slice.left()).map_err(reported)??,
            };
            self.reported.asked_pages += requested as u64;
            let done = &still[..requested];
            let stayed = pagemaps.still(&self.requested.tier, done);
            self.reported.moved_pages += (done.len() - stayed.len()) as u64;
            for (_, page) in done {
                out.note_requested(memcg, page.2);
            }
            if slice.is_due() {
                break;
            }
        }
        Ok(())
    }

    /// Requests writeback of these indexes on the device, for at most `time`. Returns how many were
    /// requested; as an error, the kernel's reason for a refusal.
    fn ask_for(
        &mut self,
        indexes: &[u64],
        time: Duration,
    ) -> Result<Result<usize, String>, SwapError> {
        let got = self.requested.tier.write_back(indexes, time)?;
        self.reported.written_pages += got.written;
        self.policy.note(Pages(got.written));
        Ok(match got.refused {
            // Pages before the refused one were requested all the same; they are counted in the
            // next report.
            Some(why) => {
                self.reported.asked_pages += got.requested as u64;
                Err(why)
            }
            None => Ok(got.requested),
        })
    }

    /// Records what a pass did for a tenant. Returns a message about it; `None` if nothing was
    /// written.
    fn say(
        &mut self,
        now: Millis,
        before: &WriteBackReport,
        of: &str,
        why: Why,
        refused: Option<String>,
    ) -> Option<String> {
        let device = self.requested.tier.path().display().to_string();
        let written = self.reported.written_pages - before.written_pages;
        let requested = self.reported.asked_pages - before.asked_pages;
        let is_dry = self.requested.dry_run;
        let pages = if is_dry { requested } else { written };
        self.actions.note(now, pages, is_dry, &why);
        match refused {
            Some(refused) => Some(format!(
                "wrote back {written} pages{of} from {device}, then stopped: {refused}"
            )),
            None if pages == 0 => None,
            None if is_dry => Some(format!(
                "would write back {pages} pages{of} from {device}: {why}"
            )),
            None => Some(format!("wrote back {pages} pages{of} from {device}: {why}")),
        }
    }

    /// Returns the report: settings, budget, and what was written since the start.
    pub(super) fn report(&self, older_than: Option<Millis>) -> WriteBackReport {
        let WriteBudget { most, per } = self.policy.budget();
        WriteBackReport {
            device: self.requested.tier.path().display().to_string(),
            dry_run: self.requested.dry_run,
            older_than_ms: older_than.map(|age| age.0),
            budget_bytes: most.0,
            budget_period_ms: per.0,
            actions: self.actions.report(),
            ..self.reported.clone()
        }
    }
}

/// Returns the address space and address of each page, sorted by address space, so that the pagemap
/// of each process is opened once.
fn places(tenant_map: &TenantMap, memcg: MemcgId, pages: &[FolioId]) -> Vec<Page> {
    let ids = tenant_map.ids(memcg);
    let places = pages.iter().filter_map(|id| {
        let (owner, address) = ids.place(*id)?;
        Some((owner, address, *id))
    });
    let mut places: Vec<Page> = places.collect();
    places.sort_unstable();
    places
}

/// Reads pagemaps of processes; keeps open the one used last.
struct Pagemaps<'a> {
    members: &'a Members,
    proc: &'a Proc,
    open: Option<(Owner, Option<(u32, OwnedFd)>)>,
}

impl Pagemaps<'_> {
    /// Returns the index of each page on the device; `None` for a page that is not on the device,
    /// or of a process that is gone.
    fn indexes(&mut self, tier: &Tier, pages: &[Page]) -> Vec<Option<u64>> {
        let mut indexes = Vec::with_capacity(pages.len());
        for of_one in pages.chunk_by(|one, next| one.0 == next.0) {
            let owner = of_one[0].0;
            if self.open.as_ref().is_none_or(|(open, _)| *open != owner) {
                self.open = Some((owner, self.file(owner)));
            }
            let addresses: Vec<u64> = of_one.iter().map(|(_, address, _)| *address).collect();
            let file = self.open.as_ref().and_then(|(_, file)| file.as_ref());
            let found = file.and_then(|(pid, file)| slots((*pid, file.as_fd()), &addresses).ok());
            let found = found.unwrap_or_else(|| vec![None; of_one.len()]);
            indexes.extend(found.into_iter().map(|slot| tier.index(slot?)));
        }
        indexes
    }

    /// Returns those of the pages that still have the same index on the device.
    fn still(&mut self, tier: &Tier, placed: &[(u64, Page)]) -> Vec<(u64, Page)> {
        let pages: Vec<Page> = placed.iter().map(|(_, page)| *page).collect();
        let now = self.indexes(tier, &pages);
        let both = placed.iter().zip(now);
        both.filter(|((index, _), now)| Some(*index) == *now)
            .map(|(one, _)| *one)
            .collect()
    }

    /// Opens the pagemap of an owner's process. Returns the PID, then the file; `None` if that
    /// fails, or if the PID no longer belongs to the process that was scanned. The open file stays
    /// valid for the same address space.
    fn file(&self, owner: Owner) -> Option<(u32, OwnedFd)> {
        let identity = self.members.identity(owner)?;
        let file = access::open(identity.pid, "pagemap").ok()?;
        let is_same = self.proc.identity(identity.pid).ok()? == Some(identity);
        is_same.then_some((identity.pid, file))
    }
}
