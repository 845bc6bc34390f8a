//! What a keeper works in, used again: it is large, and there are many programs.

use keeper::order::ledger::Ledger;
use keeper::order::plan::Plan;
use std::cell::RefCell;

thread_local! {
    static SPARE: RefCell<Vec<Box<Room>>> = const { RefCell::new(Vec::new()) };
}

pub(crate) struct Room {
    pub(crate) plan: Plan,
    pub(crate) ledger: Ledger,
}

/// A room that goes back when its keeper is dropped.
pub(crate) struct Lent(Option<Box<Room>>);

impl Lent {
    pub(crate) fn new() -> Lent {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut room = spare.unwrap_or_else(|| {
            Box::new(Room {
                plan: Plan::new(),
                ledger: Ledger::default(),
            })
        });
        room.plan.clear();
        room.ledger.clear();
        room.ledger.of = 0;
        Lent(Some(room))
    }
}

impl std::ops::Deref for Lent {
    type Target = Room;
    fn deref(&self) -> &Room {
        self.0.as_ref().expect("given back when dropped")
    }
}

impl std::ops::DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Room {
        self.0.as_mut().expect("given back when dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let room = self.0.take();
        SPARE.with_borrow_mut(|spare| spare.extend(room));
    }
}
