//! Repeats, with the engine, the touches that a real kernel gets in a guest (`cargo xtask guest
//! oracle`), and counts the results under the same names. docs/fidelity.md has the comparison.

mod clock;
pub mod compare;
mod guest_facts;

mod world;

pub use guest_facts::GuestFacts;

use ::engine::active_inactive::Stage;
use ::engine::lru_gen::Profile;
use ::engine::vmstat::VmEvent;
use ::engine::{FolioType, Pages, Policy};
use std::collections::BTreeMap;
use touches::cases;
use touches::figures::{Figures, Key};
use world::World;

/// Tenant name in the figures of all tenants together.
const ALL: &str = "all";
/// Number of pages of the guest's memory. It limits the clock of the classic LRU, to a value far
/// above those in these runs.
const MACHINE: Pages = Pages(1 << 18);

/// Events that the kernel and the simulator count, in pages.
const EVENTS: [VmEvent; 7] = [
    VmEvent::WorkingsetRefaultAnon,
    VmEvent::WorkingsetActivateAnon,
    VmEvent::WorkingsetRestoreAnon,
    VmEvent::Pgrefill,
    VmEvent::Pgactivate,
    VmEvent::Pgdeactivate,
    VmEvent::Pgmajfault,
];

/// Returns the policy of this name. A name without a version means the policy of the guest's Linux
/// 6.12.
fn policy(name: &str) -> Option<Policy> {
    match name {
        "multi-gen" => Some(Policy::MultiGen(Profile::P612)),
        "multi-gen-6.3" => Some(Policy::MultiGen(Profile::P63)),
        "multi-gen-6.16" => Some(Policy::MultiGen(Profile::P616)),
        "classic" => Some(Policy::ActiveInactive(Stage::Detection, MACHINE)),
        _ => None,
    }
}

/// Runs the case of this name, with the guest's facts `reported`. Returns the counts of each
/// tenant, then those of all tenants together.
///
/// # Errors
/// If the case or the policy is unknown, or if a limit cannot be kept.
pub fn run(
    case: &str,
    policy_name: &str,
    seed: u64,
    reported: &GuestFacts,
) -> Result<Vec<Figures>, String> {
    let case = cases::find(case).ok_or_else(|| format!("there is no case {case}"))?;
    let policy = policy(policy_name).ok_or_else(|| format!("there is no policy {policy_name}"))?;
    let mut world = World::new(case, policy, seed, reported);
    if let Err(oom) = world.run() {
        return Err(format!("no room in burst {}: {oom:?}", world.bursts()));
    }
    let key = |tenant: &str| Key {
        case: case.name.to_owned(),
        policy: policy_name.to_owned(),
        seed,
        burst: 0,
        tenant: tenant.to_owned(),
    };
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let mut figures = Vec::new();
    for tenant in 0..case.tenants.len() {
        let mut counts = counts(&world, tenant);
        for (name, count) in &counts {
            *all.entry(name.clone()).or_default() += count;
        }
        for name in ["pswpin", "pswpout"] {
            counts.remove(name);
        }
        counts.insert("checksum".to_owned(), world.checksum(tenant));
        if let Some(lru) = world.lruvec(tenant).multi_gen() {
            counts.insert("max_seq".to_owned(), lru.max_seq());
            counts.insert("min_seq".to_owned(), lru.min_seq(FolioType::Anon));
        }
        let key = key(case.tenant_name(tenant));
        figures.push(Figures {
            key,
            counts,
            lists: BTreeMap::new(),
        });
    }
    let key = key(ALL);
    figures.push(Figures {
        key,
        counts: all,
        lists: BTreeMap::new(),
    });
    Ok(figures)
}

/// Returns the counts of a tenant. Swap is counted only for all tenants together, as in the guest.
fn counts(world: &World<'_>, tenant: usize) -> BTreeMap<String, u64> {
    let lruvec = world.lruvec(tenant);
    let stat = lruvec.stat();
    let (active, inactive) = lruvec.active_inactive(FolioType::Anon);
    let events = EVENTS.map(|event| (event.name(), stat.get(event)));
    let others = [
        ("pgscan", stat.pgscan()),
        ("pgsteal", stat.pgsteal()),
        ("pswpin", stat.get(VmEvent::Pswpin)),
        ("pswpout", stat.get(VmEvent::Pswpout)),
        ("anon", lruvec.resident().0),
        ("active_anon", active.0),
        ("inactive_anon", inactive.0),
    ];
    let named = events.into_iter().chain(others);
    named
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

#[cfg(test)]
mod tests;
