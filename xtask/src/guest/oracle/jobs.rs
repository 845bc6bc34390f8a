//! The runs that the simulator makes after a guest has run, and which of its figures belong to
//! which of the guest's.

use touches::figures::{Figures, Key};

/// Tenant name in the figures of all tenants together.
pub(super) const ALL: &str = "all";
/// Name of the figure with the pages that the kernel has charged for itself.
const KERNEL: &str = "kernel";

/// The figures of one tenant in one run: the guest's and the simulator's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub(super) guest: Figures,
    pub(super) simulated: Figures,
}

/// Returns a line for each run of the guest: its key and its lists, without the counts to compare.
pub(super) fn of(guest: &[Figures]) -> Result<Vec<String>, String> {
    let runs = guest.iter().filter(|figures| figures.key.tenant == ALL);
    runs.map(|figures| {
        let kernel = figures.counts.get_key_value(KERNEL);
        let (name, kernel) = kernel.ok_or("the guest did not tell its own pages")?;
        let reported = Figures {
            counts: [(name.clone(), *kernel)].into(),
            ..figures.clone()
        };
        Ok(reported.to_string())
    })
    .collect()
}

/// Returns the guest's figures, each with the simulator's, which come in the order of the jobs.
///
/// # Errors
/// If a run is missing, or if the two runs did not make the same accesses.
pub(super) fn pair(guest: &[Figures], simulated: Vec<Figures>) -> Result<Vec<Pair>, String> {
    if guest.len() != simulated.len() {
        return Err(format!(
            "{} figures from the guest, {} from the simulator",
            guest.len(),
            simulated.len()
        ));
    }
    let mut pairs = Vec::new();
    for (guest, simulated) in guest.iter().zip(simulated) {
        let same = Key {
            burst: 0,
            ..guest.key.clone()
        };
        if same != simulated.key {
            return Err(format!("{:?} beside {:?}", guest.key, simulated.key));
        }
        if guest.counts.get("checksum") != simulated.counts.get("checksum") {
            return Err(format!(
                "{:?}: not the same touches on both sides",
                guest.key
            ));
        }
        pairs.push(Pair {
            guest: guest.clone(),
            simulated,
        });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(line: &str) -> Figures {
        Figures::parse(line).unwrap()
    }

    #[test]
    fn a_job_for_each_run() {
        let guest = [
            figures("figures loop classic 2 64 one kernel=3 checksum=7"),
            figures("figures loop classic 2 64 all kernel=9 pgscan=3 flushes:7"),
        ];
        let job = "figures loop classic 2 64 all kernel=9 flushes:7";
        assert_eq!(of(&guest), Ok(vec![job.to_owned()]));
    }

    #[test]
    fn runs_that_are_not_the_same_are_not_compared() {
        let guest = figures("figures loop classic 2 64 one checksum=7 pgscan=1");
        let beside = |line: &str| pair(std::slice::from_ref(&guest), vec![figures(line)]);
        assert!(beside("figures loop classic 2 0 one checksum=7 pgscan=2").is_ok());
        assert!(beside("figures loop classic 2 0 one checksum=8").is_err());
        assert!(beside("figures loop classic 3 0 one checksum=7").is_err());
        assert!(pair(&[guest], vec![]).is_err());
    }
}
