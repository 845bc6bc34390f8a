//! The keeper over the model kernel: what is in shared memory, and what each step does to it. It
//! may die at any of them, and meanwhile the program goes on.

use super::kernel::{Call, Kernel};
use super::room::Lent;
use super::{PAGES, page_at, range};
use keeper::order::ledger::Ledger;
use keeper::order::plan::{Ground, Plan};
use keeper::order::{Memory, Registered, Why, set};
use std::cell::{Cell, RefCell};
use uffd::abi::{UffdMsg, event};

/// What a keeper does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// Applies what it has read though more is outstanding.
    AppliesParts,
    /// Applies one event after the other as they were read.
    ReadingOrder,
    /// Notes a move again when its turn in the queue comes, though it was made before.
    NotesTwice,
    /// Takes what is in doubt for there.
    IgnoresDoubts,
    /// Forgets what was unmapped, whatever came there before it was read.
    ForgetsLate,
    /// Starts over with an empty ledger.
    StartsEmpty,
}

/// What a keeper that dies unwinds with.
struct Died;

pub(crate) struct Keeper {
    pub(crate) kernel: RefCell<Kernel>,
    pub(crate) queue: Vec<UffdMsg>,
    pub(crate) words: [u32; PAGES],
    pub(crate) regs: [bool; PAGES],
    pub(crate) planned: u16,
    pub(crate) room: Lent,
    /// The words of each child.
    pub(crate) children: Vec<Option<[u32; PAGES]>>,
    pub(crate) bug: Option<Bug>,
    /// Steps until it dies.
    pub(crate) dies_in: Cell<Option<u32>>,
    /// What threads call meanwhile, and in how many steps.
    pub(crate) meanwhile: RefCell<Vec<(u32, usize, Call, usize)>>,
}

impl Keeper {
    pub(crate) fn new(kernel: Kernel, bug: Option<Bug>) -> Keeper {
        let mut words = [0; PAGES];
        for (word, page) in words.iter_mut().zip(kernel.at) {
            *word = page.filter(|p| p.out).map_or(0, |p| p.content);
        }
        Keeper {
            regs: kernel.at.map(|p| p.is_some_and(|p| p.registered)),
            kernel: RefCell::new(kernel),
            queue: Vec::new(),
            words,
            planned: 0,
            room: Lent::new(),
            children: Vec::new(),
            bug,
            dies_in: Cell::new(None),
            meanwhile: RefCell::new(Vec::new()),
        }
    }

    /// One step of the keeper: the program may make one, too, and the keeper may die.
    fn step(&self) {
        self.meanwhile
            .borrow_mut()
            .retain_mut(|(left, thread, call, len)| {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.kernel.borrow_mut().call(*thread, *call, *len);
                }
                *left > 0
            });
        match self.dies_in.get() {
            Some(0) => {
                self.dies_in.set(None);
                std::panic::resume_unwind(Box::new(Died));
            }
            left => self.dies_in.set(left.map(|n| n - 1)),
        }
    }

    pub(crate) fn read(&mut self, thread: usize) {
        if let Some(msg) = self.kernel.borrow_mut().read(thread) {
            self.queue.push(msg);
        }
    }

    /// Nothing is queued, in doubt or outstanding.
    pub(crate) fn idle(&self) -> bool {
        self.queue.is_empty() && !self.room.ledger.in_doubt() && !self.kernel.borrow().changing()
    }

    /// Applies what was read, as `serve::apply_events`; whoever dies is followed by another.
    pub(crate) fn apply(&mut self) {
        loop {
            let work = std::panic::AssertUnwindSafe(|| self.apply_events());
            match std::panic::catch_unwind(work) {
                Ok(()) => return,
                Err(died) if died.is::<Died>() && self.bug == Some(Bug::StartsEmpty) => {
                    self.room.ledger.clear();
                }
                Err(died) if died.is::<Died>() => set::start_over(self),
                Err(other) => std::panic::resume_unwind(other),
            }
        }
    }

    fn apply_events(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        if self.kernel.borrow().changing() && self.bug != Some(Bug::AppliesParts) {
            return;
        }
        match self.bug {
            None | Some(Bug::IgnoresDoubts | Bug::StartsEmpty | Bug::AppliesParts) => {
                set::apply_all(self, 0);
                set::settle_doubts(self);
            }
            Some(bug) => self.apply_wrongly(bug),
        }
    }

    /// `set::apply_all` with mistakes.
    fn apply_wrongly(&mut self, bug: Bug) {
        if bug == Bug::ReadingOrder {
            self.planned = self.queue.len() as u16;
            for (turn, msg) in (1..).zip(&mut self.queue) {
                msg.turn = turn;
            }
        } else {
            set::give_turns(self, 0);
        }
        for i in 0..self.queue.len() {
            let msg = self.queue[i];
            if bug == Bug::NotesTwice && msg.event == event::REMAP && msg.phase & 3 == 2 {
                let _ = self.room.ledger.moved(msg.arg0, msg.arg1, msg.arg2);
            } else if bug == Bug::ForgetsLate && msg.event == event::UNMAP {
                self.forget(0, msg.arg0, msg.arg1, Why::Unmapped);
                self.queue[i].event = 0;
            } else {
                set::apply_until(self, 0, msg.turn);
            }
        }
        set::settle_doubts(self);
    }
}

