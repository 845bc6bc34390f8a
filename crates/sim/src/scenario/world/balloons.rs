//! Simulated hosts that request ages of memory from their guests, and set balloons by them.

use super::World;
use crate::scenario::balloon::{self, Host};
use engine::memcg::MemcgLimits;
use engine::{Limit, MemcgId, Millis};

impl World {
    /// Makes tenant `n`, whose memcg is `id`, a guest of `host`.
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
            for (_, report) in pressed.iter().filter(|(who, _)| *who == id) {
                host.relieve(report, now);
            }
            let question = host.ask(now);
            let answer = question.and_then(|question| {
                let spaces = &mut self.spaces;
                self.machine.balloon_message(id, &question, now, spaces)
            });
            answer.into_iter().for_each(|answer| host.follow(&answer));
            if host.allowed() != before {
                self.resize(n, id);
            }
        }
    }

    /// Gives the guest the memory that its host allows; memory that cannot be taken remains with
    /// the guest.
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
