//! A kernel with a few pages of address space: calls happen at once, and are told of afterwards.
//!
//! What it does as Linux does: a thread tells of its call after it, one event after the other, each
//! waiting until it was read, and does not begin another call before; mremap tells of the unmapping
//! of a fixed target, of the move, of the unmapping of the old place, in this order; removal is told
//! before it is made; memory that is not registered is not told of.
//!
//! What a program does that keeps from races: it uses no memory that another thread's call is about
//! before that call has returned. Only the kernel is quicker: it gives a place that was left to
//! another call at once. [`Kernel::impatient`] says how much quicker.

use super::{PAGES, range};
use uffd::abi::{UffdMsg, event};

pub(crate) const THREADS: usize = 4;
const PAGE: u64 = 4096;

/// One mapped page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Page {
    /// What was written to it last; 0 for nothing, zeros.
    pub(crate) content: u32,
    pub(crate) registered: bool,
    /// Its bytes are with the keeper.
    pub(crate) out: bool,
    /// The thread whose call put it here, or is about to remove it, and has not returned.
    pub(crate) busy: Option<usize>,
    /// Where it was first mapped: neighbours are one mapping only if they came from there as they are.
    pub(crate) origin: usize,
}

/// What a forked child had, of pages that nobody did anything to at the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) at: [Option<Page>; PAGES],
    pub(crate) stable: [bool; PAGES],
    told: bool,
}

/// What a thread asks for. Places are of `len` pages from `at` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Map(usize),
    /// MAP_FIXED over what the program has there.
    MapOver(usize),
    Unmap(usize),
    /// To a free place; whether the old one stays mapped (MREMAP_DONTUNMAP).
    Move(usize, usize, bool),
    /// To a place that the program has memory at.
    MoveOver(usize, usize, bool),
    Remove(usize),
    Fork,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Kernel {
    pub(crate) at: [Option<Page>; PAGES],
    /// What each thread has not told yet, or what was not read.
    tell: [Vec<UffdMsg>; THREADS],
    /// What each thread removes when its event was read.
    removing: [Option<(usize, usize)>; THREADS],
    pub(crate) children: Vec<Child>,
    pub(crate) contents: u32,
    /// Whether the program may use what came to a place before everybody has told who was there
    /// before. Then what is read does not tell which of two moves was first.
    pub(crate) impatient: bool,
}

impl Kernel {
    /// Whether an event is outstanding.
    pub(crate) fn changing(&self) -> bool {
        self.tell.iter().any(|t| !t.is_empty())
    }

    /// Whether a thread is in a call.
    pub(crate) fn busy(&self, thread: usize) -> bool {
        !self.tell[thread].is_empty()
    }

    pub(crate) fn registered(&self, page: usize) -> bool {
        self.at[page].is_some_and(|p| p.registered)
    }

    /// Whether the program may use a page: it has it, and nobody else is at it.
    fn owns(&self, page: usize) -> bool {
        let patient = |m: &UffdMsg| {
            let (start, end) = match m.event {
                event::UNMAP => (m.arg0, m.arg1),
                event::REMAP => (m.arg0, m.arg0 + m.arg2),
                _ => return true,
            };
            !(start..end).contains(&range(page, 1).0)
        };
        self.at[page].is_some_and(|p| p.busy.is_none())
            && (self.impatient || self.tell.iter().flatten().all(patient))
    }

    /// Whether the pages are one mapping: an event is about one, never about several.
    fn uniform(&self, at: usize, len: usize) -> bool {
        let origin = |p: usize| self.at[p].map(|page| page.origin + PAGES - p);
        (at..at + len).all(|p| self.registered(p) == self.registered(at) && origin(p) == origin(at))
    }

    /// Makes a call if a program could: false otherwise.
    pub(crate) fn call(&mut self, thread: usize, call: Call, len: usize) -> bool {
        let fits = |at: usize| at + len <= PAGES;
        let all = |at: usize, f: &dyn Fn(usize) -> bool| fits(at) && (at..at + len).all(f);
        let free = |p: usize| self.at[p].is_none();
        let owns = |p: usize| self.owns(p);
        let apart = |a: usize, b: usize| a + len <= b || b + len <= a;
        let may = !self.busy(thread)
            && match call {
                Call::Map(at) => all(at, &free),
                Call::MapOver(at) | Call::Unmap(at) => all(at, &owns),
                Call::Remove(at) => all(at, &owns) && self.uniform(at, len),
                Call::Move(from, to, _) => {
                    all(from, &owns) && all(to, &free) && self.uniform(from, len)
                }
                Call::MoveOver(from, to, _) => {
                    let known = all(from, &owns) && all(to, &owns);
                    known && apart(from, to) && self.uniform(from, len)
                }
                Call::Fork => true,
            };
        if may {
            self.make(thread, call, len);
        }
        may
    }

