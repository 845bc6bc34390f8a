//! A simple model of the classic lists, made of deques, and a test that compares it with the engine
//! under random operations.

use super::super::*;
use crate::lruvec::{FaultKind, Lruvec, Policy};
use crate::units::{Millis, Swappiness};
use crate::vmscan::ScanReason;
use alloc::collections::VecDeque;

const PAGES: u32 = 60;

#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Page {
    /// Index of the page's list, `type * 2 + active`; `None` if it is on no list.
    list: Option<usize>,
    isolated: bool,
    file: bool,
    referenced: bool,
    workingset: bool,
    accessed: bool,
    /// Of an evicted page: the clock and the workingset bit at its eviction.
    shadow: Option<(u64, bool)>,
}

struct Naive {
    stage: Stage,
    pages: Vec<Page>,
    lists: [VecDeque<u32>; 4],
    clock: u64,
}

impl Naive {
    fn push(&mut self, id: u32, list: usize) {
        self.pages[id as usize].list = Some(list);
        self.lists[list].push_front(id);
    }

    fn unlink(&mut self, id: u32) {
        self.lists
            .iter_mut()
            .for_each(|list| list.retain(|&other| other != id));
        self.pages[id as usize].list = None;
    }

    fn fault(&mut self, id: u32, file: bool, in_fault: bool) {
        let page = &mut self.pages[id as usize];
        if page.list.is_some() || page.isolated {
            page.accessed = true;
            return;
        }
        let shadow = page.shadow.take();
        *page = Page {
            file,
            ..Page::default()
        };
        let mut active = !file && in_fault && self.stage == Stage::Base;
        if let Some((stamp, workingset)) = shadow {
            let len = |list: usize| self.lists[list].len() as u64;
            let [ia, aa, inf, af] = [0, 1, 2, 3].map(len);
            let competing = match (self.stage, file) {
                (Stage::Protection, _) => af + aa,
                (_, true) => af + aa + ia,
                (_, false) => af + aa + inf,
            };
            let detects = file || self.stage == Stage::Detection;
            if detects && self.clock - stamp <= competing {
                self.clock += 1;
                active = true;
                self.pages[id as usize].workingset = workingset;
            }
        }
        self.push(id, usize::from(file) * 2 + usize::from(active));
    }

    fn mark_accessed(&mut self, id: u32) {
        let page = &mut self.pages[id as usize];
        if page.list.is_none() && !page.isolated {
            return;
        }
        if !page.referenced {
            page.referenced = true;
        } else if let Some(list) = page.list.filter(|list| list % 2 == 0) {
            page.referenced = false;
            self.unlink(id);
            self.push(id, list + 1);
            self.clock += 1;
        }
    }

    fn shrink_active(&mut self, file: bool, nr: usize) {
        let list = usize::from(file) * 2 + 1;
        for _ in 0..nr.min(self.lists[list].len()) {
            let Some(id) = self.lists[list].pop_back() else {
                break;
            };
            let page = &mut self.pages[id as usize];
            (page.accessed, page.workingset) = (false, true);
            self.push(id, list - 1);
        }
    }

    fn isolate(&mut self, file: bool, nr: usize) -> Vec<u32> {
        let list = usize::from(file) * 2;
        let mut isolated = Vec::new();
        for _ in 0..nr.min(self.lists[list].len()) {
            let Some(id) = self.lists[list].pop_back() else {
                break;
            };
            let is_base_stage = self.stage == Stage::Base;
            let page = &mut self.pages[id as usize];
            let (young, referenced) = (page.accessed, page.referenced);
            (page.accessed, page.referenced) = (false, young);
            if young && (referenced || (is_base_stage && !file)) {
                self.push(id, list + 1);
                self.clock += 1;
            } else if young {
                self.push(id, list);
            } else {
                (page.list, page.isolated) = (None, true);
                isolated.push(id);
            }
        }
        isolated
    }

    fn finish_page(&mut self, id: u32, stored: bool) {
        let page = &mut self.pages[id as usize];
        if !page.isolated {
            return;
        }
        page.isolated = false;
        if stored {
            let shadow = Some((self.clock, page.workingset));
            *page = Page {
                shadow,
                ..Page::default()
            };
            self.clock += 1;
            return;
        }
        // The accessed bit stays set for the next reference check.
        page.referenced = false;
        let list = usize::from(page.file) * 2;
        self.push(id, list);
    }
}

