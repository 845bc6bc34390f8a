//! Every program of three calls of three threads over four places, read in every order.

use super::kernel::{Call, Kernel};
use super::run::{World, ended, start};

const PLACES: usize = 4;
const CALLS: usize = 3;

/// What a thread can do in such a small world.
fn calls() -> Vec<Call> {
    let mut all = Vec::new();
    for at in 0..PLACES {
        all.extend([Call::Map(at), Call::Unmap(at), Call::Remove(at)]);
        for to in (0..PLACES).filter(|to| *to != at) {
            for stays in [false, true] {
                all.extend([Call::Move(at, to, stays), Call::MoveOver(at, to, stays)]);
            }
        }
    }
    all
}

struct Search {
    from: [u8; super::PAGES],
    calls: Vec<Call>,
    sets: u64,
}

impl Search {
    /// Goes on with each call and each reading that are possible.
    fn go(&mut self, kernel: &Kernel, made: &mut Vec<(usize, Option<Call>)>, left: usize) {
        let mut new = false;
        for thread in 0..CALLS {
            if kernel.busy(thread) {
                let mut next = kernel.clone();
                next.read(thread);
                made.push((thread, None));
                self.go(&next, made, left);
                made.pop();
            } else if left > 0 && !new {
                // Threads that are in no call are all the same.
                new = true;
                for i in 0..self.calls.len() {
                    let (call, mut next) = (self.calls[i], kernel.clone());
                    if next.call(thread, call, 1) {
                        made.push((thread, Some(call)));
                        self.go(&next, made, left - 1);
                        made.pop();
                    }
                }
            }
        }
        if left == 0 && !kernel.changing() {
            self.sets += 1;
            if let Err(wrong) = ended(self.from, made) {
                panic!("{wrong} from {:?} after {made:?}", self.from);
            }
        }
    }
}

#[test]
fn every_small_program() {
    let mut sets = 0;
    for from in 0..16u8 {
        let at = [from & 1, from >> 1 & 1, from >> 2 & 1, from >> 3 & 1, 0, 0];
        let kernel = start(at, None, World::default()).kernel.into_inner();
        let mut search = Search {
            from: at,
            calls: calls(),
            sets: 0,
        };
        search.go(&kernel, &mut Vec::new(), CALLS);
        sets += search.sets;
    }
    eprintln!("{sets} sets");
}
