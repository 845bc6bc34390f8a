//! Which NUMA node a page frame belongs to, and how much memory of each node is available, from
//! `/proc/zoneinfo` (proc_zoneinfo(5)).
//!
//! Invariant: pieces (consecutive frames of one node) are in ascending order and do not overlap,
//! and neighbouring pieces are of different nodes. If the memory of nodes is interleaved, their
//! zones overlap. A frame in two zones is assigned to the shorter zone, which is more precise but
//! may be wrong.

use engine::units::PAGE_SIZE;

use super::error::Error;
use super::proc::Proc;
use super::text::{lines, number, number32, words};

/// The NUMA node of each page frame.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nodes {
    /// Number of the first frame of each piece, and the piece's node. Frames before the first piece
    /// belong to its node.
    pieces: Vec<(u64, u32)>,
    /// The numbers of all nodes that have memory, ascending.
    nodes: Vec<u32>,
}

/// The memory of one NUMA node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeMemory {
    /// The node's number.
    pub node: u32,
    /// Bytes that the kernel manages.
    pub total: u64,
    /// Bytes that programs can get from the node without swapping: an estimate like the kernel's
    /// MemAvailable, for this node alone.
    pub available: u64,
}

/// One zone: `spanned` frames from number `start` on. Sizes are in pages.
#[derive(Clone, Copy, Default)]
struct Zone {
    node: u32,
    start: Option<u64>,
    spanned: u64,
    free: u64,
    managed: u64,
    low: u64,
    high: u64,
    /// The largest reserve that the zone keeps from allocations that could use a higher zone.
    protection: u64,
    /// Page cache of the zone's node; the kernel prints it in the node's first zone only.
    cache: u64,
    /// Reclaimable kernel memory of the node; the kernel prints it in the node's first zone only.
    slab: u64,
}

impl Zone {
    /// Stores the value of a line of the zone; ignores lines with other names.
    fn note(&mut self, line: &[u8]) {
        let mut words = words(line);
        let Some(name) = words.next() else {
            return;
        };
        if name == b"protection:" {
            let digits = |word: &[u8]| {
                let digits = word.iter().copied().filter(u8::is_ascii_digit);
                number(&digits.collect::<Vec<u8>>())
            };
            self.protection = words.filter_map(digits).max().unwrap_or(0);
            return;
        }
        // In the line `pages free` the number follows the second word.
        let value = words.filter_map(number).next();
        let Some(value) = value else {
            return;
        };
        match name {
            b"pages" => self.free = value,
            b"low" => self.low = value,
            b"high" => self.high = value,
            b"managed" => self.managed = value,
            b"spanned" => self.spanned = value,
            b"start_pfn:" => self.start = Some(value),
            b"nr_active_file" | b"nr_inactive_file" => {
                self.cache = self.cache.saturating_add(value);
            }
            b"nr_slab_reclaimable" | b"nr_kernel_misc_reclaimable" => {
                self.slab = self.slab.saturating_add(value);
            }
            _ => {}
        }
    }
}

/// Parses the zones of a zoneinfo text.
fn zones(text: &[u8]) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in lines(text) {
        let mut words = words(line);
        if let (Some(b"Node"), Some(node)) = (words.next(), words.next()) {
            let node = node.strip_suffix(b",").unwrap_or(node);
            zones.extend(number32(node).map(|node| Zone {
                node,
                ..Zone::default()
            }));
        } else if let Some(zone) = zones.last_mut() {
            zone.note(line);
        }
    }
    zones
}

/// Returns the memory of each node that has memory, in ascending order of their numbers.
///
/// Available memory is estimated as the kernel estimates MemAvailable for the whole machine
/// (Documentation/filesystems/proc.rst), but with the node's own figures. It is the sum of: the
/// free memory above each zone's reserve (its high watermark, and what it keeps from allocations
/// that could use another zone), most of the page cache, and most of the reclaimable kernel memory.
/// From each of the last two the zones' low watermarks are subtracted, but at most half.
fn memory(zones: &[Zone]) -> Vec<NodeMemory> {
    let mut nodes: Vec<u32> = zones
        .iter()
        .filter(|zone| zone.managed > 0)
        .map(|zone| zone.node)
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let memory_of = |node: u32| {
        let own = zones.iter().filter(|zone| zone.node == node);
        let sum = |value: fn(&Zone) -> u64| {
            let values = own.clone().map(value);
            values.fold(0, u64::saturating_add)
        };
        let reserve = sum(|zone| {
            let reserve = zone.protection.saturating_add(zone.high);
            reserve.min(zone.managed)
        });
        let low = sum(|zone| zone.low);
        let usable = |pages: u64| pages - (pages / 2).min(low);
        let pages = sum(|zone| zone.free)
            .saturating_add(usable(sum(|zone| zone.cache)))
            .saturating_add(usable(sum(|zone| zone.slab)))
            .saturating_sub(reserve);
        NodeMemory {
            node,
            total: sum(|zone| zone.managed).saturating_mul(PAGE_SIZE),
            available: pages.saturating_mul(PAGE_SIZE),
        }
    };
    nodes.into_iter().map(memory_of).collect()
}

