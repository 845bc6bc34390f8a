//! Many tenants on one engine: a tree of real control groups, shared out by the memcg LRU.
//!
//! Invariant: every tenant that was made is a control group below one root that carries our mark; below `host` the host's
//! own groups are tenants, too, as they are, and give nothing unless that was allowed. Which processes a tenant has, the
//! kernel says, and everything that decides is the engine's. Nothing of the tree is kept elsewhere: killed at any time,
//! the next manager finds the groups, their processes and what was asked for them.
//!
//! Floors: `budget` (of looks), `by_path` (what holds from a tenant down), `cache`, `closing`,
//! `group_share` (which of the host's groups are tenants), `host_notes`, `left_out` (what scans leave out), `seldom`; `tenant`,
//! `under_way` (reclaims in slices); here the tree and its clock; `host` (the host's own groups),
//! `membership` (the tenant of each process), `pressure`, `protection`; `unmapped` (page cache),
//! `curves`; `cold_cache`, `last_resort`; `thrashing`; `list` (which groups there are), `look`,
//! `hold` (limits), `policy`, `write_back`,
//! `ask`, `events`, `reclaim` (what people ask for), `figures` (of all at once).

mod ask;
mod budget;
mod by_path;
mod cache;
mod closing;
mod cold_cache;
mod curves;
mod events;
pub mod figures;
mod group_share;
mod hold;
mod host;
mod host_notes;
mod last_resort;
pub mod left_out;
mod list;
mod look;
mod membership;
mod policy;
mod pressure;
mod protection;
mod reclaim;
mod seldom;
mod tenant;
mod thrashing;
mod under_way;
mod unmapped;
mod write_back;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use engine::machine::GlobalReclaim;
use engine::memcg::MemcgId;
use engine::{Machine, MachineConfig, Millis};
use rustix::io::Errno;

pub use super::noreuse::NoreuseFiles;
pub use super::options::Limits;
pub use ask::{Ages, MembersOf, NodeAges, NodeUsage, Usage};
pub use budget::LookBudget;
pub use host::HostGroups;
use host_notes::HostNotes;
use left_out::LeftOut;
pub use policy::Policies;
pub use pressure::Watermarks;
pub use write_back::WriteBackAges;

use super::demote::Demoter;
use super::driver::{BATCH, Driver};
use super::options::Reclaimed;
pub use super::pause::Bell;
use super::pause::Pause;
use crate::price::SwapInCost;
use crate::system::descriptors::{LACK_HINT, is_lack};
use crate::system::family::Target;
use crate::system::{Group, Groups, Identity, Proc};
use crate::wall::Wall;
use crate::watch::{self, Watch, WatchError};
use by_path::ByPath;
use host::Host;
use look::Looking;
use pressure::Pressure;
use protection::Claims;
use tenant::Tenant;
use under_way::UnderWay;

/// Which files of tenants are used once, by path.
pub type NoreuseOfTenants = ByPath<NoreuseFiles>;

/// How long the first scan may take before whoever starts the tree goes on without its end.
const FIRST_SCAN: Duration = Duration::from_millis(500);
/// After a scan for which descriptors or memory were lacking, the next one waits so long.
const LACK_PAUSE: Duration = Duration::from_millis(200);
/// That they are lacking is said again after this.
const LACK_SAID_AGAIN: Duration = Duration::from_secs(60);
/// A slice of a look where nobody waits: then the socket is looked at.
const SLICE: Duration = Duration::from_millis(20);

/// What a tree of tenants is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its root, below the mount of the hierarchy that counts memory.
    pub root: PathBuf,
    /// Time between two looks, where nothing asks for more of them.
    pub interval: Duration,
    /// The root is reclaimed by walking all tenants: what the memcg LRU replaced, to compare.
    pub by_iterator: bool,
    /// The host's own groups that are tenants, too.
    pub host: Option<HostGroups>,
    /// How little memory may be available on the host before tenants give some of theirs; none for never.
    pub watermarks: Option<Watermarks>,
    /// How much of a processor looks may take.
    pub budget: LookBudget,
    /// Processes that other managers have, and all their descendants: not ours to look at.
    pub others: fn() -> Vec<u32>,
}

