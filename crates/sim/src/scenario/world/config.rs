//! Converts the values of an experiment file, for the machine and for a tenant, to the engine's
//! types.

use crate::rng::Rng;
use crate::scenario::file::{
    File, Global, MemcgLruName, PolicyName, ReclaimName, ScanReductionName, Tenant,
};
use crate::scenario::hierarchy::Hierarchy;
use crate::scenario::values::Size;
use engine::active_inactive::Stage;
use engine::lru_gen::Profile;
use engine::machine::GlobalReclaim;
use engine::memcg::{MemcgLimits, MemcgProfile};
use engine::vmscan::ScanReduction;
use engine::{Aging, MachineConfig, Pages, Policy};

pub(super) fn machine(file: &File, tree: &Hierarchy) -> MachineConfig {
    let tenants = file.tenant.iter().enumerate();
    let pages: u64 = tenants
        .map(|(n, tenant)| pages_of(tenant.get_ref()) * tree.instances(n))
        .sum();
    let memory = file.run.memory.map_or(pages, Size::pages);
    let base = match file.run.reclaim {
        ReclaimName::Kernel => MachineConfig::default(),
        ReclaimName::Host => MachineConfig::of_host(),
    };
    MachineConfig {
        policy: policy(file.run.policy, Pages(memory)),
        aging: match file.run.age_every {
            Some(_) => Aging::ByScans,
            None => Aging::ByReclaim,
        },
        global: match file.run.global() {
            Global::MemcgLru => GlobalReclaim::MemcgLru,
            Global::Iterator => GlobalReclaim::Iterator,
            Global::HeatLevel => GlobalReclaim::HeatLevel,
        },
        memcg_profile: match file.run.memcg_lru {
            MemcgLruName::Seed => MemcgProfile::Seed,
            MemcgLruName::Newer => MemcgProfile::Newer,
        },
        seed: Rng::stream(file.run.seed, 0).next_u64(),
        swap: Size::limit(file.run.swap),
        bound_shadows: file.run.bound_shadows,
        vain_passes: file.run.vain_passes || file.run.reclaim == ReclaimName::Host,
        scan_reduction: match file.run.scan_reduction {
            ScanReductionName::EachTurn => ScanReduction::EachTurn,
            ScanReductionName::Once => ScanReduction::Once,
        },
        ..base
    }
}

pub(super) fn limits(tenant: &Tenant) -> MemcgLimits {
    let pages = |size: Option<Size>| Pages(size.map_or(0, |s| s.pages()));
    MemcgLimits {
        min: pages(tenant.memory_min),
        low: pages(tenant.memory_low),
        high: Size::limit(tenant.memory_high),
        max: Size::limit(tenant.memory_max),
        soft: Size::limit(tenant.soft_limit),
        swap_max: Size::limit(tenant.swap_max),
        swap_high: Size::limit(tenant.swap_high),
    }
}

fn pages_of(tenant: &Tenant) -> u64 {
    tenant.work.iter().map(|w| w.get_ref().pages()).sum()
}

const fn policy(name: PolicyName, memory: Pages) -> Policy {
    match name {
        PolicyName::MultiGen63 => Policy::MultiGen(Profile::P63),
        PolicyName::ActiveInactive => Policy::ActiveInactive(Stage::Detection, memory),
        PolicyName::ActiveInactiveProtection => Policy::ActiveInactive(Stage::Protection, memory),
        PolicyName::ActiveInactiveBase => Policy::ActiveInactive(Stage::Base, memory),
        // Under a baseline policy the machine has no pages, so its policy does not matter.
        PolicyName::MultiGen
        | PolicyName::Lru
        | PolicyName::Clock
        | PolicyName::Arc
        | PolicyName::S3Fifo
        | PolicyName::Sieve
        | PolicyName::Lirs
        | PolicyName::WTinyLfu => Policy::MultiGen(Profile::P616),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn config(run: &str) -> MachineConfig {
        let text = format!(
            "[run]\n{run}\n[[tenant]]\nname = \"a\"\n\
             work = [{{ pattern = \"loop\", size = \"1M\", rate = 1 }}]"
        );
        let plans = parse("test.toml", &text, &[]).expect("a good file");
        let file = &plans.runs[0].file;
        machine(file, &Hierarchy::new(file).unwrap_or_default())
    }

    /// Regression: a run with 100,000 tenants of one page did not finish, because reclaim made
    /// passes also at priorities at which no page can be evicted.
    #[test]
    fn passes_in_vain_are_made_if_configured() {
        assert!(!config("").vain_passes && config("vain-passes = true").vain_passes);
    }

    #[test]
    fn a_file_says_how_scans_are_reduced() {
        let reduction = |run| config(run).scan_reduction;
        assert_eq!(reduction(""), ScanReduction::EachTurn);
        assert_eq!(reduction("scan-reduction = \"once\""), ScanReduction::Once);
    }
}
