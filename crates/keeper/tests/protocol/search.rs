//! Every state that can be reached, breadth first; the shortest way to a wrong one.
//!
//! States are told apart by 64 bits of hash: with some millions of them, the chance that one is
//! overlooked is below one in a million.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::bugs::Bug;
use super::world::{Left, World};
use super::{keeper_model as keeper, manager, program};

/// What was done, and to which page.
pub(crate) type Label = (&'static str, u8);

/// The states that one step leads to.
#[derive(Default)]
pub(crate) struct Steps(Vec<(Label, World)>);

impl Steps {
    pub(crate) fn add(
        &mut self,
        what: &'static str,
        page: u8,
        from: &World,
        f: impl FnOnce(&mut World),
    ) {
        let mut next = *from;
        f(&mut next);
        self.0.push(((what, page), next));
    }
}

#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n ^ 0x9e37_79b9).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.0 ^= self.0 >> 29;
    }
}

#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

fn print_of(w: &World) -> u64 {
    let mut mix = Mix::default();
    w.hash(&mut mix);
    mix.finish()
}

/// What a search found.
pub(crate) struct Found {
    pub(crate) states: usize,
    /// What is wrong, and the steps that lead there.
    pub(crate) wrong: Option<(&'static str, Vec<Label>)>,
}

#[derive(Default)]
struct Graph {
    worlds: Vec<World>,
    from: Vec<(u32, Label)>,
    edges: Vec<(u32, u32)>,
    known: HashMap<u64, u32, BuildHasherDefault<Same>>,
}

impl Graph {
    fn add(&mut self, w: World, from: u32, label: Label) {
        let next = u32::try_from(self.worlds.len()).expect("fewer than 2^32 states");
        let id = *self.known.entry(print_of(&w)).or_insert(next);
        if id == next {
            self.worlds.push(w);
            self.from.push((from, label));
        }
        self.edges.push((from, id));
    }

    fn way_to(&self, mut id: u32) -> Vec<Label> {
        let mut way = Vec::new();
        while id != 0 {
            let (from, label) = self.from[id as usize];
            way.push(label);
            id = from;
        }
        way.reverse();
        way
    }

    /// The states that a step leads from to each state, deaths left aside: where each list begins,
    /// and the lists.
    fn back(&self) -> (Vec<u32>, Vec<u32>) {
        let deaths = |id: u32| {
            let left = &self.worlds[id as usize].left;
            (left.keeper_deaths, left.manager_deaths)
        };
        let lives = |edge: &&(u32, u32)| deaths(edge.0) == deaths(edge.1);
        let mut begins = vec![0; self.worlds.len() + 1];
        for (_, to) in self.edges.iter().filter(lives) {
            begins[*to as usize + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut lists = vec![0; self.edges.len()];
        for (from, to) in self.edges.iter().filter(lives) {
            lists[next[*to as usize] as usize] = *from;
            next[*to as usize] += 1;
        }
        (begins, lists)
    }

    /// A state from which no quiet one can be reached, though nobody dies any more: somebody hangs.
    fn hangs(&self) -> Option<u32> {
        let (begins, lists) = self.back();
        let mut good = vec![false; self.worlds.len()];
        let quiet = (0u32..).zip(&self.worlds).filter(|(_, w)| w.quiet());
        let mut todo: Vec<u32> = quiet.map(|(id, _)| id).collect();
        while let Some(id) = todo.pop() {
            if !std::mem::replace(&mut good[id as usize], true) {
                let list = begins[id as usize] as usize..begins[id as usize + 1] as usize;
                todo.extend(&lists[list]);
            }
        }
        let bad = good.iter().position(|good| !good)?;
        u32::try_from(bad).ok()
    }
}

/// What must hold in every state.
fn wrong(w: &World) -> Option<&'static str> {
    if w.wrong.is_some() {
        return w.wrong;
    }
    for (slot, number) in w.store.iter().zip(0u8..) {
        if slot.count < w.named(number) {
            return Some("a slot is free and a word names it");
        }
        if w.quiet() && slot.count != w.named(number) + slot.lost {
            return Some("a slot is lost");
        }
    }
    let stuck = |word: &keeper_word::Word| word.state() == keeper_word::State::Writeback;
    if w.quiet() && w.shared.words.iter().any(stuck) {
        return Some("a write-back that nobody does");
    }
    let lives = |page: usize| w.kernel.program[page].is_some();
    let aside = |page: usize| !::keeper::protocol::movable(w.shared.words[page]);
    if w.quiet() && w.left.strict && (0..2).any(|page| lives(page) && aside(page)) {
        return Some("a page that is there can never leave again");
    }
    None
}

use ::keeper::word as keeper_word;

/// Looks at every state that can be reached.
pub(crate) fn search(left: Left, bug: Option<Bug>) -> Found {
    let mut graph = Graph::default();
    graph.add(World::new(left), 0, ("start", 0));
    let mut at = 0;
    while at < graph.worlds.len() {
        let w = graph.worlds[at];
        let id = u32::try_from(at).expect("fewer than 2^32 states");
        if let Some(what) = wrong(&w) {
            let wrong = Some((what, graph.way_to(id)));
            return Found {
                states: graph.worlds.len(),
                wrong,
            };
        }
        let mut out = Steps::default();
        program::steps(&w, &mut out);
        keeper::steps(&w, bug, &mut out);
        manager::steps(&w, bug, &mut out);
        for (label, next) in out.0 {
            graph.add(next, id, label);
        }
        at += 1;
    }
    let wrong = graph
        .hangs()
        .map(|id| ("somebody waits for ever", graph.way_to(id)));
    Found {
        states: graph.worlds.len(),
        wrong,
    }
}
