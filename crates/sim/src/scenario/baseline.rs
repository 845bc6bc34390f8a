//! Tenants under a baseline policy of the literature: each has a list of its own pages, with space
//! for its memory-max. The simulated machine is not used, so a file with keys for the machine is
//! refused.
//!
//! Invariant: each page that came in is on the list or was evicted, until its tenant departs.

use super::file::{AccessedBits, File, MemcgLruName, PolicyName, Tenant};
use crate::mrc::{Cache, CurvePolicy};
use engine::FolioId;

/// The memory of one tenant.
pub struct BaselineMemory {
    cache: Box<dyn Cache>,
    /// For each page, whether it was ever touched.
    seen: Vec<bool>,
}

/// The result of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The page was in memory.
    Hit,
    /// The page came in for the first time.
    First,
    /// The page refaulted.
    Again,
}

impl BaselineMemory {
    /// Makes the memory of `tenant`; `None` if its policy is one of the engine's, or it has no
    /// limit.
    #[must_use]
    pub fn new(policy: PolicyName, tenant: &Tenant) -> Option<Self> {
        let size = tenant.memory_max?.pages();
        Some(Self {
            cache: curve_policy(policy)?.memory(size, 1)?,
            seen: Vec::new(),
        })
    }

    /// Touches a page, which is in memory afterwards.
    pub fn touch(&mut self, folio: FolioId) -> Touch {
        let at = folio.index();
        if at >= self.seen.len() {
            self.seen.resize((at + 1).next_power_of_two(), false);
        }
        if self.cache.access(folio.0) {
            Touch::Hit
        } else if std::mem::replace(&mut self.seen[at], true) {
            Touch::Again
        } else {
            Touch::First
        }
    }

    /// Returns the number of pages in memory.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.cache.held()
    }
}

/// Returns the policy of `mrc` with this name; `None` for the engine's policies.
pub(super) const fn curve_policy(name: PolicyName) -> Option<CurvePolicy> {
    match name {
        PolicyName::Lru => Some(CurvePolicy::Lru),
        PolicyName::Clock => Some(CurvePolicy::Clock),
        PolicyName::Arc => Some(CurvePolicy::Arc),
        PolicyName::S3Fifo => Some(CurvePolicy::S3Fifo),
        PolicyName::Sieve => Some(CurvePolicy::Sieve),
        PolicyName::Lirs => Some(CurvePolicy::Lirs),
        PolicyName::WTinyLfu => Some(CurvePolicy::WTinyLfu),
        PolicyName::MultiGen
        | PolicyName::MultiGen63
        | PolicyName::ActiveInactive
        | PolicyName::ActiveInactiveProtection
        | PolicyName::ActiveInactiveBase => None,
    }
}

/// Finds a key in the file that a baseline policy does not support. Returns the byte where it is,
/// if known, and a message; `None` if there is no such key.
pub(super) fn complaint(file: &File) -> Option<(Option<usize>, String)> {
    let policy = curve_policy(file.run.policy)?.name();
    let run = &file.run;
    let of_machine = [
        ("memory", run.memory.is_some()),
        ("swap", run.swap.is_some()),
        ("memcg-lru", run.memcg_lru != MemcgLruName::Newer),
        ("age-every", run.age_every.is_some()),
        ("bound-shadows", run.bound_shadows),
        ("reclaimers", run.reclaimers != 1),
        ("accessed-bits", run.accessed_bits != AccessedBits::Engine),
        ("[[reclaim]]", !file.reclaim.is_empty()),
    ];
    if let Some((key, _)) = of_machine.iter().find(|(_, is_set)| *is_set) {
        let what = format!("run: policy `{policy}` is a list of pages and knows no {key}");
        return Some((None, what));
    }
    for spanned in &file.tenant {
        let (at, tenant) = (Some(spanned.span().start), spanned.get_ref());
        if tenant.memory_max.is_none() {
            let what = format!("tenant `{}` has no memory-max for `{policy}`", tenant.name);
            return Some((at, what));
        }
        let of_memcg = [
            ("parent", tenant.parent.is_some()),
            ("memory-high", tenant.memory_high.is_some()),
            ("memory-low", tenant.memory_low.is_some()),
            ("memory-min", tenant.memory_min.is_some()),
            ("soft-limit", tenant.soft_limit.is_some()),
            ("swap-max", tenant.swap_max.is_some()),
            ("swap-high", tenant.swap_high.is_some()),
            ("swappiness", tenant.swappiness.is_some()),
            ("balloon", tenant.balloon_older_than.is_some()),
        ];
        if let Some((key, _)) = of_memcg.iter().find(|(_, is_set)| *is_set) {
            let name = &tenant.name;
            let what = format!("tenant `{name}`: policy `{policy}` knows no {key}");
            return Some((at, what));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;
    use crate::scenario::world::World;

    const NAMES: [&str; 7] = [
        "lru",
        "clock",
        "arc",
        "s3-fifo",
        "sieve",
        "lirs",
        "w-tiny-lfu",
    ];
    const TWO: &str = r#"
[run]
duration = "4s"
[[tenant]]
name = "zipf"
memory-max = "1M"
work = [{ pattern = "zipf", exponent = 0.9, size = "4M", rate = 9000 }]
[[tenant]]
name = "guest"
memory-max = "2M"
arrive = "1s"
depart = "3s"
work = [{ pattern = "loop", size = "3M", rate = 3000 }]
"#;

    #[test]
    fn each_tenant_has_a_list_of_its_own() {
        for name in NAMES {
            let set = [format!("run.policy={name}")];
            let plans = parse("two.toml", TWO, &set).expect("a good file");
            let mut world = World::new(&plans.runs[0]);
            while !world.is_over() {
                world.step();
                for (guest, most) in world.guests.iter().zip([256, 512]) {
                    let counts = guest.counts;
                    assert!(counts.resident <= most, "{name}: {counts:?}");
                    let gone = counts.pgsteal + counts.unmapped;
                    assert_eq!(counts.came, counts.resident + gone, "{name}: {counts:?}");
                }
            }
            let [zipf, guest] = &world.guests[..] else {
                panic!("two tenants");
            };
            assert!(zipf.counts.misses < zipf.counts.touches / 2, "{name}");
            assert!(zipf.counts.refaults > 0, "{name}");
            assert_eq!(guest.counts.resident, 0, "{name}: it has gone");
        }
    }

    #[test]
    fn settings_that_a_baseline_policy_lacks_are_refused() {
        let work = "work = [{ pattern = \"loop\", size = \"1M\", rate = 1 }]";
        let tenant = |limits: &str| format!("[[tenant]]\nname = \"x\"\n{limits}\n{work}");
        for (more, reported) in [
            (
                "[[reclaim]]\nsize = \"1M\"".to_owned(),
                "knows no [[reclaim]]",
            ),
            (tenant(""), "has no memory-max"),
            (
                tenant("memory-max = \"1M\"\nmemory-low = \"1M\""),
                "knows no memory-low",
            ),
        ] {
            let text = format!("{TWO}{more}\n");
            let error = parse("two.toml", &text, &["run.policy=arc".to_owned()]);
            let error = error.expect_err(reported).to_string();
            assert!(error.contains(reported) && error.contains("arc"), "{error}");
        }
        let set = ["run.policy=sieve", "run.memory=1G"].map(str::to_owned);
        let error = parse("two.toml", TWO, &set).expect_err("a machine");
        assert!(error.what.contains("knows no memory"), "{}", error.what);
    }
}
