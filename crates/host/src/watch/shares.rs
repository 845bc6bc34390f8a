//! Shares of the time that scans may take: which tenants are scanned in a round, and which are late.
//!
//! Invariant: the shares are max-min fair. A tenant that costs no more than twice the share is scanned in each round.
//! A dearer one is scanned, and then is late until its shares have paid for that scan. Beyond what a round may take,
//! at most one such tenant is scanned in it, the one that has waited longest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A tenant is dear if its scan costs more than so many shares: a little more is not worth being late for.
const DEAR_SHARES: u32 = 2;

/// What is known of a tenant that was scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Account {
    /// What its last scan cost.
    cost: Duration,
    /// What its shares have still to pay.
    debt: Duration,
    /// Rounds since its last scan.
    waited: u32,
}

/// A tenant that was late in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// What its last scan cost, processor time.
    pub cost: Duration,
    /// Its share of a round, processor time.
    pub share: Duration,
}

/// See the module. Tenants are numbers of the caller's.
#[derive(Debug, Default)]
pub(super) struct Shares {
    accounts: BTreeMap<u64, Account>,
    /// The share of this round.
    share: Duration,
}

impl Shares {
    /// Begins a round that may take `budget` of a processor; the tenants that are late in it. Those `asked` for are not.
    pub(super) fn begin(&mut self, budget: Duration, asked: &BTreeSet<u64>) -> BTreeMap<u64, Late> {
        let costs = self.accounts.values().map(|account| account.cost).collect();
        let share = fair_share(costs, budget);
        self.share = share;
        let is_dear = |account: &Account| account.cost > share * DEAR_SHARES;
        let cheap = self.accounts.values().filter(|account| !is_dear(account));
        let mut left = budget.saturating_sub(cheap.map(|account| account.cost).sum());
        let mut late = BTreeMap::new();
        let mut paid: Vec<(u32, u64)> = Vec::new();
        for (tenant, account) in &mut self.accounts {
            account.waited = account.waited.saturating_add(1);
            account.debt = account.debt.saturating_sub(share);
            if !is_dear(account) || asked.contains(tenant) {
                continue;
            }
            if account.debt.is_zero() {
                paid.push((account.waited, *tenant));
            }
            let cost = account.cost;
            late.insert(*tenant, Late { cost, share });
        }
        paid.sort_unstable_by_key(|(waited, tenant)| (std::cmp::Reverse(*waited), *tenant));
        let mut is_first = true;
        for (_, tenant) in paid {
            let cost = self.accounts[&tenant].cost;
            if is_first || cost <= left {
                left = left.saturating_sub(cost);
                is_first = false;
                late.remove(&tenant);
            }
        }
        late
    }

    /// Whether a scan of this tenant costs more than its share of the round allows.
    pub(super) fn is_dear(&self, tenant: u64) -> bool {
        let account = self.accounts.get(&tenant);
        account.is_some_and(|account| account.cost > self.share * DEAR_SHARES)
    }

    /// The round ends: what the scan of each of its tenants has cost. A tenant that is neither here nor late is
    /// forgotten. Returns what all of it counts for when the next round is planned: of a dear tenant, its share.
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
        let share = u32::try_from(late.len()).map(|late| self.share.saturating_mul(late));
        counts + share.unwrap_or(Duration::MAX)
    }
}

/// The largest share at which nobody gets more than it costs and all together no more than `budget`; all of `budget`
/// where that is enough for everybody.
fn fair_share(mut costs: Vec<Duration>, budget: Duration) -> Duration {
    costs.sort_unstable();
    let (mut left, mut tenants) = (budget, u32::try_from(costs.len()).unwrap_or(u32::MAX));
    for cost in costs {
        if cost > left / tenants {
            return left / tenants;
        }
        left -= cost;
        tenants -= 1;
    }
    budget
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const BUDGET: Duration = ms(100);

    #[test]
    fn shares_are_max_min_fair() {
        let of =
            |costs: &[u64], budget| fair_share(costs.iter().copied().map(ms).collect(), budget);
        assert_eq!(of(&[], BUDGET), BUDGET);
        assert_eq!(of(&[20, 80], BUDGET), BUDGET);
        assert_eq!(of(&[20, 900], BUDGET), ms(80));
        assert_eq!(of(&[900, 20, 20, 900], BUDGET), ms(30));
        assert_eq!(of(&[900; 4], BUDGET), ms(25));
        assert_eq!(of(&[1], Duration::ZERO), Duration::ZERO);
    }

    /// Rounds of tenants with these costs: of each tenant in how many it was scanned, and the dearest round.
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
            // Nothing is known before the first.
            if round > 0 {
                most = most.max(scanned.values().sum());
            }
            let counts = shares.end(&scanned, &late);
            assert!(round == 0 || counts <= BUDGET * DEAR_SHARES, "{counts:?}");
        }
        (scans, most)
    }

    /// (The story: eight tenants with a page in each of 30,000 tables cost a second a scan together, and everybody's ages were as
    /// rare as the budget for all of them allowed.)
    #[test]
    fn dear_tenants_are_late_and_nobody_else() {
        let (scans, most) = rounds(&[2, 900, 900, 900, 900, 900, 900, 900, 900, 1], 1000);
        assert_eq!((scans[0], scans[9]), (1000, 1000));
        let paid = 1000 * 97 / 8 / 900;
        for scans in &scans[1..9] {
            assert!((paid - 1..=paid + 2).contains(scans), "{scans} of {paid}");
        }
        assert!(most <= ms(903), "one at a time: {most:?}");
    }

    #[test]
    fn all_are_scanned_where_there_is_enough_for_all() {
        assert_eq!(rounds(&[10, 20, 30, 40], 50).0, [50; 4]);
        // A little more than that makes all rounds rarer.
        assert_eq!(rounds(&[50; 4], 50).0, [50; 4]);
        // One alone waits as long as it would have.
        let alone = rounds(&[1000], 100).0[0];
        assert!((10..=11).contains(&alone), "{alone}");
    }

    #[test]
    fn what_is_asked_for_is_not_late_and_is_paid_later() {
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

    /// A tenant whose dear process ends is in debt all the same: another such process is late, too.
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
        // Nobody of it is left.
        shares.end(&BTreeMap::from([(2, ms(1))]), &BTreeMap::new());
        assert!(shares.begin(BUDGET, &BTreeSet::new()).is_empty());
    }
}
