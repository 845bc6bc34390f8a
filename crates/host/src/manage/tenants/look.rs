//! A look at all tenants: who is in them, and what of theirs is in memory.
//!
//! Invariant: a process is of the tenant whose group the kernel lists it in, and of the root if it is not listed any more;
//! one that was moved is read even if it slept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use engine::memcg::MemcgId;

use super::super::pause::Pause;
use super::super::{IDLE_MAX, LOOKS_APART};
use super::Tenants;
use super::budget::LookBudget;
use super::membership::Listing;
use crate::system::{Identity, thread_cpu};
use crate::watch::{Late, Sharing, WatchError};

/// Between two of them for reports at least. (Read ten times a second beside a busy machine, 261 of 535 pages that one of 16
/// tenants used each second were told to be 5 to 7 seconds old; not measured since ages are told as of the
/// last look.)
const REFRESH_LEAST: Duration = Duration::from_secs(1);

/// A look that is under way.
#[derive(Debug)]
pub(super) struct Looking {
    /// Whose tenant each process was when it began, by serial: of those that are removed meanwhile nobody else gets the number.
    homes: BTreeMap<u32, u64>,
    /// Who is in no group that was listed.
    unlisted: u64,
    /// It opens a generation in each tenant.
    opens: bool,
    begun: Instant,
    /// What of a processor went beside reading and aging: to listing, to measuring, to curves. Of thousands of tenants that is the most.
    beside: Duration,
    /// Once all is read: who is still to get one, by serial.
    unaged: Option<Vec<u64>>,
}

impl Looking {
    fn home(&self, pid: u32) -> u64 {
        self.homes.get(&pid).copied().unwrap_or(self.unlisted)
    }
}

impl Tenants {
    /// Whether the last look is long enough ago for one between two intervals, by what looks cost.
    pub(super) fn is_look_worth_it(&self) -> bool {
        let apart = self.budget.apart_for_reclaim(self.driver.look_took());
        self.driver.look_age() >= apart.max(LOOKS_APART)
    }

    /// Begins to read between two looks where reports are to be fresh, within what looks may take; how long that is not due. What
    /// is read opens no generation: reclaim goes by looks. spec: workingset-report.md 6.
    pub(super) fn refresh(&mut self) -> Result<Duration, WatchError> {
        let interval = self.driver.watch.interval();
        let refresh = self.refresh.map(|refresh| refresh.max(REFRESH_LEAST));
        let Some(refresh) = refresh.filter(|refresh| *refresh < interval) else {
            return Ok(IDLE_MAX);
        };
        let apart = refresh.max(self.budget.apart(self.driver.look_counts()));
        let left = apart.saturating_sub(self.driver.look_age());
        if left.is_zero() {
            self.begin_look(false, &BTreeSet::new())?;
        }
        Ok(left)
    }

    /// Reports are to be no older than this; none for as old as looks make them.
    pub fn set_refresh(&mut self, refresh: Option<Duration>) {
        self.refresh = refresh;
    }

    /// Begins to read all tables; [`Tenants::work`] goes on with it before it does anything else. Tenants `asked` for, by
    /// serial, are read whatever that costs.
    pub(super) fn begin_look(
        &mut self,
        opens: bool,
        asked: &BTreeSet<u64>,
    ) -> Result<(), WatchError> {
        let (begun, worked) = (Instant::now(), thread_cpu());
        let Listing {
            homes: by_pid,
            strangers,
            ..
        } = self.list().map_err(WatchError::lack)?;
        self.driver.watch.leave_out(strangers);
        self.driver.watch.list(by_pid.keys().copied().collect());
        // Who is in no group any more and has not ended yet: nothing is taken from it, if that may not be.
        let unlisted = self.host.as_ref().map_or(MemcgId::ROOT, |host| host.memcg);
        let serial = |memcg: MemcgId| self.serial(memcg).unwrap_or(0);
        let by_pid = by_pid.into_iter();
        let mut looking = Looking {
            homes: by_pid.map(|(pid, memcg)| (pid, serial(memcg))).collect(),
            unlisted: serial(unlisted),
            opens,
            begun,
            beside: Duration::ZERO,
            unaged: None,
        };
        let members = self.driver.watch.members().to_vec();
        for identity in &members {
            let home = self.by_serial(looking.home(identity.pid));
            if self.homes.get(identity).copied() != home {
                let (ages, _) = self.driver.watch.ages_and_proc();
                ages.read_again(*identity);
            }
        }
        looking.beside = thread_cpu().saturating_sub(worked);
        let home = |identity: Identity| home_of((&looking, &self.by_serial), identity);
        let tenant = |identity: Identity| looking.home(identity.pid);
        let sharing = Sharing {
            budget: self.scan_budget(),
            tenant: &tenant,
            asked,
        };
        self.driver.begin_look(&home, Some(&sharing))?;
        self.looking = Some(looking);
        Ok(())
    }

