//! Tests with random histories of processes whose descent is known: which processes do updates take
//! for descendants?

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::descent::{Descent, Share};
use super::{Family, Member, Target};
use crate::system::proc::Proc;
use crate::system::process::Stat;
use crate::system::testing::Directory;

/// Pid of the target.
const ROOT: u32 = 10;

/// A small model of a kernel: living processes, which of them descend from the target, and the pid
/// assigned last, as pids are reused.
#[derive(Clone, Debug)]
struct World {
    alive: BTreeMap<u32, Stat>,
    descendants: HashSet<u32>,
    /// The pid that was assigned last.
    next: u32,
    /// Number of steps so far, in place of a clock.
    now: u64,
}

/// One step of a history. Each index chooses one of the living processes.
#[derive(Clone, Debug)]
enum Step {
    Fork(prop::sample::Index),
    Exit(prop::sample::Index),
    /// The process begins a session.
    Session(prop::sample::Index),
    /// The process joins the process group of another process in its session.
    Join(prop::sample::Index, prop::sample::Index),
    /// The family is updated.
    Scan,
}

impl World {
    /// Creates a world with init, a shell, and two jobs of the shell, one of which is the target.
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

    /// Returns the pid of the living process that the index chooses.
    fn choose(&self, index: prop::sample::Index) -> u32 {
        *index.get(&self.alive.keys().copied().collect::<Vec<_>>())
    }

    /// Returns a new pid as kernels choose it: in ascending order, from the start again after the
    /// last, without numbers in use as a pid, a process group or a session.
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

    /// Applies a step to the world, as a kernel would.
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
                // Leaders of process groups may not begin a session.
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
            Step::Scan => {}
        }
    }
}

/// A family's updates without events.
struct Scans {
    descent: Descent,
    members: HashMap<u32, Member>,
}

impl Scans {
    /// Updates members and descent, as a full update without events does.
    fn scan(&mut self, world: &World) {
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

/// Generates a random step; the numbers are relative frequencies.
fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        5 => index().prop_map(Step::Fork),
        3 => index().prop_map(Step::Exit),
        1 => index().prop_map(Step::Session),
        1 => (index(), index()).prop_map(|(a, b)| Step::Join(a, b)),
        1 => Just(Step::Scan),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_stranger_becomes_a_member(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        let mut scans = Scans { descent: Descent::of(&world.alive[&ROOT]), members: HashMap::new() };
        scans.scan(&world);
        prop_assert!(scans.members.contains_key(&ROOT));
        for step in &steps {
            world.step(step);
            if matches!(step, Step::Scan) {
                scans.scan(&world);
                for pid in scans.members.keys() {
                    prop_assert!(world.descendants.contains(pid), "{pid} of {world:?}");
                }
            }
        }
    }

    #[test]
    fn constant_updates_miss_no_descendant(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        let mut scans = Scans { descent: Descent::of(&world.alive[&ROOT]), members: HashMap::new() };
        scans.scan(&world);
        for step in &steps {
            world.step(step);
            scans.scan(&world);
            let mut members: Vec<u32> = scans.members.keys().copied().collect();
            members.sort_unstable();
            let living = world.alive.keys().filter(|pid| world.descendants.contains(pid));
            prop_assert_eq!(members, living.copied().collect::<Vec<u32>>());
        }
        prop_assert_eq!(scans.descent.unsure(), 0);
    }
}

/// Writes the processes of a world as a tree like `/proc`.
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
fn a_reused_pid_is_another_process() {
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