impl Nodes {
    /// Parses a zoneinfo text. If it names no node, all frames are of node 0.
    #[must_use]
    pub fn parse(text: &[u8]) -> Nodes {
        Nodes::of(zones(text))
    }

    /// Assigns frames to nodes by their zones.
    fn of(mut zones: Vec<Zone>) -> Nodes {
        // A zone without memory has no start. Zones are assigned from the longest to the shortest,
        // so that shorter ones take precedence.
        zones.retain(|zone| zone.spanned > 0 && zone.start.is_some());
        zones.sort_by_key(|zone| std::cmp::Reverse(zone.spanned));
        let mut pieces: Vec<(u64, u32)> = Vec::new();
        for zone in &zones {
            let start = zone.start.unwrap_or(0);
            assign(
                &mut pieces,
                start,
                start.saturating_add(zone.spanned),
                zone.node,
            );
        }
        pieces.dedup_by_key(|piece| piece.1);
        let mut nodes: Vec<u32> = zones.iter().map(|zone| zone.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            nodes.push(0);
        }
        Nodes { pieces, nodes }
    }

    /// Returns the node of a frame. A frame in no zone (memory that was added later, mostly of
    /// devices) belongs to the node of a neighbouring zone.
    #[must_use]
    pub fn node_of(&self, frame: u64) -> u32 {
        // Most machines have one node.
        if let [node] = self.nodes[..] {
            return node;
        }
        let after = self.pieces.partition_point(|piece| piece.0 <= frame);
        self.pieces
            .get(after.saturating_sub(1))
            .map_or(0, |piece| piece.1)
    }

    /// Returns the index, in [`Nodes::all`], of the node of a frame.
    #[must_use]
    pub fn index_of(&self, frame: u64) -> usize {
        if self.nodes.len() < 2 {
            return 0;
        }
        self.index(self.node_of(frame)).unwrap_or(0)
    }

    /// Returns the index, in [`Nodes::all`], of the node with this number; `None` if there is none.
    #[must_use]
    pub fn index(&self, node: u32) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }

    /// Returns the numbers of all nodes that have memory, ascending; at least one.
    #[must_use]
    pub fn all(&self) -> &[u32] {
        &self.nodes
    }
}

/// Assigns the frames from `start` up to, not including, `end` to a node. Frames from `end` on keep
/// their node.
fn assign(pieces: &mut Vec<(u64, u32)>, start: u64, end: u64, node: u32) {
    let from = pieces.partition_point(|piece| piece.0 < start);
    let to = pieces.partition_point(|piece| piece.0 <= end);
    let after = pieces[..to]
        .last()
        .filter(|piece| piece.0 < end || to > from)
        .copied();
    let mut new = vec![(start, node)];
    new.extend(after.map(|(_, node)| (end, node)));
    pieces.splice(from..to, new);
}

impl Proc {
    /// Returns the nodes of the machine's frames; node 0 alone if the kernel lists none.
    ///
    /// # Errors
    /// `/proc/zoneinfo` exists but may not be read.
    pub fn nodes(&self) -> Result<Nodes, Error> {
        Ok(Nodes::parse(
            &self.read_own("zoneinfo")?.unwrap_or_default(),
        ))
    }