/// A tree of tenants. See the module.
pub struct Tenants {
    driver: Driver,
    manager: Identity,
    groups: Groups,
    tenants: BTreeMap<MemcgId, Tenant>,
    by_path: BTreeMap<PathBuf, MemcgId>,
    by_serial: BTreeMap<u64, MemcgId>,
    next_serial: u64,
    /// Whose tenant each process was at the last look.
    homes: BTreeMap<Identity, MemcgId>,
    /// Processes within an exec that does not end, and the tenant of each, as of the last scan.
    in_exec: Vec<(u32, MemcgId)>,
    next_look: Instant,
    /// When the last one began that opened generations, and how much they may take.
    looked_at: Instant,
    budget: LookBudget,
    /// The look that is under way: nothing is reclaimed until it is over.
    looking: Option<Looking>,
    /// Reclaims, in turn.
    under_way: VecDeque<UnderWay>,
    /// What came of those that somebody asked for, by their numbers.
    ended: Vec<(u64, Result<Reclaimed, Errno>)>,
    last_asked: u64,
    bell: Bell,
    host: Option<Host>,
    pressure: Pressure,
    claims: Claims,
    /// Where the kernel tells no pressure of groups.
    swap_in_cost: SwapInCost,
    /// Reports are to be no older than this, where anybody asked for them.
    refresh: Option<Duration>,
    policies: Policies,
    /// Files of tenants that are used once.
    noreuse: NoreuseOfTenants,
    /// What is out goes on to a disk: of whom, and how old.
    demoter: Option<Demoter>,
    write_back_ages: WriteBackAges,
    /// A look has ended of which policies have not been told.
    has_looked: bool,
    others: fn() -> Vec<u32>,
    /// What was done since somebody asked, and why.
    actions: Vec<String>,
    /// Tenants that were reclaimed since somebody asked, though nobody had asked for that.
    pressed: BTreeSet<MemcgId>,
    /// What was asked of reports of the host's groups, which are not to be written.
    host_notes: HostNotes,
    /// They could not be written, and that was said.
    are_notes_refused: bool,
    /// When it was said that swap is full, and how the kernel refused to page out when that was said.
    said_no_swap: Option<Instant>,
    said_refused: Option<String>,
    /// That the kernel cannot be told to drop nothing but page cache was said.
    said_no_cache: bool,
    /// Tenants of which it was said that their scans cost more than their share, by serial.
    said_late: BTreeSet<u64>,
    /// How many groups were said to be told only as part of the tenants above them.
    said_left_out: u64,
    /// When it was said that descriptors or memory are lacking.
    said_lack: Option<Instant>,
    /// Groups with our mark that could not be had, each told of once.
    unheld: BTreeSet<PathBuf>,
    left_out: LeftOut,
    /// Who came since somebody asked, by number.
    came: Vec<u64>,
    /// Who went by another's hand since somebody asked: the number of the one above, and the name there.
    gone: Vec<(u64, OsString)>,
}

impl Tenants {
    /// Makes the root, or takes it up with all tenants below that a dead manager left.
    ///
    /// # Errors
    /// There are no control groups, another manager has the root, or there is no way to see ages.
    pub fn start(settings: &Settings) -> Result<Tenants, WatchError> {
        let proc = Proc::system()?;
        let groups = Groups::find(&proc)?;
        let gone = || WatchError::failure("this process is not in /proc", "mount /proc");
        let manager = proc.identity(std::process::id())?.ok_or_else(gone)?;
        let wall = root(&groups, manager, &settings.root)?;
        let host = match &settings.host {
            None => None,
            Some(asked) => Some(Host::find(&groups, &wall, asked).inspect_err(|_| {
                let _ = wall.remove_tenant();
            })?),
        };
        let all = host.as_ref().map_or(wall.group(), |host| &host.group);
        let opened = watch_of(all.clone(), settings.interval);
        // A root that nobody is in is not left behind; EBUSY where there are tenants.
        let watch = opened.inspect_err(|_| {
            let _ = wall.remove_tenant();
        })?;
        let mut tenants = Tenants {
            driver: Driver::new(watch, machine(settings.by_iterator, manager.started)),
            manager,
            groups,
            tenants: BTreeMap::new(),
            by_path: BTreeMap::new(),
            by_serial: BTreeMap::new(),
            next_serial: 0,
            homes: BTreeMap::new(),
            in_exec: Vec::new(),
            next_look: Instant::now(),
            looked_at: Instant::now(),
            budget: settings.budget,
            looking: None,
            under_way: VecDeque::new(),
            ended: Vec::new(),
            last_asked: 0,
            bell: Bell::default(),
            host,
            pressure: Pressure::new(settings.watermarks),
            claims: Claims::default(),
            swap_in_cost: SwapInCost::default(),
            refresh: None,
            policies: Policies::new(),
            noreuse: NoreuseOfTenants::new(),
            demoter: None,
            write_back_ages: WriteBackAges::new(),
            has_looked: false,
            others: settings.others,
            actions: Vec::new(),
            pressed: BTreeSet::new(),
            host_notes: HostNotes::parse(&wall.reports_of_others()),
            are_notes_refused: false,
            said_no_swap: None,
            said_refused: None,
            said_no_cache: false,
            said_late: BTreeSet::new(),
            said_left_out: 0,
            said_lack: None,
            unheld: BTreeSet::new(),
            left_out: LeftOut::default(),
            came: Vec::new(),
            gone: Vec::new(),
        };
        tenants.begin(wall)?;
        Ok(tenants)
    }

