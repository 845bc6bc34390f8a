//! A scan of all tenants: which processes each tenant has, and which of their pages are in memory.
//!
//! Invariant: a process belongs to the tenant in whose group the kernel lists it. If no group lists
//! the process any more, it belongs to `host` if the host's groups are tenants, otherwise to the
//! root. A process that was moved to another tenant is read even if it was idle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::Millis;
use engine::memcg::MemcgId;

use super::super::IDLE_MAX;
use super::super::moment::Moment;
use super::super::scan_budget::ScanBudget;
use super::super::wakeup::Pause;
use super::Tenants;
use super::membership::Listing;
use crate::system::{Identity, thread_cpu};
use crate::watch::{Late, Sharing, WatchError};

/// Minimum time between two scans for fresh reports. With ten scans a second on a busy machine, 261
/// of the 535 pages that one of 16 tenants used each second were reported as 5 to 7 seconds old.
/// (Not measured again since ages are reported as of the last scan.)
const REFRESH_LEAST: Duration = Duration::from_secs(1);

/// A scan in progress.
#[derive(Debug)]
pub(super) struct OngoingScan {
    /// Serial of each process's tenant when the scan began, by PID. Unlike the engine's ids,
    /// serials are never used again.
    tenant_map: BTreeMap<u32, u64>,
    /// Serial of the tenant for processes that no group lists.
    unlisted: u64,
    /// Whether the scan opens a generation in each tenant after reading.
    opens: bool,
    begun: Moment,
    /// Processor time of listing, measuring and curves, without reading and aging. With thousands
    /// of tenants it is the largest part of a scan's time.
    beside: Duration,
    /// Serials of the tenants in which a generation must still be opened; `None` until all
    /// processes are read.
    unaged: Option<Vec<u64>>,
}

impl OngoingScan {
    /// Returns the serial of a process's tenant, as of the beginning of the scan.
    fn home(&self, pid: u32) -> u64 {
        self.tenant_map.get(&pid).copied().unwrap_or(self.unlisted)
    }
}

impl Tenants {
    /// Whether an extra scan before the interval is over may begin, given the time since the last
    /// scan and its cost.
    pub(super) fn is_scan_worth_it(&self) -> bool {
        self.until_extra_scan().is_zero()
    }

    /// Returns the time until an extra scan for reclaim may begin.
    pub(super) fn until_extra_scan(&self) -> Duration {
        self.driver.until_extra_scan(self.budget, self.now())
    }

    /// Begins an extra scan if reports must be fresh and the scan budget allows it. Returns the
    /// time until the next extra scan. An extra scan opens no generation: reclaim counts regular
    /// scans only.
    /// spec: workingset-report.md 6.
    pub(super) fn refresh(&mut self, now: Moment) -> Result<Duration, WatchError> {
        let interval = self.driver.watch.interval();
        let refresh = self.refresh.map(|refresh| refresh.max(REFRESH_LEAST));
        let Some(refresh) = refresh.filter(|refresh| *refresh < interval) else {
            return Ok(IDLE_MAX);
        };
        let interval = refresh.max(self.budget.interval(self.driver.scan_counts()));
        let left = interval.saturating_sub(self.driver.scan_age(now));
        if left.is_zero() {
            self.begin_scan(false, &BTreeSet::new())?;
        }
        Ok(left)
    }

    /// Sets the maximum age of reports; `None` for the age that regular scans cause.
    pub fn set_refresh(&mut self, refresh: Option<Duration>) {
        self.refresh = refresh;
    }

    /// Begins a scan, which [`Tenants::work`] continues before all other work. `opens`: whether it
    /// opens generations. Tenants with serials in `requested` are read at any cost.
    pub(super) fn begin_scan(
        &mut self,
        opens: bool,
        requested: &BTreeSet<u64>,
    ) -> Result<(), WatchError> {
        let (begun, worked) = (self.now(), thread_cpu());
        let Listing {
            tenant_map: by_pid,
            strangers,
            ..
        } = self.list().map_err(WatchError::lack)?;
        self.driver.watch.exclude(strangers);
        self.driver.watch.list(by_pid.keys().copied().collect());
        // A process that is ending may be in no group. It counts as the host's, so that nothing is
        // reclaimed from it if the host's groups may not be reclaimed from.
        let unlisted = self.host.as_ref().map_or(MemcgId::ROOT, |host| host.memcg);
        let serial = |memcg: MemcgId| self.serial(memcg).unwrap_or(0);
        let by_pid = by_pid.into_iter();
        let mut looking = OngoingScan {
            tenant_map: by_pid.map(|(pid, memcg)| (pid, serial(memcg))).collect(),
            unlisted: serial(unlisted),
            opens,
            begun,
            beside: Duration::ZERO,
            unaged: None,
        };
        let members = self.driver.watch.members().to_vec();
        for identity in &members {
            let home = self.by_serial(looking.home(identity.pid));
            if self.tenant_map.get(identity).copied() != home {
                let (ages, _) = self.driver.watch.ages_and_proc();
                ages.read_again(*identity);
            }
        }
        looking.beside = thread_cpu().saturating_sub(worked);
        let home = |identity: Identity| tenant_of((&looking, &self.by_serial), identity);
        let tenant = |identity: Identity| looking.home(identity.pid);
        let sharing = Sharing {
            budget: self.scan_budget(),
            tenant: &tenant,
            requested,
        };
        self.driver.begin_scan(&home, Some(&sharing))?;
        self.looking = Some(looking);
        Ok(())
    }