fn compare(lruvec: &Lruvec, naive: &Naive) {
    lruvec.check_invariants(Swappiness::default());
    let lru = lruvec.classic().expect("classic");
    assert_eq!(lru.nonresident_age(), naive.clock);
    for (list, expect) in naive.lists.iter().enumerate() {
        let ty = FolioType::ALL[list / 2];
        let actual: Vec<u32> = lru
            .order(lruvec.folios(), ty, list % 2 == 1)
            .iter()
            .map(|id| id.0)
            .collect();
        assert!(
            actual.iter().eq(expect.iter().rev()),
            "list {list}: {actual:?}, {expect:?}"
        );
    }
    for (id, page) in (0..).map(FolioId).zip(&naive.pages) {
        let word = lruvec.folios().get(id);
        if page.list.is_some() {
            let actual = [Flag::Referenced, Flag::Workingset].map(|f| word.has(f));
            assert_eq!(
                (actual, lruvec.folios().is_accessed(id)),
                ([page.referenced, page.workingset], page.accessed),
                "{id:?}"
            );
        }
        assert_eq!(
            page.shadow.is_some(),
            word.state() == State::Shadow,
            "{id:?}"
        );
    }
}

fn pair(stage: Stage) -> (Lruvec, Naive) {
    let policy = Policy::ActiveInactive(stage, Pages(1000));
    let mut lruvec = Lruvec::new(policy, Millis(0));
    lruvec.ensure(PAGES as usize);
    let pages = alloc::vec![Page::default(); PAGES as usize];
    (
        lruvec,
        Naive {
            stage,
            pages,
            lists: Default::default(),
            clock: 0,
        },
    )
}

fn run(stage: Stage, seed: u32) -> u64 {
    let (mut lruvec, mut naive) = pair(stage);
    let (mut isolated, mut x) = (Vec::new(), seed);
    let mut random = |n: u32| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x % n
    };
    for _ in 0..600 {
        let (raw, file) = (random(PAGES), random(2) == 0);
        let (id, nr) = (FolioId(raw), random(12) as usize);
        let ty = FolioType::ALL[usize::from(file)];
        match random(10) {
            0..3 => {
                let in_fault = random(4) > 0;
                let kind = if in_fault {
                    FaultKind::Refault
                } else {
                    FaultKind::Readahead
                };
                lruvec.fault_in(id, ty, kind, true, true);
                naive.fault(raw, file, in_fault);
            }
            3 | 4 => {
                lruvec.touch(id);
                let page = &mut naive.pages[raw as usize];
                page.accessed |= page.list.is_some() || page.isolated;
            }
            5 => {
                lruvec.mark_accessed(id);
                naive.mark_accessed(raw);
            }
            6 if random(4) == 0 => {
                lruvec.unmap_range(id, 1);
                naive.unlink(raw);
                naive.pages[raw as usize] = Page::default();
            }
            6 | 7 => {
                lruvec.shrink_active(ty, nr as u64);
                naive.shrink_active(file, nr);
            }
            8 => {
                let mut out = Vec::new();
                lruvec.isolate_inactive(ScanReason::Direct, ty, nr as u64, &mut out);
                let out: Vec<u32> = out.iter().map(|id| id.0).collect();
                assert_eq!(out, naive.isolate(file, nr));
                isolated.extend(out);
            }
            _ => {
                let stored = random(4) > 0;
                for raw in isolated.drain(..) {
                    if stored {
                        lruvec.evicted(FolioId(raw), ScanReason::Direct);
                    } else {
                        lruvec.put_back(FolioId(raw), false);
                    }
                    naive.finish_page(raw, stored);
                }
            }
        }
        compare(&lruvec, &naive);
    }
    lruvec.stat().iter().map(|(_, count)| count).sum()
}

#[test]
fn engine_and_model_agree() {
    for stage in [Stage::Base, Stage::Protection, Stage::Detection] {
        for seed in 1..60 {
            // Shown only if the test fails.
            extern crate std;
            std::println!("stage {stage:?}, seed {seed}");
            assert!(run(stage, seed) > 0);
        }
    }
}
