//! The host's side of working-set reports: makes messages to a guest (virtual machine), and reads
//! the guest's replies.
//! spec: workingset-report.md 7.
//!
//! Invariants: a guest accepts every message made here; bytes from a guest are read or refused with
//! a reason, and never cause a panic.

use super::balloon::{OP_CONFIG, OP_REQUEST, REQUEST_LEN};
use super::{Bins, MAX_NR_BINS};
use crate::units::{Bytes, Millis};
use alloc::vec::Vec;

/// Length of a guest's report, in bytes.
pub const REPORT_LEN: usize = 8 + 24 * MAX_NR_BINS;

/// Why a guest's reply was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// The guest refused the request, with this error number.
    Refused(u32),
    /// The reply is not a report: it has a wrong length, edges that do not increase, or no last
    /// bin.
    Malformed,
}

/// A line of a report: memory that was idle for longer than the edge of the previous line, and at
/// most as long as the edge of this line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeLine {
    /// The upper edge of the line; `None` for the last line.
    pub edge: Option<Millis>,
    /// Bytes of anon pages.
    pub anon: Bytes,
    /// Bytes of file pages.
    pub file: Bytes,
}

/// A working-set report of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestReport {
    /// Number of the guest's node.
    pub node: u32,
    /// The node's histogram, youngest pages first.
    pub lines: Vec<AgeLine>,
}

fn message(op: u16, node: u16, words: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_LEN);
    bytes.extend(op.to_le_bytes());
    bytes.extend(node.to_le_bytes());
    let padded = words.chain(core::iter::repeat(u32::MAX));
    padded
        .take(2 + MAX_NR_BINS)
        .for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

fn millis(span: Millis) -> u32 {
    u32::try_from(span.0)
        .unwrap_or(u32::MAX - 1)
        .min(u32::MAX - 1)
}

/// Makes the message that requests a report of node `node` from a guest.
#[must_use]
pub fn request_message(node: u16) -> Vec<u8> {
    message(OP_REQUEST, node, [0, 0].into_iter())
}

/// Makes the message that configures the reports of node `node` of a guest.
///
/// `bins` has the edges; `refresh` is the minimum time between two refreshes; `threshold` is the
/// minimum time between two reports that the guest sends by itself, because of pressure.
#[must_use]
pub fn config_message(node: u16, bins: &Bins, refresh: Millis, threshold: Millis) -> Vec<u8> {
    let edges = bins.edges().iter().map(|&edge| millis(edge));
    let words = [millis(threshold), millis(refresh)]
        .into_iter()
        .chain(edges);
    message(OP_CONFIG, node, words)
}

/// Reads a report that a guest sent.
///
/// # Errors
/// [`ReportError`] if the guest refused the request, or if the bytes are not a report.
pub fn read_report(bytes: &[u8]) -> Result<GuestReport, ReportError> {
    if bytes.len() != REPORT_LEN {
        return Err(ReportError::Malformed);
    }
    let (head, bins) = bytes.split_at(8);
    let word = |at: usize| {
        head[at..at + 4]
            .iter()
            .rev()
            .fold(0, |n, &b| n << 8 | u32::from(b))
    };
    if word(0) != 0 {
        return Err(ReportError::Refused(word(0)));
    }
    let mut lines: Vec<AgeLine> = Vec::new();
    for bin in bins.chunks_exact(24) {
        let field = |n: usize| {
            bin[n * 8..n * 8 + 8]
                .iter()
                .rev()
                .fold(0, |n, &b| n << 8 | u64::from(b))
        };
        let edge = (field(0) != u64::MAX).then_some(Millis(field(0)));
        let last = lines.last().and_then(|line| line.edge);
        if edge.is_some_and(|edge| last >= Some(edge)) {
            return Err(ReportError::Malformed);
        }
        lines.push(AgeLine {
            edge,
            anon: Bytes(field(1)),
            file: Bytes(field(2)),
        });
        if edge.is_none() {
            return Ok(GuestReport {
                node: word(4),
                lines,
            });
        }
    }
    Err(ReportError::Malformed)
}

