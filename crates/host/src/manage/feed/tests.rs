//! Looks go in as pieces of tables, and the engine has what they found.

use engine::MachineConfig;
use engine::memcg::MemcgLimits;
use engine::vmstat::VmEvent;

use super::super::ids::CHUNK;
use super::*;
use crate::books::{Books, Class, Observation};
use crate::system::Device;

const ONE: MemcgId = MemcgId::FIRST;
/// Neither writable nor dirty: a page of the file itself.
const READ: u64 = 0x21;
/// The program's own, copied from the file's as it was written.
const WRITTEN: u64 = 0x63;
/// An entry of swap.
const OUT: u64 = 0x1000;
const MASK: u64 = (1 << 46) - 4096;
const START: u64 = 7 * CHUNK;
const IDENTITY: Identity = Identity { pid: 7, started: 7 };

/// A process that maps a file privately.
struct World {
    books: Books,
    owner: Owner,
    machine: Machine,
    homes: Homes,
    members: Members,
    looks: u64,
    kind: Kind,
}

impl World {
    fn new() -> World {
        let mut books = Books::new(0);
        let owner = books.add_owner().expect("room");
        let (config, limits) = (MachineConfig::default(), MemcgLimits::default());
        World {
            books,
            owner,
            machine: Machine::of_one(config, limits, Millis(0)),
            homes: Homes::default(),
            members: Members::default(),
            looks: 0,
            kind: Kind::File,
        }
    }

    /// Entries with these bits, as a round of the books finds them: each present one with a frame of its own, and what is written with
    /// another than what it was copied from.
    fn entries(&mut self, flags: &[u64]) -> Vec<Entry> {
        self.looks += 1;
        self.books.begin_round(self.looks * 1000);
        let (look, class) = (
            Observation {
                accessed: true,
                trusted: true,
                hidden: false,
                slept: false,
                spared: false,
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
                self.books.see(self.owner, class, frame, 1, look);
            }
            entries.push(Entry(flags | address));
        }
        self.books.end_round();
        entries
    }

    /// A look that finds entries with these bits.
    fn look(&mut self, flags: &[u64]) -> Noticed {
        let entries = self.entries(flags);
        let mapping = Mapping {
            start: START,
            end: START + CHUNK,
            readable: true,
            writable: true,
            executable: false,
            shared: false,
            offset: 0,
            device: Device { major: 0, minor: 0 },
            inode: 5,
            kind: self.kind,
        };
        let told = Told {
            owner: self.owner,
            mapping: &mapping,
            trusted: true,
            hidden: false,
            slept: false,
            spared: false,
            has_recency: true,
            mask: MASK,
            books: &self.books,
        };
        let piece = Piece::Pages {
            start: START,
            entries: &entries,
        };
        let home_of = |_| ONE;
        let mut feed = Feed::new(
            &mut self.machine,
            (&mut self.homes, &home_of),
            &mut self.members,
            None,
        );
        feed.begin(self.owner, IDENTITY, &Maps::default());
        feed.hear(told, piece);
        feed.end(self.owner, IDENTITY, true);
        let noticed = feed.noticed;
        self.machine.check_invariants();
        noticed
    }

    /// Pages in memory, without and with a file.
    fn resident(&self) -> [u64; 2] {
        let lru = self.machine.lruvec(ONE).lru_gen();
        FolioType::ALL.map(|ty| lru.total(ty))
    }

    fn counted(&self, event: VmEvent) -> u64 {
        self.machine.lruvec(ONE).stat().get(event)
    }
}

/// (The story: a swap-in was not counted where its frame had been another tenant's until then, and that tenant was looked at later.)
#[test]
fn what_comes_back_to_a_frame_of_anothers_is_counted() {
    let mut world = World::new();
    world.kind = Kind::Anon;
    world.look(&[READ; 4]);
    let noticed = world.look(&[OUT, OUT, READ, READ]);
    assert_eq!((noticed.left, world.resident()), (2, [2, 0]));
    // The other is read in no look: the frames stay its until its next one.
    let other = world.books.add_owner().expect("room");
    let owner = std::mem::replace(&mut world.owner, other);
    world.entries(&[READ, READ]);
    world.owner = owner;
    let noticed = world.look(&[READ; 4]);
    assert_eq!((noticed.came_back, noticed.anon_back), (2, 2));
    assert_eq!(world.resident(), [2, 0], "whose they are is not known yet");
    assert_eq!(world.counted(VmEvent::WorkingsetRefaultAnon), 2);
    world.books.remove_owner(other);
    let noticed = world.look(&[READ; 4]);
    assert_eq!((noticed.came_back, world.resident()), (0, [4, 0]));
    assert_eq!(world.counted(VmEvent::WorkingsetRefaultAnon), 2);
}

/// What a program had read of a file that it maps privately, and wrote later, counted as the file's for ever: memory.stat told of no
/// anonymous memory, and what a tenant may have in swap did not hold.
#[test]
fn a_page_of_a_file_that_is_written_is_the_programs_own() {
    let mut world = World::new();
    world.look(&[READ; 4]);
    assert_eq!(world.resident(), [0, 4]);
    let noticed = world.look(&[WRITTEN, WRITTEN, READ, READ]);
    assert_eq!(world.resident(), [2, 2]);
    assert_eq!(noticed, Noticed::default(), "none was out");
    // Told once.
    let faults = world.counted(VmEvent::Pgfault);
    world.look(&[WRITTEN, WRITTEN, READ, READ]);
    assert_eq!(world.counted(VmEvent::Pgfault), faults);
    // In swap it counts as such.
    let noticed = world.look(&[OUT, WRITTEN, READ, READ]);
    assert_eq!((noticed.left, world.resident()), (1, [1, 2]));
    assert_eq!(world.machine.lruvec(ONE).out(FolioType::Anon), Pages(1));
    let noticed = world.look(&[WRITTEN, WRITTEN, READ, READ]);
    assert_eq!((noticed.came_back, world.resident()), (1, [2, 2]));
    // The addresses are mapped anew.
    world.look(&[READ; 4]);
    assert_eq!(world.resident(), [0, 4]);
}
