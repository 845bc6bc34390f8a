//! One scan: reads every process of the target once, either without pause or in slices.
//!
//! Invariant: between two slices at most one process is partly read, a large one; no other process
//! is read before that one is finished. A sum over processes is either wholly of this scan or
//! wholly of the previous one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::vec::IntoIter;

use engine::units::PAGE_SIZE;

use super::shares::{Late, Shares};
use super::{Watch, WatchError};
use crate::ages::{Listener, ScanOutcome, Space};
use crate::system::Identity;
use crate::system::family::Target;

/// How a scan's time is divided among tenants.
pub struct Sharing<'a> {
    /// The processor time that this scan may take.
    pub budget: Duration,
    /// Returns the number of the tenant to which a process belongs.
    pub tenant: &'a dyn Fn(Identity) -> u64,
    /// Numbers of tenants that are scanned even if they cost more than their share.
    pub requested: &'a BTreeSet<u64>,
}

/// How the time of scans is divided among tenants, and the outcome of the last scan.
#[derive(Default)]
pub(super) struct SharedScans {
    shares: Shares,
    /// Tenants that the last scan postponed because of their cost, by tenant number.
    late: BTreeMap<u64, Late>,
    pub(super) postponed: BTreeSet<Identity>,
    /// What [`Watch::shared_cost`] returns.
    cost: Option<(Duration, Duration)>,
}

/// Scans of `report --all` and the like may take one part in this many (a half) of the time.
const OWN_SHARE: u32 = 2;

/// A scan that is running.
pub(super) struct ScanInProgress {
    /// Processes that are still to be scanned.
    left: IntoIter<Identity>,
    /// The tenant number of each scanned process; empty if tenants do not share the time.
    tenants: BTreeMap<Identity, u64>,
    /// Tenants that this scan postpones because of their cost, by tenant number.
    late: BTreeMap<u64, Late>,
    postponed: Vec<Identity>,
    /// Tenants that must be scanned: requested ones, and new ones whose first scan has begun.
    begun: BTreeSet<u64>,
    gone: Vec<Identity>,
    /// Processes that could not be read because their mmap_lock was held.
    locked: Vec<Identity>,
    /// Number of processes that could not be read, and the error of the first one.
    denied: (u64, String),
}

/// Returns the number of a tenant if each process is a tenant of its own: its PID.
fn by_process(identity: Identity) -> u64 {
    u64::from(identity.pid)
}

impl ScanInProgress {
    /// Records the outcome of the scan for one process.
    fn note(&mut self, identity: Identity, scanned: ScanOutcome) {
        match scanned {
            // With NoRoom, a later scan may have enough memory for the process's ages.
            ScanOutcome::Done | ScanOutcome::NoRoom => {}
            ScanOutcome::Gone => self.gone.push(identity),
            ScanOutcome::Locked => self.locked.push(identity),
            ScanOutcome::Denied(error) => {
                self.denied.0 += 1;
                if self.denied.1.is_empty() {
                    self.denied.1 = error.to_string();
                }
            }
        }
    }
}

impl Watch {
    /// Scans without pause, and notifies `listener` of each page. The scan's time is the one set
    /// last, by waiting or by [`Watch::advance`].
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn scan_now(&mut self, listener: &mut dyn Listener) -> Result<(), WatchError> {
        self.begin_scan(listener)?;
        self.continue_scan(listener, &mut || false).map(drop)
    }

    /// Begins a scan, which [`Watch::continue_scan`] does in slices. Its time is the one set last,
    /// by waiting or by [`Watch::advance`].
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn begin_scan(&mut self, listener: &mut dyn Listener) -> Result<(), WatchError> {
        let requested = BTreeSet::new();
        let sharing = Sharing {
            budget: self.interval() / OWN_SHARE,
            tenant: &by_process,
            requested: &requested,
        };
        // If the target is not all processes, its processes count as one tenant, and none is
        // postponed.
        let is_shared = matches!(self.settings.target, Target::All);
        self.begin_shared_scan(listener, is_shared.then_some(&sharing))
    }

