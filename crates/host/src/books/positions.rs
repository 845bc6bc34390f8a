//! Where in its range each record of a wide chunk stands, by the chunk's number here.
//!
//! Invariant: a number is one chunk's until it is taken back.

/// By place, how many frames from the first of the range; of places that are not live anything.
pub(super) type Positions = [u16; 64];

/// Those of all wide chunks.
#[derive(Debug, Default)]
pub(super) struct AllPositions {
    all: Vec<Option<Box<Positions>>>,
    free: Vec<u32>,
}

impl AllPositions {
    /// The positions with this number.
    pub(super) fn get(&self, number: u32) -> Option<&Positions> {
        self.all.get(number as usize)?.as_deref()
    }

    /// The same, to change.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Positions> {
        self.all.get_mut(number as usize)?.as_deref_mut()
    }

    /// Keeps positions, under the number that is returned.
    pub(super) fn keep(&mut self, positions: Box<Positions>) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = Some(positions);
            return number;
        }
        self.all.push(Some(positions));
        u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes positions back; their number is free.
    pub(super) fn take(&mut self, number: u32) -> Option<Box<Positions>> {
        self.free.push(number);
        self.all[number as usize].take()
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let kept = (self.all.len() - self.free.len()) * size_of::<Positions>();
        let places = self.all.capacity() * size_of::<Option<Box<Positions>>>();
        kept + places + self.free.capacity() * size_of::<u32>()
    }
}

/// The places where an offset stands, live or not, one bit each.
pub(super) fn places_of(positions: &Positions, offset: u16) -> u64 {
    let mut places = 0;
    // Eight are compared at once.
    for (block, some) in (0..).zip(positions.chunks_exact(8)) {
        if some.iter().fold(false, |any, one| any | (*one == offset)) {
            let found = (0..).zip(some).filter(|(_, one)| **one == offset);
            found.for_each(|(at, _)| places |= 1_u64 << (block * 8 + at));
        }
    }
    places
}
