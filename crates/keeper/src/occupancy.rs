//! What is at one page once a queue of events is applied, worked out without applying it.
//!
//! Events are read in another order than they happened only where the kernel reuses an address: a
//! move to a place may be read before what was there has said that it left. So a move to a place
//! that is taken owes a departure, and the next departure that is read is that one.
//!
//! Invariant: a page is called new only if no bytes are known of it. That a new page is not called
//! new costs time, never bytes.

use uffd::abi::{UffdMsg, event};

/// One page while the queue is gone through in the order in which it was read.
#[derive(Clone, Copy, Debug)]
pub struct Occupancy {
    /// Something is there that was registered.
    taken: bool,
    /// What is there never had bytes.
    new: bool,
    /// Departures to be read that happened before what came last.
    owed: u32,
    /// Moves away whose own unmapping of the place is still to come.
    own_unmaps: u32,
}

impl Occupancy {
    /// Before any event: whether something registered is there, and whether it has no bytes
    /// elsewhere.
    #[must_use]
    pub const fn before(taken: bool, new: bool) -> Occupancy {
        Occupancy {
            taken,
            new,
            owed: 0,
            own_unmaps: 0,
        }
    }

    /// Whether what is at the page has no bytes anywhere.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.new
    }

    /// Goes on to the next event; whether something came to `addr` by it.
    pub fn apply(&mut self, m: &UffdMsg, addr: u64) -> bool {
        let within = |start: u64, end: u64| addr >= start && addr < end;
        match m.event {
            event::REMAP => {
                if within(m.arg0, m.arg0 + m.arg2) {
                    self.left();
                    self.own_unmaps += 1;
                }
                let came = within(m.arg1, m.arg1 + m.arg2);
                if came {
                    self.owed += u32::from(self.taken);
                    (self.taken, self.new) = (true, false);
                }
                return came;
            }
            event::UNMAP if within(m.arg0, m.arg1) && self.own_unmaps > 0 => self.own_unmaps -= 1,
            event::UNMAP if within(m.arg0, m.arg1) => self.left(),
            _ => {}
        }
        false
    }

    fn left(&mut self) {
        if self.owed > 0 {
            self.owed -= 1;
        } else {
            (self.taken, self.new) = (false, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: u64 = 0x10000;

    fn moved(from: u64, to: u64) -> UffdMsg {
        UffdMsg {
            event: event::REMAP,
            arg0: from,
            arg1: to,
            arg2: 0x1000,
            ..UffdMsg::default()
        }
    }

    fn unmapped(at: u64) -> UffdMsg {
        UffdMsg {
            event: event::UNMAP,
            arg0: at,
            arg1: at + 0x1000,
            ..UffdMsg::default()
        }
    }

    fn is_new(taken: bool, events: &[UffdMsg]) -> bool {
        let mut place = Occupancy::before(taken, !taken);
        for m in events {
            place.apply(m, X);
        }
        place.is_new()
    }

    /// Locked memory grew to where other memory had come and gone in the same set. The growth
    /// waited for its page, nobody announced anything before that page came, and the page was not
    /// filled because something had once moved there: a hang of the whole program.
    #[test]
    fn a_place_that_was_left_again_is_new() {
        let (a, b) = (0x20000, 0x30000);
        let events = [moved(a, X), unmapped(a), moved(X, b), unmapped(X)];
        assert!(is_new(false, &events));
        assert!(!is_new(false, &events[..2]));
    }

    #[test]
    fn a_place_taken_before_its_owner_says_that_it_left_is_not_new() {
        let (a, b) = (0x20000, 0x30000);
        assert!(!is_new(
            true,
            &[moved(a, X), moved(X, b), unmapped(a), unmapped(X)]
        ));
        assert!(!is_new(true, &[moved(X, b), moved(a, X), unmapped(X)]));
        assert!(!is_new(true, &[moved(a, X), unmapped(X)]));
        assert!(is_new(true, &[unmapped(X)]));
        assert!(!is_new(true, &[]));
    }

    /// A program of a few threads over a few places of one page each: calls happen in one order,
    /// and each thread announces its events later, in order, before its next call.
    struct Kernel {
        /// Who is at each place: 0 for nobody, and a new page has number 1.
        at: [u32; 4],
        announce: [Vec<UffdMsg>; 3],
        next: u32,
    }

    impl Kernel {
        fn call(&mut self, thread: usize, from: usize, to: usize) {
            let place = |i: usize| X + i as u64 * 0x1000;
            if self.at[from] == 0 || from == to {
                return;
            }
            let said = &mut self.announce[thread];
            if self.next.is_multiple_of(3) {
                self.at[from] = 0;
                said.push(unmapped(place(from)));
            } else {
                if self.at[to] != 0 {
                    said.push(unmapped(place(to)));
                }
                (self.at[to], self.at[from]) = (self.at[from], 0);
                said.push(moved(place(from), place(to)));
                said.push(unmapped(place(from)));
            }
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(20_000))]
        #[test]
        fn nothing_with_bytes_is_called_new(
            steps in proptest::collection::vec((0usize..3, 0usize..4, 0usize..4, 0u32..6), 1..16),
            taken in 0u32..16,
        ) {
            let mut k = Kernel { at: [0; 4], announce: Default::default(), next: 0 };
            for (i, at) in (0u32..).zip(k.at.iter_mut()) {
                *at = if taken >> i & 1 == 1 { 2 + i } else { 0 };
            }
            let before = k.at;
            let mut read = Vec::new();
            for (thread, from, to, what) in steps {
                if what < 2 && !k.announce[thread].is_empty() {
                    read.push(k.announce[thread].remove(0));
                } else if k.announce[thread].is_empty() {
                    k.next = what;
                    k.call(thread, from, to);
                }
            }
            for (i, owner) in before.iter().enumerate() {
                let addr = X + i as u64 * 0x1000;
                let known = *owner != 0;
                let mut place = Occupancy::before(known, !known);
                for m in &read {
                    place.apply(m, addr);
                }
                let unsaid = k.announce.iter().flatten().any(|m| {
                    let end = if m.event == event::UNMAP { m.arg1 } else { m.arg0 + 0x1000 };
                    (m.arg0..end).contains(&addr) || m.event == event::REMAP && m.arg1 == addr
                });
                if !unsaid {
                    let holds = k.at[i] != 0;
                    proptest::prop_assert!(!(place.is_new() && holds), "place {i}: {read:x?}");
                }
            }
        }
    }
}
