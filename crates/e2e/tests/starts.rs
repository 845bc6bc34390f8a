//! Programs that wrap programs, a few starts of each kind; `cargo xtask bench starts` does 200.
#![forbid(unsafe_code)]

use e2e::notice::each;
use e2e::starts::{KINDS, alone, managed};
use e2e::temp::serial;
use e2e::zram::Swap;

const STARTS: u32 = 3;

#[test]
fn wrappers_give_their_own_answer_and_stand_in_the_report() {
    let _serial = serial();
    let _swap = Swap::shared();
    // Side by side: most of a start is waiting.
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
