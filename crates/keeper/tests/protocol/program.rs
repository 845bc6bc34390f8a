//! The program: one thread that reads and writes, one that removes, unmaps and moves. The kernel's
//! part is here too: what is zapped when, when an event is announced, when a thread waits.

use super::search::Steps;
use super::world::{Accessor, Change, Event, Mutator, Vma, World};

pub(crate) fn steps(w: &World, out: &mut Steps) {
    if w.accessor == Accessor::Runs {
        for page in 0..w.left.pages {
            access(w, page, out);
        }
    }
    mutate(w, out);
    for page in 0..w.left.pages {
        // Rests are longer than a call of madvise takes (docs/known-gaps.md).
        if w.shared.rests[usize::from(page)] && !being_removed(w, page) {
            out.add("time passes", page, w, |n| {
                n.shared.rests[usize::from(page)] = false
            });
        }
    }
}

fn access(w: &World, page: u8, out: &mut Steps) {
    let at = usize::from(page);
    match (w.kernel.vma[at], w.kernel.program[at]) {
        (Vma::Gone, _) => {}
        (Vma::Registered, None) => out.add("program: a fault waits", page, w, |n| {
            n.accessor = Accessor::Waits(page, false);
        }),
        (Vma::Plain, None) => out.add("kernel: zeros", page, w, |n| n.kernel.program[at] = Some(0)),
        (_, Some(value)) => {
            out.add("program: read", page, w, |n| {
                let bit = 1 << value;
                if n.allowed[at] & bit == 0 {
                    n.wrong = Some("a read gave wrong bytes");
                } else if value == 0 {
                    // Removed for this reader: the old bytes must not come back.
                    n.allowed[at] = bit;
                }
            });
            let next = 4 - w.left.writes;
            if w.left.writes > 0 {
                out.add("program: write", page, w, |n| {
                    n.left.writes -= 1;
                    n.kernel.program[at] = Some(next);
                    n.allowed[at] = 1 << next | u8::from(being_removed(w, page));
                });
            }
        }
    }
}

fn being_removed(w: &World, page: u8) -> bool {
    matches!(w.mutator,
        Mutator::Removing(at) | Mutator::Removed(at) | Mutator::Zapping(at) if at == page)
}

fn mutate(w: &World, out: &mut Steps) {
    match w.mutator {
        Mutator::Runs => begin(w, out),
        Mutator::Removing(_) => {}
        // The kernel lets installs go on before it drops the pages.
        Mutator::Removed(page) => out.add("program: runs in madvise", page, w, |n| {
            n.kernel.changing -= 1;
            n.mutator = Mutator::Zapping(page);
        }),
        Mutator::Zapping(page) => out.add("kernel: madvise zaps", page, w, |n| {
            n.kernel.program[usize::from(page)] = None;
            n.allowed[usize::from(page)] = 1;
            n.mutator = Mutator::Runs;
        }),
        Mutator::Announces(change, number) => announce(w, change, number, out),
        Mutator::Waits(..) => {}
    }
}

fn begin(w: &World, out: &mut Steps) {
    for page in 0..w.left.pages {
        let at = usize::from(page);
        if w.kernel.vma[at] != Vma::Registered {
            continue;
        }
        if w.left.removes > 0 {
            out.add("program: MADV_DONTNEED", page, w, |n| {
                n.left.removes -= 1;
                n.kernel.changing += 1;
                n.kernel.unread = Some(Event::Remove(page));
                n.allowed[at] |= 1;
                n.mutator = Mutator::Removing(page);
            });
        }
        if w.left.unmaps > 0 {
            out.add("program: munmap", page, w, |n| {
                n.left.unmaps -= 1;
                n.kernel.changing += 1;
                n.kernel.program[at] = None;
                n.kernel.vma[at] = Vma::Gone;
                n.mutator = Mutator::Announces(Change::Unmapped(page), 0);
            });
        }
    }
    if w.left.moves > 0 && w.kernel.vma[0] == Vma::Registered {
        out.add("program: mremap 0 to 1", 0, w, |n| {
            let taken = n.kernel.vma[1] == Vma::Registered;
            n.left.moves -= 1;
            n.kernel.changing += 2 + u8::from(taken);
            n.kernel.program[1] = n.kernel.program[0].take();
            n.kernel.vma = [Vma::Gone, Vma::Registered];
            n.allowed[1] = n.allowed[0];
            n.mutator = Mutator::Announces(Change::Moved(taken), u8::from(!taken));
        });
    }
}

fn announce(w: &World, change: Change, number: u8, out: &mut Steps) {
    let event = match (change, number) {
        (Change::Unmapped(page), 0) => Some(Event::Unmap(page)),
        (Change::Moved(_), 0) => Some(Event::Unmap(1)),
        (Change::Moved(_), 1) => Some(Event::Remap(0, 1, 0)),
        (Change::Moved(_), 2) => Some(Event::Unmap(0)),
        _ => None,
    };
    match event {
        Some(event) => out.add("program: an event waits", number, w, |n| {
            n.kernel.unread = Some(event);
            n.mutator = Mutator::Waits(change, number);
        }),
        None => out.add("program: the call returns", 0, w, |n| {
            if let Change::Unmapped(page) = change {
                // Something new is mapped there.
                n.kernel.vma[usize::from(page)] = Vma::Plain;
                n.allowed[usize::from(page)] = 1;
            }
            n.mutator = Mutator::Runs;
        }),
    }
}

/// The keeper has read the event: its thread runs again.
pub(crate) fn event_was_read(w: &mut World) {
    w.mutator = match w.mutator {
        Mutator::Removing(page) => Mutator::Removed(page),
        Mutator::Waits(change, number) => {
            w.kernel.changing -= 1;
            Mutator::Announces(change, number + 1)
        }
        other => other,
    };
}
