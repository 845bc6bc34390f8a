//! Canaries: each test corrupts one count of a machine, which its check must find.

use super::*;
use crate::lruvec::canaries::healthy;

#[test]
#[should_panic(expected = "usage of")]
fn a_charge_without_a_page() {
    let mut machine = healthy();
    machine.tree.charge_forced(MemcgId::FIRST, Pages(1));
    machine.check_invariants();
}

#[test]
#[should_panic(expected = "swap usage of")]
fn a_swap_charge_without_a_page() {
    let mut machine = healthy();
    machine.tree.charge_swap(MemcgId::FIRST, Pages(1));
    machine.check_invariants();
}