    /// Returns the processor time that reading processes may take in a scan that begins now.
    fn scan_budget(&self) -> Duration {
        let interval = self.driver.watch.interval();
        // The time from the start of one scan to the start of the next: on a busy machine a scan
        // can last as long as the interval.
        let now = self.now().millis();
        let since = now.since(Millis(self.driver.watch.scanned_ms())).0;
        let until_next_scan = match self.driver.scans() {
            0 => interval,
            _ => Duration::from_millis(since).min(interval),
        };
        self.budget
            .of(until_next_scan, self.driver.scan_took_beside())
    }

    /// Continues the scan in progress until it ends or `pause` ends the slice.
    pub(super) fn continue_scan(&mut self, pause: &Pause) -> Result<(), WatchError> {
        let Some(looking) = &self.looking else {
            return Ok(());
        };
        if looking.unaged.is_none() {
            let home = |identity: Identity| tenant_of((looking, &self.by_serial), identity);
            if !self.driver.go_on_with_scan(&home, pause)? {
                return Ok(());
            }
            self.end_reading();
        }
        // At least one tenant is aged, even if reading has used up the slice.
        if self.continue_aging(pause) {
            self.end_scan();
        }
        Ok(())
    }

    /// Ends the first part of a scan, reading processes: updates the tenant of each process, and
    /// the usage of each tenant.
    fn end_reading(&mut self) {
        let worked = thread_cpu();
        let Some(looking) = &mut self.looking else {
            return;
        };
        let all = self.by_serial.keys().copied();
        // A late tenant was not read, so its accesses are unknown, and its pages stay in their
        // generations.
        let late = self.driver.watch.late();
        let is_aged = |serial: &u64| looking.opens && !late.contains_key(serial);
        looking.unaged = Some(all.filter(is_aged).collect());
        let members = self.driver.watch.members().iter();
        // If the tenant of a process was removed since the scan began, the next scan reads the
        // process again, in its new tenant.
        let by_serial = &self.by_serial;
        let home = |one: &Identity| Some((*one, *by_serial.get(&looking.home(one.pid))?));
        self.tenant_map = members.filter_map(home).collect();
        let in_exec = self.driver.watch.in_exec();
        let home = |pid: u32| Some((pid, *by_serial.get(&looking.home(pid))?));
        self.in_exec = in_exec.filter_map(home).collect();
        self.follow_protection();
        self.measure();
        self.note_caches();
        self.note_curves();
        self.note_late();
        self.note_unread();
        if let Some(looking) = &mut self.looking {
            looking.beside += thread_cpu().saturating_sub(worked);
        }
    }

    /// Logs which tenants are scanned late from now on. Each is logged once for as long as its
    /// scans cost too much.
    fn note_late(&mut self) {
        let late = self.driver.watch.late().clone();
        // The cost of a tenant that was never scanned is unknown.
        let known = late.iter().filter(|(_, late)| !late.cost.is_zero());
        for (serial, Late { cost, share }) in known {
            if !self.said_late.insert(*serial) {
                continue;
            }
            let path = self
                .by_serial(*serial)
                .and_then(|memcg| self.path(memcg).ok());
            let path = path
                .map(|path| path.display().to_string())
                .unwrap_or_default();
            let rounds = cost.as_micros() / share.as_micros().max(1);
            self.act(format!(
                "/{path} is scanned less often, and its ages are as of its last scan: a scan \
                 takes {} ms of a processor, its share of a scan of all is {} ms; about one of \
                 {rounds} scans includes it",
                cost.as_millis(),
                share.as_millis(),
            ));
        }
        let watch = &self.driver.watch;
        self.said_late.retain(|serial| watch.is_dear(*serial));
    }

    /// Opens a generation in one tenant after another. Returns true when all have theirs, false
    /// when `pause` ends the slice. Where memory is idle, opening one moves most pages.
    fn continue_aging(&mut self, pause: &Pause) -> bool {
        let now = self.now().millis();
        loop {
            let unaged = self.looking.as_mut().and_then(|one| one.unaged.as_mut());
            let Some(serial) = unaged.and_then(Vec::pop) else {
                return true;
            };
            // A tenant that was removed since the scan began has no id any more.
            if let Some(memcg) = self.by_serial(serial) {
                self.driver.age(memcg, now);
            }
            if pause.is_due() {
                return false;
            }
        }
    }

    /// Ends a scan. If it was a regular one, sets the time of the next scan and lets policies run.
    fn end_scan(&mut self) {
        let Some(looking) = self.looking.take() else {
            return;
        };
        self.driver.also_took(looking.beside);
        if looking.opens {
            self.scanned_at = looking.begun;
            self.plan_scan();
            self.has_scanned = true;
        }
    }

    /// Sets the time of the next scan; the cost of the last one may delay it.
    pub(super) fn plan_scan(&mut self) {
        let interval = self.driver.watch.interval();
        let every = self.max_scan_interval().unwrap_or(interval).min(interval);
        // The interval between scans for policies varies randomly, too: scans at the rhythm of a
        // program's timer would see pages as cold that the program uses.
        let until_next_scan = self.driver.watch.until_next_scan_of(every);
        let counts = self.driver.scan_counts();
        self.next_scan = (self.budget).next_scan(self.scanned_at, until_next_scan, counts);
    }

    /// Sets the share of a processor that scans may take.
    pub fn set_scan_budget(&mut self, budget: ScanBudget) {
        if std::mem::replace(&mut self.budget, budget) != budget {
            self.plan_scan();
        }
    }
}

/// Returns the tenant of a process. If the tenant was removed since the scan began, returns the
/// tenant for processes that no group lists.
fn tenant_of(
    (looking, by_serial): (&OngoingScan, &BTreeMap<u64, MemcgId>),
    identity: Identity,
) -> MemcgId {
    let found = by_serial.get(&looking.home(identity.pid));
    let other = || by_serial.get(&looking.unlisted);
    found.or_else(other).copied().unwrap_or(MemcgId::ROOT)
}
