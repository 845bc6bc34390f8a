//! Interface for code that is notified of each page that a walk finds, right after the walk's entry
//! was recorded in the age table.
//!
//! Invariant: between two calls of [`Listener::end`] for an owner, each page of the owner's
//! readable mappings is reported at most once. A page that is not reported was not mapped, or could
//! not be read in this scan (then `whole` is `false`).

use pagetables::{Entry, Piece};

use crate::age_table::{AgeTable, Owner};
use crate::system::{Identity, Mapping, Maps, Nodes};

/// What a walk knows about a piece: some consecutive page table entries of one mapping.
#[derive(Clone, Copy, Debug)]
pub struct PieceContext<'a> {
    /// Address space to which the piece belongs.
    pub owner: Owner,
    /// Mapping to which the piece belongs.
    pub mapping: &'a Mapping,
    /// Whether a set accessed bit means an access since the last scan. If false, the access may be
    /// older.
    pub trusted: bool,
    /// Whether the process has not run since before the last walk. If so, a bit that is set now was
    /// set, and reported, at the last walk.
    pub idle: bool,
    /// Whether the last scan kept the bits on purpose. If so, a bit that was set then was reported
    /// then.
    pub kept_bits: bool,
    /// Whether accesses may leave the accessed bit clear.
    pub hidden: bool,
    /// Whether an access makes another access likely, as the kernel assumes (`vma_has_recency`).
    /// False if the program has advised otherwise ([`pagetables::Mapping::is_advised`]).
    pub has_recency: bool,
    /// Mask of those bits of an entry that contain the frame's address.
    pub mask: u64,
    /// The age table, which knows the owner of each frame of this piece.
    pub age_table: &'a AgeTable,
    /// The NUMA nodes of the machine's frames.
    pub nodes: &'a Nodes,
}

/// Code that is notified of each page that a walk finds.
pub trait Listener {
    /// Called before the pages of an address space with these mappings are reported.
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps);

    /// Called for each piece of a mapping. Pieces are reported in any order (holes and huge pages
    /// before the page tables beside them).
    fn hear(&mut self, reported: PieceContext<'_>, piece: Piece<'_>);

    /// Called after all pages of an address space were reported. `whole`: no page had to be
    /// skipped.
    fn end(&mut self, owner: Owner, identity: Identity, whole: bool);

    /// Called when an address space has ended or can no longer be read.
    fn gone(&mut self, owner: Owner);
}

impl PieceContext<'_> {
    /// Returns whether a page counts as accessed since the last scan. A page whose time of access
    /// is unknown counts; an access that was reported before does not count again.
    #[must_use]
    pub fn is_young(&self, entry: Entry) -> bool {
        !self.idle && (entry.is_accessed() || !self.is_known(entry))
    }

    /// Returns whether an entry's accessed bit proves whether its page was accessed since the last
    /// scan.
    #[must_use]
    pub fn is_known(&self, entry: Entry) -> bool {
        self.trusted && !self.hidden && !entry.is_vague()
    }
}

/// Notifies both listeners, one after the other.
impl Listener for (&mut dyn Listener, &mut dyn Listener) {
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps) {
        self.0.begin(owner, identity, maps);
        self.1.begin(owner, identity, maps);
    }

    fn hear(&mut self, reported: PieceContext<'_>, piece: Piece<'_>) {
        self.0.hear(reported, piece);
        self.1.hear(reported, piece);
    }

    fn end(&mut self, owner: Owner, identity: Identity, whole: bool) {
        self.0.end(owner, identity, whole);
        self.1.end(owner, identity, whole);
    }

    fn gone(&mut self, owner: Owner) {
        self.0.gone(owner);
        self.1.gone(owner);
    }
}

/// Ignores all notifications.
impl Listener for () {
    fn begin(&mut self, _: Owner, _: Identity, _: &Maps) {}
    fn hear(&mut self, _: PieceContext<'_>, _: Piece<'_>) {}
    fn end(&mut self, _: Owner, _: Identity, _: bool) {}
    fn gone(&mut self, _: Owner) {}
}
