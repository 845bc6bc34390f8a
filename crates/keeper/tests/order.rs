//! Sets of events of several threads, read in any order that the kernel may tell them in, applied by
//! the keeper's own code over a model kernel, with a death at any step and the program going on
//! meanwhile.
//!
//! Must hold whenever nothing is queued, in doubt or outstanding: what the keeper knows of each place
//! is what the kernel has there. A page that is out is named where it is now, and nothing is named
//! anywhere else; what is taken for registered is; a child knows what its parent had when it was
//! forked, of places that nobody was at. Then mistakes are made, one at a time: each must be found.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a few places, threads and messages"
)]

#[path = "order/every.rs"]
mod every;
#[path = "order/keeper.rs"]
mod keeper_model;
#[path = "order/kernel.rs"]
mod kernel;
#[path = "order/room.rs"]
mod room;
#[path = "order/run.rs"]
mod run;
#[path = "order/stories.rs"]
mod stories;

/// Places, of one page each.
const PAGES: usize = 6;
/// The middle one begins a chunk: doubts are settled chunk by chunk.
const BASE: u64 = keeper::layout::CHUNK * 9 - 3 * 4096;

/// First and last address of some places.
const fn range(page: usize, len: usize) -> (u64, u64) {
    let start = BASE + page as u64 * 4096;
    (start, start + len as u64 * 4096)
}

const fn page_at(addr: u64) -> usize {
    ((addr - BASE) / 4096) as usize
}

mod random {
    use super::keeper_model::Bug;
    use super::run::{Raw, World, run};
    use proptest::prelude::*;

    fn steps(most: usize) -> impl Strategy<Value = Vec<Raw>> {
        prop::collection::vec(
            (0u8..24, 0u8..4, 0u8..6, 0u8..6, 0u8..2, 0u8..48).prop_map(|s| s.into()),
            1..most,
        )
    }

    fn config(cases: u32) -> ProptestConfig {
        ProptestConfig {
            failure_persistence: None,
            max_shrink_iters: 20_000,
            ..ProptestConfig::with_cases(cases)
        }
    }

    fn find(cases: u32, world: World, bug: Option<Bug>) -> Result<(), String> {
        let mut runner = proptest::test_runner::TestRunner::new(config(cases));
        runner
            .run(
                &(prop::array::uniform6(0u8..5), steps(24)),
                |(at, steps)| run(at, &steps, world, bug).map_err(TestCaseError::fail),
            )
            .map_err(|e| match e {
                proptest::test_runner::TestError::Fail(why, (at, _)) => {
                    format!("{why}\nfrom {at:?}")
                }
                e => e.to_string(),
            })
    }

    #[test]
    fn any_program() {
        if let Err(wrong) = find(600_000, World::default(), None) {
            panic!("{wrong}");
        }
    }

    #[test]
    fn every_mistake_is_found() {
        for bug in [
            Bug::AppliesParts,
            Bug::ReadingOrder,
            Bug::NotesTwice,
            Bug::IgnoresDoubts,
            Bug::ForgetsLate,
            Bug::StartsEmpty,
        ] {
            match find(3_000_000, World::default(), Some(bug)) {
                Ok(()) => panic!("{bug:?} is not found"),
                Err(wrong) => eprintln!("{bug:?}: {wrong}\n"),
            }
        }
    }

    /// Why a program is taken to keep from what the kernel would have to be very slow for: it finds
    /// what `docs/known-gaps.md` tells of.
    #[test]
    fn what_is_read_does_not_tell_everything() {
        let impatient = World {
            impatient: true,
            ..World::default()
        };
        assert!(find(3_000_000, impatient, None).is_err());
    }
}
