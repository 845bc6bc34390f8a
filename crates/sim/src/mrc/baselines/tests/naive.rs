//! Naive implementations of the baseline policies: queues that are searched, with the newest page
//! first.

use crate::mrc::baselines::xxh64::xxh64;
use std::collections::VecDeque;

type Queue = VecDeque<u32>;

/// Removes a page from a queue; returns whether it was there.
fn take(queue: &mut Queue, id: u32) -> bool {
    let at = queue.iter().position(|&held| held == id);
    at.is_some_and(|at| queue.remove(at).is_some())
}

/// Returns `hundredths` hundredths of `size`, rounded down.
fn share(size: usize, hundredths: usize) -> usize {
    size * hundredths / 100
}

pub(super) fn sieve(ids: &[u32], size: usize) -> u64 {
    // In this queue the oldest page is the first, so that the hand is an index.
    let (mut queue, mut hand, mut misses) = (Vec::<(u32, bool)>::new(), 0, 0);
    for &id in ids {
        if let Some(held) = queue.iter_mut().find(|held| held.0 == id) {
            held.1 = true;
            continue;
        }
        misses += 1;
        if size == 0 {
            continue;
        }
        if queue.len() == size {
            // A hand that has passed the newest page begins again at the oldest page, before the
            // new page is added.
            while std::mem::take(&mut queue[hand].1) {
                hand = (hand + 1) % size;
            }
            queue.remove(hand);
            hand = if hand + 1 == size { 0 } else { hand };
        }
        queue.push((id, false));
    }
    misses
}

pub(super) fn arc(ids: &[u32], size: usize) -> u64 {
    let [mut t1, mut t2, mut b1, mut b2] = [const { Queue::new() }; 4];
    let (mut target, mut misses) = (0.0f64, 0);
    let exact = |pages: usize| f64::from(u32::try_from(pages).expect("few"));
    let count = |queue: &Queue| exact(queue.len());
    for &id in ids {
        if take(&mut t1, id) || take(&mut t2, id) {
            t2.push_front(id);
            continue;
        }
        misses += 1;
        let (once, again) = (count(&b1), count(&b2));
        let (in_b1, in_b2) = (take(&mut b1, id), take(&mut b2, id));
        if in_b1 {
            target = (target + f64::max(1.0, again / once)).min(exact(size));
        } else if in_b2 {
            target = (target - f64::max(1.0, once / again)).max(0.0);
        }
        let full = t1.len() + t2.len() == size;
        let mut replace = full;
        if full && !in_b1 && !in_b2 {
            if t1.len() + b1.len() == size {
                replace = b1.pop_back().is_some();
                if !replace {
                    t1.pop_back();
                }
            } else if t1.len() + t2.len() + b1.len() + b2.len() == 2 * size {
                b2.pop_back();
            }
        }
        if replace {
            let over = count(&t1) > target || (in_b2 && count(&t1) >= target);
            if t2.is_empty() || (!t1.is_empty() && over) {
                b1.put_front(t1.pop_back());
            } else {
                b2.put_front(t2.pop_back());
            }
        }
        if size > 0 {
            if in_b1 || in_b2 { &mut t2 } else { &mut t1 }.push_front(id);
        }
    }
    misses
}

/// Adds a page, if there is one, at the front of a queue.
trait PutFront {
    fn put_front(&mut self, id: Option<u32>);
}

impl PutFront for Queue {
    fn put_front(&mut self, id: Option<u32>) {
        id.into_iter().for_each(|id| self.push_front(id));
    }
}

pub(super) fn s3_fifo(ids: &[u32], size: usize) -> u64 {
    let (mut small, mut main) = (VecDeque::<(u32, u32)>::new(), VecDeque::<(u32, u32)>::new());
    let (mut ghosts, mut filling, mut misses) = (Queue::new(), true, 0);
    let small_size = share(size, 10).max(1);
    for &id in ids {
        let held = small.iter_mut().chain(&mut main).find(|held| held.0 == id);
        if let Some(held) = held {
            held.1 += 1;
            continue;
        }
        misses += 1;
        if size == 0 {
            continue;
        }
        let remembered = take(&mut ghosts, id);
        while small.len() + main.len() == size {
            filling = false;
            if small.is_empty() || main.len() > size - small_size {
                while let Some((id, count)) = main.pop_back().filter(|page| page.1 > 0) {
                    main.push_front((id, count.min(3) - 1));
                }
            } else {
                while let Some((id, count)) = small.pop_back() {
                    if count < 2 {
                        ghosts.push_front(id);
                        ghosts.truncate(share(size, 90));
                        break;
                    }
                    main.push_front((id, 0));
                }
            }
        }
        let to_main = remembered || (filling && small.len() >= small_size);
        if to_main { &mut main } else { &mut small }.push_front((id, 0));
    }
    misses
}

/// The state of a page in the stack of LIRS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recency {
    Low,
    Held,
    Gone,
}

/// LIRS for memories of three pages or more.
#[derive(Default)]
pub(super) struct NaiveLirs {
    stack: VecDeque<(u32, Recency)>,
    queue: Queue,
    gone: Queue,
    low_max: usize,
    queue_max: usize,
}

impl NaiveLirs {
    pub(super) fn new(size: usize) -> Self {
        let queue_max = share(size, 1).max(1);
        Self {
            low_max: size - queue_max,
            queue_max,
            ..Self::default()
        }
    }

