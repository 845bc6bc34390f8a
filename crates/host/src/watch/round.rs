//! A look: every process of the target is read once, at a stretch or in slices.
//!
//! Invariant: between two slices at most one process is half read, a large one, and nobody else is looked at before that is done.
//! Sums over processes are those of this look and the one before then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::vec::IntoIter;

use super::shares::{Late, Shares};
use super::{Watch, WatchError};
use crate::ages::{Listener, Looked, Space};
use crate::system::Identity;
use crate::system::family::Target;

/// How the time of scans is shared.
pub struct Sharing<'a> {
    /// What this round may take of a processor.
    pub budget: Duration,
    /// The number of a process's tenant.
    pub tenant: &'a dyn Fn(Identity) -> u64,
    /// Tenants that are scanned whatever they cost.
    pub asked: &'a BTreeSet<u64>,
}

/// How tenants share the time of scans, and what became of that in the last one.
#[derive(Default)]
pub(super) struct SharedScans {
    shares: Shares,
    /// Tenants that were late, and their processes.
    late: BTreeMap<u64, Late>,
    pub(super) postponed: BTreeSet<Identity>,
    /// See [`Watch::shared_cost`].
    cost: Option<(Duration, Duration)>,
}

/// Scans by `report --all` and the like may take so much of the time between two: a half.
const OWN_SHARE: u32 = 2;

/// A look that is under way.
pub(super) struct Round {
    /// Who is still to be looked at.
    left: IntoIter<Identity>,
    /// The tenant of each that is looked at, where scans are shared.
    tenants: BTreeMap<Identity, u64>,
    /// Tenants that are not looked at in this round, and the processes of theirs.
    late: BTreeMap<u64, Late>,
    postponed: Vec<Identity>,
    gone: Vec<Identity>,
    /// Members whose memory is locked, so that nothing of it could be read.
    locked: Vec<Identity>,
    /// Members that could not be read, and why the first of them.
    denied: (u64, String),
}

impl Round {
    fn note(&mut self, identity: Identity, looked: Looked) {
        match looked {
            Looked::Done => {}
            Looked::Gone => self.gone.push(identity),
            Looked::Locked => self.locked.push(identity),
            Looked::Denied(error) => {
                self.denied.0 += 1;
                if self.denied.1.is_empty() {
                    self.denied.1 = error.to_string();
                }
            }
        }
    }
}

impl Watch {
    /// Looks at the time that was set last, by waiting for it or by [`Watch::advance`], and tells `listener` each page.
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn look_now(&mut self, listener: &mut dyn Listener) -> Result<(), WatchError> {
        self.begin_look(listener)?;
        self.go_on(listener, &mut || false).map(drop)
    }

    /// Begins a look as [`Watch::look_now`], in slices ([`Watch::go_on`]).
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn begin_look(&mut self, listener: &mut dyn Listener) -> Result<(), WatchError> {
        let asked = BTreeSet::new();
        let by_process = |identity: Identity| u64::from(identity.pid);
        let sharing = Sharing {
            budget: self.interval() / OWN_SHARE,
            tenant: &by_process,
            asked: &asked,
        };
        // Of other targets all processes are one tenant, and nobody else waits.
        let is_shared = matches!(self.settings.target, Target::All);
        self.begin_shared_look(listener, is_shared.then_some(&sharing))
    }

    /// The same, where tenants share the time of scans.
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn begin_shared_look(
        &mut self,
        listener: &mut dyn Listener,
        sharing: Option<&Sharing<'_>>,
    ) -> Result<(), WatchError> {
        self.update_members()?;
        // Before the readings: what moves meanwhile is noticed in the next round.
        let moved = self.proc.vmstat().unwrap_or_default().moved;
        self.ages
            .begin_round((self.now_ms, moved), &self.members, listener);
        let (mut left, mut tenants, mut late) =
            (self.members.clone(), BTreeMap::new(), BTreeMap::new());
        let mut postponed = Vec::new();
        if let Some(sharing) = sharing {
            late = self.shared.shares.begin(sharing.budget, sharing.asked);
            tenants = left
                .iter()
                .map(|one| (*one, (sharing.tenant)(*one)))
                .collect();
            (postponed, left) = left
                .into_iter()
                .partition(|one| late.contains_key(&tenants[one]));
            // Those that are dear come after all others.
            left.sort_by_key(|one| self.shared.shares.is_dear(tenants[one]));
            postponed.iter().for_each(|one| self.ages.postpone(*one));
            let is_there: BTreeSet<u64> = postponed.iter().map(|one| tenants[one]).collect();
            late.retain(|tenant, _| is_there.contains(tenant));
        }
        self.round = Some(Round {
            left: left.into_iter(),
            tenants,
            late,
            postponed,
            gone: Vec::new(),
            locked: Vec::new(),
            denied: (0, String::new()),
        });
        Ok(())
    }

