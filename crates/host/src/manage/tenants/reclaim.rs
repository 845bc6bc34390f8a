//! What people ask tenants to give.
//!
//! Invariant: what is told to have left is what the kernel's tables and counters say has left.

use engine::machine::ReclaimRequest;
use engine::memcg::MemcgId;
use engine::{Millis, Pages, ScanReason, Swappiness};
use rustix::io::Errno;

use super::super::driver::How;
use super::super::options::{Ask, Reclaimed};
use super::Tenants;

impl Tenants {
    /// memory.reclaim, and by age or all: of the root by the memcg LRU. What left.
    ///
    /// # Errors
    /// ENODEV; EPERM for a group of the host that may not be changed.
    pub fn reclaim(
        &mut self,
        memcg: MemcgId,
        ask: Ask,
        swappiness: Option<Swappiness>,
    ) -> Result<Reclaimed, Errno> {
        self.may_change(memcg)?;
        self.look_if_worth_it().map_err(|_| Errno::IO)?;
        let dropped = match ask {
            Ask::Bytes(bytes) if memcg != MemcgId::ROOT => self.take_cache(memcg, bytes) / 4096,
            _ => 0,
        };
        let now = self.now();
        let below = self.driver.machine.tree().pre_order(memcg);
        let lruvecs = below.iter().map(|id| self.driver.machine.lruvec(*id));
        let resident = Pages(lruvecs.map(|lruvec| lruvec.resident().0).sum());
        if let Ask::OlderThan(_) = ask {
            below
                .iter()
                .for_each(|id| self.driver.machine.age(*id, now));
        }
        let (how, asked) = match ask {
            Ask::Bytes(bytes) => (How::default(), Pages(bytes / 4096).less(Pages(dropped))),
            Ask::OlderThan(_) | Ask::All => (how(ask, now), resident),
        };
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            nr: asked,
            swappiness,
            now,
        };
        let (tally, ()) = self.driver.page_out(how, |machine, kernel| match ask {
            Ask::OlderThan(_) => {
                for id in below {
                    let most = machine.unprotected(id);
                    machine.reclaim_older_than(id, Millis(0), most, now, kernel);
                }
            }
            // Less than was asked for is told by the tally.
            Ask::Bytes(_) | Ask::All => {
                let _ = machine.proactive_reclaim(memcg, request, kernel);
            }
        });
        let path = self.tenant(memcg)?.path.display().to_string();
        self.act(format!(
            "paged out {} pages of /{path}, and dropped {dropped} of files: {} were asked for (memory.reclaim)",
            tally.evicted,
            asked.0 + dropped
        ));
        Ok(Reclaimed {
            asked_pages: asked.0 + dropped,
            evicted_pages: tally.evicted + dropped,
            kept: tally.kept(),
            no_swap: tally.no_swap,
            refused: tally.refused,
        })
    }
}

/// How pages are to leave that are asked for by their age, or all of them.
fn how(ask: Ask, now: Millis) -> How {
    match ask {
        Ask::Bytes(_) => How::default(),
        Ask::OlderThan(age) => How {
            idle_since: Some(now.since(Millis::from(age)).0),
            ..How::default()
        },
        Ask::All => How {
            all: true,
            ..How::default()
        },
    }
}