    /// Takes up its groups, and begins with a scan: a host with very many processes is ready before
    /// all of them are scanned.
    fn begin(&mut self, root: Wall) -> Result<(), WatchError> {
        self.driver.cull();
        self.admit(MemcgId::ROOT, PathBuf::new(), root, false);
        self.begin_host()?;
        self.begin_look(true, &BTreeSet::new())?;
        let pause = Pause::after(&self.bell, FIRST_SCAN);
        self.go_on_looking(&pause)
    }

    /// Does what is due, a slice of it at most, and says how long nothing more will be.
    ///
    /// # Errors
    /// The groups cannot be read any more.
    pub fn work(&mut self) -> Result<Duration, WatchError> {
        match self.work_now() {
            // What was known stays known, and the same is tried again.
            Err(error) if error.is_passing() => {
                let is_said = |at: Instant| at.elapsed() < LACK_SAID_AGAIN;
                if !self.said_lack.is_some_and(is_said) {
                    self.said_lack = Some(Instant::now());
                    self.act(format!("scans wait: {error}; {}", error.hint()));
                }
                Ok(LACK_PAUSE)
            }
            done => done,
        }
    }

    fn work_now(&mut self) -> Result<Duration, WatchError> {
        if self.looking.is_some() {
            let pause = Pause::after(&self.bell, SLICE);
            self.go_on_looking(&pause)?;
            return Ok(Duration::ZERO);
        }
        // Who comes and goes between two looks is found by the next: a thousand groups are not listed for each file
        // that somebody reads.
        if Instant::now() >= self.next_look {
            self.begin_look(true, &BTreeSet::new())?;
            return Ok(Duration::ZERO);
        }
        let has_looked = std::mem::take(&mut self.has_looked);
        let pause = self.mind(has_looked).min(self.demote(has_looked));
        let pause = pause.min(self.hold());
        let pause = pause.min(self.relieve()).min(self.refresh()?);
        let now = self.now();
        self.driver.machine.flush_stats_if_due(now);
        if self.looking.is_some() || self.go_on_with_some()? {
            return Ok(Duration::ZERO);
        }
        Ok(pause.min(self.next_look.saturating_duration_since(Instant::now())))
    }

    /// Whoever rings it is answered between two slices of what [`Tenants::work`] does; whoever answers silences it before.
    #[must_use]
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// What was done since the last call, and why.
    pub fn actions(&mut self) -> Vec<String> {
        std::mem::take(&mut self.actions)
    }

    /// Tenants that were reclaimed since the last call for a limit of theirs, and the root if the host lacked memory: what
    /// was asked for (memory.reclaim) is no pressure. spec: workingset-report.md 5.
    pub fn pressed(&mut self) -> BTreeSet<MemcgId> {
        std::mem::take(&mut self.pressed)
    }

