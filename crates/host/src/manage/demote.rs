//! Pages that are out go on to a disk: the oldest of a tenant, from compressed memory, which they then take no more of.
//!
//! Invariants: which, and how many, is the engine's ([`WriteBack`]); where in swap a page is, is read again right before it is asked
//! for. A place that was given to another page in that moment is harmless, for whatever is in it is read back from the disk as it is
//! from memory; it is counted. No page is asked for twice while it is out.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use engine::memcg::MemcgId;
use engine::policy::{Chosen, Why, WriteBack, WriteBudget};
use engine::{FolioId, Millis, Pages};
use pagetables::access;

use super::WORK_SHARE;
use super::actions::Actions;
use super::driver::Driver;
use super::homes::Homes;
use super::members::Members;
use super::options::WriteBackAsked;
use crate::books::Owner;
use crate::report::WriteBackReport;
use crate::swap::{SwapError, Tier, slots};
use crate::system::Proc;

/// Asking goes on for so long at a time. Whoever else wants the engine waits for that, and before it for the reading of all places.
const WRITE_BACK_SLICE: Duration = Duration::from_millis(20);
/// Pages that are chosen at once: to read where they are takes some milliseconds.
const AT_ONCE: Pages = Pages(512);
/// Pages whose places in swap are read once more together, right before they are asked for.
const BATCH: usize = 128;
/// After a refusal nothing is asked for so long: a disk that is full stays so for a while.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Demoter {
    asked: WriteBackAsked,
    policy: WriteBack,
    /// Nothing is asked for before, so that it takes no more than its share of the time.
    paused_until: Instant,
    /// There may be more that is old enough: a look has ended since, or the last pass did not come to the end.
    has_more: bool,
    /// Whose pages were written last.
    last: Option<MemcgId>,
    told: WriteBackReport,
    actions: Actions,
}

/// A page that is to go on.
type Page = (Owner, u64, FolioId);

impl Demoter {
    pub(super) fn new(asked: WriteBackAsked, now: Millis) -> Demoter {
        Demoter {
            policy: WriteBack::new(asked.budget, now),
            asked,
            paused_until: Instant::now(),
            has_more: false,
            last: None,
            told: WriteBackReport::default(),
            actions: Actions::default(),
        }
    }

    /// Something else is asked for; what was written in this period stays written.
    pub(super) fn ask(&mut self, asked: WriteBackAsked) {
        self.policy.set_budget(asked.budget);
        self.asked = asked;
    }

    /// Whether it is time: after a look that found what is out, or for the rest of what the last one found.
    pub(super) fn is_due(&mut self, has_looked: bool) -> bool {
        self.has_more |= has_looked;
        self.has_more && Instant::now() >= self.paused_until
    }

