//! Rules that must hold after every step of a simulated machine, checked outside the engine.
//!
//! Each rule is independent of the others. For each rule, a test plants a bug and requires that the
//! rule finds it.

use super::world::World;
use engine::FolioId;

/// A rule with its check.
pub struct Oracle {
    /// Name of the rule.
    pub name: &'static str,
    /// Checks the rule; the error says what is wrong.
    pub check: fn(&World) -> Result<(), String>,
}

/// All rules.
pub const ALL: &[Oracle] = &[
    Oracle {
        name: "the engine's own invariants",
        check: invariants,
    },
    Oracle {
        name: "a page table maps exactly what is resident",
        check: page_tables,
    },
    Oracle {
        name: "no walk can miss a page that was accessed",
        check: accessed_tables,
    },
    Oracle {
        name: "what came in is resident, was taken, or went with its tenant",
        check: conservation,
    },
    Oracle {
        name: "nobody is above memory.max without an OOM",
        check: limits,
    },
    Oracle {
        name: "who is below memory.min loses nothing to others",
        check: protection,
    },
    Oracle {
        name: "a miss is a touch, and a refault is a miss",
        check: order_of_counts,
    },
    Oracle {
        name: "what was taken from a tenant is what was taken from it and from all below it, those that went included",
        check: hierarchical,
    },
];

impl World {
    /// Checks all rules, which reads every page.
    ///
    /// # Errors
    /// The first rule that does not hold, and the reason.
    pub fn check(&self) -> Result<(), String> {
        for oracle in ALL {
            (oracle.check)(self).map_err(|why| format!("{}: {why}", oracle.name))?;
        }
        Ok(())
    }
}

fn invariants(world: &World) -> Result<(), String> {
    let check = || world.machine.check_invariants();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| "an assertion failed".to_owned())
    })
}

fn page_tables(world: &World) -> Result<(), String> {
    if world.spaces.in_engine {
        return Ok(());
    }
    for id in world.guests.iter().filter_map(|guest| guest.memcg) {
        let (folios, space) = (world.machine.lruvec(id).folios(), world.spaces.get(id));
        for page in (0u32..).take(folios.len()) {
            let (resident, mapped) = (
                folios.get(FolioId(page)).is_present(),
                space.is_some_and(|space| space.is_present(FolioId(page))),
            );
            if resident != mapped {
                return Err(format!(
                    "{id:?} page {page}: resident {resident}, mapped {mapped}"
                ));
            }
        }
    }
    Ok(())
}

fn accessed_tables(world: &World) -> Result<(), String> {
    for id in world.guests.iter().filter_map(|guest| guest.memcg) {
        let space = world.spaces.get(id).ok_or("a tenant without a space")?;
        space.check().map_err(|why| format!("{id:?} {why}"))?;
    }
    Ok(())
}

fn conservation(world: &World) -> Result<(), String> {
    for (n, guest) in world.guests.iter().enumerate() {
        let counts = guest.counts;
        let gone = counts.resident + counts.pgsteal + counts.unmapped;
        if counts.came != gone {
            return Err(format!(
                "tenant {n}: {} came, {gone} are accounted for",
                counts.came
            ));
        }
    }
    Ok(())
}

fn limits(world: &World) -> Result<(), String> {
    for (n, guest) in world.guests.iter().enumerate() {
        let Some(id) = guest.memcg else { continue };
        let memcg = world.machine.tree().get(id);
        if memcg.usage() > memcg.limits().max.pages() && guest.counts.ooms == 0 {
            return Err(format!("tenant {n}: {:?} over its max", memcg.over_max()));
        }
    }
    Ok(())
}

