//! Guests: tenants whose balloon driver sends working-set reports to a host.
//! spec: workingset-report.md 7.
//!
//! A guest (a virtual machine) is a tenant with all tenants below it. The host sets the guest's
//! bins, interval and threshold; they are separate from those of the machine's own reports.
//! Messages are bytes; the transport is the caller's.
//!
//! Invariant: a guest that the host never configured sends no report; between two reports because
//! of pressure at least the guest's threshold passes.

use super::Machine;
use crate::memcg::MemcgId;
use crate::units::Millis;
use crate::vmscan::{Memory, ScanReason};
use crate::workingset_report::Balloon;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The balloon drivers of all guests, and the guests that must send a report because of memory
/// pressure.
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

    /// Notes that a reclaim of `id` has reached `priority`: its guest may have to send a report.
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
    /// Makes the tenant `id` a guest with one NUMA node, numbered `node`. It sends no report until
    /// the host has configured it.
    pub fn connect_balloon(&mut self, id: MemcgId, node: u16) {
        self.guests.balloons.insert(id, Balloon::new(node));
    }

    /// Delivers the host's `message` to guest `id`. Returns the bytes of the guest's answer; `None`
    /// if the message needs no answer, or if the tenant is no guest.
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

    /// Returns the guests that have come under pressure since the last call, with their reports as
    /// bytes.
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

    /// Returns the guest's report as bytes, after refreshing it if its refresh interval has passed.
    fn balloon_report<M: Memory>(&mut self, id: MemcgId, now: Millis, memory: &mut M) -> Vec<u8> {
        let balloon = self.guests.balloons.get(&id);
        let pending = balloon.and_then(|balloon| balloon.is_due(now));
        let report = pending.map(|(bins, interval)| (bins.clone(), interval));
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