    /// Tenants that were made, or found, since the last call, by their numbers.
    pub fn came(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.came)
    }

    /// Tenants whose groups somebody else removed since the last call: the number of the tenant above, and the name there.
    pub fn gone(&mut self) -> Vec<(u64, OsString)> {
        std::mem::take(&mut self.gone)
    }

    /// The tenant at a path below the root; the root for an empty one.
    #[must_use]
    pub fn find(&self, path: &Path) -> Option<MemcgId> {
        self.by_path.get(path).copied()
    }

    /// A number that no other tenant of this tree ever has; 0 for the root.
    #[must_use]
    pub fn serial(&self, memcg: MemcgId) -> Option<u64> {
        self.tenants.get(&memcg).map(|tenant| tenant.serial)
    }

    /// The tenant of a number, if it is there still.
    #[must_use]
    pub fn by_serial(&self, serial: u64) -> Option<MemcgId> {
        self.by_serial.get(&serial).copied()
    }

    /// The nodes of this host.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        self.driver.watch.ages().nodes()
    }

    /// Time since the tree was taken up, milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        self.driver.watch.elapsed_ms()
    }

    /// Its path below the root.
    ///
    /// # Errors
    /// ENODEV if it is gone.
    pub fn path(&self, memcg: MemcgId) -> Result<&Path, Errno> {
        Ok(&self.tenant(memcg)?.path)
    }

    /// A tenant and all below it, those above first.
    #[must_use]
    pub fn below(&self, memcg: MemcgId) -> Vec<MemcgId> {
        let mut all = self.driver.machine.tree().pre_order(memcg);
        all.retain(|id| self.tenants.contains_key(id));
        all
    }

    /// Names of the tenants right below one.
    pub fn children(&self, memcg: MemcgId) -> impl Iterator<Item = (&Path, MemcgId)> {
        let tree = self.driver.machine.tree();
        let children = tree.children(memcg);
        children.filter_map(|id| Some((self.tenants.get(&id)?.path.as_path(), id)))
    }

    /// Whether a tenant may have this name: walls of `run` have names of their own.
    #[must_use]
    pub fn may_be_called(name: &str) -> bool {
        !Wall::is_of_run(name.as_ref())
    }

    /// Makes a tenant.
    ///
    /// # Errors
    /// The kernel's for the group; EINVAL for a name that it may not have.
    pub fn make(&mut self, parent: MemcgId, name: &str) -> Result<MemcgId, Errno> {
        self.may_change(parent)?;
        if !Tenants::may_be_called(name) {
            return Err(Errno::INVAL);
        }
        let above = self.tenant(parent)?;
        let of_host = above.of_host;
        let (path, dir) = (above.path.join(name), above.wall.group().dir.join(name));
        let wall = match of_host {
            true => Wall::make_for_host(&self.groups, &dir, self.manager)?,
            false => Wall::tenant(&self.groups, &dir, self.manager, false)?,
        };
        let now = self.now();
        let memcg = self.driver.machine.create(parent, now);
        self.admit(memcg, path, wall, of_host);
        Ok(memcg)
    }

    /// Removes a tenant whose group has neither processes nor groups.
    ///
    /// # Errors
    /// The kernel's for the group; EPERM for the root.
    pub fn remove(&mut self, memcg: MemcgId) -> Result<(), Errno> {
        let is_fixed = |host: &Host| host.memcg == memcg;
        if memcg == MemcgId::ROOT || self.host.as_ref().is_some_and(is_fixed) {
            return Err(Errno::PERM);
        }
        self.may_change(memcg)?;
        self.note_events(memcg);
        self.tenant(memcg)?.wall.remove_tenant()?;
        // The kernel had none below it any more: those went by another's hand, and no look has seen it yet.
        for gone in self.below(memcg).into_iter().skip(1).rev() {
            self.note_gone(gone);
            self.drop_tenant(gone);
        }
        self.free_above(memcg);
        self.drop_tenant(memcg);
        Ok(())
    }

    /// The one above a made tenant that is gone may have processes again, if that was the last one there.
    fn free_above(&self, memcg: MemcgId) {
        let above = self.driver.machine.tree().parent(memcg);
        let above = above.filter(|above| *above != MemcgId::ROOT);
        let above = above.and_then(|above| self.tenants.get(&above));
        if let Some(above) = above.filter(|above| !above.of_host) {
            above.wall.hand_down_no_more();
        }
    }

    /// Ends: tenants stay as they are, and a root that holds nobody, no limit and nothing that was asked of reports is removed.
    pub fn end(&self) {
        let root = self.tenants.get(&MemcgId::ROOT);
        let is_asked = |root: &&Tenant| {
            root.limits != Limits::default()
                || root.wall.reports().is_some()
                || !self.host_notes.is_empty()
        };
        if let Some(root) = root.filter(|root| !is_asked(root)) {
            // EBUSY where there are tenants or processes.
            let _ = root.wall.remove_tenant();
        }
    }

    fn admit(&mut self, memcg: MemcgId, path: PathBuf, wall: Wall, of_host: bool) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.came.push(serial);
        let mut tenant = Tenant::new((memcg, serial), path.clone(), wall, of_host);
        let may_change = !of_host || self.may_change_host();
        let told = match may_change {
            true => {
                let refused = tenant.apply();
                tenant.refusals_in_words(&refused)
            }
            // What an earlier manager that might was asked for.
            false => {
                tenant.limits = Limits::default();
                Vec::new()
            }
        };
        told.into_iter().for_each(|what| self.act(what));
        let limits = tenant.for_engine(may_change);
        self.driver.machine.set_limits(memcg, limits);
        if let Some(files) = self.noreuse_of(&tenant) {
            self.driver.add_noreuse(memcg, files);
        }
        self.by_path.insert(path, memcg);
        self.by_serial.insert(serial, memcg);
        self.tenants.insert(memcg, tenant);
        self.give_policy(memcg);
    }

    /// Its group is gone.
    fn drop_tenant(&mut self, memcg: MemcgId) {
        if let Some(tenant) = self.tenants.remove(&memcg) {
            self.homes.retain(|_, home| *home != memcg);
            self.driver.evacuate(memcg);
            self.by_path.remove(&tenant.path);
            self.by_serial.remove(&tenant.serial);
            self.hand_up_events(memcg, &tenant);
            self.driver.machine.offline(memcg);
            self.protect_without(&tenant);
        }
    }

    /// Whether the host's own groups may be changed.
    fn may_change_host(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.manage)
    }

    fn tenant(&self, memcg: MemcgId) -> Result<&Tenant, Errno> {
        self.tenants.get(&memcg).ok_or(Errno::NODEV)
    }

    fn now(&self) -> Millis {
        Millis(self.driver.watch.elapsed_ms())
    }

    fn act(&mut self, what: String) {
        /// Nobody may ask for them: the latest stay.
        const MOST: usize = 1000;
        if self.actions.len() == MOST {
            self.actions.remove(0);
        }
        self.actions.push(what);
    }
}

