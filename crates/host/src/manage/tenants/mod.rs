//! Manages many tenants with one engine: a tree of real control groups. The engine decides from
//! which tenants to reclaim: by its memcg LRU, or as [`TreeSettings::global`] says.
//!
//! Invariant: every tenant made by pagetide is a control group below one root, and carries our
//! ownership xattr. Below the tenant `host` the host's own groups are tenants, too; they are not
//! changed, and not reclaimed from, unless `manage` allows it. The kernel knows which processes a
//! tenant has; the engine makes all decisions. The state of the tree is stored only on the groups:
//! if the manager is killed, the next manager finds the groups, their processes and their settings.
//!
//! The modules in order of dependence, in groups separated by semicolons; a module uses only
//! modules of earlier groups: `back_off`, `by_path` (settings that hold for a tenant and those
//! below it), `cache`, `pending_limit`, `swap_cache` (rules for limits that the kernel does not
//! enforce yet), `group_share` (which of the host's groups are tenants), `host_notes`,
//! `further_scans` (of a request), `kernel_counters`, `left_out` (what scans do not include),
//! `rate_limited`; `allocation_race`, `thrashing_detector`; `limit_controller` (one tenant's
//! limits); `tenant`, `under_way` (reclaims in slices); `host_watermarks`; here the tree and its
//! clock; `host` (the host's own groups), `membership` (the tenant of each process), `pressure`,
//! `protection`; `kernel_reclaim` (reclaim by the kernel itself), `unmapped` (page cache),
//! `curves`; `cold_cache`, `fallback_reclaim`; `list` (which groups exist), `scan`,
//! `enforce_limits` (limits), `policy`, `write_back`, `ask`, `events`, `reclaim` (requests of
//! users), `figures` (of all tenants at once).

mod back_off;
mod by_path;
mod cache;
mod further_scans;
mod group_share;
mod host_notes;
mod kernel_counters;
pub mod left_out;
mod pending_limit;
mod rate_limited;
mod swap_cache;
mod unread;

mod allocation_race;
mod thrashing_detector;

mod limit_controller;

mod membership;
mod tenant;

mod write_back;

mod events;
mod host;
mod protection;

mod list;
mod unmapped;

// These modules use each other.
mod ask;
mod cold_cache;
mod curves;
mod enforce_limits;
mod fallback_reclaim;
pub mod figures;
mod host_watermarks;
mod policy;
mod pressure;
mod reclaim;
mod scan;
mod under_way;

mod kernel_reclaim;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use engine::machine::GlobalReclaim;
use engine::memcg::MemcgId;
use engine::{Machine, MachineConfig, Millis};
use rustix::io::Errno;

pub use super::noreuse::NoreuseFiles;
pub use super::options::Limits;
pub use super::scan_budget::ScanBudget;
pub use ask::{Ages, NodeAges, NodeUsage, ProcessesByTenant, Usage};
pub use host::HostGroups;
use host_notes::HostNotes;
use host_watermarks::HostPressure;
pub use host_watermarks::Watermarks;
use left_out::LeftOut;
pub use policy::Policies;
pub use reclaim::ReclaimFrom;
pub use write_back::WriteBackAges;

use super::driver::Driver;
use super::messages::ActionLines;
use super::moment::Moment;
use super::options::Reclaimed;
use super::wakeup::Pause;
pub use super::wakeup::Wakeup;
use super::writeback::Writeback;
use crate::hard_limit::HardLimit;
use crate::price::SwapInCost;
use crate::system::descriptors::{LACK_HINT, is_lack};
use crate::system::family::Target;
use crate::system::{Group, Groups, Identity, Proc};
use crate::watch::{self, Watch, WatchError};
use by_path::ByPath;
use host::Host;
use kernel_counters::KernelReclaim;
use protection::RootProtection;
use rate_limited::RateLimit;
use scan::OngoingScan;
use tenant::Tenant;
use under_way::OngoingReclaim;

/// Which files of tenants are used only once, by the path of the tenant.
pub type NoreuseOfTenants = ByPath<NoreuseFiles>;

