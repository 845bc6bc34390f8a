//! One tenant of a tree: a real control group and what was asked for it.
//!
//! Invariant: what is asked stands on the group before it counts, so that the next manager goes on with it.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use engine::memcg::{MemcgId, MemcgLimits, Protection};
use engine::workingset::RefaultCurve;
use engine::{Bytes, Limit, Pages};
use rustix::io::Errno;

use super::super::minder::Minder;
use super::super::options::Limits;
use super::super::outrun::Outrun;
use super::super::room::Room;
use super::super::stall::Stalls;
use super::super::thrash::Thrash;
use super::by_path::{ByPath, nearest, nearest_of_host};
use super::cache::NodeCache;
use super::closing::{Closing, Resort};
use super::seldom::Seldom;
use crate::system::cgroup::Version;
use crate::wall::{Due, Refused, Wall};

/// A tenant.
pub(super) struct Tenant {
    pub(super) memcg: MemcgId,
    /// Never used again, unlike the engine's id; 0 for the root.
    pub(super) serial: u64,
    /// Below the root; empty for the root.
    pub(super) path: PathBuf,
    pub(super) wall: Wall,
    /// One of the host's own groups.
    pub(super) of_host: bool,
    pub(super) limits: Limits,
    /// Which of high, max and swap.max were asked for here: of the host's groups the others stay the host's, whatever becomes of them.
    asked: [bool; 3],
    /// What the kernel keeps of a group of the host: that counts, too, whatever is asked for here.
    pub(super) kernel_protection: Protection,
    /// Above this it gives first when all tenants are reclaimed (memory.soft_limit).
    pub(super) soft: Limit,
    pub(super) room: Room,
    /// When its usage is measured again.
    pub(super) next_hold: Instant,
    /// How often the kernel was asked in vain to let go of what a disk has taken.
    pub(super) written_asked: u8,
    /// When the kernel was last asked for what our hand does not get.
    pub(super) resort: Option<Resort>,
    /// How what has left for a limit that waits stays away.
    pub(super) closing: Closing,
    /// What left for its limits by our hand, and by the kernel's.
    pub(super) held: Seldom,
    pub(super) resorted: Seldom,
    /// Whether it needs more than it may have, since it first met its limit; and how often it was left to its wall for that.
    pub(super) thrash: Option<Thrash>,
    pub(super) outrun: Outrun,
    pub(super) left_alone: Seldom,
    /// Limits that the wall is to get when usage is below them.
    pub(super) due: Due,
    /// What its tasks have waited, since somebody asked first.
    pub(super) stalls: Option<Stalls>,
    /// Whether somebody asks for reports.
    pub(super) is_reported: bool,
    /// How old its unmapped page cache is on each node, where somebody asks for reports, or its policy for that.
    pub(super) cache: Option<Vec<NodeCache>>,
    /// What less memory would cost it, and its refaults at the last look.
    pub(super) curve: RefaultCurve,
    pub(super) refaults: u64,
    /// What leaves it though no limit asks for it.
    pub(super) minder: Option<Minder>,
    /// Whether it is reclaimed from for a limit of its own, and for what its policy ordered (`under_way`).
    pub(super) is_reclaimed_for_limit: bool,
    pub(super) is_minded: bool,
    /// Groups below it that are told only as part of it, as far as they are known.
    pub(super) left_out: u64,
    /// Version 1's counts of itself alone when they were read last, and of those below it that are gone.
    pub(super) counted: Counted,
    pub(super) of_gone: Counted,
}

/// Kills, and charges that met the limit, as version 1 counts them of a group alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) kills: u64,
    pub(super) hits: u64,
}

impl Counted {
    /// Of a group as it is; none where the kernel does not tell.
    pub(super) fn of(wall: &Wall) -> Option<Counted> {
        let (kills, hits) = (wall.oom_kills().ok()?, wall.limit_hits().ok()?);
        Some(Counted { kills, hits })
    }

    pub(super) fn add(&mut self, other: Counted) {
        self.kills += other.kills;
        self.hits += other.hits;
    }
}

/// Stands for a limit that is the host's own affair.
const NOT_ASKED: &str = "-";

impl Tenant {
    /// What of `given` is meant for it: a group of the host's has nothing where those may not be changed, and nothing of what all are given.
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

    /// One that begins with what stands on its group.
    pub(super) fn new(
        (memcg, serial): (MemcgId, u64),
        path: PathBuf,
        wall: Wall,
        of_host: bool,
    ) -> Tenant {
        let asked = wall.asked().and_then(|text| parse(&text));
        let (limits, soft, asked) = asked.unwrap_or_else(|| match of_host {
            true => (Limits::default(), Limit::Max, [false; 3]),
            // Nothing is noted that could be believed: what stands on it was put there by who may.
            false => (standing(memcg, &wall), Limit::Max, [true; 3]),
        });
        Tenant {
            memcg,
            serial,
            path,
            limits,
            asked,
            kernel_protection: Protection::default(),
            soft,
            wall,
            of_host,
            room: Room::default(),
            next_hold: Instant::now(),
            written_asked: 0,
            resort: None,
            closing: Closing::default(),
            held: Seldom::default(),
            resorted: Seldom::default(),
            thrash: None,
            outrun: Outrun::new(),
            left_alone: Seldom::default(),
            due: Due::default(),
            stalls: None,
            is_reported: false,
            cache: None,
            curve: RefaultCurve::default(),
            refaults: 0,
            minder: None,
            is_reclaimed_for_limit: false,
            is_minded: false,
            left_out: 0,
            counted: Counted::default(),
            of_gone: Counted::default(),
        }
    }

