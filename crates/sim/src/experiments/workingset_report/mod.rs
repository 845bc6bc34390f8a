//! Repeats source document 003 (docs/experiments.md), a patch series for working-set reports: which
//! ages they contain, when they are refreshed and announced, and what a policy that uses them
//! saves.
//! spec: workingset-report.md.
//!
//! Invariant: reported ages come only from the engine's generations. The exact ages come from the
//! times of the simulated touches, which the engine never sees.

mod accuracy;
mod policy;
mod timing;

use super::Settings;
use crate::outcome::Outcome;

/// Runs the experiment.
pub(super) fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let mut outcome = Outcome::default();
    accuracy::run(settings, &mut outcome);
    progress(0.2);
    timing::run(&mut outcome);
    progress(0.3);
    policy::run(settings, &mut outcome, &mut |done| {
        progress(0.3 + 0.7 * done)
    });
    outcome.notes = NOTES.iter().map(|&note| note.to_owned()).collect();
    outcome
}

const NOTES: [&str; 3] = [
    "Four generations tell ages up to about three intervals apart: what is older is in the oldest \
     generation, and reported by its birth. So the interval must be a third of the age asked for, or \
     more; the document wishes for more generations, too. Bins between two walks are filled as if uses were \
     spread evenly over the interval: these are the pages in a wrong bin at 10 s. Compatible aggregation divides \
     first, and puts small generations into the older bin.",
    "By v6.3's rules a page that a walk sees used is young, so it is reported up to one interval too old. By \
     v6.16's it counts as used when walks have seen it twice. A page that is used less often than walks come then \
     counts every second use alone: with 16 s between two uses and walks every 5 s it may be called 32 s old.",
    "The policy is the document's: every 40 s, what is labelled 10 s or older is written to \
     memory.reclaim. The programs are ours, of the document's size, not a kernel compilation and not \
     Redis: what can be compared is the sign and order of what is saved.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_keep_their_claims() {
        let outcome = run(
            &Settings {
                seed: 1,
                scale: 256,
            },
            &mut |_| {},
        );
        assert!(outcome.claims.len() >= 8);
        for claim in outcome.claims {
            assert!(claim.holds, "{claim:?}");
        }
    }
}
