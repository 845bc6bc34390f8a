//! One tenant of a tree: a real control group, with its settings and the state of its reclaim.
//!
//! Invariant: a setting is stored on the group before it takes effect, so that the next manager
//! continues with it.

use std::io;
use std::path::PathBuf;

use engine::memcg::{MemcgId, MemcgLimits, Protection};
use engine::workingset::RefaultCurve;
use engine::{Bytes, Limit, Pages};
use rustix::io::Errno;

use super::super::files_in_use::FilesInUse;
use super::super::moment::Moment;
use super::super::options::Limits;
use super::super::policy_runner::PolicyRunner;
use super::super::stall::Stalls;
use super::by_path::{ByPath, nearest, nearest_of_host};
use super::cache::NodeCache;
use super::kernel_counters::TenantCounters;
use super::limit_controller::LimitController;
use super::pending_limit::{KernelReclaimRequest, PendingLimitProgress};
use super::rate_limited::RateLimitedCount;
use crate::hard_limit::{HardLimit, PendingLimits, Refused};
use crate::system::cgroup::Version;

/// A tenant of a tree.
pub(super) struct Tenant {
    pub(super) memcg: MemcgId,
    /// A number that no other tenant ever has, unlike the engine's id; 0 for the root.
    pub(super) serial: u64,
    /// Path of the tenant below the root; empty for the root.
    pub(super) path: PathBuf,
    /// The tenant's control group.
    pub(super) hard_limit: HardLimit,
    /// Whether the tenant is one of the host's own groups.
    pub(super) of_host: bool,
    pub(super) limits: Limits,
    /// For high, max and swap.max, in this order: whether the limit was set through pagetide. In a
    /// group of the host, a limit that was not follows the kernel's value.
    requested: [bool; 3],
    /// The kernel's min and low of a group of the host. They hold in addition to those set here.
    pub(super) kernel_protection: Protection,
    /// Soft limit (memory.soft_limit): when all tenants are reclaimed from, those with more usage
    /// come first.
    pub(super) soft: Limit,
    /// Decides what is done for the limits, and when usage is measured next.
    pub(super) limit: LimitController,
    /// The last request that the kernel reclaim pages that proactive reclaim cannot take; `None` if
    /// there was none.
    pub(super) resort: Option<KernelReclaimRequest>,
    /// Whether memory that is reclaimed for a pending limit stays swapped out.
    pub(super) closing: PendingLimitProgress,
    /// Pages reclaimed for the tenant's limits and not logged yet: by proactive reclaim (`held`),
    /// and by kernel reclaim (`reclaimed_by_kernel`).
    pub(super) held: RateLimitedCount,
    pub(super) reclaimed_by_kernel: RateLimitedCount,
    /// Whether the kernel drops mapped files that the tenant's programs use.
    pub(super) files_in_use: FilesInUse,
    /// How often proactive reclaim stopped because the tenant was thrashing, as far as not logged.
    pub(super) left_to_kernel: RateLimitedCount,
    /// Pending limits, which are written to the group once usage is below them.
    pub(super) due: PendingLimits,
    /// Estimate of how long the tenant's tasks have waited for memory; `None` until it is
    /// requested.
    pub(super) stalls: Option<Stalls>,
    /// Whether a user has requested reports.
    pub(super) is_reported: bool,
    /// The kernel's counters of its reclaim from the tenant.
    pub(super) kernel_reclaim: TenantCounters,
    /// Unmapped page cache on each NUMA node by age; `None` if neither reports nor a policy needs
    /// it.
    pub(super) cache: Option<Vec<NodeCache>>,
    /// The refaults that less memory would cause; then the number of refaults at the last scan.
    pub(super) curve: RefaultCurve,
    pub(super) refaults: u64,
    /// Runs the tenant's policy, which pages out even if no limit requires it; `None` if there is
    /// no policy.
    pub(super) policy_runner: Option<PolicyRunner>,
    /// Whether a reclaim for a limit of the tenant is in progress; then whether one for an order of
    /// its policy is (`under_way`).
    pub(super) is_reclaimed_for_limit: bool,
    pub(super) has_policy_order: bool,
    /// Number of groups below the tenant that are reported only as part of it, as far as known.
    pub(super) left_out: u64,
    /// Version 1's counts of this group alone, as last read; then the sum of the counts of groups
    /// below that are gone.
    pub(super) counted: V1EventCounts,
    pub(super) of_gone: V1EventCounts,
}

/// Version 1's number of OOM kills, then of charges that met the limit, of one group without groups
/// below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct V1EventCounts {
    /// Number of OOM kills.
    pub(super) kills: u64,
    /// Number of charges that met the limit.
    pub(super) hits: u64,
}