/// A watch of all groups below one.
fn watch_of(group: Group, interval: Duration) -> Result<Watch, WatchError> {
    Watch::open(watch::Settings {
        target: Target::Group(group),
        interval,
        max_wait: None,
        source: None,
        own_process: true,
    })
}

/// The engine of a tree: tenants that are protected give last, and reclaims go on in turn.
fn machine(by_iterator: bool, seed: u64) -> Machine {
    let global = match by_iterator {
        true => GlobalReclaim::Iterator,
        false => GlobalReclaim::MemcgLru,
    };
    let config = MachineConfig {
        global,
        low_last: true,
        in_turn: true,
        batch: BATCH,
        seed,
        ..MachineConfig::default()
    };
    Machine::new(config, Millis(0))
}

/// The root's group, taken up or made.
fn root(groups: &Groups, manager: Identity, path: &Path) -> Result<Wall, WatchError> {
    let below: PathBuf = path.iter().filter(|part| *part != "/").collect();
    let is_plain = |part| matches!(part, Component::Normal(_));
    if below.as_os_str().is_empty() || !below.components().all(is_plain) {
        let what = format!("`{}` is no name for the tenants' root", path.display());
        return Err(WatchError::failure(what, "give one like `pagetide`"));
    }
    let dir = groups.mount.join(below);
    Wall::tenant(groups, &dir, manager, true).map_err(|errno| {
        let what = format!("cannot have {} as the tenants' root: {errno}", dir.display());
        match errno {
            Errno::EXIST => WatchError::failure(
                what,
                "another pagetide serve has it, or it is somebody else's group: see `pgrep -a pagetide`, or \
                 name another with --root",
            ),
            Errno::NOENT => WatchError::failure(what, "the groups above it must be there"),
            errno if is_lack(errno) => WatchError::failure(what, LACK_HINT),
            _ => WatchError::missing(what, "making control groups needs root; `pagetide doctor` says more"),
        }
    })
}
