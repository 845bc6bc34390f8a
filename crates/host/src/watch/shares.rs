//! Divides the time that scans may take among tenants: decides which tenants a scan reads, and
//! which it postpones ("late" tenants).
//!
//! Invariant: the shares are max-min fair. A tenant whose scan costs at most two shares is read in
//! each scan. A dearer tenant is read once, and then is late until its shares have paid for that
//! read. Beyond the budget, a scan reads at most one dear tenant: the one that has waited longest.
//!
//! The cost of a tenant's first read is unknown before it. New tenants are read at once as long as
//! first reads have exceeded the time that other tenants do not need by less than a burst. After
//! that, new tenants wait until later scans have made up for the excess. The very first scan reads
//! all tenants.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::fair;

/// A tenant is dear if its scan costs more than this many shares. So a cost a little above the
/// share does not make a tenant late.
const DEAR_SHARES: u32 = 2;
/// First scans of new tenants get at least one part in this many of a scan's budget, so that each
/// new tenant is scanned eventually.
const NEW_PART: u32 = 8;
/// First scans may take the budgets of this many scans at once, but no more than [`BURST_MAX`] (or
/// one budget, if that is more). Without this burst, and with a scan each second, ten small tenants
/// that appeared together were all known only after 12 s.
const BURST_ROUNDS: u32 = 8;
const BURST_MAX: Duration = Duration::from_secs(1);

/// What is known of the cost of a tenant that has been scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Account {
    /// Processor time of the tenant's last scan.
    cost: Duration,
    /// The part of past costs for which the tenant's shares have not paid yet.
    debt: Duration,
    /// Number of scans since the last one that read this tenant.
    waited: u32,
}

/// Why a tenant was late (not read in a scan): what it costs, and what its share is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// Processor time of the tenant's last scan; zero if it was never scanned.
    pub cost: Duration,
    /// The tenant's share of a scan, processor time.
    pub share: Duration,
}

/// Divides the time of scans among tenants (see the module). Tenants have numbers that the caller
/// chooses.
#[derive(Debug, Default)]
pub(super) struct Shares {
    accounts: BTreeMap<u64, Account>,
    /// Processor time that each tenant may take in this scan.
    share: Duration,
    /// Time that first scans of new tenants took and that later scans have not made up for yet.
    taken_by_new: Duration,
    /// If `taken_by_new` is at least this, new tenants wait; `None` in the very first scan, in
    /// which no tenant waits.
    burst: Option<Duration>,
}