    /// How long until more may be done; none for after the next look.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let pause = self.paused_until.saturating_duration_since(Instant::now());
        self.has_more.then_some(pause)
    }

    /// Whose pages were written last.
    pub(super) fn last(&self) -> Option<MemcgId> {
        self.last
    }

    /// A pass over some tenants begins.
    pub(super) fn begin(&mut self) {
        self.has_more = false;
    }

    /// Has pages of a tenant written to the disk that are out and were not used for `older_than`, the oldest first, [`AT_ONCE`] at most.
    /// What was done, in words, in which the tenant is called `of`.
    pub(super) fn demote(
        &mut self,
        driver: &mut Driver,
        (memcg, older_than): (MemcgId, Millis),
        of: &str,
    ) -> Option<String> {
        if Instant::now() < self.paused_until {
            self.has_more = true;
            return None;
        }
        let begin = Instant::now();
        let now = Millis(driver.watch.elapsed_ms());
        let (.., out) = driver.outside();
        let pages = out.map(|out| out.not_asked(memcg)).into_iter().flatten();
        let chosen = self.policy.choose((now, older_than), AT_ONCE, pages)?;
        self.last = Some(memcg);
        let before = self.told.clone();
        let refused = self.write(driver, memcg, &chosen);
        self.paused_until = Instant::now()
            + match refused {
                Ok(()) => begin.elapsed() * WORK_SHARE,
                Err(_) => REFUSED_PAUSE,
            };
        self.has_more |=
            chosen.pages.len() as u64 == AT_ONCE.0 || self.told.asked_pages > before.asked_pages;
        self.say(now, &before, of, chosen.why, refused.err())
    }

    /// Asks for what was chosen, for a slice.
    fn write(
        &mut self,
        driver: &mut Driver,
        memcg: MemcgId,
        chosen: &Chosen<FolioId>,
    ) -> Result<(), String> {
        let told = |error: SwapError| format!("{error}; {}", error.hint());
        self.asked.tier.check().map_err(told)?;
        let (homes, members, proc, Some(out)) = driver.outside() else {
            return Ok(());
        };
        let mut pagemaps = Pagemaps {
            members,
            proc,
            open: None,
        };
        let pages = places(homes, memcg, &chosen.pages);
        let mut placed: Vec<(u64, Page)> = Vec::with_capacity(pages.len());
        for (page, index) in pages.iter().zip(pagemaps.indexes(&self.asked.tier, &pages)) {
            match index {
                Some(index) => placed.push((index, *page)),
                None => {
                    // It may come to be there, and then it was out anew.
                    self.told.elsewhere_pages += 1;
                    out.note_asked(memcg, page.2);
                }
            }
        }
        // Not before: in the guest reading alone took longer, and one page was written a turn.
        let end = Instant::now() + WRITE_BACK_SLICE;
        placed.sort_unstable();
        for batch in placed.chunks(BATCH) {
            // Once more, right before: what was there may be back in use by now, and another page in its place.
            let still = pagemaps.still(&self.asked.tier, batch);
            self.told.elsewhere_pages += (batch.len() - still.len()) as u64;
            let indexes: Vec<u64> = still.iter().map(|(index, _)| *index).collect();
            let asked = match self.asked.dry_run {
                true => {
                    // The budget is used up as if they had been written.
                    self.policy.note(Pages(indexes.len() as u64));
                    indexes.len()
                }
                false => self.ask_for(&indexes, end).map_err(told)??,
            };
            self.told.asked_pages += asked as u64;
            let done = &still[..asked];
            let stayed = pagemaps.still(&self.asked.tier, done);
            self.told.moved_pages += (done.len() - stayed.len()) as u64;
            for (_, page) in done {
                out.note_asked(memcg, page.2);
            }
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }

    /// How many were asked for; or what the kernel said.
    fn ask_for(
        &mut self,
        indexes: &[u64],
        end: Instant,
    ) -> Result<Result<usize, String>, SwapError> {
        let got = self.asked.tier.write_back(indexes, end)?;
        self.told.written_pages += got.written;
        self.policy.note(Pages(got.written));
        Ok(match got.refused {
            // Those before it were asked for all the same, and are told by the next report.
            Some(why) => {
                self.told.asked_pages += got.asked as u64;
                Err(why)
            }
            None => Ok(got.asked),
        })
    }

    fn say(
        &mut self,
        now: Millis,
        before: &WriteBackReport,
        of: &str,
        why: Why,
        refused: Option<String>,
    ) -> Option<String> {
        let device = self.asked.tier.path().display().to_string();
        let written = self.told.written_pages - before.written_pages;
        let asked = self.told.asked_pages - before.asked_pages;
        let is_dry = self.asked.dry_run;
        let pages = if is_dry { asked } else { written };
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

    /// What it did.
    pub(super) fn report(&self, older_than: Option<Millis>) -> WriteBackReport {
        let WriteBudget { most, per } = self.policy.budget();
        WriteBackReport {
            device: self.asked.tier.path().display().to_string(),
            dry_run: self.asked.dry_run,
            older_than_ms: older_than.map(|age| age.0),
            budget_bytes: most.0,
            budget_period_ms: per.0,
            actions: self.actions.report(),
            ..self.told.clone()
        }
    }
}

/// Whose pages these are, and where there; by process, so that each is opened once.
fn places(homes: &Homes, memcg: MemcgId, pages: &[FolioId]) -> Vec<Page> {
    let ids = homes.ids(memcg);
    let places = pages.iter().filter_map(|id| {
        let (owner, address) = ids.place(*id)?;
        Some((owner, address, *id))
    });
    let mut places: Vec<Page> = places.collect();
    places.sort_unstable();
    places
}

/// The pagemaps of processes: the one that was asked last stays open.
struct Pagemaps<'a> {
    members: &'a Members,
    proc: &'a Proc,
    open: Option<(Owner, Option<(u32, OwnedFd)>)>,
}

impl Pagemaps<'_> {
    /// Which page of the device each page is on; none if it is on none, or its process is gone.
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

    /// Those that are where they were.
    fn still(&mut self, tier: &Tier, placed: &[(u64, Page)]) -> Vec<(u64, Page)> {
        let pages: Vec<Page> = placed.iter().map(|(_, page)| *page).collect();
        let now = self.indexes(tier, &pages);
        let both = placed.iter().zip(now);
        both.filter(|((index, _), now)| Some(*index) == *now)
            .map(|(one, _)| *one)
            .collect()
    }

    /// Opened, and found to be of the process that was read: it holds on to that address space.
    fn file(&self, owner: Owner) -> Option<(u32, OwnedFd)> {
        let identity = self.members.identity(owner)?;
        let file = access::open(identity.pid, "pagemap").ok()?;
        let is_same = self.proc.identity(identity.pid).ok()? == Some(identity);
        is_same.then_some((identity.pid, file))
    }
}