impl V1EventCounts {
    /// Reads the counts of a group; `None` where the kernel does not provide them.
    pub(super) fn of(hard_limit: &HardLimit) -> Option<V1EventCounts> {
        let (kills, hits) = (hard_limit.oom_kills().ok()?, hard_limit.limit_hits().ok()?);
        Some(V1EventCounts { kills, hits })
    }

    pub(super) fn add(&mut self, other: V1EventCounts) {
        self.kills += other.kills;
        self.hits += other.hits;
    }
}

/// Text that is stored for a limit that was not set through pagetide and follows the host's value.
const NOT_REQUESTED: &str = "-";

impl Tenant {
    /// Returns the setting in `given` that holds for this tenant; `None` if there is none. For a
    /// group of the host none holds if the host's groups may not be changed, and the setting of the
    /// tree's root never does.
    pub(super) fn given<'a, T>(
        &self,
        given: &'a ByPath<T>,
        may_change_host: bool,
    ) -> Option<&'a T> {
        match self.of_host {
            false => nearest(given, &self.path),
            true if may_change_host => nearest_of_host(given, &self.path),
            true => None,
        }
    }

    /// Returns a tenant with the settings that are stored on its group.
    pub(super) fn new(
        (memcg, serial): (MemcgId, u64),
        path: PathBuf,
        hard_limit: HardLimit,
        of_host: bool,
        now: Moment,
    ) -> Tenant {
        let requested = hard_limit.requested().and_then(|text| parse(&text));
        let (limits, soft, requested) = requested.unwrap_or_else(|| match of_host {
            true => (Limits::default(), Limit::Max, [false; 3]),
            // The group has no stored settings that can be trusted. Its limits in the kernel count:
            // a user with the right to do so has set them.
            false => (standing(memcg, &hard_limit), Limit::Max, [true; 3]),
        });
        Tenant {
            memcg,
            serial,
            path,
            limits,
            requested,
            kernel_protection: Protection::default(),
            soft,
            hard_limit,
            of_host,
            limit: LimitController::new(now),
            resort: None,
            closing: PendingLimitProgress::default(),
            held: RateLimitedCount::default(),
            reclaimed_by_kernel: RateLimitedCount::default(),
            files_in_use: FilesInUse::default(),
            left_to_kernel: RateLimitedCount::default(),
            due: PendingLimits::default(),
            stalls: None,
            is_reported: false,
            kernel_reclaim: TenantCounters::default(),
            cache: None,
            curve: RefaultCurve::default(),
            refaults: 0,
            policy_runner: None,
            is_reclaimed_for_limit: false,
            has_policy_order: false,
            left_out: 0,
            counted: V1EventCounts::default(),
            of_gone: V1EventCounts::default(),
        }
    }

    /// Whether the tenant's policy decides by the age of its unmapped page cache.
    pub(super) fn asks_for_cache(&self) -> bool {
        let requested = self.policy_runner.as_ref().map(PolicyRunner::requested);
        requested.is_some_and(|requested| requested.settings.cache_older_than().is_some())
    }

    /// Replaces the tenant's limits. `reported` has the limits that [`super::Tenants::limits`]
    /// returned before: a limit that is equal to its reported value may be the kernel's, and does
    /// not count as set through pagetide. Returns the limits that the kernel refused; proactive
    /// reclaim enforces those.
    pub(super) fn set_limits(
        &mut self,
        reported: &Limits,
        limits: Limits,
    ) -> Result<Refused, Errno> {
        let (mut next, mut requested) = (self.limits, self.requested);
        let Limits {
            min,
            low,
            high,
            max,
            swap_max,
        } = limits;
        let change = |own: &mut Limit, reported: Limit, limit: Limit| {
            let is_changed = reported != limit;
            if is_changed {
                *own = limit;
            }
            is_changed
        };
        change(&mut next.min, reported.min, min);
        change(&mut next.low, reported.low, low);
        requested[0] |= change(&mut next.high, reported.high, high);
        requested[1] |= change(&mut next.max, reported.max, max);
        requested[2] |= change(&mut next.swap_max, reported.swap_max, swap_max);
        self.hard_limit
            .note_requested(&print(&next, self.soft, requested))?;
        (self.limits, self.requested) = (next, requested);
        Ok(self.apply())
    }

    /// Replaces the tenant's soft limit, and stores it on the group.
    pub(super) fn set_soft(&mut self, soft: Limit) -> Result<(), Errno> {
        self.hard_limit
            .note_requested(&print(&self.limits, soft, self.requested))?;
        self.soft = soft;
        Ok(())
    }

    /// Returns the tenant's limits for the engine. A group of the host that may not be changed is
    /// fully protected, so that nothing is reclaimed from it.
    pub(super) fn for_engine(&self, may_change: bool) -> MemcgLimits {
        match may_change {
            true => {
                let limits = MemcgLimits::from(self.limits);
                MemcgLimits {
                    min: limits.min.max(self.kernel_protection.min),
                    low: limits.low.max(self.kernel_protection.low),
                    soft: self.soft,
                    ..limits
                }
            }
            false => MemcgLimits {
                min: Limit::Max.pages(),
                ..MemcgLimits::default()
            },
        }
    }

    /// Reads the kernel's min and low of the group. Returns whether they have changed.
    pub(super) fn follow_kernel_protection(&mut self) -> bool {
        let [min, low] = self.hard_limit.kernel_protection();
        let kept = Protection {
            min: Bytes(min).pages(),
            low: Bytes(low).pages(),
        };
        std::mem::replace(&mut self.kernel_protection, kept) != kept
    }

    /// Writes those limits to the group that the kernel accepts now; proactive reclaim enforces the
    /// others. Returns the limits that the kernel refused.
    pub(super) fn apply(&mut self) -> Refused {
        let [high, max, swap_max] = self.requested;
        (self.resort, self.closing) = (None, PendingLimitProgress::default());
        self.due = PendingLimits {
            high: high.then_some(self.limits.high),
            max: max.then_some(self.limits.max),
            // If no swap limit was set, one that must wait for the hard limit stays pending.
            swap_max: match swap_max {
                true => Some(self.limits.swap_max),
                false => self.due.swap_max,
            },
        };
        self.limit.restart();
        // The root's protection is the sum that the tenants below it claim.
        let is_ours = !self.of_host && self.memcg != MemcgId::ROOT;
        let keep = || {
            self.hard_limit
                .set_protection([self.limits.min, self.limits.low])
        };
        let protection = is_ours.then(keep).and_then(Result::err);
        Refused {
            protection,
            ..self.due.put(&self.hard_limit)
        }
    }

    /// Returns log lines for the limits that the kernel refused. There is no line for memory.high
    /// on version 1, which has no such file, nor for a refusal to remove a limit.
    pub(super) fn refusals_in_words(&self, refused: &Refused) -> Vec<String> {
        let Limits {
            min,
            low,
            high,
            max,
            swap_max,
        } = self.limits;
        let is_v1 = self.hard_limit.version() == Version::V1;
        let has_protected = [min, low].iter().any(|limit| limit.pages() > Pages(0));
        let (limited, high_error) = (Limit::Max, refused.high.as_ref().filter(|_| !is_v1));
        let files = [
            (
                "memory.min and memory.low",
                has_protected,
                refused.protection.as_ref(),
            ),
            ("memory.high", high != limited, high_error),
            ("memory.max", max != limited, refused.max.as_ref()),
            (
                "memory.swap.max",
                swap_max != limited,
                refused.swap_max.as_ref(),
            ),
        ];
        let requested = files
            .into_iter()
            .filter(|(_, is_requested, _)| *is_requested);
        let tell = |(file, _, error): (&str, bool, Option<&io::Error>)| {
            let path = self.path.display();
            // If the tenant's group is gone, the next scan drops the tenant.
            let error = error.filter(|error| error.kind() != io::ErrorKind::NotFound)?;
            Some(format!(
                "the kernel refused {file} of /{path}, so it is enforced only at each scan: {error}"
            ))
        };
        requested.filter_map(tell).collect()
    }

    /// Whether the tenant has a limit of memory, or a pending one.
    pub(super) fn has_limit(&self) -> bool {
        self.limits.hold() || self.due != PendingLimits::default()
    }

    /// Whether the kernel enforces the tenant's limits.
    pub(super) fn is_hard_limited(&self) -> bool {
        let version = self.hard_limit.version();
        self.limits.are_enforced(&self.due, version)
    }

    /// Returns the bytes of the tenant that are not reclaimed while other tenants have reclaimable
    /// memory: the larger of min and low.
    pub(super) fn protected(&self) -> u64 {
        let limits = self.for_engine(true);
        limits.min.max(limits.low).bytes().0
    }

    /// Whether min or low protects memory of the tenant.
    pub(super) fn is_protected(&self) -> bool {
        self.protected() > 0
    }
}

