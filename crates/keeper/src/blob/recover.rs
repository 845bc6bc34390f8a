//! Taking over from a keeper that died at any instant.
//!
//! Steps, in this order: queue the messages it had read; move on what was in the transit window;
//! set right the words of the ranges named by the journals; wake every waiting thread, because a
//! fault that was read but not answered is not announced again.

use super::present;
use super::table::{PAGE, Table, page_in_chunk};
use super::transit::flush;
use super::view::{Keeper, View};
use super::{queue, serve, store};
use core::sync::atomic::Ordering;
use keeper::layout::ctl;
use keeper::order::set;
use keeper::protocol::{self, Seen};
use keeper::word::Word;
use uffd::abi::{UffdMsg, event};

/// Everything after which the taking-over keeper may serve.
pub(super) fn recover(k: &mut Keeper) {
    let t = k.table;
    inbox(k);
    set::start_over(k);
    let (on, addr, len) = (
        t.get(ctl::TRANSIT_ON),
        t.get(ctl::TRANSIT_ADDR),
        t.get(ctl::TRANSIT_LEN),
    );
    if on == 1 {
        if t.get(ctl::INSTALL_ON) == 0 {
            // The flush closes the transit journal: should this keeper die as well, the next one
            // still finds the range.
            t.set(ctl::INSTALL_ADDR, addr);
            t.set(ctl::INSTALL_LEN, len);
            t.ctl(ctl::INSTALL_ON).store(1, Ordering::Release);
        }
        flush(k);
        settle(k, addr, len);
    }
    if t.get(ctl::INSTALL_ON) == 1 {
        let (addr, len) = (t.get(ctl::INSTALL_ADDR), t.get(ctl::INSTALL_LEN));
        settle(k, addr, len);
        k.died_installing = (addr, addr + len);
        t.set(ctl::INSTALL_ON, 0);
    }
    k.pending_len = 0;
    k.cmd_range = 0;
    k.cmd_at = 0;
    serve::wake_all(k);
}

/// Queues events that were read and not queued yet.
fn inbox(k: &mut Keeper) {
    let view = View::from_code(k.table.get(ctl::INBOX_SOURCE) as u32);
    for i in 0..serve::INBOX_MSGS {
        let msg = serve::inbox_msg(k.table, i);
        if msg.event != 0 && msg.event != event::PAGEFAULT && !newest(k, &msg) {
            queue::push(k.table, view, &msg);
        }
        serve::clear_msg(k.table, i);
    }
}

/// Whether a message was queued just before its reader died.
fn newest(k: &Keeper, msg: &UffdMsg) -> bool {
    let n = queue::len(k.table);
    n > 0 && {
        let last = queue::get(k.table, n - 1);
        (last.event, last.arg0, last.arg1, last.arg2) == (msg.event, msg.arg0, msg.arg1, msg.arg2)
    }
}

/// Sets the words of a range right by what is really where.
pub(super) fn settle(k: &mut Keeper, start: u64, len: u64) {
    let mut at = start;
    while at < start + len {
        settle_page(k, k.table, at);
        at += PAGE;
    }
}

fn settle_page(k: &mut Keeper, t: Table, addr: u64) {
    let Some(c) = t.chunk(addr) else { return };
    let word = t.page(c, page_in_chunk(addr));
    let mut old = Word(word.load(Ordering::Acquire));
    loop {
        let seen = Seen {
            in_program: present::any(addr),
            in_limbo: present::any(k.limbo_of(c, addr)),
        };
        let (new, drop) = protocol::settled(old, seen);
        // The manager may begin, cancel or commit a write-back at the same time.
        match word.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                if let Some(place) = protocol::let_go(old, new) {
                    store::release(k, place);
                }
                if drop {
                    k.drop_limbo(c, addr, addr + PAGE);
                }
                return;
            }
            Err(now) => old = Word(now),
        }
    }
}

const _: () = assert!(size_of::<UffdMsg>() == 32);