/// Maximum time for which [`Tenants::start`] waits for the first scan, which continues afterwards.
const FIRST_SCAN: Duration = Duration::from_millis(500);
/// Pause after a scan that failed because descriptors or memory are lacking.
const LACK_PAUSE: Duration = Duration::from_millis(200);
/// Minimum time between two log lines about lacking descriptors or memory.
const LACK_SAID_AGAIN: Duration = Duration::from_secs(60);
/// Maximum time of one slice of work; afterwards the caller can serve its socket again.
const SLICE: Duration = Duration::from_millis(20);

/// Settings of a tree of tenants.
#[derive(Clone, Debug)]
pub struct TreeSettings {
    /// Path of the root, below the mount point of the cgroup hierarchy with the memory controller.
    pub root: PathBuf,
    /// Time between two scans; reclaim and policies may need scans more often.
    pub interval: Duration,
    /// How reclaim from the root chooses among tenants.
    pub global: GlobalReclaim,
    /// Which of the host's own groups are tenants, too; `None` for none of them.
    pub host: Option<HostGroups>,
    /// Reclaims from tenants if the host's available memory is below these values; `None` to
    /// disable that.
    pub watermarks: Option<Watermarks>,
    /// The share of one processor that scans may take.
    pub budget: ScanBudget,
    /// Returns the PIDs of the processes that other managers have. These processes and all their
    /// descendants are not scanned.
    pub others: fn() -> Vec<u32>,
}

/// Manages a tree of tenants; see the description of this module.
pub struct Tenants {
    driver: Driver,
    manager: Identity,
    groups: Groups,
    tenants: BTreeMap<MemcgId, Tenant>,
    by_path: BTreeMap<PathBuf, MemcgId>,
    by_serial: BTreeMap<u64, MemcgId>,
    next_serial: u64,
    /// The tenant of each process, as of the last scan.
    tenant_map: BTreeMap<Identity, MemcgId>,
    /// Processes whose exec does not end, as of the last scan: PID, then tenant.
    in_exec: Vec<(u32, MemcgId)>,
    next_scan: Moment,
    /// When the last scan that opened generations began; then the share of a processor that scans
    /// may take.
    scanned_at: Moment,
    budget: ScanBudget,
    /// The scan in progress; nothing is reclaimed until it ends.
    looking: Option<OngoingScan>,
    /// Reclaims in progress; each in turn runs for a slice.
    under_way: VecDeque<OngoingReclaim>,
    /// Results of requested reclaims that have ended: number of the request, then its result.
    ended: Vec<(u64, Result<Reclaimed, Errno>)>,
    /// Number of the last requested reclaim.
    last_requested: u64,
    wakeup: Wakeup,
    host: Option<Host>,
    pressure: HostPressure,
    /// Protection that is set on the root's group.
    claims: RootProtection,
    /// Time of a swap-in, from which pressure is estimated if the kernel reports none for groups.
    swap_in_cost: SwapInCost,
    /// Maximum age of reports; `None` if no user has set one.
    refresh: Option<Duration>,
    policies: Policies,
    /// Which files of tenants are used only once.
    noreuse: NoreuseOfTenants,
    /// Writeback of swapped-out pages to a disk, `None` if not requested; then the age from which
    /// on pages of each tenant are written.
    writeback: Option<Writeback>,
    write_back_ages: WriteBackAges,
    /// Whether a scan has ended since the policies last ran.
    has_scanned: bool,
    /// Returns the PIDs of processes that other managers have.
    others: fn() -> Vec<u32>,
    /// Log lines since the last call of [`Tenants::actions`]: what was done, and why.
    actions: ActionLines,
    /// Tenants that were reclaimed from, other than on request, since the last call of
    /// [`Tenants::take_reclaimed`].
    reclaimed_from: BTreeSet<MemcgId>,
    /// The kernel's counters of its own reclaim.
    kernel_reclaim: KernelReclaim,
    /// Report settings of the host's groups to which we may not write.
    host_notes: HostNotes,
    /// Whether it was logged that the report settings in `host_notes` could not be stored.
    are_notes_refused: bool,
    /// When full swap was last logged; then the last logged refusal of the kernel to page out.
    said_no_swap: RateLimit,
    said_refused: Option<String>,
    /// Whether it was logged that this kernel cannot drop page cache alone.
    said_no_cache: bool,
    /// Serials of tenants for which it was logged that their scans cost more than their share.
    said_late: BTreeSet<u64>,
    /// Serials of tenants for which it was logged that some of their processes are not read.
    said_unread: BTreeSet<u64>,
    /// Number of groups that are reported only as part of the tenants above them, as last logged.
    said_left_out: u64,
    /// When a lack of descriptors or memory was last logged.
    said_lack: RateLimit,
    /// Groups with our ownership xattr that could not be claimed; each is logged once.
    unclaimed: BTreeSet<PathBuf>,
    /// Processes and groups that scans do not include.
    left_out: LeftOut,
    /// Serials of tenants that were added since the last call of [`Tenants::came`].
    came: Vec<u64>,
    /// Groups that other programs removed since the last call of [`Tenants::gone`]: serial of the
    /// parent, then name of the group.
    gone: Vec<(u64, OsString)>,
}

