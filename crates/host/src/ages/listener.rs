//! Interface for code that is notified of each page that a walk finds, right after the age table
//! was updated.
//!
//! Invariant: between two calls of [`Listener::end`] for an owner, each page of its readable
//! mappings is reported at most once. A page that is not reported was not mapped, or could not be
//! read this time (then `whole` is `false`).

use pagetables::{Entry, Piece};

use crate::age_table::{AgeTable, Owner};
use crate::system::{Identity, Mapping, Maps, Nodes};

/// What a walk knows about a piece, that is, about some consecutive page table entries.
#[derive(Clone, Copy, Debug)]
pub struct PieceContext<'a> {
    /// Address space that the piece belongs to.
    pub owner: Owner,
    /// Mapping that the piece belongs to.
    pub mapping: &'a Mapping,
    /// Whether an accessed bit that is set was set since the last scan. If not, the access may be
    /// older.
    pub trusted: bool,
    /// Whether the process has done nothing since before the last walk. If so, a bit that is set
    /// now was set, and reported, at the last walk.
    pub idle: bool,
    /// Whether the last scan did not clear the bits. If so, a bit that was set then was reported
    /// then.
    pub kept_bits: bool,
    /// Whether accesses may happen without setting the accessed bit.
    pub hidden: bool,
    /// Whether an access makes another access likely (the kernel's `vma_has_recency`): the program
    /// has not advised otherwise ([`pagetables::Mapping::is_advised`]).
    pub has_recency: bool,
    /// Mask of the entry's bits that hold the frame's address.
    pub mask: u64,
    /// The age table, which knows the owner of each frame of this piece.
    pub age_table: &'a AgeTable,
    /// The NUMA nodes of the machine's frames.
    pub nodes: &'a Nodes,
}

/// Is notified of each page that a walk finds.
pub trait Listener {
    /// Called before the pages of an address space with these mappings are reported.
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps);

    /// Called for each piece of a mapping. Pieces come in any order (holes and huge pages come
    /// before the tables beside them).
    fn hear(&mut self, reported: PieceContext<'_>, piece: Piece<'_>);

    /// Called after all pages of an address space were reported. `whole`: no page had to be
    /// skipped.
    fn end(&mut self, owner: Owner, identity: Identity, whole: bool);

    /// Called when an address space has ended or can no longer be read.
    fn gone(&mut self, owner: Owner);
}

impl PieceContext<'_> {
    /// Returns whether a page counts as used since the last scan. A page with an unknown time of
    /// access does; an access that was reported before does not count again.
    #[must_use]
    pub fn is_young(&self, entry: Entry) -> bool {
        !self.idle && (entry.is_accessed() || !self.is_known(entry))
    }

    /// Returns whether an entry's accessed bit shows if its page was accessed since the last scan.
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
