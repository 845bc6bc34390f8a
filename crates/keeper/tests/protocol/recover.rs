//! The standby takes over (`recover.rs`).

use keeper::protocol::{self, Seen};

use super::bugs::Bug;
use super::keeper_model::{K, Next, move_on, queue, release_then};
use super::search::Steps;
use super::world::{Accessor, World};

pub(crate) fn steps(w: &World, bug: Option<Bug>, out: &mut Steps) {
    let settles = bug != Some(Bug::SettlesNothing);
    match w.keeper {
        K::Dead => out.add("standby takes over", 0, w, |n| n.keeper = K::RecInbox),
        K::RecInbox => out.add("standby: queues the inbox", 0, w, |n| {
            let newest = n.shared.queue.iter().flatten().last();
            if n.shared.inbox.is_some() && newest != n.shared.inbox.as_ref() {
                queue(n);
            }
            n.keeper = K::RecClear;
        }),
        K::RecClear => out.add("standby: clears the inbox", 0, w, |n| {
            n.shared.inbox = None;
            n.keeper = K::RecHandOver;
        }),
        K::RecHandOver => out.add("standby: hands the journal over", 0, w, |n| {
            if n.shared.install.is_none() && bug != Some(Bug::NoHandOver) {
                n.shared.install = n.shared.transit;
            }
            n.keeper = K::RecFlush;
        }),
        K::RecFlush => out.add("standby: flushes the window", 0, w, |n| {
            let Some(page) = n.shared.transit else {
                n.keeper = K::RecInstall;
                return;
            };
            let at = usize::from(page);
            if n.kernel.window[at].is_none() {
                n.keeper = K::RecTransit(page);
            } else if !move_on(&mut n.kernel.window[at], &mut n.kernel.limbo[at]) {
                n.kernel.limbo[at] = None;
            }
        }),
        K::RecTransit(page) => out.add("standby: transit journal off", page, w, |n| {
            n.shared.transit = None;
            n.keeper = if settles {
                K::SettleLoad(page, true)
            } else {
                K::RecInstall
            };
        }),
        K::RecInstall => out.add("standby: looks at the install journal", 0, w, |n| {
            n.keeper = match n.shared.install {
                Some(page) if settles => K::SettleLoad(page, false),
                Some(_) => K::RecInstallOff,
                None => K::RecWake,
            };
        }),
        K::RecInstallOff => out.add("standby: install journal off", 0, w, |n| {
            n.shared.install = None;
            n.keeper = K::RecWake;
        }),
        K::RecWake => out.add("standby: wakes all", 0, w, |n| {
            if bug != Some(Bug::WakesNobody) {
                n.accessor = Accessor::Runs;
            }
            n.keeper = K::Serve;
        }),
        K::SettleLoad(..) | K::Settle(..) => settle(w, bug, out),
        _ => {}
    }
}

fn settle(w: &World, bug: Option<Bug>, out: &mut Steps) {
    match w.keeper {
        K::SettleLoad(page, transit) => out.add("standby: looks at the page", page, w, |n| {
            let at = usize::from(page);
            let seen = Seen {
                in_program: n.kernel.program[at].is_some(),
                in_limbo: n.kernel.limbo[at].is_some(),
            };
            n.keeper = K::Settle(page, n.shared.words[at], seen, transit);
        }),
        K::Settle(page, old, seen, transit) => out.add("standby: settles", page, w, |n| {
            let word = &mut n.shared.words[usize::from(page)];
            let (new, drop) = protocol::settled(old, seen);
            if *word == old || bug == Some(Bug::SettleStores) {
                *word = new;
                release_then(n, old, new, Next::Settled(page, drop, transit));
            } else {
                n.keeper = K::SettleLoad(page, transit);
            }
        }),
        _ => {}
    }
}