    /// Begins a scan like [`Watch::begin_scan`], but divides its time among tenants as `sharing`
    /// says; with `None`, all processes are scanned.
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn begin_shared_scan(
        &mut self,
        listener: &mut dyn Listener,
        sharing: Option<&Sharing<'_>>,
    ) -> Result<(), WatchError> {
        self.update_members()?;
        // Read before the processes are: pages that the kernel migrates during this scan are then
        // noticed by the next one.
        let moved = self.proc.vmstat().unwrap_or_default().moved;
        self.ages
            .begin_scan((self.now_ms, moved), &self.members, listener);
        let (mut left, mut tenants, mut late) =
            (self.members.clone(), BTreeMap::new(), BTreeMap::new());
        let tenant = sharing.map_or(&by_process as &dyn Fn(Identity) -> u64, |one| one.tenant);
        self.ages.share_memory(&self.members, tenant);
        let mut postponed = Vec::new();
        if let Some(sharing) = sharing {
            late = self.shared.shares.begin(sharing.budget, sharing.requested);
            tenants = left
                .iter()
                .map(|one| (*one, (sharing.tenant)(*one)))
                .collect();
            (postponed, left) = left
                .into_iter()
                .partition(|one| late.contains_key(&tenants[one]));
            // First tenants that cost at most their share, then tenants that cost more, then
            // tenants whose cost is unknown.
            let shares = &self.shared.shares;
            let order = |tenant: u64| (shares.is_new(tenant), shares.is_dear(tenant));
            left.sort_by_key(|one| order(tenants[one]));
            postponed.iter().for_each(|one| self.ages.postpone(*one));
            let is_there: BTreeSet<u64> = postponed.iter().map(|one| tenants[one]).collect();
            late.retain(|tenant, _| is_there.contains(tenant));
        }
        self.round = Some(ScanInProgress {
            left: left.into_iter(),
            tenants,
            late,
            postponed,
            begun: sharing.map(|one| one.requested.clone()).unwrap_or_default(),
            gone: Vec::new(),
            locked: Vec::new(),
            denied: (0, String::new()),
        });
        Ok(())
    }

    /// Continues a scan. Returns `true` when the scan is over. Calls `is_enough` after each process
    /// or group of small processes; if that returns true, returns `false`.
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn continue_scan(
        &mut self,
        listener: &mut dyn Listener,
        is_enough: &mut dyn FnMut() -> bool,
    ) -> Result<bool, WatchError> {
        let Some(mut round) = self.round.take() else {
            return Ok(true);
        };
        while self.ages.is_reading() || !round.left.as_slice().is_empty() {
            for (identity, scanned) in self.scan_at_some(&mut round, listener) {
                self.pay_if_new(&round, identity);
                round.note(identity, scanned);
            }
            if is_enough() {
                self.round = Some(round);
                return Ok(false);
            }
        }
        self.end_scan(round).map(|()| true)
    }

    /// Reads the next slice of a large process, or one whole process, or several small ones;
    /// returns the outcomes.
    fn scan_at_some(
        &mut self,
        round: &mut ScanInProgress,
        listener: &mut dyn Listener,
    ) -> Vec<(Identity, ScanOutcome)> {
        if self.ages.is_reading() {
            return self.ages.go_on(listener).into_iter().collect();
        }
        self.put_off_new(round);
        let several = self.ages.several(round.left.as_slice());
        let several: Vec<Identity> = round.left.by_ref().take(several).collect();
        self.ages.scan_at(&several, listener)
    }

    /// Postpones processes at the head of the list that belong to tenants whose first scan must
    /// wait.
    fn put_off_new(&mut self, round: &mut ScanInProgress) {
        while let Some(next) = round.left.as_slice().first().copied()
            && let Some(tenant) = round.tenants.get(&next).copied()
            && self.shared.shares.is_new(tenant)
            && !round.begun.contains(&tenant)
        {
            let Some(late) = self.shared.shares.puts_off_new() else {
                round.begun.insert(tenant);
                return;
            };
            round.late.insert(tenant, late);
            round.postponed.push(next);
            round.left.next();
        }
    }

    /// If the process belongs to a new tenant, charges its cost to the time reserved for first
    /// scans.
    fn pay_if_new(&mut self, round: &ScanInProgress, identity: Identity) {
        let tenant = round.tenants.get(&identity);
        if tenant.is_some_and(|tenant| self.shared.shares.is_new(*tenant)) {
            let cost = self.ages.cost_of(identity);
            self.shared.shares.note_first_scan(cost);
        }
    }

    /// Charges each tenant with the time that its processes took in this scan.
    fn share_costs(
        &mut self,
        tenants: &BTreeMap<Identity, u64>,
        late: BTreeMap<u64, Late>,
        postponed: Vec<Identity>,
    ) {
        let costs = self.ages.take_costs();
        let cost: Duration = costs.iter().map(|(_, cost)| *cost).sum();
        let is_read = |one: &&Identity| !late.contains_key(&tenants[one]);
        let mut by_tenant: BTreeMap<u64, Duration> = BTreeMap::new();
        for one in tenants.keys().filter(is_read) {
            by_tenant.entry(tenants[one]).or_default();
        }
        for (identity, cost) in costs {
            if let Some(sum) = tenants
                .get(&identity)
                .and_then(|one| by_tenant.get_mut(one))
            {
                *sum += cost;
            }
        }
        self.shared.cost =
            (!tenants.is_empty()).then(|| (cost, self.shared.shares.end(&by_tenant, &late)));
        (self.shared.late, self.shared.postponed) = (late, postponed.into_iter().collect());
    }