/// Returns the limits that the kernel has for a group; none for a new group. The root's min and low
/// do not count: they are the sum that the tenants below it use.
fn standing(memcg: MemcgId, hard_limit: &HardLimit) -> Limits {
    let [max, high, swap_max] = hard_limit.kernel_limits();
    let kept = hard_limit.kernel_protection();
    let [min, low] = match memcg {
        MemcgId::ROOT => [0, 0],
        _ => kept,
    }
    .map(|bytes| Limit::from((bytes < u64::MAX).then_some(Bytes(bytes))));
    Limits {
        min,
        low,
        high,
        max,
        swap_max,
    }
}

/// Returns the text that is stored on a group: min, low, high, max, swap.max and the soft limit, in
/// bytes. `-` stands for a limit that was not set through pagetide.
fn print(limits: &Limits, soft: Limit, requested: [bool; 3]) -> String {
    let word = Limit::file_text;
    let Limits {
        min,
        low,
        high,
        max,
        swap_max,
    } = *limits;
    let own = |(limit, requested): (Limit, bool)| {
        if requested {
            word(limit)
        } else {
            NOT_REQUESTED.to_owned()
        }
    };
    let [high, max, swap_max] = [
        (high, requested[0]),
        (max, requested[1]),
        (swap_max, requested[2]),
    ]
    .map(own);
    [word(min), word(low), high, max, swap_max, word(soft)].join(" ")
}

