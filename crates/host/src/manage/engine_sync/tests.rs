//! Tests of the engine sync: scans are given as pieces of page tables, and the engine must then
//! know the same pages.

use engine::memcg::MemcgLimits;
use engine::vmstat::VmEvent;
use engine::{MachineConfig, Swappiness};

use super::super::ids::CHUNK;
use super::*;
use crate::age_table::{AgeTable, Class, Observation};
use crate::system::Nodes;

const ONE: MemcgId = MemcgId::FIRST;
/// Bits of an entry that is neither writable nor dirty: a page of the file itself.
const READ: u64 = 0x21;
/// Bits of an anonymous page: the program's private copy of the file's page, which it wrote.
const WRITTEN: u64 = 0x63;
/// A page-table entry of a page in swap.
const OUT: u64 = 0x1000;
/// Bits of a page-table entry that hold the frame's physical address.
const FRAME_MASK: u64 = (1 << 46) - 4096;
/// Start address of the mapping.
const START: u64 = 7 * CHUNK;
/// The process in these tests.
const IDENTITY: Identity = Identity { pid: 7, started: 7 };

/// A process with a private mapping of a file, and the engine that knows its pages.
struct World {
    age_table: AgeTable,
    nodes: Nodes,
    owner: Owner,
    machine: Machine,
    tenant_map: TenantMap,
    members: Members,
    scans: u64,
    kind: Kind,
}

impl World {
    fn new() -> World {
        let mut age_table = AgeTable::new(0);
        let owner = age_table.add_owner().expect("room");
        let (config, limits) = (MachineConfig::default(), MemcgLimits::default());
        World {
            age_table,
            nodes: Nodes::parse(b""),
            owner,
            machine: Machine::of_one(config, limits, Millis(0)),
            tenant_map: TenantMap::default(),
            members: Members::default(),
            scans: 0,
            kind: Kind::File,
        }
    }

    /// Returns entries with these bits, and adds their frames to the age table as a scan does. Each
    /// present page has its own frame. A written page has another frame than the page from which it
    /// was copied.
    fn entries(&mut self, flags: &[u64]) -> Vec<Entry> {
        self.scans += 1;
        self.age_table.begin_scan(self.scans * 1000);
        let (scan, class) = (
            Observation {
                accessed: true,
                trusted: true,
                hidden: false,
                idle: false,
                kept_bits: false,
            },
            Class::new(0),
        );
        let mut entries = Vec::new();
        for (page, flags) in (1_u64..).zip(flags) {
            let frame = page + 1000 * u64::from(*flags == WRITTEN);
            let address = match *flags {
                OUT => 0,
                _ => frame << 12,
            };
            if address > 0 {
                let class = class.expect("there are some");
                self.age_table.see(self.owner, class, frame, 1, scan);
            }
            entries.push(Entry(flags | address));
        }
        self.age_table.end_scan();
        entries
    }

    /// Makes a scan that finds entries with these bits. Returns its findings.
    fn scan(&mut self, flags: &[u64]) -> ScanFindings {
        let entries = self.entries(flags);
        let mapping = Mapping {
            start: START,
            end: START + CHUNK,
            inode: 5,
            kind: self.kind,
            ..Mapping::default()
        };
        let reported = PieceContext {
            owner: self.owner,
            mapping: &mapping,
            trusted: true,
            hidden: false,
            idle: false,
            kept_bits: false,
            has_recency: true,
            mask: FRAME_MASK,
            age_table: &self.age_table,
            nodes: &self.nodes,
        };
        let piece = Piece::Pages {
            start: START,
            entries: &entries,
        };
        let tenant_of = |_| ONE;
        let mut engine_sync = EngineSync::new(
            &mut self.machine,
            (&mut self.tenant_map, &tenant_of),
            &mut self.members,
            None,
        );
        engine_sync.begin(self.owner, IDENTITY, &Maps::default());
        engine_sync.hear(reported, piece);
        engine_sync.end(self.owner, IDENTITY, true);
        let noticed = engine_sync.noticed;
        self.machine.check_invariants();
        noticed
    }

    /// Returns the number of pages in memory: anonymous pages, then pages of files.
    fn resident(&self) -> [u64; 2] {
        let lru = self.machine.lruvec(ONE).lru_gen();
        FolioType::ALL.map(|ty| lru.total(ty))
    }