impl Shares {
    /// Begins a scan that may take `budget` of processor time. Returns the tenants that are late,
    /// by number. Tenants in `requested` are never late.
    pub(super) fn begin(
        &mut self,
        budget: Duration,
        requested: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Late> {
        let costs = self.accounts.values().map(|account| nanos(account.cost));
        let share = fair::share(costs.collect(), nanos(budget));
        let share = Duration::from_nanos(share);
        self.share = share;
        let is_dear = |account: &Account| account.cost > share * DEAR_SHARES;
        let cheap = self.accounts.values().filter(|account| !is_dear(account));
        let mut left = budget.saturating_sub(cheap.map(|account| account.cost).sum());
        let mut late = BTreeMap::new();
        let mut paid: Vec<(u32, u64)> = Vec::new();
        for (tenant, account) in &mut self.accounts {
            account.waited = account.waited.saturating_add(1);
            account.debt = account.debt.saturating_sub(share);
            if !is_dear(account) || requested.contains(tenant) {
                continue;
            }
            if account.debt.is_zero() {
                paid.push((account.waited, *tenant));
            }
            let cost = account.cost;
            late.insert(*tenant, Late { cost, share });
        }
        paid.sort_unstable_by_key(|(waited, tenant)| (std::cmp::Reverse(*waited), *tenant));
        let is_first_round = self.accounts.is_empty();
        let mut is_first = true;
        for (_, tenant) in paid {
            let cost = self.accounts[&tenant].cost;
            if is_first || cost <= left {
                left = left.saturating_sub(cost);
                is_first = false;
                late.remove(&tenant);
            }
        }
        // Time that late tenants do not use now is saved for their next scan.
        let saved = u32::try_from(late.len()).map(|late| share.saturating_mul(late));
        let left = left.saturating_sub(saved.unwrap_or(Duration::MAX));
        let for_new = left.max(budget / NEW_PART);
        self.taken_by_new = self.taken_by_new.saturating_sub(for_new);
        let burst = (budget * BURST_ROUNDS).min(BURST_MAX.max(budget));
        self.burst = (!is_first_round).then_some(burst);
        late
    }

    /// Returns whether the cost of scanning this tenant is still unknown.
    pub(super) fn is_new(&self, tenant: u64) -> bool {
        !self.accounts.contains_key(&tenant)
    }

    /// Returns why the first scan of a new tenant must wait for a later scan; `None` if it need not
    /// wait.
    pub(super) fn puts_off_new(&self) -> Option<Late> {
        let late = Late {
            cost: Duration::ZERO,
            share: self.share,
        };
        let waits = self.burst.is_some_and(|burst| self.taken_by_new >= burst);
        waits.then_some(late)
    }

    /// Adds the cost of a process that belongs to a new tenant.
    pub(super) fn note_first_scan(&mut self, cost: Duration) {
        if self.burst.is_some() {
            self.taken_by_new += cost;
        }
    }

    /// Returns whether a scan of this tenant costs more than its share allows.
    pub(super) fn is_dear(&self, tenant: u64) -> bool {
        let account = self.accounts.get(&tenant);
        account.is_some_and(|account| account.cost > self.share * DEAR_SHARES)
    }

    /// Ends a scan. `costs`: processor time of each scanned tenant. A tenant that is neither in
    /// `costs` nor in `late` is forgotten. Returns the time that counts when the next scan is
    /// planned: of a dear tenant, only its share.
    pub(super) fn end(
        &mut self,
        costs: &BTreeMap<u64, Duration>,
        late: &BTreeMap<u64, Late>,
    ) -> Duration {
        self.accounts
            .retain(|tenant, _| late.contains_key(tenant) || costs.contains_key(tenant));
        let mut counts = Duration::ZERO;
        for (tenant, cost) in costs {
            let account = self.accounts.entry(*tenant).or_default();
            if *cost > self.share * DEAR_SHARES {
                account.debt += *cost;
                counts += self.share;
            } else {
                account.debt = Duration::ZERO;
                counts += *cost;
            }
            (account.cost, account.waited) = (*cost, 0);
        }
        let known = late.values().filter(|late| !late.cost.is_zero()).count();
        let share = u32::try_from(known).map(|late| self.share.saturating_mul(late));
        counts + share.unwrap_or(Duration::MAX)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const BUDGET: Duration = ms(100);

    /// Does `count` scans of tenants whose scans cost `costs` (ms). Returns how often each tenant
    /// was scanned, and the time of the longest scan.
    fn rounds(costs: &[u64], count: u32) -> (Vec<u32>, Duration) {
        let (mut shares, mut scans, mut most) = (Shares::default(), vec![0; costs.len()], ms(0));
        for round in 0..count {
            let late = shares.begin(BUDGET, &BTreeSet::new());
            let all = costs.iter().enumerate();
            let scanned = all.filter(|(tenant, _)| !late.contains_key(&(*tenant as u64)));
            let scanned: BTreeMap<u64, Duration> = scanned
                .map(|(tenant, cost)| (tenant as u64, ms(*cost)))
                .collect();
            for tenant in scanned.keys() {
                scans[usize::try_from(*tenant).expect("few")] += 1;
            }
            // In the first scan no cost is known, and all tenants are scanned.
            if round > 0 {
                most = most.max(scanned.values().sum());
            }
            let counts = shares.end(&scanned, &late);
            assert!(round == 0 || counts <= BUDGET * DEAR_SHARES, "{counts:?}");
        }
        (scans, most)
    }

    /// Regression: eight tenants with one page in each of 30,000 page tables together cost 1 s in
    /// each scan. All tenants, also cheap ones, were scanned only as often as the budget allowed
    /// for all of them.
    #[test]
    fn only_dear_tenants_are_late() {
        let (scans, most) = rounds(&[2, 900, 900, 900, 900, 900, 900, 900, 900, 1], 1000);
        assert_eq!((scans[0], scans[9]), (1000, 1000));
        let paid = 1000 * 97 / 8 / 900;
        for scans in &scans[1..9] {
            assert!((paid - 1..=paid + 2).contains(scans), "{scans} of {paid}");
        }
        assert!(most <= ms(903), "one at a time: {most:?}");
    }

    #[test]
    fn all_tenants_are_scanned_if_the_budget_suffices() {
        assert_eq!(rounds(&[10, 20, 30, 40], 50).0, [50; 4]);
        // If all tenants together cost a little more than the budget, none is late, but scans are
        // rarer.
        assert_eq!(rounds(&[50; 4], 50).0, [50; 4]);
        // A single tenant waits as long as it would without shares.
        let alone = rounds(&[1000], 100).0[0];
        assert!((10..=11).contains(&alone), "{alone}");
    }

    #[test]
    fn a_requested_tenant_is_not_late_and_pays_later() {
        let mut shares = Shares::default();
        let dear = BTreeMap::from([(1, ms(1000)), (2, ms(1))]);
        assert!(shares.begin(BUDGET, &BTreeSet::new()).is_empty());
        shares.end(&dear, &BTreeMap::new());
        let late = shares.begin(BUDGET, &BTreeSet::from([1]));
        assert!(late.is_empty() && shares.is_dear(1) && !shares.is_dear(2));
        assert_eq!(shares.end(&dear, &late), ms(99 + 1));
        let mut rounds = 0;
        while !shares.begin(BUDGET, &BTreeSet::new()).is_empty() {
            rounds += 1;
        }
        assert!((18..=20).contains(&rounds), "two scans: {rounds}");
    }

    /// Regression: eight tenants of 200,000 page tables each took 15% of a processor in their first
    /// minute, although scans may take 10%. No budget included the first scan of a tenant, and a
    /// tenant that keeps making cgroups could get a first scan for each of them.
    #[test]
    fn first_scans_share_a_budget() {
        let mut shares = Shares::default();
        let plain = BTreeMap::from([(0, ms(20))]);
        shares.begin(BUDGET, &BTreeSet::new());
        assert!(
            shares.is_new(0) && shares.puts_off_new().is_none(),
            "the first round scans all"
        );
        shares.note_first_scan(ms(20));
        shares.end(&plain, &BTreeMap::new());
        let (mut total, mut first_scans) = (ms(0), 0);
        for round in 0..1000 {
            let mut late = shares.begin(BUDGET, &BTreeSet::new());
            let mut costs = plain.clone();
            // Each scan finds three new tenants, each of which ends before the next scan.
            for tenant in 0..3 {
                let tenant = 100 + round * 3 + tenant;
                match shares.puts_off_new() {
                    Some(put_off) => drop(late.insert(tenant, put_off)),
                    None => {
                        first_scans += 1;
                        shares.note_first_scan(ms(900));
                        costs.insert(tenant, ms(900));
                    }
                }
            }
            total += costs.values().sum::<Duration>();
            let counts = shares.end(&costs, &late);
            assert!(counts <= BUDGET * 2, "{counts:?}");
        }
        assert!(first_scans > 40, "{first_scans}");
        let part = total.as_secs_f64() / (BUDGET * 1000).as_secs_f64();
        assert!(part < 1.02 + 1.0 / f64::from(NEW_PART), "{part}");
    }

    /// Regression: of ten small tenants that appeared together, each scan read one. Until a tenant
    /// was read, reclaim took pages from it without knowing their ages.
    #[test]
    fn small_new_tenants_are_scanned_at_once() {
        let mut shares = Shares::default();
        let plain = BTreeMap::from([(0, ms(95))]);
        shares.begin(BUDGET, &BTreeSet::new());
        shares.end(&plain, &BTreeMap::new());
        shares.begin(BUDGET, &BTreeSet::new());
        for _ in 0..20 {
            assert!(shares.puts_off_new().is_none());
            shares.note_first_scan(ms(20));
        }
    }

    /// Even if scans of the known tenants take all of the time, new tenants are scanned eventually.
    #[test]
    fn a_new_tenant_is_scanned_some_time() {
        let mut shares = Shares::default();
        let costs = BTreeMap::from([(0, ms(900)), (1, ms(900)), (2, ms(60))]);
        shares.begin(BUDGET, &BTreeSet::new());
        shares.end(&costs, &BTreeMap::new());
        let mut first_scans = 0;
        for round in 0..100 {
            let late = shares.begin(BUDGET, &BTreeSet::new());
            let mut now = costs.clone();
            now.retain(|tenant, _| !late.contains_key(tenant));
            if shares.puts_off_new().is_none() {
                first_scans += 1;
                shares.note_first_scan(ms(50));
                now.insert(10 + round, ms(50));
            }
            shares.end(&now, &late);
        }
        assert!((20..=45).contains(&first_scans), "{first_scans}");
    }

    /// When a tenant's dear process ends, the tenant's debt remains: its next dear process is late,
    /// too.
    #[test]
    fn debts_stay_with_the_tenant() {
        let mut shares = Shares::default();
        shares.begin(BUDGET, &BTreeSet::new());
        shares.end(
            &BTreeMap::from([(1, ms(1000)), (2, ms(1))]),
            &BTreeMap::new(),
        );
        let late = shares.begin(BUDGET, &BTreeSet::new());
        assert_eq!(late.keys().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(
            late[&1],
            Late {
                cost: ms(1000),
                share: ms(99)
            }
        );
        shares.end(&BTreeMap::from([(2, ms(1))]), &late);
        assert!(shares.begin(BUDGET, &BTreeSet::new()).contains_key(&1));
        // The tenant has no processes at this point.
        shares.end(&BTreeMap::from([(2, ms(1))]), &BTreeMap::new());
        assert!(shares.begin(BUDGET, &BTreeSet::new()).is_empty());
    }
}
