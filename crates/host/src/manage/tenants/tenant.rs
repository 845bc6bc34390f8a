//! One tenant of a tree: a real control group and what was asked for it.
//!
//! Invariant: what is asked stands on the group before it counts, so that the next manager goes on with it.

use std::path::PathBuf;
use std::time::Instant;

use engine::memcg::{MemcgId, MemcgLimits, Protection};
use engine::workingset::RefaultCurve;
use engine::{Bytes, Limit, Pages};
use rustix::io::Errno;

use super::super::minder::Minder;
use super::super::options::Limits;
use super::super::room::Room;
use super::super::stall::Stalls;
use super::cache::CacheAges;
use crate::wall::Wall;

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
    /// What the kernel keeps of a group of the host: that counts, too, whatever is asked for here.
    pub(super) kept: Protection,
    /// Above this it gives first when all tenants are reclaimed (memory.soft_limit).
    pub(super) soft: Limit,
    pub(super) room: Room,
    /// When its usage is measured again.
    pub(super) next_hold: Instant,
    /// A hard limit that the wall gets when usage is below it: the kernel would kill for it, or refuse.
    pub(super) wall_due: Option<u64>,
    /// What its tasks have waited, since somebody asked first.
    pub(super) stalls: Option<Stalls>,
    /// How old its unmapped page cache is on each node, where somebody asks for reports.
    pub(super) cache: Option<Vec<CacheAges>>,
    /// What less memory would cost it, and its refaults at the last look.
    pub(super) curve: RefaultCurve,
    pub(super) refaults: u64,
    /// What leaves it though no limit asks for it.
    pub(super) minder: Option<Minder>,
}

impl Tenant {
    /// One that begins with what stands on its group.
    pub(super) fn new(
        (memcg, serial): (MemcgId, u64),
        path: PathBuf,
        wall: Wall,
        of_host: bool,
    ) -> Tenant {
        let asked = wall.asked().and_then(|text| parse(&text));
        let (limits, soft) = asked.unwrap_or((Limits::default(), Limit::Max));
        Tenant {
            memcg,
            serial,
            path,
            limits,
            kept: Protection::default(),
            soft,
            wall,
            of_host,
            room: Room::default(),
            next_hold: Instant::now(),
            wall_due: None,
            stalls: None,
            cache: None,
            curve: RefaultCurve::default(),
            refaults: 0,
            minder: None,
        }
    }

    /// Replaces its limits.
    pub(super) fn set_limits(&mut self, limits: Limits) -> Result<(), Errno> {
        self.wall.note_asked(&print(&limits, self.soft))?;
        self.limits = limits;
        self.apply();
        Ok(())
    }

    /// These limits, as [`super::Tenants::limits`] told them and somebody changed one: what is only what the kernel keeps was not
    /// asked for here.
    pub(super) fn without_kept(&self, limits: Limits) -> Limits {
        let asked = |told: Limit, kept: Pages, asked: Limit| {
            let is_kept = told.pages() == kept && asked.pages() < kept;
            if is_kept { asked } else { told }
        };
        Limits {
            min: asked(limits.min, self.kept.min, self.limits.min),
            low: asked(limits.low, self.kept.low, self.limits.low),
            ..limits
        }
    }

    /// Replaces its soft limit.
    pub(super) fn set_soft(&mut self, soft: Limit) -> Result<(), Errno> {
        self.wall.note_asked(&print(&self.limits, soft))?;
        self.soft = soft;
        Ok(())
    }

    /// Its limits as the engine takes them: nobody takes from a group of the host that may not be changed.
    pub(super) fn for_engine(&self, may_change: bool) -> MemcgLimits {
        match may_change {
            true => {
                let limits = for_engine(&self.limits);
                MemcgLimits {
                    min: limits.min.max(self.kept.min),
                    low: limits.low.max(self.kept.low),
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
    pub(super) fn follow_kept(&mut self) -> bool {
        let [min, low] = self.wall.kernel_protection();
        let kept = Protection {
            min: Pages(min / 4096),
            low: Pages(low / 4096),
        };
        std::mem::replace(&mut self.kept, kept) != kept
    }

    /// Puts the limits on the wall, as far as it takes them: reclaim holds the rest.
    pub(super) fn apply(&mut self) {
        // A limit that the host gave its own group stays until another is asked for here.
        if self.of_host && self.wall.asked().is_none() {
            return;
        }
        let of = |limit: Limit| match limit {
            Limit::Bytes(bytes) => Some(bytes.0),
            Limit::Max => None,
        };
        // Version 1 has no such file.
        let _ = self.wall.set_high(of(self.limits.high));
        let hard = of(self.limits.max);
        let is_over = |bytes: &u64| self.wall.charged().is_ok_and(|charged| charged > *bytes);
        self.wall_due = hard.filter(is_over);
        if self.wall_due.is_none() {
            let _ = self.wall.set_max(hard);
        }
        let _ = self.wall.set_swap_max(of(self.limits.swap_max));
        self.next_hold = Instant::now();
    }

    /// A hard limit that usage was above takes its place as soon as it is not.
    pub(super) fn raise_wall(&mut self) {
        let is_under = |due: &u64| self.wall.charged().is_ok_and(|charged| charged <= *due);
        if let Some(due) = self.wall_due.filter(is_under) {
            self.wall_due = self.wall.set_max(Some(due)).err().map(|_| due);
        }
    }

    /// Whether anything holds its memory down.
    pub(super) fn is_held(&self) -> bool {
        self.limits.max != Limit::Max || self.limits.high != Limit::Max
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

/// As they stand on a group: min, low, high, max, swap.max and the soft limit, in bytes.
fn print(limits: &Limits, soft: Limit) -> String {
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
    [min, low, high, max, swap_max, soft].map(word).join(" ")
}

/// What [`print()`] wrote; an earlier one wrote no soft limit.
fn parse(text: &str) -> Option<(Limits, Limit)> {
    let mut words = text.split(' ').map(|word| match word {
        "max" => Some(Limit::Max),
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
    Some((limits, soft))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_a_group_is_read_again() {
        let limits = Limits {
            min: Limit::Max,
            high: Limit::Bytes(Bytes(5 << 30)),
            ..Limits::default()
        };
        let soft = Limit::Bytes(Bytes(8192));
        assert_eq!(parse(&print(&limits, soft)), Some((limits, soft)));
        let earlier = parse("0 0 max max max");
        assert_eq!(earlier, Some((Limits::default(), Limit::Max)));
        for text in [
            "",
            "0",
            "0 0 0 0",
            "0 0 max max x",
            "-1 0 0 0 0",
            "0 0 max max max x",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
