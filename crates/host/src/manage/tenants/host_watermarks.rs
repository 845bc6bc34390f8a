//! How much memory the host lacks, or one of its NUMA nodes, and when that is measured next.
//!
//! Invariant: reclaim begins when available memory is below the low watermark and ends when it is
//! above the high one, like kswapd. Between the two a reclaim in progress continues, and none
//! begins. While tasks stall for memory ([PSI](crate::system::pressure)), reclaim begins at the
//! high watermark, because the kernel is already reclaiming.
//!
//! Of a host with several nodes, each node has the watermarks in proportion to its memory. Nodes
//! are measured only while the host as a whole has enough: programs that are bound to a full node
//! cannot use what the others have, and MemAvailable is a sum of all.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::Pages;
use engine::units::PAGE_SIZE;
use engine::vmscan::Headroom;

use super::super::moment::Moment;
use super::under_way::Lack;
use crate::system::NodeMemory;

/// Time between two measurements while nothing must be reclaimed.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Pause after a reclaim that got nothing: all reclaimable memory is swapped out.
const IN_VAIN: Duration = Duration::from_secs(10);

/// Bytes of available memory (MemAvailable of /proc/meminfo) by which reclaim for the host is
/// started and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// If less is available, reclaim begins.
    pub low: u64,
    /// If more is available, reclaim ends.
    pub high: u64,
}

impl Watermarks {
    /// Returns the number of pages that are lacking when `available` bytes are available; `None` if
    /// nothing must be reclaimed. `is_on`: reclaim has begun, or tasks stall.
    fn lack(self, available: u64, is_on: bool) -> Option<Pages> {
        let begin = if is_on { self.high } else { self.low };
        (available < begin).then(|| Pages((self.high - available).div_ceil(PAGE_SIZE)))
    }

    /// Returns the watermarks of a node that has `part` of the host's `whole` bytes of memory.
    fn of_part(self, part: u64, whole: u64) -> Watermarks {
        let of = |mark: u64| {
            let share = u128::from(mark) * u128::from(part) / u128::from(whole.max(1));
            u64::try_from(share).unwrap_or(mark)
        };
        Watermarks {
            low: of(self.low),
            high: of(self.high),
        }
    }
}

/// When the host's memory is measured next, and whether reclaim for the host is in progress.
#[derive(Debug)]
pub(super) struct HostPressure {
    /// The watermarks; `None` disables reclaim for the host.
    marks: Option<Watermarks>,
    /// When the host's memory is measured next; then when that of its nodes is.
    next: Moment,
    next_of_nodes: Moment,
    /// Whether reclaim has begun and not yet reached the high watermark.
    is_on: bool,
    /// The numbers of the nodes for which reclaim has begun, and that have not yet reached their
    /// high watermark.
    nodes_on: BTreeSet<u32>,
}

impl HostPressure {
    pub(super) fn new(marks: Option<Watermarks>) -> HostPressure {
        HostPressure {
            marks,
            next: Moment::BEGIN,
            next_of_nodes: Moment::BEGIN,
            is_on: false,
            nodes_on: BTreeSet::new(),
        }
    }

    /// Replaces the watermarks; an earlier reclaim is forgotten.
    pub(super) fn set_marks(&mut self, marks: Option<Watermarks>) {
        *self = HostPressure::new(marks);
    }

    /// Returns the time until the host's memory is measured; `None` if there are no watermarks.
    pub(super) fn wait(&self, now: Moment) -> Option<Duration> {
        self.marks.map(|_| self.next.since(now))
    }

    /// Sets the time of the next measurement, as the host's memory is being measured.
    pub(super) fn begin(&mut self, now: Moment) {
        self.next = now.after(EVERY);
    }

    /// Whether it is time to measure the nodes, if the host as a whole lacks nothing.
    pub(super) fn are_nodes_due(&self, now: Moment) -> bool {
        now >= self.next_of_nodes
    }

    /// Sets the time of the next measurement after a reclaim that got `got` pages.
    pub(super) fn end(&mut self, now: Moment, got: Pages, lack: &Lack) {
        let rest = rest_after(got, lack.wanted);
        // A node whose pages cannot be reclaimed must not delay reclaim for the whole host.
        match lack.node {
            None => self.next = now.after(rest),
            Some(_) => {
                self.next_of_nodes = now.after(rest);
                self.next = now.after(rest.min(EVERY));
            }
        }
    }

    /// Returns the number of pages to reclaim when `available` bytes of the host's memory are
    /// available.
    pub(super) fn wanted(&mut self, available: u64, is_stalled: bool) -> Pages {
        let is_on = self.is_on || is_stalled;
        let lack = self.marks.and_then(|marks| marks.lack(available, is_on));
        self.is_on = lack.is_some();
        lack.unwrap_or_default()
    }

    /// Returns what the node lacks that lacks most; `None` if none lacks memory. `nodes`: the index
    /// and the memory of each node.
    pub(super) fn wanted_of_nodes(
        &mut self,
        nodes: &[(usize, NodeMemory)],
        is_stalled: bool,
    ) -> Option<Lack> {
        let marks = self.marks?;
        let whole = nodes.iter().map(|(_, memory)| memory.total).sum();
        let lack = |&(index, memory): &(usize, NodeMemory)| {
            let is_on = is_stalled || self.nodes_on.contains(&memory.node);
            let marks = marks.of_part(memory.total, whole);
            Some(Lack {
                node: Some((index, memory.node)),
                available: memory.available,
                wanted: marks.lack(memory.available, is_on)?,
            })
        };
        let lacking: Vec<Lack> = nodes.iter().filter_map(lack).collect();
        let numbers = lacking.iter().filter_map(|lack| lack.node);
        self.nodes_on = numbers.map(|(_, number)| number).collect();
        lacking.into_iter().max_by_key(|lack| lack.wanted)
    }
}

