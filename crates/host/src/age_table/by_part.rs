//! A table with one value for each part. A part is all pages of one class that one owner has.
//!
//! Invariant: a class without owners takes no memory. (On a host with one NUMA node only three of
//! sixteen classes are in use; counts of all classes would take 1.4 KiB for each process.)

use super::CLASSES;

/// Number of an owner, then number of a class.
pub(super) type Part = (u16, u8);

/// One value for each part.
#[derive(Debug)]
pub(super) struct ByPart<T> {
    /// For each class, the values by owner, up to the last owner that has pages of the class.
    by_class: [Vec<T>; CLASSES],
}

impl<T> Default for ByPart<T> {
    fn default() -> ByPart<T> {
        ByPart {
            by_class: [const { Vec::new() }; CLASSES],
        }
    }
}

impl<T: Default> ByPart<T> {
    /// Returns the value of a part; `None` if it was never set.
    #[inline]
    pub(super) fn get(&self, (owner, class): Part) -> Option<&T> {
        self.by_class
            .get(usize::from(class))?
            .get(usize::from(owner))
    }

    /// Returns the value of a part, mutably; `None` if it was never set.
    #[inline]
    pub(super) fn get_mut(&mut self, (owner, class): Part) -> Option<&mut T> {
        self.by_class
            .get_mut(usize::from(class))?
            .get_mut(usize::from(owner))
    }

    /// Returns a mutable reference to the value of a part; makes the value if it is missing.
    ///
    /// # Panics
    /// If there is no such class.
    #[inline]
    pub(super) fn at(&mut self, (owner, class): Part) -> &mut T {
        let of_class = &mut self.by_class[usize::from(class)];
        let owner = usize::from(owner);
        if owner >= of_class.len() {
            widen(of_class, owner + 1);
        }
        &mut of_class[owner]
    }

    /// Iterates over the values of all parts.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.by_class.iter().flatten()
    }

    /// Iterates over the values of all parts, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.by_class.iter_mut().flatten()
    }

    /// Returns the heap memory of the table in bytes, without what the values themselves have on
    /// the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let places: usize = self.by_class.iter().map(Vec::capacity).sum();
        places * size_of::<T>()
    }
}

/// Extends the vector to this number of owners. If it must grow, an eighth more is reserved.
#[cold]
fn widen<T: Default>(of_class: &mut Vec<T>, owners: usize) {
    if owners > of_class.capacity() {
        of_class.reserve_exact(owners + owners / 8 - of_class.len());
    }
    of_class.resize_with(owners, T::default);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_owners_takes_no_memory() {
        let mut counts = ByPart::<u64>::default();
        assert_eq!((counts.get((7, 2)), counts.memory_bytes()), (None, 0));
        *counts.at((7, 2)) += 5;
        *counts.at((0, 15)) += 1;
        assert_eq!(counts.get((7, 2)), Some(&5));
        assert_eq!(counts.get((6, 2)), Some(&0));
        assert_eq!(counts.get((8, 2)), None);
        assert_eq!(counts.iter().sum::<u64>(), 6);
        for owner in 0..1000 {
            *counts.at((owner, 2)) += 1;
        }
        assert_eq!(counts.iter_mut().map(|count| *count).sum::<u64>(), 1006);
        let each = counts.memory_bytes() as f64 / 1000.0;
        assert!(each < 10.0, "{each}");
    }
}
