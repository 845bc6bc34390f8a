//! Who hears of each page that a reading finds, right after the books did.
//!
//! Invariant: between two calls of [`Listener::end`] for an owner, each page of its readable mappings is
//! told once at most; what is not told was not mapped, or could not be read this time (`whole` is false then).

use pagetables::{Entry, Piece};

use crate::books::{Books, Owner};
use crate::system::{Identity, Mapping, Maps};

/// What a piece is of.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Whose address space.
    pub owner: Owner,
    /// The mapping.
    pub mapping: &'a Mapping,
    /// A bit that is set was set since the last look. Else nobody knows when it was.
    pub trusted: bool,
    /// Its process did nothing since before the last reading: a bit that is set was set then, and told.
    pub slept: bool,
    /// The look before left bits as they were: what is set, and was then, was told then.
    pub spared: bool,
    /// Accesses may leave no bit.
    pub hidden: bool,
    /// An access says that another is likely (the kernel's `vma_has_recency`): the program did not say that it reads in
    /// order or at random.
    pub has_recency: bool,
    /// The bits of an entry that are a frame's address.
    pub mask: u64,
    /// Knows who owns each frame of this piece.
    pub books: &'a Books,
}

/// Hears of pages.
pub trait Listener {
    /// An address space with these mappings is about to be told.
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps);

    /// One piece of a mapping; pieces come in any order (holes and huge pages before the tables beside them).
    fn hear(&mut self, told: Told<'_>, piece: Piece<'_>);

    /// All of an address space was told.
    fn end(&mut self, owner: Owner, identity: Identity, whole: bool);

    /// An address space is gone.
    fn gone(&mut self, owner: Owner);
}

impl Told<'_> {
    /// Whether a page counts as used since the last look: what nobody knows does, and what was told before does not.
    #[must_use]
    pub fn is_young(&self, entry: Entry) -> bool {
        !self.slept && (entry.is_accessed() || !self.is_known(entry))
    }

    /// Whether an entry's bit says if its page was accessed since the last look.
    #[must_use]
    pub fn is_known(&self, entry: Entry) -> bool {
        self.trusted && !self.hidden && !entry.is_vague()
    }
}

/// One after the other.
impl Listener for (&mut dyn Listener, &mut dyn Listener) {
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps) {
        self.0.begin(owner, identity, maps);
        self.1.begin(owner, identity, maps);
    }

    fn hear(&mut self, told: Told<'_>, piece: Piece<'_>) {
        self.0.hear(told, piece);
        self.1.hear(told, piece);
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

/// Nobody.
impl Listener for () {
    fn begin(&mut self, _: Owner, _: Identity, _: &Maps) {}
    fn hear(&mut self, _: Told<'_>, _: Piece<'_>) {}
    fn end(&mut self, _: Owner, _: Identity, _: bool) {}
    fn gone(&mut self, _: Owner) {}
}