    /// What reading processes may cost in a look that begins now, processor time.
    fn scan_budget(&self) -> Duration {
        let interval = self.driver.watch.interval();
        // Measured from the start of one scan to the start of the next: on a busy machine a scan can last as long as the
        // interval.
        let since = self
            .elapsed_ms()
            .saturating_sub(self.driver.watch.looked_ms());
        let apart = match self.driver.looks() {
            0 => interval,
            _ => Duration::from_millis(since).min(interval),
        };
        self.budget.of(apart, self.driver.look_took_beside())
    }

    /// Goes on with the look that is under way, until it is over or `pause` is due.
    pub(super) fn go_on_looking(&mut self, pause: &Pause) -> Result<(), WatchError> {
        let Some(looking) = &self.looking else {
            return Ok(());
        };
        if looking.unaged.is_none() {
            let home = |identity: Identity| home_of((looking, &self.by_serial), identity);
            if !self.driver.go_on_with_look(&home, pause)? {
                return Ok(());
            }
            self.end_reading();
        }
        // Reading may have used the slice up: one tenant is aged all the same.
        if self.go_on_aging(pause) {
            self.end_look();
        }
        Ok(())
    }

    /// All is read: whose each process is, and what each tenant uses, is known anew.
    fn end_reading(&mut self) {
        let worked = thread_cpu();
        let Some(looking) = &mut self.looking else {
            return;
        };
        let all = self.by_serial.keys().copied();
        // What of a late tenant was used is not known: its pages stay in the generations that they are in.
        let late = self.driver.watch.late();
        let is_aged = |serial: &u64| looking.opens && !late.contains_key(serial);
        looking.unaged = Some(all.filter(is_aged).collect());
        let members = self.driver.watch.members().iter();
        // One whose tenant was removed meanwhile is read again by the next look, wherever it is then.
        let by_serial = &self.by_serial;
        let home = |one: &Identity| Some((*one, *by_serial.get(&looking.home(one.pid))?));
        self.homes = members.filter_map(home).collect();
        let in_exec = self.driver.watch.in_exec();
        let home = |pid: u32| Some((pid, *by_serial.get(&looking.home(pid))?));
        self.in_exec = in_exec.filter_map(home).collect();
        self.follow_protection();
        self.measure();
        self.note_caches();
        self.note_curves();
        self.note_late();
        if let Some(looking) = &mut self.looking {
            looking.beside += thread_cpu().saturating_sub(worked);
        }
    }

    /// Says which tenants are late from now on, once of each for as long as it costs that much.
    fn note_late(&mut self) {
        let late = self.driver.watch.late().clone();
        for (serial, Late { cost, share }) in &late {
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
                "/{path}: scans are rarer, and its ages as of the last one: a scan takes {} ms of a processor, \
                 its share of a scan of all is {} ms; it is scanned in one of some {rounds}",
                cost.as_millis(),
                share.as_millis(),
            ));
        }
        let watch = &self.driver.watch;
        self.said_late.retain(|serial| watch.is_dear(*serial));
    }

    /// Opens a generation in one tenant after the other until all have theirs (true) or `pause` is due: where memory is idle that moves
    /// most pages.
    fn go_on_aging(&mut self, pause: &Pause) -> bool {
        let now = self.now();
        loop {
            let unaged = self.looking.as_mut().and_then(|one| one.unaged.as_mut());
            let Some(serial) = unaged.and_then(Vec::pop) else {
                return true;
            };
            // One that was removed meanwhile has none.
            if let Some(memcg) = self.by_serial(serial) {
                self.driver.age(memcg, now);
            }
            if pause.is_due() {
                return false;
            }
        }
    }

    fn end_look(&mut self) {
        let Some(looking) = self.looking.take() else {
            return;
        };
        self.driver.also_took(looking.beside);
        if looking.opens {
            self.looked_at = looking.begun;
            self.plan_look();
            self.has_looked = true;
        }
    }

    /// When the next look is due, by the last one.
    pub(super) fn plan_look(&mut self) {
        let interval = self.driver.watch.interval();
        let every = self.look_every().unwrap_or(interval).min(interval);
        // The policy's pace, too, is not quite even: in step with a program that works by a timer, looks would call cold what it uses.
        let apart = self.driver.watch.apart_of(every);
        let pause = self.budget.apart(self.driver.look_counts());
        self.next_look = self.looked_at + apart.max(pause);
    }

    /// Looks may take so much of a processor from now on.
    pub fn set_look_budget(&mut self, budget: LookBudget) {
        if std::mem::replace(&mut self.budget, budget) != budget {
            self.plan_look();
        }
    }
}

/// The tenant of a process; of one whose tenant was removed since the look began, the root.
fn home_of(
    (looking, by_serial): (&Looking, &BTreeMap<u64, MemcgId>),
    identity: Identity,
) -> MemcgId {
    let found = by_serial.get(&looking.home(identity.pid));
    let other = || by_serial.get(&looking.unlisted);
    found.or_else(other).copied().unwrap_or(MemcgId::ROOT)
}
