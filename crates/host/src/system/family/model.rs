//! Histories of processes, with their true descent known: what looks make of them is true.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::descent::{Descent, Share};
use super::{Family, Member, Target};
use crate::system::proc::Proc;
use crate::system::process::Stat;
use crate::system::testing::Directory;

const ROOT: u32 = 10;

/// A small kernel: processes, who they truly come from, and numbers that come round again.
#[derive(Clone, Debug)]
struct World {
    alive: BTreeMap<u32, Stat>,
    descendants: HashSet<u32>,
    next: u32,
    now: u64,
}

/// One step; processes are chosen among those alive.
#[derive(Clone, Debug)]
enum Step {
    Fork(prop::sample::Index),
    Exit(prop::sample::Index),
    Session(prop::sample::Index),
    /// Joins the process group of another in its session.
    Join(prop::sample::Index, prop::sample::Index),
    Look,
}

impl World {
    /// Init, a shell, and two jobs of it: one is the root.
    fn new() -> World {
        let stat = |pid, parent, session| Stat {
            pid,
            parent,
            session,
            group: pid,
            state: b'S',
            threads: 1,
            ..Stat::default()
        };
        let all = [
            stat(1, 0, 1),
            stat(9, 1, 9),
            stat(ROOT, 9, 9),
            stat(11, 9, 9),
        ];
        let alive = all.into_iter().map(|stat| (stat.pid, stat)).collect();
        World {
            alive,
            descendants: HashSet::from([ROOT]),
            next: 12,
            now: 1,
        }
    }

    fn choose(&self, index: prop::sample::Index) -> u32 {
        *index.get(&self.alive.keys().copied().collect::<Vec<_>>())
    }

    /// As kernels do it: in turn, and none that is taken as a pid, a group or a session.
    fn number(&mut self) -> u32 {
        let taken: HashSet<u32> = self
            .alive
            .values()
            .flat_map(|stat| [stat.pid, stat.group, stat.session])
            .collect();
        loop {
            self.next = if self.next >= 90 { 12 } else { self.next + 1 };
            if !taken.contains(&self.next) {
                return self.next;
            }
        }
    }

    fn step(&mut self, step: &Step) {
        self.now += 1;
        match step {
            Step::Fork(parent) => {
                let parent = self.choose(*parent);
                let pid = self.number();
                let stat = Stat {
                    pid,
                    parent,
                    started: self.now,
                    ..self.alive[&parent].clone()
                };
                self.alive.insert(pid, stat);
                if self.descendants.contains(&parent) {
                    self.descendants.insert(pid);
                } else {
                    self.descendants.remove(&pid);
                }
            }
            Step::Exit(pid) => {
                let pid = self.choose(*pid);
                if pid != 1 {
                    self.alive.remove(&pid);
                    for stat in self.alive.values_mut().filter(|stat| stat.parent == pid) {
                        stat.parent = 1;
                    }
                }
            }
            Step::Session(pid) => {
                let pid = self.choose(*pid);
                // Leaders of groups may not.
                if self.alive.values().all(|stat| stat.group != pid) {
                    let stat = self.alive.get_mut(&pid).expect("alive");
                    (stat.session, stat.group) = (pid, pid);
                }
            }
            Step::Join(pid, other) => {
                let (pid, other) = (self.choose(*pid), self.choose(*other));
                let (group, session) = (self.alive[&other].group, self.alive[&other].session);
                let stat = self.alive.get_mut(&pid).expect("alive");
                if stat.session == session && session != pid {
                    stat.group = group;
                }
            }
            Step::Look => {}
        }
    }
}

/// Looks as a family takes them.
struct Looks {
    descent: Descent,
    members: HashMap<u32, Member>,
}

impl Looks {
    fn look(&mut self, world: &World) {
        let seen: super::scans::Seen = world
            .alive
            .iter()
            .map(|(&pid, stat)| (pid, stat.clone()))
            .collect();
        self.members.retain(|pid, member| {
            seen.get(pid)
                .is_some_and(|stat| stat.identity() == member.identity)
        });
        for (pid, member) in &mut self.members {
            member.renew(&seen[pid]);
        }
        let mut family = self.members.keys().copied().collect();
        let nothing = |_: u32, _: &HashSet<u32>, _: &HashSet<u32>| Share::Nothing;
        self.descent.grow(&seen, &mut family, true, &nothing);
        for pid in &family {
            self.members
                .entry(*pid)
                .or_insert_with(|| Member::of(&seen[pid]));
        }
        self.descent.remember(&seen, &family);
    }
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        5 => index().prop_map(Step::Fork),
        3 => index().prop_map(Step::Exit),
        1 => index().prop_map(Step::Session),
        1 => (index(), index()).prop_map(|(a, b)| Step::Join(a, b)),
        1 => Just(Step::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_taken_who_is_none(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        let mut looks = Looks { descent: Descent::of(&world.alive[&ROOT]), members: HashMap::new() };
        looks.look(&world);
        prop_assert!(looks.members.contains_key(&ROOT));
        for step in &steps {
            world.step(step);
            if matches!(step, Step::Look) {
                looks.look(&world);
                for pid in looks.members.keys() {
                    prop_assert!(world.descendants.contains(pid), "{pid} of {world:?}");
                }
            }
        }
    }

    #[test]
    fn nobody_is_missed_by_one_who_looks_all_the_time(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        let mut looks = Looks { descent: Descent::of(&world.alive[&ROOT]), members: HashMap::new() };
        looks.look(&world);
        for step in &steps {
            world.step(step);
            looks.look(&world);
            let mut members: Vec<u32> = looks.members.keys().copied().collect();
            members.sort_unstable();
            let living = world.alive.keys().filter(|pid| world.descendants.contains(pid));
            prop_assert_eq!(members, living.copied().collect::<Vec<u32>>());
        }
        prop_assert_eq!(looks.descent.unsure(), 0);
    }
}

/// A tree with the processes of a world.
fn write(directory: &Directory, world: &World) {
    for entry in std::fs::read_dir(&directory.0).unwrap().flatten() {
        std::fs::remove_dir_all(entry.path()).unwrap();
    }
    for stat in world.alive.values() {
        let dir = directory.0.join(stat.pid.to_string());
        std::fs::create_dir(&dir).unwrap();
        let text = format!(
            "{} (a b) S {} {} {} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0 0 0 0 0",
            stat.pid, stat.parent, stat.group, stat.session, stat.started
        );
        std::fs::write(dir.join("stat"), text).unwrap();
    }
}

#[test]
fn a_number_that_was_given_out_again_is_another_process() {
    let directory = Directory::new("reuse");
    let mut world = World::new();
    write(&directory, &world);
    let proc = Proc::at(&directory.0).unwrap();
    let mut family = Family::new(proc, None, Target::All).unwrap();
    assert_eq!(family.update(None, None).unwrap().new.len(), 4);
    let old = family.member(11).unwrap().identity;
    world.alive.get_mut(&11).unwrap().started = 500;
    write(&directory, &world);
    let changes = family.update(None, None).unwrap();
    assert_eq!((changes.new.len(), changes.gone.len()), (1, 1));
    assert_eq!(changes.gone[0].identity, old);
    assert_eq!(changes.new[0].identity.started, 500);
    assert_eq!(family.ended().processes, 1);
}