impl Memory for Keeper {
    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn get(&self, i: usize) -> UffdMsg {
        self.queue[i]
    }

    fn set(&mut self, i: usize, msg: UffdMsg) {
        self.step();
        self.queue[i] = msg;
        self.step();
    }

    fn done(&mut self, _: u32, _: u64) {
        self.step();
        self.queue.clear();
        self.step();
    }

    fn planned(&self) -> u16 {
        self.planned
    }

    fn set_planned(&mut self, turn: u16) {
        self.step();
        self.planned = turn;
        self.step();
    }

    fn ledger(&self) -> &Ledger {
        &self.room.ledger
    }

    fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.room.ledger
    }

    fn no_room(&mut self, _: bool) {
        panic!("the ledger is full");
    }

    fn forget(&mut self, _: u32, start: u64, end: u64, why: Why) {
        for page in page_at(start)..page_at(end) {
            self.step();
            self.words[page] = 0;
        }
        self.step();
        if why != Why::Removed {
            self.regs[page_at(start)..page_at(end)].fill(false);
        }
        self.step();
    }

    fn carry(&mut self, _: u32, from: u64, to: u64, len: u64, stays: bool) {
        let (from, to, len) = (page_at(from), page_at(to), (len / 4096) as usize);
        for i in 0..len {
            self.regs[to + i] |= self.regs[from + i];
        }
        for i in 0..len {
            self.step();
            if self.words[from + i] != 0 {
                self.words[to + i] = self.words[from + i];
                self.step();
                self.words[from + i] = 0;
            }
        }
        self.step();
        if !stays {
            self.regs[from..from + len].fill(false);
        }
        self.step();
    }

    fn forked(&mut self, _: u32, event: UffdMsg) {
        self.step();
        let id = event.arg0 as usize;
        let children = self.children.len().max(id + 1);
        self.children.resize(children, None);
        self.children[id] = Some(self.words);
        self.step();
    }

    fn plan(&mut self) -> &mut Plan {
        &mut self.room.plan
    }

    fn work_out(&mut self, _: u32) {
        let sketch = Sketch {
            words: self.words,
            regs: self.regs,
            at: self.kernel.borrow().at,
        };
        self.room.plan.work_out(&sketch);
    }

    fn ask(&self, _: u32, start: u64, end: u64) -> Registered {
        self.step();
        let kernel = self.kernel.borrow();
        match (page_at(start)..page_at(end)).all(|p| kernel.registered(p)) {
            _ if kernel.changing() => Registered::Changing,
            _ if self.bug == Some(Bug::IgnoresDoubts) => Registered::Yes,
            true => Registered::Yes,
            false => Registered::No,
        }
    }

    fn open(&self, _: u32) -> bool {
        true
    }
}

/// What the keeper knows before a set, and what it may look at.
struct Sketch {
    words: [u32; PAGES],
    regs: [bool; PAGES],
    at: [Option<super::kernel::Page>; PAGES],
}

impl Ground for Sketch {
    fn known(&self, start: u64, end: u64) -> (u64, u64) {
        let mut pages = page_at(start)..page_at(end);
        let Some(first) = pages.find(|p| self.regs[*p]) else {
            return (end, end);
        };
        let last = pages.find(|p| !self.regs[*p]).unwrap_or(page_at(end));
        (range(first, 1).0, range(last, 1).0)
    }

    fn complete(&self) -> bool {
        true
    }

    fn registered(&self, start: u64, end: u64) -> Option<bool> {
        let mut pages = page_at(start)..page_at(end);
        Some(pages.all(|page| self.at[page].is_some_and(|p| p.registered)))
    }

    fn refuted(&self, from: u64, to: u64, len: u64) -> bool {
        (0..(len / 4096) as usize).any(|i| {
            let there = self.at[page_at(to) + i].filter(|p| p.registered);
            let present = there.is_some_and(|p| !p.out && p.content != 0);
            self.words[page_at(from) + i] != 0 && present
        })
    }
}