/// Returns the pause after a reclaim for the host that got `got` of `wanted` pages.
fn rest_after(got: Pages, wanted: Pages) -> Duration {
    match got {
        Pages(0) => IN_VAIN,
        got if Headroom::is_worth_it(got, wanted) => Duration::ZERO,
        // With no pause, reclaim would request only a few pages again and again.
        _ => EVERY,
    }
}

#[cfg(test)]
mod tests {
    use engine::vmscan::PAGES_PER_MEASUREMENT;

    use super::super::super::moment::at_ms;
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn reclaim_begins_below_the_low_watermark_and_ends_above_the_high_one() {
        let marks = Watermarks {
            low: 100 * MIB,
            high: 200 * MIB,
        };
        let mut pressure = HostPressure::new(Some(marks));
        for (available, is_stalled, wanted) in [
            (150, false, 0),
            (99, false, 101),
            (150, false, 50),
            (200, false, 0),
            // Once above the high watermark, reclaim does not begin again between the watermarks.
            (150, false, 0),
            (150, true, 50),
            (201, true, 0),
        ] {
            let got = pressure.wanted(available * MIB, is_stalled);
            assert_eq!(got, Pages(wanted * 256), "{available} {is_stalled}");
        }
        assert_eq!(HostPressure::new(None).wanted(0, true), Pages(0));
    }

    /// The host has enough, and one of its nodes is full.
    #[test]
    fn a_node_has_its_share_of_the_watermarks() {
        let marks = Watermarks {
            low: 400 * MIB,
            high: 800 * MIB,
        };
        let mut pressure = HostPressure::new(Some(marks));
        let mut wanted = |available: [u64; 2], is_stalled| {
            // Node 0 has a quarter of the memory, and so 100 and 200 MiB of the watermarks.
            let memory = |node, total, available| NodeMemory {
                node,
                total: total * MIB,
                available: available * MIB,
            };
            let nodes = [
                (0, memory(0, 1000, available[0])),
                (1, memory(5, 3000, available[1])),
            ];
            let lack = pressure.wanted_of_nodes(&nodes, is_stalled)?;
            Some((lack.node?, lack.available / MIB, lack.wanted.0 / 256))
        };
        assert_eq!(wanted([100, 2000], false), None);
        assert_eq!(wanted([99, 2000], false), Some(((0, 0), 99, 101)));
        assert_eq!(wanted([150, 2000], false), Some(((0, 0), 150, 50)));
        // The other node lacks more.
        assert_eq!(wanted([150, 200], false), Some(((1, 5), 200, 400)));
        assert_eq!(wanted([200, 600], false), None);
        assert_eq!(wanted([150, 400], false), None, "neither has begun again");
        assert_eq!(wanted([150, 700], true), Some(((0, 0), 150, 50)));
        assert_eq!(HostPressure::new(None).wanted_of_nodes(&[], true), None);
    }

    /// Regression: if a reclaim got a single page of all that the host lacked, the next one began
    /// without a pause, again and again.
    #[test]
    fn the_less_is_reclaimed_the_longer_the_pause() {
        for (got, rest) in [
            (0, IN_VAIN),
            (1, EVERY),
            (255, EVERY),
            (256, Duration::ZERO),
        ] {
            assert_eq!(
                rest_after(Pages(got), Pages(PAGES_PER_MEASUREMENT)),
                rest,
                "{got}"
            );
        }
        // If the host lacks few pages, few reclaimed pages are enough.
        assert_eq!(rest_after(Pages(1), Pages(20)), Duration::ZERO);
    }

    #[test]
    fn a_node_that_cannot_be_reclaimed_does_not_delay_the_host() {
        let marks = Some(Watermarks { low: 1, high: 2 });
        let mut pressure = HostPressure::new(marks);
        assert_eq!(pressure.wait(at_ms(0)), Some(Duration::ZERO));
        assert_eq!(HostPressure::new(None).wait(at_ms(0)), None);
        pressure.begin(at_ms(500));
        assert_eq!(pressure.wait(at_ms(600)), Some(Duration::from_millis(900)));
        let mut lack = Lack {
            node: Some((1, 1)),
            available: 0,
            wanted: Pages(100),
        };
        pressure.end(at_ms(2000), Pages(0), &lack);
        assert_eq!(pressure.wait(at_ms(2000)), Some(EVERY));
        assert!(!pressure.are_nodes_due(at_ms(11_999)) && pressure.are_nodes_due(at_ms(12_000)));
        lack.node = None;
        pressure.end(at_ms(3000), Pages(0), &lack);
        assert_eq!(pressure.wait(at_ms(3000)), Some(IN_VAIN));
        // A reclaim that got much is followed by the next one at once.
        pressure.end(at_ms(13_000), Pages(50), &lack);
        assert_eq!(pressure.wait(at_ms(13_000)), Some(Duration::ZERO));
    }
}