impl Tenants {
    /// Makes the root group, or claims the root of a manager that has died, with all tenants below
    /// it.
    ///
    /// # Errors
    /// There are no control groups, another manager has the root, or ages cannot be read here.
    pub fn start(settings: &TreeSettings) -> Result<Tenants, WatchError> {
        let proc = Proc::system()?;
        let groups = Groups::find(&proc)?;
        let gone = || WatchError::failure("this process is not in /proc", "mount /proc");
        let manager = proc.identity(std::process::id())?.ok_or_else(gone)?;
        let hard_limit = root(&groups, manager, &settings.root)?;
        let host = match &settings.host {
            None => None,
            Some(requested) => Some(Host::find(&groups, &hard_limit, requested).inspect_err(
                |_| {
                    let _ = hard_limit.remove_tenant();
                },
            )?),
        };
        let all = host.as_ref().map_or(hard_limit.group(), |host| &host.group);
        let opened = watch_of(all.clone(), settings.interval);
        // On failure the root is removed. If it has tenants, that fails with EBUSY, and they stay.
        let watch = opened.inspect_err(|_| {
            let _ = hard_limit.remove_tenant();
        })?;
        let mut tenants = Tenants {
            driver: Driver::new(watch, machine(settings.global, manager.started)),
            manager,
            groups,
            tenants: BTreeMap::new(),
            by_path: BTreeMap::new(),
            by_serial: BTreeMap::new(),
            next_serial: 0,
            tenant_map: BTreeMap::new(),
            in_exec: Vec::new(),
            next_scan: Moment::BEGIN,
            scanned_at: Moment::BEGIN,
            budget: settings.budget,
            looking: None,
            under_way: VecDeque::new(),
            ended: Vec::new(),
            last_requested: 0,
            wakeup: Wakeup::default(),
            host,
            pressure: HostPressure::new(settings.watermarks),
            claims: RootProtection::default(),
            swap_in_cost: SwapInCost::default(),
            refresh: None,
            policies: Policies::new(),
            noreuse: NoreuseOfTenants::new(),
            writeback: None,
            write_back_ages: WriteBackAges::new(),
            has_scanned: false,
            others: settings.others,
            actions: ActionLines::default(),
            reclaimed_from: BTreeSet::new(),
            kernel_reclaim: KernelReclaim::default(),
            host_notes: HostNotes::parse(&hard_limit.reports_of_others()),
            are_notes_refused: false,
            said_no_swap: RateLimit::default(),
            said_refused: None,
            said_no_cache: false,
            said_late: BTreeSet::new(),
            said_unread: BTreeSet::new(),
            said_left_out: 0,
            said_lack: RateLimit::default(),
            unclaimed: BTreeSet::new(),
            left_out: LeftOut::default(),
            came: Vec::new(),
            gone: Vec::new(),
        };
        tenants.begin(hard_limit)?;
        Ok(tenants)
    }

