//! pagetide is killed a few times in each of the ways of `e2e::kills`. `cargo xtask bench kill`
//! makes 200 kills and measures the speed of the programs.
#![forbid(unsafe_code)]

use e2e::kills::{KILLS, run_trial, trial};
use e2e::temp::serial;
use e2e::wait::Chance;
use e2e::zram::Swap;

/// Number of runs with each kind of kill.
const TIMES: usize = 2;

#[test]
fn a_program_does_not_notice_that_its_manager_is_killed() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut chance = Chance::from_env("kill");
    for number in 0..TIMES * KILLS.len() {
        let (kill, program) = trial(number);
        if let Err(why) = run_trial(kill, program, &mut chance) {
            panic!("{kill:?}, {program:?}, number {number}: {why}");
        }
    }
}