    /// Returns the processor time of the last scan, then the part of it that counts when the next
    /// scan is planned: of a tenant that costs more than its share, only the share counts. `None`
    /// if tenants do not share the time of scans.
    #[must_use]
    pub fn shared_cost(&self) -> Option<(Duration, Duration)> {
        self.shared.cost
    }

    /// Returns whether a scan of this tenant costs more than its share allows.
    #[must_use]
    pub fn is_dear(&self, tenant: u64) -> bool {
        self.shared.shares.is_dear(tenant)
    }

    /// Returns the tenants that the last scan postponed because of their cost, by tenant number
    /// ([`Sharing::tenant`]).
    #[must_use]
    pub fn late(&self) -> &BTreeMap<u64, Late> {
        &self.shared.late
    }

    fn end_scan(&mut self, round: ScanInProgress) -> Result<(), WatchError> {
        let ScanInProgress {
            gone,
            denied,
            locked,
            tenants,
            late,
            postponed,
            ..
        } = round;
        self.locked = locked;
        self.ages.end_scan();
        self.share_costs(&tenants, late, postponed);
        self.ended_ms = self.now_ms;
        self.members.retain(|identity| !gone.contains(identity));
        for identity in &self.members {
            if let Some(space) = self.ages.space(*identity) {
                // The size must be recorded now: after the process's end the kernel no longer
                // reports it.
                self.family
                    .note_peak(identity.pid, space.found.present * PAGE_SIZE);
            }
        }
        let all = u64::try_from(self.members.len()).unwrap_or(u64::MAX);
        // This is an error in the first scan only, later just a note. A process that cannot be read
        // once (between an exec and its end) may be readable in the next scan.
        if self.rounds == 0 && all > 0 && denied.0 == all {
            let hint = "run as root outside of user namespaces, or as the process's own user; others' processes need CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE";
            return Err(WatchError::missing(
                format!("cannot read {}: {}", self.name(), denied.1),
                hint,
            ));
        }
        self.denied = denied;
        let ages = &self.ages;
        let space_of = |identity| ages.space(identity).map_or(0, Space::id);
        let groups = self.groups.as_ref();
        self.people
            .update(&self.members, self.rounds, &self.proc, groups, &space_of);
        self.rounds += 1;
        self.note_peak();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::watch::WatchSettings;

    fn watch(pid: u32) -> Watch {
        Watch::open(WatchSettings {
            target: Target::Descendants(pid),
            interval: Duration::from_secs(1),
            max_wait: None,
            source: None,
            memory: None,
            own_process: false,
        })
        .expect("a process of ours")
    }

    /// Regression: for ten scans, the program that `run` started was reported under the name
    /// `pagetide`, which its process had until the exec.
    #[test]
    fn a_process_after_exec_has_the_new_name() {
        let script = "read go; exec sleep 60";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let mut watch = watch(shell.id());
        let command = |watch: &Watch| {
            let report = watch.report_of(String::new(), &mut watch.members().to_vec().into_iter());
            report.processes.first().map(|one| one.command.clone())
        };
        watch.scan_now(&mut ()).expect("it is there");
        assert_eq!(
            command(&watch).as_deref(),
            Some("sh -c read go; exec sleep 60")
        );
        drop(shell.stdin.take());
        let is_asleep = || {
            let text = std::fs::read(format!("/proc/{}/cmdline", shell.id()));
            text.is_ok_and(|text| text == b"sleep\x0060\0")
        };
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while !is_asleep() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        watch.advance();
        watch.scan_now(&mut ()).expect("it is there");
        assert_eq!(command(&watch).as_deref(), Some("sleep 60"));
        shell.kill().and_then(|()| shell.wait()).expect("ours");
    }

    /// Regression: a scan in slices set its time before it had read anything. A report requested
    /// during the scan showed unaccessed pages as older by one interval.
    #[test]
    fn reports_during_a_scan_are_as_of_the_scan_before() {
        let mut sleeps = Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut watch = watch(sleeps.id());
        let reported = |watch: &Watch| {
            let report = watch.report_of(String::new(), &mut watch.members().to_vec().into_iter());
            (report.wall_ms, report.page_age)
        };
        watch.scan_now(&mut ()).expect("it is there");
        let before = reported(&watch);
        std::thread::sleep(Duration::from_millis(30));
        watch.advance();
        watch.begin_scan(&mut ()).expect("it is there");
        assert_eq!(reported(&watch), before);
        while !watch
            .continue_scan(&mut (), &mut || true)
            .expect("it is there")
        {}
        assert!(reported(&watch).0 >= before.0 + 30);
        sleeps.kill().and_then(|()| sleeps.wait()).expect("ours");
    }
}