    /// Whether its policy goes by how long its unmapped page cache has been there.
    pub(super) fn asks_for_cache(&self) -> bool {
        let asked = self.minder.as_ref().map(Minder::asked);
        asked.is_some_and(|asked| asked.settings.cache_older_than().is_some())
    }

    /// Replaces its limits, as somebody changed what [`super::Tenants::limits`] had `told`: what is as it was told may be the kernel's
    /// alone, and was not asked for here. What the kernel does not take of them, though they hold here.
    pub(super) fn set_limits(&mut self, told: &Limits, limits: Limits) -> Result<Refused, Errno> {
        let (mut next, mut asked) = (self.limits, self.asked);
        let Limits {
            min,
            low,
            high,
            max,
            swap_max,
        } = limits;
        let change = |own: &mut Limit, told: Limit, limit: Limit| {
            let is_changed = told != limit;
            if is_changed {
                *own = limit;
            }
            is_changed
        };
        change(&mut next.min, told.min, min);
        change(&mut next.low, told.low, low);
        asked[0] |= change(&mut next.high, told.high, high);
        asked[1] |= change(&mut next.max, told.max, max);
        asked[2] |= change(&mut next.swap_max, told.swap_max, swap_max);
        self.wall.note_asked(&print(&next, self.soft, asked))?;
        (self.limits, self.asked) = (next, asked);
        Ok(self.apply())
    }

    /// Replaces its soft limit.
    pub(super) fn set_soft(&mut self, soft: Limit) -> Result<(), Errno> {
        self.wall
            .note_asked(&print(&self.limits, soft, self.asked))?;
        self.soft = soft;
        Ok(())
    }

