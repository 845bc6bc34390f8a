//! Programs for the model, and what must hold.

use super::PAGES;
use super::keeper_model::{Bug, Keeper};
use super::kernel::{Call, Kernel, Page, THREADS};

/// What a program may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) impatient: bool,
    pub(crate) stays: bool,
}

impl Default for World {
    fn default() -> World {
        World {
            impatient: false,
            stays: true,
        }
    }
}

/// A step as a few numbers, so that it shrinks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    what: u8,
    thread: u8,
    a: u8,
    b: u8,
    more: u8,
    when: u8,
}

impl From<(u8, u8, u8, u8, u8, u8)> for Raw {
    fn from((what, thread, a, b, more, when): (u8, u8, u8, u8, u8, u8)) -> Raw {
        Raw {
            what,
            thread,
            a,
            b,
            more,
            when,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Call(usize, Call, usize),
    /// While the keeper is at its work, so many steps later.
    Meanwhile(u32, usize, Call, usize),
    Read(usize),
    /// Applies what was read; the keeper dies after so many steps, if any.
    Apply(Option<u32>),
    Register(usize, usize),
    MoveOut(usize),
    BringBack(usize),
    Write(usize),
}

impl Raw {
    fn step(self, world: World) -> Step {
        let (a, b) = (usize::from(self.a), usize::from(self.b));
        let thread = usize::from(self.thread) % THREADS;
        let len = 1 + usize::from(self.more);
        let stays = world.stays && self.when.is_multiple_of(4);
        let call = match self.what {
            0..4 => Call::Move(a, b, stays),
            4..6 => Call::MoveOver(a, b, stays),
            6..8 => Call::Unmap(a),
            8 => Call::Map(a),
            9 => Call::MapOver(a),
            10 => Call::Remove(a),
            11 => Call::Fork,
            12..16 => return Step::Read(thread),
            16 | 17 => return Step::Apply(None),
            18 => return Step::Apply(Some(u32::from(self.when))),
            19 => return Step::Register(a, len),
            20 => return Step::MoveOut(a),
            21 => return Step::BringBack(a),
            22 => return Step::Write(a),
            _ => {
                let call = Call::Move(a, b, stays);
                return Step::Meanwhile(u32::from(self.when), thread, call, len);
            }
        };
        Step::Call(thread, call, len)
    }
}

pub(crate) fn start(at: [u8; PAGES], bug: Option<Bug>, world: World) -> Keeper {
    let mut kernel = Kernel::default();
    kernel.impatient = world.impatient;
    for (place, kind) in at.into_iter().enumerate() {
        let content = place as u32 + 1;
        let page = Page {
            content,
            registered: true,
            origin: place,
            ..Page::default()
        };
        kernel.at[place] = match kind {
            0 => None,
            1 | 2 => Some(Page { out: true, ..page }),
            3 => Some(page),
            _ => Some(Page {
                registered: false,
                ..page
            }),
        };
    }
    kernel.contents = PAGES as u32;
    Keeper::new(kernel, bug)
}

/// Runs a program to its end: what does not hold, if anything.
pub(crate) fn run(
    at: [u8; PAGES],
    steps: &[Raw],
    world: World,
    bug: Option<Bug>,
) -> Result<(), String> {
    let steps: Vec<Step> = steps.iter().map(|s| s.step(world)).collect();
    follow(&mut start(at, bug, world), &steps)
}

pub(crate) fn follow(keeper: &mut Keeper, steps: &[Step]) -> Result<(), String> {
    let mut said = String::new();
    for step in steps {
        if make(keeper, *step) {
            said.push_str(&format!("\n  {step:?}"));
        }
        holds(keeper).map_err(|wrong| format!("{wrong} after {said}"))?;
    }
    // All is read and applied in the end, whatever is called meanwhile.
    for _ in 0..100 {
        for thread in 0..THREADS {
            keeper.read(thread);
        }
        keeper.apply();
    }
    let end = if keeper.idle() {
        holds(keeper)
    } else {
        Err("no end".into())
    };
    end.map_err(|wrong| format!("{wrong} in the end, after {said}"))
}

/// Whether a program can make all these steps.
pub(crate) fn possible(at: [u8; PAGES], steps: &[Step]) -> bool {
    let mut keeper = start(at, None, World::default());
    steps.iter().all(|step| make(&mut keeper, *step))
}

/// What must hold when what was called and read, one after the other, is applied at once.
pub(crate) fn ended(at: [u8; PAGES], made: &[(usize, Option<Call>)]) -> Result<(), String> {
    let mut keeper = start(at, None, World::default());
    for (thread, call) in made {
        match call {
            Some(call) => _ = keeper.kernel.borrow_mut().call(*thread, *call, 1),
            None => keeper.read(*thread),
        }
    }
    keeper.apply();
    holds(&keeper)
}

/// Makes a step; false if it cannot be made.
fn make(k: &mut Keeper, step: Step) -> bool {
    match step {
        Step::Call(thread, call, len) => return k.kernel.borrow_mut().call(thread, call, len),
        Step::Meanwhile(left, thread, call, len) => {
            k.meanwhile.borrow_mut().push((left, thread, call, len));
        }
        Step::Read(thread) => k.read(thread),
        Step::Apply(dies_in) => {
            k.dies_in.set(dies_in);
            k.apply();
            k.dies_in.set(None);
        }
        Step::Register(page, len) => return register(k, page, len),
        Step::MoveOut(page) => return move_out(k, page),
        Step::BringBack(page) => {
            let idle = k.idle();
            if let Some(page_) = &mut k.kernel.borrow_mut().at[page]
                && page_.out
                && idle
            {
                page_.out = false;
                k.words[page] = 0;
                return true;
            }
            return false;
        }
        Step::Write(page) => k.kernel.borrow_mut().write(page),
    }
    true
}

/// As `command::register`, which waits until nothing is outstanding.
fn register(k: &mut Keeper, page: usize, len: usize) -> bool {
    let end = (page + len).min(PAGES);
    if !k.idle() {
        return false;
    }
    let mut kernel = k.kernel.borrow_mut();
    for at in kernel.at[page..end].iter_mut().flatten() {
        at.registered = true;
    }
    if (page..end).all(|p| kernel.registered(p)) {
        k.regs[page..end].fill(true);
    }
    true
}

fn move_out(k: &mut Keeper, page: usize) -> bool {
    let may = k.idle() && k.regs[page];
    let mut kernel = k.kernel.borrow_mut();
    let Some(at) = &mut kernel.at[page] else {
        return false;
    };
    let moves = may && at.registered && at.busy.is_none() && at.content != 0 && !at.out;
    if moves {
        at.out = true;
        k.words[page] = at.content;
    }
    moves
}

/// What must hold when nothing is queued, in doubt or outstanding.
fn holds(k: &Keeper) -> Result<(), String> {
    if !k.idle() {
        return Ok(());
    }
    let kernel = k.kernel.borrow();
    for page in 0..PAGES {
        let (word, at) = (k.words[page], kernel.at[page]);
        let out = at.filter(|p| p.out).map_or(0, |p| p.content);
        if word != out {
            return Err(format!(
                "place {page}: known is {word}, there is {out} ({at:?})"
            ));
        }
        if k.regs[page] && !kernel.registered(page) {
            return Err(format!("place {page} is not registered"));
        }
    }
    for (id, child) in kernel.children.iter().enumerate() {
        let Some(words) = k.children.get(id).copied().flatten() else {
            return Err(format!("child {id} is not known"));
        };
        for page in (0..PAGES).filter(|p| child.stable[*p]) {
            let Some(at) = child.at[page].filter(|p| p.registered) else {
                continue;
            };
            let out = if at.out { at.content } else { 0 };
            if words[page] != out {
                let word = words[page];
                return Err(format!(
                    "child {id}, place {page}: known is {word}, not {out}"
                ));
            }
        }
    }
    Ok(())
}