    /// Returns the memory of each NUMA node, in ascending order of their numbers; none if the
    /// kernel lists no node.
    ///
    /// # Errors
    /// `/proc/zoneinfo` exists but may not be read.
    pub fn memory_of_nodes(&self) -> Result<Vec<NodeMemory>, Error> {
        let text = self.read_own("zoneinfo")?.unwrap_or_default();
        Ok(memory(&zones(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(zones: &[(u32, u64, u64)]) -> String {
        let zone = |&(node, start, spanned): &(u32, u64, u64)| {
            format!(
                "Node {node}, zone   Normal\n  pages free     3\n        spanned  {spanned}\n        present  1\n  start_pfn:           {start}\n"
            )
        };
        zones.iter().map(zone).collect()
    }

    #[test]
    fn this_machine() {
        let nodes = Proc::system().unwrap().nodes().unwrap();
        assert!(nodes.all().contains(&nodes.node_of(1 << 18)));
        assert_eq!(Nodes::parse(b"").all(), [0]);
    }

    #[test]
    fn two_nodes_and_an_empty_zone() {
        let mut zones = text(&[(0, 1, 4095), (0, 4096, 96_000), (1, 100_096, 100_000)]);
        zones.push_str("Node 1, zone  Movable\n        spanned  0\n        present  0\n");
        let nodes = Nodes::parse(zones.as_bytes());
        assert_eq!(nodes.all(), [0, 1]);
        let of = [0, 1, 100_095, 100_096, 200_095, 1 << 40].map(|frame| nodes.node_of(frame));
        assert_eq!(of, [0, 0, 0, 1, 1, 1]);
    }

    /// On a machine with one node the estimate equals the kernel's MemAvailable; with several
    /// nodes, the sum of their estimates is near it.
    #[test]
    fn available_is_what_the_kernel_says() {
        let proc = Proc::system().unwrap();
        // Other programs allocate memory between the two reads.
        let is_near = || {
            let nodes = proc.memory_of_nodes().unwrap();
            let sum = |of: fn(&NodeMemory) -> u64| nodes.iter().map(of).sum::<u64>();
            let memory = proc.memory().unwrap();
            // A balloon of a virtual machine takes pages from the zones, but not from MemTotal and
            // MemAvailable.
            let ballooned = memory.total.saturating_sub(sum(|node| node.total));
            let ours = sum(|node| node.available) + ballooned;
            ours.abs_diff(memory.available) <= memory.total / 200 + ballooned / 10
        };
        assert!((0..20).any(|_| is_near()), "{:?}", proc.memory_of_nodes());
    }

    #[test]
    fn a_node_has_its_own_memory_available() {
        let zone = |node: u32, first: &str, free: u64| {
            format!(
                "Node {node}, zone   Normal\n{first}  pages free     {free}\n        min      10\n        low      100\n        high     150\n        managed  9000\n        protection: (0, 40, 50)\n  pagesets\n    cpu: 0\n              high:     777\n              count:    777\n  start_pfn:           1\n"
            )
        };
        let stats = "  per-node stats\n      nr_inactive_file 300\n      nr_active_file 500\n      nr_slab_reclaimable 60\n";
        let text = zone(0, stats, 1000) + &zone(0, "", 30) + &zone(3, "", 5000);
        let pages = |node, total, available| NodeMemory {
            node,
            total: total * PAGE_SIZE,
            available: available * PAGE_SIZE,
        };
        // Each zone has a reserve of 200. Of the page cache 200 do not count, and half of the
        // kernel's 60.
        let first = 1030 - 2 * 200 + (800 - 200) + 30;
        assert_eq!(
            memory(&zones(text.as_bytes())),
            [pages(0, 18_000, first), pages(3, 9000, 4800)]
        );
        // Less than the reserve is free.
        let full = zone(0, "", 20);
        assert_eq!(memory(&zones(full.as_bytes())), [pages(0, 9000, 0)]);
        assert!(memory(&zones(b"")).is_empty());
    }

    #[test]
    fn a_node_within_another() {
        let nodes = Nodes::parse(text(&[(1, 300, 100), (0, 0, 1000)]).as_bytes());
        assert_eq!(
            [299, 300, 399, 400].map(|frame| nodes.node_of(frame)),
            [0, 1, 1, 0]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), frame in any::<u64>()) {
            let _ = (Nodes::parse(&bytes).index_of(frame), memory(&zones(&bytes)));
        }

        #[test]
        fn a_frame_counts_to_the_shortest_zone(zones in prop::collection::vec((0u32..3, 0u64..60, 1u64..40), 1..6), frame in 0u64..110) {
            let nodes = Nodes::parse(text(&zones).as_bytes());
            let within = zones.iter().filter(|zone| (zone.1..zone.1 + zone.2).contains(&frame));
            let shortest = within.clone().map(|zone| zone.2).min();
            let allowed: Vec<u32> = within.filter(|zone| Some(zone.2) == shortest).map(|zone| zone.0).collect();
            if !allowed.is_empty() {
                prop_assert!(allowed.contains(&nodes.node_of(frame)), "{frame} in {nodes:?}");
            }
            prop_assert!(nodes.pieces.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 != w[1].1));
        }
    }
}
