//! A set of events, applied.
//!
//! Invariant: applying a message twice is applying it once, so that a keeper that dies while it
//! works through the queue can be followed by one that starts over.

use super::plan::STAYS;
use super::{Memory, Registered, Why};
use crate::layout::CHUNK;
use crate::word::PAGE_SIZE;
use uffd::abi::{UffdMsg, event};

const PAGE: u64 = PAGE_SIZE as u64;

/// Applies all queued events of an address space; nothing is changing now, so they are complete.
/// The caller settles what is then in doubt.
pub fn apply_all(m: &mut impl Memory, of: u32) {
    m.ledger_mut().of = of;
    // What a keeper that died had planned is all older than what was read since.
    apply_until(m, of, m.planned());
    give_turns(m, of);
    apply_until(m, of, m.planned());
}

/// Applies messages in their turns, up to and with `last`.
pub fn apply_until(m: &mut impl Memory, of: u32, last: u16) {
    let mut turn = 0;
    while let Some(i) = next(m, turn, |msg| msg.source == of && msg.turn <= last) {
        turn = m.get(i).turn;
        apply(m, i);
    }
}

/// The message with the next turn after `turn` of those that `of_interest` picks.
fn next(m: &impl Memory, turn: u16, of_interest: impl Fn(&UffdMsg) -> bool) -> Option<usize> {
    let later = |&i: &usize| m.get(i).turn > turn && of_interest(&m.get(i));
    (0..m.queued()).filter(later).min_by_key(|&i| m.get(i).turn)
}

/// Gives the messages that have no turn yet theirs. All have it before the first is applied, so that
/// a keeper that starts over goes on in the same order.
pub fn give_turns(m: &mut impl Memory, of: u32) {
    let mut turn = m.planned();
    m.plan().clear();
    for i in 0..m.queued() {
        let msg = m.get(i);
        let waits = msg.turn == 0 || msg.turn > turn;
        if msg.source == of && msg.event != 0 && waits {
            // For now the turn says where in the queue it is.
            let place = u16::try_from(i).unwrap_or(u16::MAX);
            m.plan().add(UffdMsg { turn: place, ..msg });
        }
    }
    m.work_out(of);
    for n in 0..m.plan().len() {
        let msg = m.plan().nth(n);
        turn += 1;
        m.set(usize::from(msg.turn), UffdMsg { turn, ..msg });
    }
    m.set_planned(turn);
}

/// Rebuilds the ledger of a set that another keeper died at: the moves that are made, in the order
/// in which they were made, and the unmappings whose doubts were not settled once more.
pub fn start_over(m: &mut impl Memory) {
    m.ledger_mut().clear();
    let (mut turn, planned) = (0, m.planned());
    let made =
        |msg: &UffdMsg| msg.event == event::REMAP && msg.phase & !STAYS == 2 && msg.turn <= planned;
    while let Some(msg) = next(m, turn, made).map(|i| m.get(i)) {
        turn = msg.turn;
        m.ledger_mut().of = msg.source;
        note_move(m, &msg);
    }
    for i in 0..m.queued() {
        let msg = m.get(i);
        if msg.event == event::UNMAP {
            m.set(i, UffdMsg { phase: 0, ..msg });
        }
    }
}

fn note_move(m: &mut impl Memory, msg: &UffdMsg) {
    if !m.ledger_mut().moved(msg.arg0, msg.arg1, msg.arg2) {
        m.no_room(false);
    }
}

/// Asks the kernel about what is in doubt, and forgets what is not registered. Then the set is done
/// with. False when more events are to be read first.
pub fn settle_doubts(m: &mut impl Memory) -> bool {
    let of = m.ledger().of;
    while let Some((start, end)) = m.ledger().doubt() {
        // Of one chunk, as of any range in which little is likely to differ.
        let end = end.min((start / CHUNK + 1) * CHUNK);
        if m.open(of) && !settle_doubt(m, of, start, end) {
            return false;
        }
        m.ledger_mut().settled(start, end);
    }
    done(m, of);
    true
}

/// Marks all of a set as done with. Unmappings first: without the moves that put them in doubt, a
/// keeper that starts over would take them at their word.
fn done(m: &mut impl Memory, of: u32) {
    let mut messages = 0;
    for unmappings in [true, false] {
        for i in 0..m.queued() {
            let msg = m.get(i);
            // One that was applied before has no event any more, and is of the set, too.
            if msg.source == of && (msg.event == event::UNMAP) == unmappings {
                m.set(i, UffdMsg { event: 0, ..msg });
                messages += u64::from(!unmappings);
            }
        }
    }
    m.done(of, messages);
    m.set_planned(0);
    m.ledger_mut().clear();
}

fn settle_doubt(m: &mut impl Memory, of: u32, start: u64, end: u64) -> bool {
    match m.ask(of, start, end) {
        Registered::Yes | Registered::Gone => return true,
        Registered::Changing => return false,
        Registered::No => {}
    }
    let mut at = start;
    while at < end {
        match m.ask(of, at, at + PAGE) {
            Registered::Yes | Registered::Gone => {}
            Registered::Changing => return false,
            Registered::No => m.forget(of, at, at + PAGE, Why::Unmapped),
        }
        at += PAGE;
    }
    true
}

/// Applies message `i`.
fn apply(m: &mut impl Memory, i: usize) {
    let msg = m.get(i);
    match msg.event {
        event::REMAP => return remap(m, i),
        event::FORK => m.forked(msg.source, msg),
        event::REMOVE => m.forget(msg.source, msg.arg0, msg.arg1, Why::Removed),
        event::UNMAP if msg.phase == 1 => return,
        event::UNMAP if unmapped(m, &msg) => {
            // It stays until the doubt is settled: a keeper that starts over has to know.
            return m.set(i, UffdMsg { phase: 1, ..msg });
        }
        _ => {}
    }
    m.set(i, UffdMsg { event: 0, ..msg });
}

/// Forgets an unmapped range, but for the parts to which something was moved in this set. True if
/// there are any.
fn unmapped(m: &mut impl Memory, msg: &UffdMsg) -> bool {
    let (start, end) = (msg.arg0, msg.arg1);
    let (mut at, mut forgotten) = (start, 0);
    loop {
        let (from, to, noted) = m.ledger_mut().unmapped(at, end);
        if !noted {
            m.no_room(true);
        }
        if from == to {
            return forgotten < end - start;
        }
        forgotten += to - from;
        m.forget(msg.source, from, to, Why::Unmapped);
        at = to;
    }
}

/// Phases of a queued move: 0 not begun, 1 the new place is cleared, 2 done; and [`STAYS`].
fn remap(m: &mut impl Memory, i: usize) {
    let mut msg = m.get(i);
    let (from, to, len) = (msg.arg0, msg.arg1, msg.arg2);
    let stays = msg.phase & STAYS;
    if msg.phase == stays | 2 {
        return;
    }
    if msg.phase == stays {
        // Whatever was there has been unmapped: its event may come behind this one.
        m.forget(msg.source, to, to + len, Why::Replaced);
        msg.phase = stays | 1;
        m.set(i, msg);
    }
    m.carry(msg.source, from, to, len, stays != 0);
    note_move(m, &msg);
    msg.phase = stays | 2;
    m.set(i, msg);
}