    /// Returns the number of anonymous pages in memory on each of the two nodes.
    fn on_nodes(&self) -> [u64; 2] {
        let lruvec = self.machine.lruvec(ONE);
        [0, 1].map(|node| {
            let node = Some(NodeId::of_index(node));
            lruvec.evictable_on(node, Swappiness::ANON_ONLY).0
        })
    }

    /// The engine's counter of this event.
    fn counted(&self, event: VmEvent) -> u64 {
        self.machine.lruvec(ONE).stat().get(event)
    }
}

/// Regression: a swap-in was not counted if its frame had belonged to another tenant before, and
/// that tenant was scanned later.
#[test]
fn a_refault_into_a_frame_of_another_owner_is_counted() {
    let mut world = World::new();
    world.kind = Kind::Anon;
    world.scan(&[READ; 4]);
    let noticed = world.scan(&[OUT, OUT, READ, READ]);
    assert_eq!((noticed.left, world.resident()), (2, [2, 0]));
    // No scan walks the other owner, so in the age table the frames still belong to it.
    let other = world.age_table.add_owner().expect("room");
    let owner = std::mem::replace(&mut world.owner, other);
    world.entries(&[READ, READ]);
    world.owner = owner;
    let noticed = world.scan(&[READ; 4]);
    assert_eq!((noticed.came_back, noticed.anon_back), (2, 2));
    assert_eq!(world.resident(), [2, 0], "whose they are is not known yet");
    assert_eq!(world.counted(VmEvent::WorkingsetRefaultAnon), 2);
    world.age_table.remove_owner(other);
    let noticed = world.scan(&[READ; 4]);
    assert_eq!((noticed.came_back, world.resident()), (0, [4, 0]));
    assert_eq!(world.counted(VmEvent::WorkingsetRefaultAnon), 2);
}

/// Regression: a program mapped a file privately, read a page, and wrote the page later. The page
/// counted as the file's for ever, so memory.stat showed no anonymous memory, and the swap limit of
/// a tenant did not hold.
#[test]
fn a_written_page_of_a_private_file_mapping_is_anonymous() {
    let mut world = World::new();
    world.scan(&[READ; 4]);
    assert_eq!(world.resident(), [0, 4]);
    let noticed = world.scan(&[WRITTEN, WRITTEN, READ, READ]);
    assert_eq!(world.resident(), [2, 2]);
    assert_eq!(noticed, ScanFindings::default(), "none was out");
    // A second scan of the same pages reports no change.
    let faults = world.counted(VmEvent::Pgfault);
    world.scan(&[WRITTEN, WRITTEN, READ, READ]);
    assert_eq!(world.counted(VmEvent::Pgfault), faults);
    // In swap the page counts as anonymous.
    let noticed = world.scan(&[OUT, WRITTEN, READ, READ]);
    assert_eq!((noticed.left, world.resident()), (1, [1, 2]));
    assert_eq!(world.machine.lruvec(ONE).out(FolioType::Anon), Pages(1));
    let noticed = world.scan(&[WRITTEN, WRITTEN, READ, READ]);
    assert_eq!((noticed.came_back, world.resident()), (1, [2, 2]));
    // The program maps the file again at these addresses.
    world.scan(&[READ; 4]);
    assert_eq!(world.resident(), [0, 4]);
}

/// The engine knows on which node each page is: from the page's frame, at each scan. Frames of
/// pages that were written are numbered from 1,000 on.
#[test]
fn a_page_is_on_the_node_of_its_frame() {
    let mut world = World::new();
    let zones = "Node 0, zone Normal\n spanned 1000\n start_pfn: 0\nNode 1, zone Normal\n spanned 9000\n start_pfn: 1000\n";
    world.nodes = Nodes::parse(zones.as_bytes());
    world.kind = Kind::Anon;
    world.scan(&[READ, WRITTEN, WRITTEN, READ, READ]);
    assert_eq!(world.on_nodes(), [3, 2]);
    // Two pages move to another node, one in each direction; two more leave, one of them for ever.
    world.scan(&[WRITTEN, READ, OUT, 0, READ]);
    assert_eq!(world.on_nodes(), [2, 1]);
    // A page that comes back is where its new frame is.
    world.scan(&[WRITTEN, READ, READ, 0, READ]);
    assert_eq!(world.on_nodes(), [3, 1]);
    world.scan(&[READ; 5]);
    assert_eq!(world.on_nodes(), [5, 0]);
}