    /// Adds the existing groups as tenants, and begins the first scan. Returns after at most
    /// [`FIRST_SCAN`], so that serving begins before all processes of a large host are scanned.
    fn begin(&mut self, root: HardLimit) -> Result<(), WatchError> {
        self.driver.track_unevictable();
        self.admit(MemcgId::ROOT, PathBuf::new(), root, false);
        self.begin_host()?;
        self.begin_scan(true, &BTreeSet::new())?;
        let pause = Pause::after(&self.wakeup, FIRST_SCAN);
        self.continue_scan(&pause)
    }

    /// Does pending work for at most one slice. Returns the time until the next work.
    ///
    /// # Errors
    /// The groups cannot be read any more.
    pub fn work(&mut self) -> Result<Duration, WatchError> {
        match self.work_now() {
            // Descriptors or memory were lacking: all data stay valid, and the work is tried again.
            Err(error) if error.is_passing() => {
                if self.said_lack.takes(self.driver.now(), LACK_SAID_AGAIN) {
                    self.act(format!("scans wait: {error}; {}", error.hint()));
                }
                Ok(LACK_PAUSE)
            }
            done => done,
        }
    }

    /// Does one slice of the most urgent work: the scan, or policies, limits and reclaim.
    fn work_now(&mut self) -> Result<Duration, WatchError> {
        // Also during a scan, which may take long.
        let now = self.now();
        let noted = self.note_kernel_reclaim(now);
        if self.looking.is_some() {
            let pause = Pause::after(&self.wakeup, SLICE);
            self.continue_scan(&pause)?;
            return Ok(Duration::ZERO);
        }
        // Groups that are made or removed between two scans are found by the next scan, because
        // listing a thousand groups for each file that a user reads would take too long.
        if now >= self.next_scan {
            self.begin_scan(true, &BTreeSet::new())?;
            return Ok(Duration::ZERO);
        }
        let has_scanned = std::mem::take(&mut self.has_scanned);
        let policies = self.run_policies(has_scanned, now);
        let pause = policies.min(self.write_back(has_scanned));
        let pause = pause.min(noted).min(self.enforce_limits());
        let now = self.now();
        let pause = pause.min(self.reclaim_for_host(now));
        let pause = pause.min(self.refresh(now)?);
        self.driver.machine.flush_stats_if_due(now.millis());
        if self.looking.is_some() || self.continue_reclaims()? {
            return Ok(Duration::ZERO);
        }
        let pause = pause.min(self.until_further_scan());
        Ok(pause.min(self.next_scan.since(self.now())))
    }