    /// Goes on with a look until it is over (true), or after a process, or some small ones, `is_enough`.
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn go_on(
        &mut self,
        listener: &mut dyn Listener,
        is_enough: &mut dyn FnMut() -> bool,
    ) -> Result<bool, WatchError> {
        let Some(mut round) = self.round.take() else {
            return Ok(true);
        };
        while self.ages.is_reading() || !round.left.as_slice().is_empty() {
            for (identity, looked) in self.look_at_some(&mut round, listener) {
                round.note(identity, looked);
            }
            if is_enough() {
                self.round = Some(round);
                return Ok(false);
            }
        }
        self.end_look(round).map(|()| true)
    }

    /// Reads the next part of a large process, or looks at one process or several small ones; what became of them.
    fn look_at_some(
        &mut self,
        round: &mut Round,
        listener: &mut dyn Listener,
    ) -> Vec<(Identity, Looked)> {
        if self.ages.is_reading() {
            return self.ages.go_on(listener).into_iter().collect();
        }
        let several = self.ages.several(round.left.as_slice());
        let several: Vec<Identity> = round.left.by_ref().take(several).collect();
        self.ages.look_at(&several, listener)
    }

    /// Each tenant pays for what its processes have cost in this round.
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

    /// What reading processes has cost in the last look, processor time, and what of it counts when the next look is planned: of
    /// a tenant that costs more than its share, the share. None where scans are not shared.
    #[must_use]
    pub fn shared_cost(&self) -> Option<(Duration, Duration)> {
        self.shared.cost
    }

    /// Whether a scan of this tenant costs more than its share.
    #[must_use]
    pub fn is_dear(&self, tenant: u64) -> bool {
        self.shared.shares.is_dear(tenant)
    }

    /// Tenants that were late in the last look, as [`Sharing::tenant`] numbers them.
    #[must_use]
    pub fn late(&self) -> &BTreeMap<u64, Late> {
        &self.shared.late
    }

    fn end_look(&mut self, round: Round) -> Result<(), WatchError> {
        let Round {
            gone,
            denied,
            locked,
            tenants,
            late,
            postponed,
            ..
        } = round;
        self.locked = locked;
        self.ages.end_round();
        self.share_costs(&tenants, late, postponed);
        self.ended_ms = self.now_ms;
        self.members.retain(|identity| !gone.contains(identity));
        for identity in &self.members {
            if let Some(space) = self.ages.space(*identity) {
                // When it ends, nobody can ask how large it was.
                self.family
                    .note_peak(identity.pid, space.found.present * 4096);
            }
        }
        let all = u64::try_from(self.members.len()).unwrap_or(u64::MAX);
        // Later it is a note: who may not be read in one look (between an exec and its end) may be in the next.
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
    use crate::watch::Settings;

    fn watch(pid: u32) -> Watch {
        Watch::open(Settings {
            target: Target::Descendants(pid),
            interval: Duration::from_secs(1),
            max_wait: None,
            source: None,
            own_process: false,
        })
        .expect("a process of ours")
    }

    /// (The story: what `run` started stood in its report as pagetide, which it was until its exec, for the next ten looks.)
    #[test]
    fn who_became_another_program_has_its_name() {
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
        watch.look_now(&mut ()).expect("it is there");
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
        watch.look_now(&mut ()).expect("it is there");
        assert_eq!(command(&watch).as_deref(), Some("sleep 60"));
        shell.kill().and_then(|()| shell.wait()).expect("ours");
    }

    /// (The story: a look in slices had set its time before it read anything, so what nobody touched less was a whole look older to who asked meanwhile.)
    #[test]
    fn what_is_told_during_a_look_is_as_of_the_one_before() {
        let mut sleeps = Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut watch = watch(sleeps.id());
        let told = |watch: &Watch| {
            let report = watch.report_of(String::new(), &mut watch.members().to_vec().into_iter());
            (report.wall_ms, report.page_age)
        };
        watch.look_now(&mut ()).expect("it is there");
        let before = told(&watch);
        std::thread::sleep(Duration::from_millis(30));
        watch.advance();
        watch.begin_look(&mut ()).expect("it is there");
        assert_eq!(told(&watch), before);
        while !watch.go_on(&mut (), &mut || true).expect("it is there") {}
        assert!(told(&watch).0 >= before.0 + 30);
        sleeps.kill().and_then(|()| sleeps.wait()).expect("ours");
    }
}
