//! Programs that start other programs: a few starts of each kind under `run`. `cargo xtask bench
//! starts` makes 200 starts of each kind.
#![forbid(unsafe_code)]

use e2e::notice::each;
use e2e::starts::{KINDS, alone, managed};
use e2e::temp::serial;
use e2e::zram::Swap;

/// Number of starts of each kind.
const STARTS: u32 = 3;

#[test]
fn programs_that_start_programs_have_the_same_result() {
    let _serial = serial();
    let _swap = Swap::shared();
    // The kinds run in parallel, because a start consists mostly of waiting.
    each(&KINDS.map(|(name, _)| name), |kind| {
        let (name, command) = KINDS
            .iter()
            .find(|(name, _)| *name == kind)
            .expect("a kind");
        let own = alone(command).expect("it runs alone");
        for number in 0..STARTS {
            if let Err(why) = managed(command, &own) {
                panic!("{name}, start {number}: {why}");
            }
        }
    });
}
