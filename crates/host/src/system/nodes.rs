//! Which NUMA node a page frame belongs to, from `/proc/zoneinfo` (proc_zoneinfo(5)).
//!
//! Invariant: pieces (frames of one node in a row) are in ascending order and do not overlap, and
//! neighbouring pieces are of different nodes. If the memory of nodes is interleaved, their zones
//! overlap. A frame in two zones counts to the shorter zone, which is more precise but may be
//! wrong.

use super::error::Error;
use super::proc::Proc;
use super::text::{lines, number, number32, words};

/// The NUMA node of each page frame.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nodes {
    /// Number of the first frame of each piece, and the piece's node. Frames before the first piece
    /// count to that piece.
    pieces: Vec<(u64, u32)>,
    /// The numbers of all nodes that have memory, ascending.
    nodes: Vec<u32>,
}

/// The frames of one zone: `spanned` frames from number `start` on.
#[derive(Clone, Copy, Default)]
struct Zone {
    node: u32,
    start: Option<u64>,
    spanned: u64,
}

impl Nodes {
    /// Parses a zoneinfo text. If it names no node, all frames are of node 0.
    #[must_use]
    pub fn parse(text: &[u8]) -> Nodes {
        let mut zones: Vec<Zone> = Vec::new();
        for line in lines(text) {
            let mut words = words(line);
            match (words.next(), words.next()) {
                (Some(b"Node"), Some(node)) => {
                    let node = node.strip_suffix(b",").unwrap_or(node);
                    zones.extend(number32(node).map(|node| Zone {
                        node,
                        ..Zone::default()
                    }));
                }
                (Some(b"spanned"), Some(frames)) => {
                    let Some(zone) = zones.last_mut() else {
                        continue;
                    };
                    zone.spanned = number(frames).unwrap_or(0);
                }
                (Some(b"start_pfn:"), Some(frame)) => {
                    let Some(zone) = zones.last_mut() else {
                        continue;
                    };
                    zone.start = number(frame);
                }
                _ => {}
            }
        }
        Nodes::of(zones)
    }

    /// Assigns frames to nodes by their zones.
    fn of(mut zones: Vec<Zone>) -> Nodes {
        // A zone without memory has no start. Long zones come first, so that shorter ones overwrite
        // them.
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
    /// devices) counts to the node of a neighbouring zone.
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
    /// `/proc/zoneinfo` is there and may not be read.
    pub fn nodes(&self) -> Result<Nodes, Error> {
        Ok(Nodes::parse(
            &self.read_own("zoneinfo")?.unwrap_or_default(),
        ))
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
            let _ = Nodes::parse(&bytes).node_of(frame);
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