/// Checks that nothing is reclaimed from a tenant whose memory.min covers all its pages. The check
/// is made only for tenants without parent and children, and only if the file requests no reclaim
/// from tenants.
fn protection(world: &World) -> Result<(), String> {
    for (n, guest) in world.guests.iter().enumerate() {
        let tenant = world.file.tenant[guest.group].get_ref();
        let min = tenant.memory_min.map_or(0, super::values::Size::pages);
        let max = tenant
            .memory_max
            .map_or(u64::MAX, super::values::Size::pages);
        let own = |r: &toml::Spanned<super::file::Reclaim>| r.get_ref().tenant.is_some();
        let requested = world.file.reclaim.iter().any(own);
        if guest.parent.is_some() || world.tree.has_children(guest.group) {
            continue;
        }
        let counts = guest.counts;
        if !requested && counts.came <= min && counts.came < max && counts.pgsteal > 0 {
            return Err(format!(
                "tenant {n}: {} pages taken below min",
                counts.pgsteal
            ));
        }
    }
    Ok(())
}

fn order_of_counts(world: &World) -> Result<(), String> {
    for (n, guest) in world.guests.iter().enumerate() {
        let counts = guest.counts;
        if counts.misses > counts.touches || counts.refaults > counts.misses {
            return Err(format!("tenant {n}: {counts:?}"));
        }
    }
    Ok(())
}

fn hierarchical(world: &World) -> Result<(), String> {
    let mut taken: Vec<u64> = world.guests.iter().map(|g| g.counts.pgsteal).collect();
    for n in (0..taken.len()).rev() {
        let guest = &world.guests[n];
        if let Some(parent) = guest.parent {
            taken[parent] += taken[n];
        }
        if guest.memcg.is_some() && guest.pgsteal != taken[n] {
            return Err(format!(
                "tenant {n}: memory.stat says {}, {} were taken",
                guest.pgsteal, taken[n]
            ));
        }
    }
    Ok(())
}

/// Bugs that a test plants, one for each rule of [`ALL`], in the same order.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Pages are unmapped without updating the counters of the tree.
    SkipsUncharge,
    /// Page-out does not unmap the page.
    ForgetsToUnmap,
    /// A touch sets the accessed bit of the page, but not that of its table.
    HidesATable,
    /// A page that comes in is counted twice.
    CountsTwice,
    /// A charge ignores memory.max.
    IgnoresMax,
    /// Reclaim takes from a protected tenant.
    IgnoresMin,
    /// A refault is counted that did not happen.
    InventsRefaults,
    /// A parent counts one page more than its children have.
    MiscountsTheTree,
}

#[cfg(test)]
impl Bug {
    pub(super) const ALL: [Self; 8] = [
        Self::SkipsUncharge,
        Self::ForgetsToUnmap,
        Self::HidesATable,
        Self::CountsTwice,
        Self::IgnoresMax,
        Self::IgnoresMin,
        Self::InventsRefaults,
        Self::MiscountsTheTree,
    ];
}

/// Plants those bugs that change the machine once. The other bugs are in the code that checks
/// `World::bug`.
#[cfg(test)]
pub(super) fn plant(world: &mut World) {
    use engine::Pages;
    let Some(id) = world.guests.first().and_then(|guest| guest.memcg) else {
        return;
    };
    match world.bug {
        Some(Bug::SkipsUncharge) => {
            world.machine.lruvec_mut(id).unmap_range(FolioId(0), 3);
        }
        Some(Bug::ForgetsToUnmap) => world.spaces.forgets_to_unmap = true,
        Some(Bug::HidesATable) => world.spaces.of(id).hide(),
        Some(Bug::IgnoresMin) => {
            let request = engine::machine::ReclaimRequest::new(
                engine::ScanReason::Direct,
                Pages(32),
                engine::Millis(world.now),
            );
            world
                .machine
                .reclaim_subtree(id, request, &mut world.spaces);
        }
        Some(Bug::InventsRefaults) => {
            let counts = &mut world.guests[0].counts;
            counts.refaults = counts.misses + 1;
        }
        Some(Bug::CountsTwice | Bug::IgnoresMax | Bug::MiscountsTheTree) | None => {}
    }
}