/// Parses a text of [`print()`]: the limits, the soft limit, and which of high, max and swap.max
/// were set through pagetide. Texts of earlier versions have no soft limit.
fn parse(text: &str) -> Option<(Limits, Limit, [bool; 3])> {
    let mut own = text.split(' ').skip(2).map(|word| word != NOT_REQUESTED);
    let requested = [own.next()?, own.next()?, own.next()?];
    let mut words = text.split(' ').enumerate().map(|(at, word)| match word {
        "max" => Some(Limit::Max),
        NOT_REQUESTED if (2..5).contains(&at) => Some(Limit::Max),
        word => word.parse().ok().map(|bytes| Limit::Bytes(Bytes(bytes))),
    });
    let mut next = || words.next()?;
    let limits = Limits {
        min: next()?,
        low: next()?,
        high: next()?,
        max: next()?,
        swap_max: next()?,
    };
    let soft = words.next().unwrap_or(Some(Limit::Max))?;
    Some((limits, soft, requested))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::OwnGroup;
    use crate::system::{Groups, Proc};

    /// Regression: the group of a tenant was delegated to a user, and root still owned its limit
    /// files. A restart lifted the limits of the tenant.
    #[test]
    fn limits_of_a_group_with_another_owner_are_kept() {
        let own = OwnGroup::new("standing");
        let proc = Proc::system().expect("/proc");
        let groups = Groups::find(&proc).expect("a memory controller");
        let manager = proc.identity(std::process::id()).expect("/proc");
        let manager = manager.expect("we are there");
        let dir = own.dir.join("a");
        let begin = |of_host| {
            let hard_limit = match of_host {
                false => HardLimit::tenant(&groups, &dir, manager, true),
                true => HardLimit::of_host(&groups, &dir, manager),
            };
            Tenant::new(
                (MemcgId::ROOT, 7),
                "a".into(),
                hard_limit.expect("ours"),
                of_host,
                Moment::BEGIN,
            )
        };
        let max = Limit::Bytes(Bytes(64 << 20));
        let mut tenant = begin(false);
        assert_eq!(tenant.limits, Limits::default());
        let limits = Limits {
            max,
            ..Limits::default()
        };
        let reported = tenant.limits;
        let refused = tenant.set_limits(&reported, limits).expect("it is taken");
        assert!(tenant.refusals_in_words(&refused).is_empty());
        tenant.set_soft(max).expect("it is noted");
        drop(tenant);
        let tenant = begin(false);
        assert_eq!((tenant.limits, tenant.soft), (limits, max));
        drop(tenant);
        let nobody = rustix::fs::Uid::from_raw(65534);
        rustix::fs::chown(&dir, Some(nobody), None).expect("we may");
        let mut tenant = begin(false);
        assert_eq!((tenant.limits, tenant.soft), (limits, Limit::Max));
        assert!(tenant.apply().max.is_none());
        assert_eq!(
            tenant.hard_limit.max().expect("it is there"),
            Limit::Bytes(Bytes(64 << 20))
        );
        // A group of the host has no limits that were set through pagetide.
        assert_eq!(begin(true).limits, Limits::default());
    }

    #[test]
    fn settings_stored_on_a_group_are_parsed_again() {
        let limits = Limits {
            min: Limit::Max,
            high: Limit::Bytes(Bytes(5 << 30)),
            ..Limits::default()
        };
        let soft = Limit::Bytes(Bytes(8192));
        for requested in [[true; 3], [false, true, false]] {
            let requested_for = Limits {
                high: if requested[0] {
                    limits.high
                } else {
                    Limit::Max
                },
                ..limits
            };
            let text = print(&limits, soft, requested);
            assert_eq!(
                parse(&text),
                Some((requested_for, soft, requested)),
                "{text}"
            );
        }
        let earlier = parse("0 0 max max max");
        assert_eq!(earlier, Some((Limits::default(), Limit::Max, [true; 3])));
        for text in [
            "",
            "0",
            "0 0 0 0",
            "0 0 max max x",
            "-1 0 0 0 0",
            "0 0 max max max x",
            "- 0 max max max",
            "0 0 max max max -",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