impl GuestReport {
    /// Returns the sum of all lines, in bytes.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.sum(|_| true)
    }

    /// Returns the memory in all lines whose edge is above `age`, in bytes. If `age` is an edge,
    /// this memory was idle for longer than `age`.
    #[must_use]
    pub fn idle_longer_than(&self, age: Millis) -> Bytes {
        self.sum(|line| line.edge.is_none_or(|edge| edge > age))
    }

    fn sum(&self, is_included: impl Fn(&AgeLine) -> bool) -> Bytes {
        let lines = self.lines.iter().filter(|line| is_included(line));
        let bytes = lines.map(|line| line.anon.0.saturating_add(line.file.0));
        Bytes(bytes.fold(0, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::FolioType;
    use crate::units::Pages;
    use crate::workingset_report::{Balloon, BalloonError, PageAge};
    use proptest::prelude::*;

    fn configured(edges: &[u64]) -> (Balloon, Bins) {
        let edges: Vec<Millis> = edges.iter().copied().map(Millis).collect();
        let bins = Bins::new(&edges).expect("increasing");
        let mut balloon = Balloon::new(3);
        let config = config_message(3, &bins, Millis(500), Millis(2000));
        assert_eq!(balloon.receive(&config), Ok(false));
        (balloon, bins)
    }

    /// Host and guest use the same format: workingset-report.md 7.
    #[test]
    fn host_and_guest_understand_each_others_messages() {
        let (mut balloon, bins) = configured(&[1000, 5000]);
        assert_eq!(balloon.bins(), Some(&bins));
        assert_eq!(balloon.receive(&request_message(3)), Ok(true));
        assert_eq!(
            balloon.receive(&request_message(2)),
            Err(BalloonError::Invalid)
        );
        let mut page_age = PageAge::new(&bins);
        for (bin, pages) in [(0, 10), (1, 20), (2, 30)] {
            page_age.add_to(bin, FolioType::Anon, Pages(pages));
            page_age.add_to(bin, FolioType::File, Pages(1));
        }
        let read = read_report(&balloon.report(&page_age, Millis(1))).expect("a report");
        assert_eq!((read.node, read.lines.len()), (3, 3));
        assert_eq!(read.total(), Pages(63).bytes());
        assert_eq!(read.idle_longer_than(Millis(1000)), Pages(52).bytes());
        assert_eq!(read.idle_longer_than(Millis(5000)), Pages(31).bytes());
        let error = read_report(&balloon.error_report(BalloonError::Range));
        assert_eq!(error, Err(ReportError::Refused(34)));
    }

    #[test]
    fn a_full_configuration_fits() {
        let edges: Vec<u64> = (1..=31).collect();
        let (mut balloon, bins) = configured(&edges);
        let bytes = balloon.report(&PageAge::new(&bins), Millis(1));
        assert_eq!(read_report(&bytes).map(|read| read.lines.len()), Ok(32));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// A guest may send any bytes.
        #[test]
        fn hostile_guests(
            bytes in prop::collection::vec(any::<u8>(), 0..REPORT_LEN + 8),
            at in 0..REPORT_LEN,
            with in any::<u64>(),
        ) {
            prop_assert!(bytes.len() == REPORT_LEN || read_report(&bytes).is_err());
            let (mut balloon, bins) = configured(&[1000, 5000]);
            let mut bytes = balloon.report(&PageAge::new(&bins), Millis(1));
            let end = (at + 8).min(REPORT_LEN);
            bytes[at..end].copy_from_slice(&with.to_le_bytes()[..end - at]);
            if let Ok(read) = read_report(&bytes) {
                prop_assert!(!read.lines.is_empty() && read.lines.len() <= MAX_NR_BINS);
                prop_assert!(read.idle_longer_than(Millis(1000)) <= read.total());
            }
        }
    }
}