    fn make(&mut self, thread: usize, call: Call, len: usize) {
        match call {
            Call::Map(at) => self.fresh(at, len),
            Call::MapOver(at) => {
                self.unmap(thread, at, len);
                self.fresh(at, len);
            }
            Call::Unmap(at) => self.unmap(thread, at, len),
            Call::Move(from, to, stays) => self.remap(thread, (from, to), len, stays),
            Call::MoveOver(from, to, stays) => {
                self.unmap(thread, to, len);
                self.remap(thread, (from, to), len, stays);
            }
            Call::Remove(at) if self.registered(at) => {
                self.say(thread, event::REMOVE, range(at, len));
                self.touched(at, len);
                self.removing[thread] = Some((at, len));
            }
            Call::Remove(at) => self.zap(at, len),
            Call::Fork => {
                let (at, id) = (self.at, self.children.len() as u64);
                let stable = at.map(|p| p.is_some_and(|p| p.busy.is_none()));
                let told = false;
                self.children.push(Child { at, stable, told });
                self.say(thread, event::FORK, (id, 0));
            }
        }
        if self.busy(thread) {
            let places: &[usize] = match &call {
                Call::MapOver(at) | Call::Remove(at) => &[*at],
                Call::Move(from, to, true) | Call::MoveOver(from, to, true) => &[*from, *to],
                Call::Move(_, to, _) | Call::MoveOver(_, to, _) => &[*to],
                _ => &[],
            };
            for page in places.iter().flat_map(|at| *at..at + len) {
                self.at[page].as_mut().expect("mapped").busy = Some(thread);
            }
        }
    }

    fn say(&mut self, thread: usize, event: u8, (arg0, arg1): (u64, u64)) {
        let msg = UffdMsg {
            event,
            arg0,
            arg1,
            ..UffdMsg::default()
        };
        self.tell[thread].push(msg);
    }

    /// What happens to these pages, no fork that is not told yet is before or after.
    fn touched(&mut self, at: usize, len: usize) {
        for child in self.children.iter_mut().filter(|c| !c.told) {
            child.stable[at..at + len].fill(false);
        }
    }

    fn fresh(&mut self, at: usize, len: usize) {
        self.touched(at, len);
        for origin in at..at + len {
            self.at[origin] = Some(Page {
                origin,
                ..Page::default()
            });
        }
    }

    fn zap(&mut self, at: usize, len: usize) {
        for page in self.at[at..at + len].iter_mut().flatten() {
            (page.content, page.out) = (0, false);
        }
    }

    fn unmap(&mut self, thread: usize, at: usize, len: usize) {
        if (at..at + len).any(|p| self.registered(p)) {
            self.say(thread, event::UNMAP, range(at, len));
        }
        self.touched(at, len);
        self.at[at..at + len].fill(None);
    }

    fn remap(&mut self, thread: usize, (from, to): (usize, usize), len: usize, stays: bool) {
        let registered = self.registered(from);
        if registered {
            self.say(thread, event::REMAP, (range(from, 1).0, range(to, 1).0));
            self.tell[thread].last_mut().expect("said").arg2 = len as u64 * PAGE;
        }
        for i in 0..len {
            self.at[to + i] = self.at[from + i];
        }
        self.touched(to, len);
        if stays {
            self.touched(from, len);
            for origin in from..from + len {
                self.at[origin] = Some(Page {
                    registered,
                    origin,
                    ..Page::default()
                });
            }
        } else {
            self.unmap(thread, from, len);
        }
    }

    /// The next event of a thread is read.
    pub(crate) fn read(&mut self, thread: usize) -> Option<UffdMsg> {
        if self.tell[thread].is_empty() {
            return None;
        }
        let msg = self.tell[thread].remove(0);
        if msg.event == event::FORK {
            self.children[msg.arg0 as usize].told = true;
        }
        if self.tell[thread].is_empty() {
            if let Some((at, len)) = self.removing[thread].take() {
                self.zap(at, len);
            }
            for page in self.at.iter_mut().flatten() {
                if page.busy == Some(thread) {
                    page.busy = None;
                }
            }
        }
        Some(msg)
    }

    /// The program writes to a page that is there.
    pub(crate) fn write(&mut self, page: usize) {
        self.contents += 1;
        let content = self.contents;
        if let Some(page) = &mut self.at[page]
            && !page.out
        {
            page.content = content;
        }
    }
}
