//! Doubly linked lists of memcgs, with indexes as links: any entry can be moved in constant time.
//!
//! Invariant: an entry is on a list if and only if its `list` is set; following `next` from the
//! head of a list visits exactly the entries of that list.

use super::super::MemcgId;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    list: Option<u8>,
    prev: Option<MemcgId>,
    next: Option<MemcgId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    head: Option<MemcgId>,
    tail: Option<MemcgId>,
}

/// The links of all memcgs, and the ends of all lists.
#[derive(Debug)]
pub(super) struct Links {
    entries: Vec<Entry>,
    lists: Vec<Ends>,
}

impl Links {
    pub(super) fn new(lists: usize) -> Self {
        Self {
            entries: Vec::new(),
            lists: alloc::vec![Ends::default(); lists],
        }
    }

    pub(super) fn list_of(&self, id: MemcgId) -> Option<usize> {
        self.entries.get(id.index())?.list.map(usize::from)
    }

    pub(super) fn head(&self, list: usize) -> Option<MemcgId> {
        self.lists[list].head
    }

    pub(super) fn next(&self, id: MemcgId) -> Option<MemcgId> {
        self.entries[id.index()].next
    }

    pub(super) fn push_head(&mut self, list: usize, id: MemcgId) {
        let next = self.lists[list].head;
        self.link(list, id, None, next);
    }

    pub(super) fn push_tail(&mut self, list: usize, id: MemcgId) {
        let prev = self.lists[list].tail;
        self.link(list, id, prev, None);
    }

    fn link(&mut self, list: usize, id: MemcgId, prev: Option<MemcgId>, next: Option<MemcgId>) {
        if self.entries.len() <= id.index() {
            self.entries.resize(id.index() + 1, Entry::default());
        }
        self.entries[id.index()] = Entry {
            list: u8::try_from(list).ok(),
            prev,
            next,
        };
        match prev {
            Some(prev) => self.entries[prev.index()].next = Some(id),
            None => self.lists[list].head = Some(id),
        }
        match next {
            Some(next) => self.entries[next.index()].prev = Some(id),
            None => self.lists[list].tail = Some(id),
        }
    }

    pub(super) fn unlink(&mut self, id: MemcgId) {
        let Entry {
            list: Some(list),
            prev,
            next,
        } = self.entries[id.index()]
        else {
            return;
        };
        let ends = &mut self.lists[usize::from(list)];
        match prev {
            Some(prev) => self.entries[prev.index()].next = next,
            None => ends.head = next,
        }
        match next {
            Some(next) => self.entries[next.index()].prev = prev,
            None => ends.tail = prev,
        }
        self.entries[id.index()] = Entry::default();
    }

    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = MemcgId> + '_ {
        core::iter::successors(self.lists[list].head, |&id| self.next(id))
    }

    /// Asserts the invariant.
    pub(super) fn check(&self) {
        let mut visited = 0;
        for list in 0..self.lists.len() {
            let mut prev = None;
            for id in self.iter(list) {
                assert_eq!(self.list_of(id), Some(list), "{id:?}");
                assert_eq!(self.entries[id.index()].prev, prev, "{id:?}");
                prev = Some(id);
                visited += 1;
            }
            assert_eq!(self.lists[list].tail, prev, "tail of list {list}");
        }
        let linked = self
            .entries
            .iter()
            .filter(|entry| entry.list.is_some())
            .count();
        assert_eq!(visited, linked, "linked entries");
    }
}
