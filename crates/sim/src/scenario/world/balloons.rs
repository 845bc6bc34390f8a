//! Simulates the hosts of guests, which request reports of memory ages and size balloons by them.

use super::World;
use crate::scenario::balloon::{self, Host};
use engine::memcg::MemcgLimits;
use engine::{Limit, MemcgId, Millis};

impl World {
    /// Makes tenant `n`, whose memcg is `id`, a guest (virtual machine) of `host`.
    pub(super) fn connect(&mut self, n: usize, id: MemcgId, host: Host) {
        let (config, now) = (host.config(), Millis(self.now));
        self.machine.connect_balloon(id, balloon::NODE);
        self.machine
            .balloon_message(id, &config, now, &mut self.spaces);
        self.guests[n].host = Some(host);
    }

    /// Exchanges the messages of hosts and guests, and sets the balloons.
    pub(super) fn balloons(&mut self) {
        let now = Millis(self.now);
        let pressed = self.machine.pressed_guests(now, &mut self.spaces);
        for n in 0..self.guests.len() {
            let guest = &mut self.guests[n];
            let (Some(id), Some(host)) = (guest.memcg, &mut guest.host) else {
                continue;
            };
            let before = host.allowed();
            for (_, report) in pressed.iter().filter(|(memcg, _)| *memcg == id) {
                host.relieve(report, now);
            }
            let request = host.request(now);
            let reply = request.and_then(|request| {
                let spaces = &mut self.spaces;
                self.machine.balloon_message(id, &request, now, spaces)
            });
            reply
                .into_iter()
                .for_each(|reply| host.process_reply(&reply));
            if host.allowed() != before {
                self.resize(n, id);
            }
        }
    }

    /// Sets the guest's limit to the memory that its host allows. Memory that cannot be reclaimed
    /// remains with the guest.
    fn resize(&mut self, n: usize, id: MemcgId) {
        let Some(host) = &mut self.guests[n].host else {
            return;
        };
        let now = Millis(self.now);
        for _attempt in 0..2 {
            let max = Limit::of(host.allowed());
            let limits = self.machine.tree().get(id).limits();
            self.machine.set_limits(id, MemcgLimits { max, ..limits });
            let done = self.machine.enforce_limits(id, now, &mut self.spaces);
            if done.is_ok() {
                break;
            }
            host.allow(self.machine.tree().get(id).usage());
        }
    }
}