    fn full(&self) -> bool {
        let low = |page: &&(u32, Recency)| page.1 == Recency::Low;
        self.stack.iter().filter(low).count() == self.low_max
    }

    fn prune(&mut self) {
        while self.stack.len() > 1 && self.stack.back().is_some_and(|page| page.1 != Recency::Low) {
            let pruned = self.stack.pop_back().expect("two at least");
            take(&mut self.gone, pruned.0);
        }
    }

    fn enqueue(&mut self, id: u32) {
        while self.queue.len() >= self.queue_max {
            let leaves = self.queue.pop_back().expect("not empty");
            if let Some(page) = self.stack.iter_mut().find(|page| page.0 == leaves) {
                page.1 = Recency::Gone;
                self.gone.push_front(leaves);
            }
        }
        self.queue.push_front(id);
    }

    fn sink(&mut self) {
        if self.full() {
            let (id, _) = self.stack.pop_back().expect("one of low recency");
            self.enqueue(id);
            self.prune();
        }
    }

    pub(super) fn access(&mut self, id: u32) -> bool {
        let at = self.stack.iter().position(|page| page.0 == id);
        let recency = at.and_then(|at| self.stack.remove(at)).map(|page| page.1);
        let queued = take(&mut self.queue, id);
        match recency {
            Some(Recency::Low) => {
                self.stack.push_front((id, Recency::Low));
                self.prune();
            }
            Some(was) => {
                self.stack.push_front((id, was));
                self.sink();
                self.stack[0].1 = Recency::Low;
                take(&mut self.gone, id);
            }
            None if queued => {
                self.queue.push_front(id);
                self.sink();
                self.stack.push_front((id, Recency::Held));
            }
            None if !self.full() => self.stack.push_front((id, Recency::Low)),
            None => {
                self.enqueue(id);
                self.stack.push_front((id, Recency::Held));
            }
        }
        while self.stack.len() > 2 * (self.low_max + self.queue_max)
            && let Some(oldest) = self.gone.pop_back()
        {
            self.stack.retain(|page| page.0 != oldest);
        }
        queued || matches!(recency, Some(Recency::Low | Recency::Held))
    }
}

/// W-TinyLFU for memories of any size.
#[derive(Default)]
pub(super) struct NaiveTinyLfu {
    window: Queue,
    probation: Queue,
    protected: Queue,
    counters: Vec<u32>,
    hits: usize,
    size: usize,
    main: usize,
}

impl NaiveTinyLfu {
    pub(super) fn new(size: usize) -> Self {
        let main = size - share(size, 1).max(1).min(size);
        let bits = f64::from(u32::try_from(main).expect("few")) * 14.377_587_519_2;
        let counters = (0u32..).find(|&n| f64::from(n) >= bits).expect("finite");
        Self {
            counters: vec![0; if counters < 10 { 20 } else { counters as usize }],
            size,
            main,
            ..Self::default()
        }
    }

    fn places(&self, id: u32) -> Vec<usize> {
        let hash = |seed| xxh64(u64::from(id), seed) & 0xffff_ffff;
        let place = |n| (hash(0x1234_5678) + n * hash(0x1234_4321)) & 0xffff_ffff;
        let at = |n| usize::try_from(place(n)).expect("32 bits") % self.counters.len();
        (0..10).map(at).collect()
    }

    fn count(&mut self, id: u32) {
        self.places(id)
            .into_iter()
            .for_each(|at| self.counters[at] += 1);
    }

    fn estimate(&self, id: u32) -> u32 {
        let counts = self.places(id).into_iter().map(|at| self.counters[at]);
        counts.min().expect("ten")
    }

    fn enter_main(&mut self, id: u32) {
        let room = self.probation.len() < (self.main / 5).max(1);
        if room || self.protected.len() == self.main * 4 / 5 {
            self.probation.push_front(id);
        } else {
            self.protected.push_front(id);
        }
    }

    fn evict(&mut self) {
        while let Some(id) = self.window.pop_back() {
            let victim = self.probation.back().or(self.protected.back()).copied();
            let room = self.probation.len() + self.protected.len() < self.main;
            if room {
                self.enter_main(id);
            } else if victim.is_some_and(|victim| self.estimate(id) > self.estimate(victim)) {
                let _ = self
                    .probation
                    .pop_back()
                    .or_else(|| self.protected.pop_back());
                self.enter_main(id);
            }
            self.count(id);
            if !room {
                return;
            }
        }
        let _ = self
            .probation
            .pop_back()
            .or_else(|| self.protected.pop_back());
    }

    pub(super) fn access(&mut self, id: u32) -> bool {
        if take(&mut self.window, id) {
            self.window.push_front(id);
            return true;
        }
        if take(&mut self.probation, id) || take(&mut self.protected, id) {
            self.protected.push_front(id);
            if self.protected.len() > self.main * 4 / 5 {
                self.probation.put_front(self.protected.pop_back());
                self.probation.truncate((self.main / 5).max(1));
            }
            self.count(id);
            self.hits += 1;
            if self.hits >= 32 * self.main {
                self.hits = 0;
                self.counters.iter_mut().for_each(|count| *count /= 2);
            }
            return true;
        }
        if self.size > 0 {
            while self.window.len() + self.probation.len() + self.protected.len() >= self.size {
                self.evict();
            }
            self.window.push_front(id);
            self.count(id);
        }
        false
    }
}
