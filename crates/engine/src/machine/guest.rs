//! Guests: tenants whose balloon driver answers a host with working-set reports.
//! spec: workingset-report.md 7.
//!
//! A guest is a tenant with all below it; its bins, interval and threshold are what its host told it,
//! apart from those of the machine's own reports. Messages are bytes; no transport is here.
//!
//! Invariant: nothing is sent for a guest that was never configured; under pressure no more often than
//! its threshold says.

use super::Machine;
use crate::memcg::MemcgId;
use crate::units::Millis;
use crate::vmscan::{Memory, ScanReason};
use crate::workingset_report::Balloon;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The drivers, and the guests that are under pressure and have a report due.
#[derive(Debug, Default)]
pub(super) struct Guests {
    balloons: BTreeMap<MemcgId, Balloon>,
    pressed: BTreeSet<MemcgId>,
}

impl Guests {
    pub(super) fn forget(&mut self, id: MemcgId) {
        self.balloons.remove(&id);
        self.pressed.remove(&id);
    }

    /// Reclaim of `id` has come to `priority`.
    pub(super) fn note_pressure(
        &mut self,
        id: MemcgId,
        (priority, reason): (u32, ScanReason),
        now: Millis,
    ) {
        let balloon = self.balloons.get(&id);
        if balloon.is_some_and(|balloon| balloon.pressure(priority, reason, now)) {
            self.pressed.insert(id);
        }
    }
}

impl Machine {
    /// `id` is a guest from now on, with one node of this number, and was told nothing yet.
    pub fn connect_balloon(&mut self, id: MemcgId, node: u16) {
        self.guests.balloons.insert(id, Balloon::new(node));
    }

    /// The host sends `message` to guest `id`; the bytes of the answer, if there is one. `None` also
    /// for a tenant that is no guest.
    pub fn balloon_message<M: Memory>(
        &mut self,
        id: MemcgId,
        message: &[u8],
        now: Millis,
        memory: &mut M,
    ) -> Option<Vec<u8>> {
        let balloon = self.guests.balloons.get_mut(&id)?;
        match balloon.receive(message) {
            Ok(true) => Some(self.balloon_report(id, now, memory)),
            Ok(false) => None,
            Err(error) => Some(balloon.error_report(error)),
        }
    }

    /// The reports of guests that have come under pressure since the last call.
    pub fn pressed_guests<M: Memory>(
        &mut self,
        now: Millis,
        memory: &mut M,
    ) -> Vec<(MemcgId, Vec<u8>)> {
        let pressed = core::mem::take(&mut self.guests.pressed);
        let mut reports = Vec::new();
        for id in pressed {
            if let Some(balloon) = self.guests.balloons.get_mut(&id) {
                balloon.note_pressed(now);
                reports.push((id, self.balloon_report(id, now, memory)));
            }
        }
        reports
    }

    /// The guest's report, refreshed if that is due.
    fn balloon_report<M: Memory>(&mut self, id: MemcgId, now: Millis, memory: &mut M) -> Vec<u8> {
        let balloon = self.guests.balloons.get(&id);
        let due = balloon.and_then(|balloon| balloon.is_due(now));
        let report = due.map(|(bins, interval)| (bins.clone(), interval));
        let report =
            report.map(|(bins, interval)| self.collect((id, interval), &bins, now, memory));
        let Some(balloon) = self.guests.balloons.get_mut(&id) else {
            return Vec::new();
        };
        report
            .into_iter()
            .for_each(|report| balloon.refresh(report));
        balloon.last_report()
    }
}

#[cfg(test)]
mod tests;
