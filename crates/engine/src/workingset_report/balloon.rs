//! The guest's side of working-set reports: a balloon driver in a guest (virtual machine) receives
//! the host's messages and makes the replies.
//! spec: workingset-report.md 7.
//!
//! Messages are bytes; the caller transports them.
//!
//! Invariants: a refused message changes nothing; no report is sent before a CONFIG was accepted;
//! between two reports because of pressure at least the threshold passes.

#[cfg(test)]
use super::PageAge;
use super::{Bins, BinsError, MAX_NR_BINS, Report, ReportState};
use crate::folio::FolioType;
use crate::units::Millis;
use crate::vmstat::ScanReason;
use alloc::vec::Vec;

pub(super) const OP_REQUEST: u16 = 1;
pub(super) const OP_CONFIG: u16 = 2;
pub(super) const REQUEST_LEN: usize = 12 + 4 * MAX_NR_BINS;

/// Why a message was refused; the number is the `error` in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalloonError {
    /// EINVAL: edges that do not increase, an unknown operation, another node, a wrong length, or a
    /// REQUEST before any CONFIG.
    Invalid = 22,
    /// ERANGE: none of the 32 edges is the terminator (`u32::MAX`).
    Range = 34,
}

/// The guest's balloon driver for one memory node, as far as reports need it.
#[derive(Clone, Debug)]
pub struct Balloon {
    node: u16,
    bins: Option<Bins>,
    state: ReportState,
    /// When a report was last sent because of pressure; `None` before the first.
    pressed: Option<Millis>,
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    let bytes = message.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn half(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// Reads the edges of a CONFIG message, up to the terminator.
fn edges(message: &[u8]) -> Result<Bins, BalloonError> {
    let all = (0..MAX_NR_BINS).filter_map(|n| word(message, 12 + 4 * n));
    let edges: Vec<u32> = all.take_while(|&edge| edge != u32::MAX).collect();
    if edges.len() == MAX_NR_BINS {
        return Err(BalloonError::Range);
    }
    let edges: Vec<Millis> = edges.into_iter().map(|e| Millis(u64::from(e))).collect();
    Bins::new(&edges).map_err(|error| match error {
        BinsError::NotIncreasing(_) => BalloonError::Invalid,
        BinsError::TooMany => BalloonError::Range,
    })
}

impl Balloon {
    /// Creates the driver for the node numbered `node`, without a configuration.
    #[must_use]
    pub fn new(node: u16) -> Self {
        Self {
            node,
            bins: None,
            state: ReportState::default(),
            pressed: None,
        }
    }

    /// Returns the bins of the reports; `None` before the first CONFIG.
    #[must_use]
    pub const fn bins(&self) -> Option<&Bins> {
        self.bins.as_ref()
    }

    /// Receives a message of the host. Returns true if a report must be sent now: for a REQUEST.
    ///
    /// # Errors
    /// [`BalloonError`] if the message is refused: the caller must send [`Self::error_report`].
    pub fn receive(&mut self, message: &[u8]) -> Result<bool, BalloonError> {
        let invalid = BalloonError::Invalid;
        if message.len() != REQUEST_LEN || half(message, 2) != Some(self.node) {
            return Err(invalid);
        }
        match half(message, 0) {
            Some(OP_CONFIG) => {
                let bins = edges(message)?;
                let millis = |at| Millis(u64::from(word(message, at).unwrap_or(0)));
                self.state.set_report_threshold(millis(4));
                self.state.set_refresh_interval(millis(8));
                self.bins = Some(bins);
                Ok(false)
            }
            Some(OP_REQUEST) if self.bins.is_some() => Ok(true),
            _ => Err(invalid),
        }
    }

    /// Whether a report must be sent now, because reclaim of the node has reached `priority`.
    #[must_use]
    pub fn pressure(&self, priority: u32, reason: ScanReason, now: Millis) -> bool {
        let threshold = self.state.report_threshold();
        let waited = self.pressed.is_none_or(|sent| sent.after(threshold) <= now);
        self.bins.is_some() && waited && self.state.try_report(priority, reason, now)
    }

    /// Returns the bins and the interval for a refresh of the report; `None` if the refresh
    /// interval has not passed.
    #[must_use]
    pub fn is_due(&self, now: Millis) -> Option<(&Bins, Millis)> {
        let bins = self.bins.as_ref()?;
        let interval = self.state.refresh_interval();
        self.state.is_due(now).then_some((bins, interval))
    }

    /// Stores a new report, unless the refresh interval is 0.
    pub fn refresh(&mut self, report: Report) {
        self.state.store(report);
    }

    /// Notes that a report is sent at `now` because of pressure.
    pub fn note_pressed(&mut self, now: Millis) {
        self.pressed = Some(now);
    }

    /// Returns the bytes of the last report, or of an error report if there is no report.
    #[must_use]
    pub fn last_report(&self) -> Vec<u8> {
        let Some(report) = self.state.report() else {
            return self.error_report(BalloonError::Invalid);
        };
        let (mut bytes, unused) = (self.header(0), u64::MAX);
        for n in 0..MAX_NR_BINS {
            let bin = report.page_age.bins().get(n);
            let edge = bin.and_then(|bin| bin.edge).map_or(unused, |edge| edge.0);
            let bytes_of = |ty: FolioType| bin.map_or(0, |bin| bin.pages[ty.index()].bytes().0);
            for value in [edge, bytes_of(FolioType::Anon), bytes_of(FolioType::File)] {
                bytes.extend(value.to_le_bytes());
            }
        }
        bytes
    }

    /// Stores a report made at the time `now`; returns its bytes.
    #[cfg(test)]
    pub(super) fn report(&mut self, page_age: &PageAge, now: Millis) -> Vec<u8> {
        self.refresh(Report {
            page_age: page_age.clone(),
            timestamp: now,
        });
        self.last_report()
    }

    /// Returns the bytes of the reply to a message that was refused.
    #[must_use]
    pub fn error_report(&self, error: BalloonError) -> Vec<u8> {
        let mut bytes = self.header(error as u32);
        bytes.resize(8 + 24 * MAX_NR_BINS, 0);
        bytes
    }

    fn header(&self, error: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + 24 * MAX_NR_BINS);
        bytes.extend(error.to_le_bytes());
        bytes.extend(u32::from(self.node).to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(op: u16, edges: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for half in [op, 0] {
            bytes.extend(half.to_le_bytes());
        }
        let (threshold, interval) = (2000u32, 500u32);
        let padded = edges.iter().copied().chain(core::iter::repeat(u32::MAX));
        for word in [threshold, interval]
            .into_iter()
            .chain(padded)
            .take(2 + MAX_NR_BINS)
        {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    /// Wrong messages are refused and change nothing; under pressure a report is sent once in each
    /// threshold.
    /// spec: workingset-report.md 11, test 13.
    #[test]
    fn configuration_requests_and_pressure() {
        let mut balloon = Balloon::new(0);
        let request = message(OP_REQUEST, &[]);
        assert_eq!(
            balloon.receive(&request),
            Err(BalloonError::Invalid),
            "too early"
        );
        assert!(!balloon.pressure(3, ScanReason::Direct, Millis(9000)));
        assert_eq!(
            balloon.receive(&message(OP_CONFIG, &[1000, 5000])),
            Ok(false)
        );
        let before = balloon.bins().cloned();
        let full: Vec<u32> = (1..=32).collect();
        assert_eq!(
            balloon.receive(&message(OP_CONFIG, &full)),
            Err(BalloonError::Range)
        );
        let error = balloon.error_report(BalloonError::Range);
        assert_eq!((error[0], error.len()), (34, 8 + 24 * 32));
        let falling = message(OP_CONFIG, &[5, 5]);
        assert_eq!(balloon.receive(&falling), Err(BalloonError::Invalid));
        assert_eq!(balloon.bins().cloned(), before, "the old bins remain");
        assert_eq!(balloon.receive(&request), Ok(true));

        let page_age = PageAge::new(before.as_ref().expect("configured"));
        let mut sent = 0;
        for now in (10_000..20_000).step_by(100) {
            if balloon.pressure(11, ScanReason::Background, Millis(now)) {
                balloon.report(&page_age, Millis(now));
                sent += 1;
            }
        }
        assert_eq!(sent, 5, "one each two seconds");
        assert!(!balloon.pressure(12, ScanReason::Background, Millis(90_000)));
    }

    #[test]
    fn the_bytes_of_a_report() {
        let mut balloon = Balloon::new(0);
        balloon
            .receive(&message(OP_CONFIG, &[1000]))
            .expect("valid");
        let page_age = PageAge::new(balloon.bins().expect("configured"));
        let bytes = balloon.report(&page_age, Millis(1));
        let at =
            |n: usize| u64::from_le_bytes(bytes[8 + n * 8..][..8].try_into().expect("8 bytes"));
        assert_eq!(
            (bytes.len(), at(0), at(3), at(6)),
            (776, 1000, u64::MAX, u64::MAX)
        );
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let mut balloon = Balloon::new(0);
        for len in 0..300 {
            for byte in [0, 1, 2, 255] {
                let message = alloc::vec![byte; len];
                assert!(balloon.receive(&message).is_err(), "{len} times {byte}");
            }
        }
        assert!(balloon.bins().is_none());
    }
}