    /// Its limits as the engine takes them: nobody takes from a group of the host that may not be changed.
    pub(super) fn for_engine(&self, may_change: bool) -> MemcgLimits {
        match may_change {
            true => {
                let limits = for_engine(&self.limits);
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

    /// Asks the kernel what it keeps of it; whether that has changed.
    pub(super) fn follow_kernel_protection(&mut self) -> bool {
        let [min, low] = self.wall.kernel_protection();
        let kept = Protection {
            min: Pages(min / 4096),
            low: Pages(low / 4096),
        };
        std::mem::replace(&mut self.kernel_protection, kept) != kept
    }

    /// Puts the limits on the wall, as far as it takes them: reclaim holds the rest. What it does not take.
    pub(super) fn apply(&mut self) -> Refused {
        let of = |limit: Limit| match limit {
            Limit::Bytes(bytes) => Some(bytes.0),
            Limit::Max => None,
        };
        let [high, max, swap_max] = self.asked;
        (self.resort, self.closing) = (None, Closing::default());
        self.due = Due {
            high: high.then(|| of(self.limits.high)),
            max: max.then(|| of(self.limits.max)),
            // Not asked for, it may wait to go along with the hard limit.
            swap_max: match swap_max {
                true => Some(of(self.limits.swap_max)),
                false => self.due.swap_max,
            },
        };
        self.next_hold = Instant::now();
        // The root's is what those below it claim together.
        let is_ours = !self.of_host && self.memcg != MemcgId::ROOT;
        let keep = || {
            self.wall
                .set_protection([self.limits.min, self.limits.low].map(of))
        };
        let protection = is_ours.then(keep).and_then(Result::err);
        Refused {
            protection,
            ..self.due.put(&self.wall)
        }
    }

    /// What the kernel refused, for people. That version 1 has no memory.high is known, and that there is no limit need not stand anywhere.
    pub(super) fn refusals_in_words(&self, refused: &Refused) -> Vec<String> {
        let Limits {
            min,
            low,
            high,
            max,
            swap_max,
        } = self.limits;
        let is_v1 = self.wall.version() == Version::V1;
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
        let asked = files.into_iter().filter(|(_, is_asked, _)| *is_asked);
        let tell = |(file, _, error): (&str, bool, Option<&io::Error>)| {
            let path = self.path.display();
            // One that is gone is dropped by the next look.
            let error = error.filter(|error| error.kind() != io::ErrorKind::NotFound)?;
            Some(format!(
                "the kernel does not take {file} of /{path}, which we keep to between looks alone: {error}"
            ))
        };
        asked.filter_map(tell).collect()
    }

    /// Whether anything holds its memory down, or is to.
    pub(super) fn has_limit(&self) -> bool {
        self.limits.max != Limit::Max
            || self.limits.high != Limit::Max
            || self.due != Due::default()
    }

    /// Whether the kernel holds what its limits ask for: they stand on the group, and it has such limits (version 1 has no memory.high).
    pub(super) fn is_walled(&self) -> bool {
        let has_high = self.wall.version() == Version::V2 || self.limits.high == Limit::Max;
        has_high && self.due.stands()
    }

    /// What of it nobody takes while others have anything, bytes.
    pub(super) fn protected(&self) -> u64 {
        let limits = self.for_engine(true);
        limits.min.max(limits.low).bytes().0
    }

    pub(super) fn is_protected(&self) -> bool {
        self.protected() > 0
    }
}

/// What the kernel has for a group; nothing for one that was just made. (What it keeps of the root is what those below claim.)
fn standing(memcg: MemcgId, wall: &Wall) -> Limits {
    let of = |bytes: Option<u64>| bytes.map_or(Limit::Max, |bytes| Limit::Bytes(Bytes(bytes)));
    let [max, high, swap_max] = wall.kernel_limits().map(of);
    let kept = wall.kernel_protection();
    let [min, low] = match memcg {
        MemcgId::ROOT => [0, 0],
        _ => kept,
    }
    .map(|bytes| of((bytes < u64::MAX).then_some(bytes)));
    Limits {
        min,
        low,
        high,
        max,
        swap_max,
    }
}

/// As the engine takes them.
fn for_engine(limits: &Limits) -> MemcgLimits {
    MemcgLimits {
        min: limits.min.pages(),
        low: limits.low.pages(),
        high: limits.high,
        max: limits.max,
        swap_max: limits.swap_max,
        ..MemcgLimits::default()
    }
}

/// As they stand on a group: min, low, high, max, swap.max and the soft limit, in bytes; `-` is what was not asked for.
fn print(limits: &Limits, soft: Limit, asked: [bool; 3]) -> String {
    let word = |limit: Limit| match limit {
        Limit::Bytes(bytes) => bytes.0.to_string(),
        Limit::Max => "max".to_owned(),
    };
    let Limits {
        min,
        low,
        high,
        max,
        swap_max,
    } = *limits;
    let own = |(limit, asked): (Limit, bool)| {
        if asked {
            word(limit)
        } else {
            NOT_ASKED.to_owned()
        }
    };
    let [high, max, swap_max] = [(high, asked[0]), (max, asked[1]), (swap_max, asked[2])].map(own);
    [word(min), word(low), high, max, swap_max, word(soft)].join(" ")
}

/// What [`print()`] wrote; an earlier one wrote no soft limit.
fn parse(text: &str) -> Option<(Limits, Limit, [bool; 3])> {
    let mut own = text.split(' ').skip(2).map(|word| word != NOT_ASKED);
    let asked = [own.next()?, own.next()?, own.next()?];
    let mut words = text.split(' ').enumerate().map(|(at, word)| match word {
        "max" => Some(Limit::Max),
        NOT_ASKED if (2..5).contains(&at) => Some(Limit::Max),
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
    Some((limits, soft, asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::OwnGroup;
    use crate::system::{Groups, Proc};

    /// (The story: the limits of a tenant that was given to a user, with limit files that stay root's, were lifted by a restart.)
    #[test]
    fn limits_of_a_group_that_others_own_stay() {
        let own = OwnGroup::new("standing");
        let proc = Proc::system().expect("/proc");
        let groups = Groups::find(&proc).expect("a memory controller");
        let manager = proc.identity(std::process::id()).expect("/proc");
        let manager = manager.expect("we are there");
        let dir = own.dir.join("a");
        let begin = |of_host| {
            let wall = match of_host {
                false => Wall::tenant(&groups, &dir, manager, true),
                true => Wall::of_host(&groups, &dir, manager),
            };
            Tenant::new((MemcgId::ROOT, 7), "a".into(), wall.expect("ours"), of_host)
        };
        let max = Limit::Bytes(Bytes(64 << 20));
        let mut tenant = begin(false);
        assert_eq!(tenant.limits, Limits::default());
        let limits = Limits {
            max,
            ..Limits::default()
        };
        let told = tenant.limits;
        let refused = tenant.set_limits(&told, limits).expect("it is taken");
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
        assert_eq!(tenant.wall.max().expect("it is there"), Some(64 << 20));
        // Of the host's own groups nothing is asked for.
        assert_eq!(begin(true).limits, Limits::default());
    }

    #[test]
    fn what_stands_on_a_group_is_read_again() {
        let limits = Limits {
            min: Limit::Max,
            high: Limit::Bytes(Bytes(5 << 30)),
            ..Limits::default()
        };
        let soft = Limit::Bytes(Bytes(8192));
        for asked in [[true; 3], [false, true, false]] {
            let asked_for = Limits {
                high: if asked[0] { limits.high } else { Limit::Max },
                ..limits
            };
            let text = print(&limits, soft, asked);
            assert_eq!(parse(&text), Some((asked_for, soft, asked)), "{text}");
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