    /// Returns the wakeup of this tree. If a caller sets it, [`Tenants::work`] returns at the end
    /// of the current slice. The caller must clear it before its request is served.
    #[must_use]
    pub fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
    }

    /// Returns the log lines since the last call: what was done, and why.
    pub fn actions(&mut self) -> Vec<String> {
        self.actions.take()
    }

    /// Returns the tenants that were reclaimed from for lack of memory since the last call, by
    /// pagetide or by the kernel, with those above them; and the root and `host` if the host lacked
    /// memory. Requested reclaim (memory.reclaim) is no pressure and is not included.
    /// spec: workingset-report.md 5.
    pub fn take_reclaimed(&mut self) -> BTreeSet<MemcgId> {
        std::mem::take(&mut self.reclaimed_from)
    }

    /// Returns the serials of tenants that were made or found since the last call.
    pub fn came(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.came)
    }

    /// Returns the groups that other programs removed since the last call: serial of the parent,
    /// then name of the group.
    pub fn gone(&mut self) -> Vec<(u64, OsString)> {
        std::mem::take(&mut self.gone)
    }

    /// Returns the tenant at a path below the root (the empty path); `None` if there is none.
    #[must_use]
    pub fn find(&self, path: &Path) -> Option<MemcgId> {
        self.by_path.get(path).copied()
    }

    /// Returns a tenant's serial, a number that no other tenant of this tree ever has; 0 for the
    /// root. `None` if the tenant is gone.
    #[must_use]
    pub fn serial(&self, memcg: MemcgId) -> Option<u64> {
        self.tenants.get(&memcg).map(|tenant| tenant.serial)
    }

    /// Returns the tenant with this serial; `None` if it no longer exists.
    #[must_use]
    pub fn by_serial(&self, serial: u64) -> Option<MemcgId> {
        self.by_serial.get(&serial).copied()
    }

    /// Returns the numbers of this host's NUMA nodes.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        self.driver.watch.ages().nodes().all()
    }

    /// Returns the time since the tree was started, in milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        self.now().millis().0
    }

    /// Returns a tenant's path below the root.
    ///
    /// # Errors
    /// ENODEV if the tenant is gone.
    pub fn path(&self, memcg: MemcgId) -> Result<&Path, Errno> {
        Ok(&self.tenant(memcg)?.path)
    }

    /// Returns a tenant and all tenants below it, parents before their children.
    #[must_use]
    pub fn below(&self, memcg: MemcgId) -> Vec<MemcgId> {
        let mut all = self.driver.machine.tree().pre_order(memcg);
        all.retain(|id| self.tenants.contains_key(id));
        all
    }

    /// Returns the children of a tenant: path below the root, then id.
    pub fn children(&self, memcg: MemcgId) -> impl Iterator<Item = (&Path, MemcgId)> {
        let tree = self.driver.machine.tree();
        let children = tree.children(memcg);
        children.filter_map(|id| Some((self.tenants.get(&id)?.path.as_path(), id)))
    }

    /// Whether a tenant may have this name: names of hard-limit cgroups of `run` are reserved.
    #[must_use]
    pub fn may_be_called(name: &str) -> bool {
        !HardLimit::is_of_run(name.as_ref())
    }

    /// Makes a tenant below `parent`.
    ///
    /// # Errors
    /// The kernel's error for the group; EINVAL for a reserved name.
    pub fn make(&mut self, parent: MemcgId, name: &str) -> Result<MemcgId, Errno> {
        self.may_change(parent)?;
        if !Tenants::may_be_called(name) {
            return Err(Errno::INVAL);
        }
        let above = self.tenant(parent)?;
        let of_host = above.of_host;
        let (path, dir) = (
            above.path.join(name),
            above.hard_limit.group().dir.join(name),
        );
        let hard_limit = match of_host {
            true => HardLimit::make_for_host(&self.groups, &dir, self.manager)?,
            false => HardLimit::tenant(&self.groups, &dir, self.manager, false)?,
        };
        let now = self.now().millis();
        let memcg = self.driver.machine.create(parent, now);
        self.admit(memcg, path, hard_limit, of_host);
        Ok(memcg)
    }

    /// Removes a tenant. Its group must have neither processes nor child groups.
    ///
    /// # Errors
    /// The kernel's error for the group; EPERM for the root and for `host`.
    pub fn remove(&mut self, memcg: MemcgId) -> Result<(), Errno> {
        let is_fixed = |host: &Host| host.memcg == memcg;
        if memcg == MemcgId::ROOT || self.host.as_ref().is_some_and(is_fixed) {
            return Err(Errno::PERM);
        }
        self.may_change(memcg)?;
        self.note_events(memcg);
        self.tenant(memcg)?.hard_limit.remove_tenant()?;
        // The kernel has no groups below this one any more: other programs have removed them since
        // the last scan.
        for gone in self.below(memcg).into_iter().skip(1).rev() {
            self.note_gone(gone);
            self.drop_tenant(gone);
        }
        self.free_above(memcg);
        self.drop_tenant(memcg);
        Ok(())
    }

    /// If the tenant was its parent's last child, lets the parent's group have processes again.
    fn free_above(&self, memcg: MemcgId) {
        let above = self.driver.machine.tree().parent(memcg);
        let above = above.filter(|above| *above != MemcgId::ROOT);
        let above = above.and_then(|above| self.tenants.get(&above));
        if let Some(above) = above.filter(|above| !above.of_host) {
            above.hard_limit.disable_memory();
        }
    }

    /// Ends the tree. Tenants stay as they are. The root is removed if it has no tenants,
    /// processes, limits or report settings.
    pub fn end(&self) {
        let root = self.tenants.get(&MemcgId::ROOT);
        let is_requested = |root: &&Tenant| {
            root.limits != Limits::default()
                || root.hard_limit.reports().is_some()
                || !self.host_notes.is_empty()
        };
        if let Some(root) = root.filter(|root| !is_requested(root)) {
            // Fails with EBUSY if there are tenants or processes; then the root stays.
            let _ = root.hard_limit.remove_tenant();
        }
    }

    /// Adds a tenant for a group, with the stored limits and the policy that apply to it.
    fn admit(&mut self, memcg: MemcgId, path: PathBuf, hard_limit: HardLimit, of_host: bool) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.came.push(serial);
        let mut tenant = Tenant::new(
            (memcg, serial),
            path.clone(),
            hard_limit,
            of_host,
            self.now(),
        );
        let may_change = !of_host || self.may_change_host();
        let reported = match may_change {
            true => {
                let refused = tenant.apply();
                tenant.refusals_in_words(&refused)
            }
            // Limits stored by an earlier manager, which was allowed to change the host's groups,
            // do not hold now.
            false => {
                tenant.limits = Limits::default();
                Vec::new()
            }
        };
        reported.into_iter().for_each(|what| self.act(what));
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

    /// Forgets a tenant after its group was removed, with its processes and pages.
    fn drop_tenant(&mut self, memcg: MemcgId) {
        if let Some(tenant) = self.tenants.remove(&memcg) {
            self.tenant_map.retain(|_, home| *home != memcg);
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

    /// Returns a tenant; ENODEV if it is gone.
    fn tenant(&self, memcg: MemcgId) -> Result<&Tenant, Errno> {
        self.tenants.get(&memcg).ok_or(Errno::NODEV)
    }

    /// Reads the clock ([`Driver::now`]).
    fn now(&self) -> Moment {
        self.driver.now()
    }

    /// Records a log line about an action.
    fn act(&mut self, what: String) {
        self.actions.add(what);
    }
}

/// Opens a watch of all processes in a group and in the groups below it.
fn watch_of(group: Group, interval: Duration) -> Result<Watch, WatchError> {
    Watch::open(watch::WatchSettings {
        target: Target::Group(group),
        interval,
        max_wait: None,
        source: None,
        memory: None,
        own_process: true,
    })
}

/// Returns the engine of a tree.
fn machine(global: GlobalReclaim, seed: u64) -> Machine {
    let config = MachineConfig {
        global,
        seed,
        ..MachineConfig::of_host()
    };
    Machine::new(config, Millis(0))
}

/// Claims or makes the root's group. `path` is its path below the mount point.
fn root(groups: &Groups, manager: Identity, path: &Path) -> Result<HardLimit, WatchError> {
    let below: PathBuf = path.iter().filter(|part| *part != "/").collect();
    let is_plain = |part| matches!(part, Component::Normal(_));
    if below.as_os_str().is_empty() || !below.components().all(is_plain) {
        let what = format!(
            "`{}` is not a valid name for the tenants' root",
            path.display()
        );
        return Err(WatchError::failure(what, "give a name like `pagetide`"));
    }
    let dir = groups.mount.join(below);
    HardLimit::tenant(groups, &dir, manager, true).map_err(|errno| {
        let what = format!("cannot use {} as the tenants' root: {errno}", dir.display());
        match errno {
            Errno::EXIST => WatchError::failure(
                what,
                "another pagetide serve manages it, or another program made it: see `pgrep -a \
                 pagetide`, or name another with --root",
            ),
            Errno::NOENT => WatchError::failure(what, "the groups above it must exist"),
            errno if is_lack(errno) => WatchError::failure(what, LACK_HINT),
            _ => WatchError::missing(
                what,
                "making control groups needs root; `pagetide doctor` says more",
            ),
        }
    })
}
