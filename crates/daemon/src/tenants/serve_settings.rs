//! The settings of `serve`: command line, configuration file and defaults, combined.
//!
//! Invariant: the command line takes precedence over the file, and the file over the defaults. All
//! sizes are in bytes of this host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::memcg::MemcgId;
use engine::policy::WriteBudget;
use engine::units::{Bytes, Limit};
use host::manage::tenants::{
    HostGroups, NoreuseOfTenants, Policies, ScanBudget, TreeSettings, Watermarks, WriteBackAges,
};
use host::manage::{PolicyRequest, WritebackSettings};
use host::system::PathPattern;
use rustix::io::Errno;

use super::config::{Age, Config, Global, Policy, Tenant, is_of_host};
use super::configured::Configured;
use super::listen::Wanted;
use super::request_queue::Tree;
use crate::control;
use crate::error::{Error, ExitCode};
use crate::http::Address;
use crate::options::{CpuShare, EvictBy, MAX_LEAST, Millis, Percent, Size};
use crate::preflight;

/// Directory of the files that pagetide must find again: the token, and the record of `swap on`.
const STATE_DIRECTORY: &str = "/run/pagetide";
/// Default path of the token's file.
const TOKEN_FILE: &str = "/run/pagetide/token";
/// Default path of the history's file; if the root is not the default one, its name is appended.
const HISTORY: &str = "/var/lib/pagetide/history";
/// Default time between two scans.
const AGE_EVERY: Millis = Millis(10_000);

/// The command line of `serve`. For an option that is not set (`None`, an empty list, false), the
/// configuration's key of the same name counts (`policy` for `evict_by`), and otherwise the
/// default.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The directory at which the tenants are mounted as files. Default: nowhere.
    pub mount: Option<PathBuf>,
    /// The socket at which another process delivers that mount ([`super::mounter`]). Default:
    /// `serve` mounts the tree itself.
    pub mount_socket: Option<PathBuf>,
    /// The control group below which tenants are made, as a path from the mount of control groups.
    /// Default: `pagetide`.
    pub root: Option<PathBuf>,
    /// Limit of all tenants together, bytes or a share of the host's memory. Default: the limit as
    /// it was last set.
    pub memory_max: Option<Size>,
    /// Time between two scans. Default: 10 s.
    pub age_every: Option<Millis>,
    /// The share of one processor that scans may take. Default: a tenth.
    pub look_budget: Option<CpuShare>,
    /// How much of this process's memory the age records may take. Default: three quarters of the
    /// limit that its control groups set.
    pub own_memory: Option<Size>,
    /// Policy of each tenant that has none in the configuration. Default: none.
    pub evict_by: Option<EvictBy>,
    /// Age from which swapped-out pages are written back from zram to a disk, for each tenant that
    /// has no such age in the configuration. Default: no writeback.
    pub write_back_older_than: Option<Millis>,
    /// Most bytes that are written back in a day, for all tenants together. Default: 1 GiB.
    pub write_back_max: Option<Bytes>,
    /// The zram device from which pages are written back. Default: the one that `swap on` made.
    pub write_back_from: Option<PathBuf>,
    /// Age from which pages in the zram of `swap on` are compressed again. Default: never.
    pub recompress_older_than: Option<Millis>,
    /// Policies and writeback decide and report why, but move nothing; nothing is compressed again.
    pub dry_run: bool,
    /// How a reclaim of all tenants chooses tenants. Default: by the memcg LRU.
    pub global: Option<Global>,
    /// The control group of the host at and below which all groups are tenants, too, or `none`.
    /// Default: `/`, so that all are.
    pub host: Option<String>,
    /// Whether the host's own groups may be changed and reclaimed from. Default: no.
    pub manage_host: bool,
    /// Where metrics and the page are served. Default: nowhere.
    pub listen: Vec<Address>,
    /// The file with the token for TCP; it is made if it does not exist. Default:
    /// `/run/pagetide/token`.
    pub token_file: Option<PathBuf>,
    /// The file that keeps the dashboard's history, or `none`. Default:
    /// `/var/lib/pagetide/history`, with the root's name appended if that is not the default one.
    pub history: Option<PathBuf>,
}

/// All settings: options, configuration file and defaults combined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ServeSettings {
    pub(super) fixed: StartSettings,
    pub(super) memory_max: Option<Limit>,
    pub(super) watermarks: Option<Watermarks>,
    budget: ScanBudget,
    own_memory: Option<u64>,
    policies: Policies,
    write_back: WriteBack,
    configured: Configured,
    /// Which files are used only once: by any process; of single tenants.
    noreuse_paths: Vec<PathPattern>,
    noreuse: NoreuseOfTenants,
    /// Paths of the host's own groups for which the configuration has settings.
    of_host: Vec<PathBuf>,
    total: Bytes,
}

/// Settings of writeback of swapped-out pages to a disk, for all tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WriteBack {
    ages: WriteBackAges,
    most_a_day: u64,
    from: Option<PathBuf>,
    dry_run: bool,
}

/// Settings that cannot change while `serve` runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StartSettings {
    pub(super) mount: Option<PathBuf>,
    pub(super) mount_socket: Option<PathBuf>,
    pub(super) root: PathBuf,
    host: Option<HostGroups>,
    interval: Duration,
    global: Global,
    pub(super) listen: Wanted,
    /// Age from which pages are compressed again; `None` for never, and in a dry run.
    pub(super) recompress_older_than: Option<Millis>,
}

impl ServeOptions {
    /// Combines the options with the configuration file's current content and the defaults.
    pub(super) fn requested(&self) -> Result<ServeSettings, Error> {
        let file = self.config.as_deref().map(Config::read).transpose()?;
        let file = file.unwrap_or_default();
        let total = host::system::Proc::system().and_then(|proc| proc.memory());
        let total = Bytes(total.map_err(Error::from)?.total);
        self.refuse_tiny_limits(&file, total)?;
        let policies = self.policies(&file);
        let write_back = self.write_back(&file);
        let follow = self.host.clone().or(file.host.clone());
        let follow = follow.unwrap_or("/".to_owned());
        let manage = self.manage_host || file.manage_host.unwrap_or(false);
        refuse_unmanaged_host(&file, manage && follow != "none")?;
        let configured = Configured::new(&file.tenants, total);
        let of_host = of_host(&file).map(PathBuf::from).collect();
        let noreuse = by_path(&file, None, Tenant::noreuse_files).collect();
        let age_every = self.age_every.or(file.age_every).unwrap_or(AGE_EVERY);
        let root = self.root.clone().or(file.root);
        let root = root.unwrap_or("pagetide".into());
        let history = self.history.clone().or(file.history);
        let history = history.unwrap_or_else(|| history_of(&root));
        let token_file = self.token_file.clone().or(file.token_file);
        let listen = match self.listen.is_empty() {
            true => file.listen,
            false => self.listen.clone(),
        };
        let listen = Wanted {
            addresses: listen,
            token_file: token_file.unwrap_or(TOKEN_FILE.into()),
            history: (history.as_os_str() != "none").then_some(history),
        };
        let mount = self.mount.clone().or(file.mount);
        Ok(ServeSettings {
            fixed: StartSettings {
                mount,
                mount_socket: self.mount_socket.clone(),
                root,
                host: (follow != "none").then_some(HostGroups {
                    group: follow,
                    manage,
                }),
                interval: Duration::from_millis(age_every.0),
                global: self.global.or(file.global).unwrap_or_default(),
                listen,
                recompress_older_than: self
                    .recompress_older_than
                    .or(file.recompress_older_than)
                    .filter(|_| !self.dry_run),
            },
            memory_max: self.memory_max.or(file.memory_max).map(|max| max.of(total)),
            budget: self
                .look_budget
                .or(file.look_budget)
                .map_or_else(ScanBudget::default, |share| {
                    ScanBudget::of_hundredths(share.hundredths())
                }),
            own_memory: own_memory(self.own_memory.or(file.own_memory), total)?,
            watermarks: watermarks(
                file.pressure.available_low,
                file.pressure.available_high,
                total,
            )?,
            policies,
            write_back,
            configured,
            noreuse,
            noreuse_paths: file.noreuse_paths,
            of_host,
            total,
        })
    }

    /// The policies of tenants, by path.
    fn policies(&self, file: &Config) -> Policies {
        let given = self.evict_by.map(|by| Policy {
            by: Some(by),
            dry_run: self.dry_run,
        });
        let all = by_path(file, given.or(file.policy), |tenant| tenant.policy);
        let requested = |Policy { by, dry_run }: Policy| {
            by.map(|EvictBy(settings)| PolicyRequest {
                settings,
                dry_run: dry_run || self.dry_run,
            })
        };
        all.map(|(path, policy)| (path, requested(policy)))
            .collect()
    }

    /// Refuses limits of a few bytes, in which no program can run: the user forgot the unit. In
    /// tenants' files such a limit is accepted, with the kernel's meaning.
    fn refuse_tiny_limits(&self, file: &Config, total: Bytes) -> Result<(), Error> {
        let root = self.memory_max.or(file.memory_max);
        let of_file = file
            .tenants
            .iter()
            .flat_map(|(path, one)| [(path.as_str(), one.memory_max), (path, one.memory_high)]);
        for (path, size) in of_file.chain([("/", root)]) {
            let bytes = size.and_then(|size| size.bytes_of(total));
            if let Some(bytes) = bytes.filter(|bytes| *bytes < MAX_LEAST) {
                let what = format!("cannot limit {path} to {bytes}: no program can run in that");
                let hint = format!("give at least {MAX_LEAST}: a number alone is bytes");
                return Err(Error::ending(ExitCode::Usage, what, hint));
            }
        }
        Ok(())
    }

    /// The settings of writeback.
    fn write_back(&self, file: &Config) -> WriteBack {
        let given = self.write_back_older_than.map(Age::After);
        let all = given.or(file.write_back_older_than);
        let all = by_path(file, all, |tenant| tenant.write_back_older_than);
        let ages = all.map(|(path, age)| match age {
            Age::After(age) => (path, Some(age)),
            Age::Never => (path, None),
        });
        let most = self.write_back_max.or(file.write_back_max);
        WriteBack {
            ages: ages.collect(),
            most_a_day: most.unwrap_or(WriteBudget::default().most).0,
            from: self
                .write_back_from
                .clone()
                .or(file.write_back_from.clone()),
            dry_run: self.dry_run,
        }
    }
}

/// Refuses settings for the host's own groups if these groups are not tenants or may not be
/// changed.
fn refuse_unmanaged_host(file: &Config, may_change: bool) -> Result<(), Error> {
    match of_host(file).next().filter(|_| !may_change) {
        None => Ok(()),
        Some(path) => {
            let what = format!(
                "cannot give [tenants.\"{path}\"] anything: the host's own groups may not be changed"
            );
            let hint = "manage-host = true allows it, unless host is \"none\"";
            Err(Error::ending(ExitCode::Usage, what, hint))
        }
    }
}

/// Returns the paths of the host's own groups for which the configuration has settings.
fn of_host(file: &Config) -> impl Iterator<Item = &String> {
    file.tenants.keys().filter(|path| is_of_host(path))
}

/// Returns a setting by path: that for all tenants at the empty path, then those of single tenants.
fn by_path<T>(
    file: &Config,
    all: Option<T>,
    own: impl Fn(&Tenant) -> Option<T>,
) -> impl Iterator<Item = (PathBuf, T)> {
    let all = all.map(|all| (PathBuf::new(), all));
    let tenants = file.tenants.iter();
    let own = tenants.filter_map(move |(path, tenant)| Some((path.into(), own(tenant)?)));
    all.into_iter().chain(own)
}

impl StartSettings {
    /// Refuses a mount point that would hide files that pagetide must find again. This is checked
    /// before anything is mounted: later, `serve` would ask its own mount for them, and wait for
    /// itself.
    ///
    /// Neither the configuration's path nor the file at the end of its links may be below the mount
    /// point: on SIGHUP the thread that serves the mount reads the file again.
    pub(super) fn check_mount_hides_nothing(&self, config: Option<&Path>) -> Result<(), Error> {
        let (Some(mount), listen) = (&self.mount, &self.listen) else {
            return Ok(());
        };
        // The mount of a killed manager sends no reply, so its path cannot be resolved.
        let place = mount.canonicalize().unwrap_or_else(|_| mount.to_owned());
        let sockets = listen.addresses.iter().filter_map(|one| match one {
            Address::Unix(path) => Some(path.as_path()),
            Address::Tcp(_) => None,
        });
        let linked = config.and_then(|path| path.canonicalize().ok());
        let files = [Path::new(STATE_DIRECTORY), &listen.token_file].into_iter();
        let files = files.chain(listen.history.as_deref()).chain(sockets);
        let mut files = files.chain(config).chain(linked.as_deref());
        match files.find(|file| file.starts_with(&place)) {
            None => Ok(()),
            Some(file) => Err(Error::ending(
                ExitCode::Usage,
                format!(
                    "cannot mount the tenants at {}: that would hide {}",
                    mount.display(),
                    file.display()
                ),
                format!("give a directory of their own, such as {STATE_DIRECTORY}/tenants"),
            )),
        }
    }
}

/// Returns the path of the history of the tree with this root; each root has its own.
fn history_of(root: &Path) -> PathBuf {
    let parts: Vec<_> = root
        .iter()
        .filter(|part| *part != "/")
        .map(|part| part.to_string_lossy().replace('%', "%25"))
        .collect();
    // No path component contains `%2f`, so `a/b` and `a-b` have two files.
    match parts.join("%2f").as_str() {
        "pagetide" => HISTORY.into(),
        name => format!("{HISTORY}-{name}").into(),
    }
}

/// Returns the bytes that age records may take; `None` for the default. A number without a unit is
/// refused: no process fits in so few bytes.
fn own_memory(given: Option<Size>, total: Bytes) -> Result<Option<u64>, Error> {
    let bytes = given.map(|size| size.bytes_of(total).unwrap_or(Bytes(u64::MAX)));
    match bytes.filter(|bytes| *bytes < MAX_LEAST) {
        None => Ok(bytes.map(|bytes| bytes.0)),
        Some(few) => {
            let what = format!(
                "cannot keep ages in {few} (own-memory): that is enough for hardly any page"
            );
            let hint = format!("give at least {MAX_LEAST}: a number alone is bytes");
            Err(Error::ending(ExitCode::Usage, what, hint))
        }
    }
}

/// Returns the watermarks of available memory; by default 10% and 15% of the host's memory. `None`
/// if `low` is 0.
fn watermarks(
    low: Option<Size>,
    high: Option<Size>,
    total: Bytes,
) -> Result<Option<Watermarks>, Error> {
    let percent = |percent: u16| Percent::new(percent).map_or(Size::ZERO, Size::Share);
    let bytes = |size: Size| size.bytes_of(total).unwrap_or(total);
    let low = low.map_or_else(|| bytes(percent(10)), bytes);
    // The default of `high` is never below `low`.
    let high = high.map_or_else(|| bytes(percent(15)).max(low), bytes);
    if high < low {
        let what = format!("cannot keep {high} available: that is below available-low, {low}");
        let hint = "available-high is where reclaim ends: give more than available-low";
        return Err(Error::ending(ExitCode::Usage, what, hint));
    }
    let (low, high) = (low.0, high.0);
    Ok((low > 0).then_some(Watermarks { low, high }))
}

impl WriteBack {
    /// Returns the settings of writeback for the tree; `None` if no tenant is to be written back.
    fn requested(&self) -> Result<Option<WritebackSettings>, Error> {
        let is_wanted = self.ages.values().any(Option::is_some);
        let from = self.from.as_deref();
        let tier = is_wanted.then(|| preflight::tier(from)).transpose()?;
        Ok(tier.map(|tier| WritebackSettings {
            tier,
            budget: WriteBudget::a_day(Bytes(self.most_a_day)),
            dry_run: self.dry_run,
        }))
    }
}

fn cannot_have(path: &str, errno: Errno) -> Error {
    let what = format!("cannot have the tenant {path} as it is configured: {errno}");
    let hint = match errno {
        Errno::BUSY => "are there processes in the group above it? move them to one of their own",
        _ => "does another program use a control group of this name?",
    };
    Error::failed(what, hint)
}

impl ServeSettings {
    /// Returns the settings with which the tree is started.
    pub(super) fn settings(&self) -> TreeSettings {
        TreeSettings {
            root: self.fixed.root.clone(),
            interval: self.fixed.interval,
            global: self.fixed.global.into(),
            host: self.fixed.host.clone(),
            watermarks: self.watermarks,
            budget: self.budget,
            others: control::managed_pids,
        }
    }

    /// Applies everything that can change while `serve` runs to the tree: watermarks, policies,
    /// tenants and limits.
    ///
    /// # Errors
    /// The disk for writeback does not exist: then nothing is changed. Otherwise the error of the
    /// first tenant that cannot be made; all other tenants have their settings then.
    pub(super) fn apply(&self, tree: &mut Tree) -> Result<(), Error> {
        let write_back = self.write_back.requested()?;
        tree.tenants.set_watermarks(self.watermarks);
        tree.tenants.set_scan_budget(self.budget);
        tree.tenants.set_own_memory(self.own_memory);
        tree.tenants.set_policies(self.policies.clone());
        tree.tenants
            .set_write_back(write_back, self.write_back.ages.clone());
        if let Some(max) = self.memory_max {
            self.limit_all(tree, max).map_err(|errno| {
                let what = format!("cannot limit the tenants' root: {errno}");
                Error::failed(what, "may you write to that control group?")
            })?;
        }
        let (paths, of_tenants) = (self.noreuse_paths.clone(), self.noreuse.clone());
        tree.tenants.set_noreuse(paths, of_tenants);
        let mut first = Ok(());
        for path in self.configured.paths() {
            if let Err(errno) = self.make_tenant(tree, path) {
                first = first.and(Err(cannot_have(path, errno)));
            }
        }
        tree.configured = self.configured.clone();
        first
    }

    /// Returns a line for each of the host's groups that the file names and the host does not have:
    /// the name may be misspelt, and has no effect. (Other groups are made.)
    pub(super) fn missing(&self, tree: &Tree) -> Vec<String> {
        let is_missing = |path: &&PathBuf| tree.tenants.find(path).is_none();
        let line = |path: &PathBuf| {
            let path = path.display();
            format!(
                "/{path} is not there: what [tenants.\"{path}\"] says holds once the host has that group"
            )
        };
        self.of_host.iter().filter(is_missing).map(line).collect()
    }

    fn limit_all(&self, tree: &mut Tree, max: Limit) -> Result<(), Errno> {
        let mut limits = tree.tenants.limits(MemcgId::ROOT)?;
        limits.max = max;
        tree.tenants.set_limits(MemcgId::ROOT, limits)
    }

    /// Makes a tenant that does not exist, with its parents, and sets its limits.
    fn make_tenant(&self, tree: &mut Tree, path: &str) -> Result<(), Errno> {
        let mut at = MemcgId::ROOT;
        let mut whole = PathBuf::new();
        for name in path.split('/') {
            whole.push(name);
            at = match tree.tenants.find(&whole) {
                Some(known) => known,
                None => tree.tenants.make(at, name)?,
            };
        }
        self.configured.set_limits(&mut tree.tenants, (at, &whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_its_unit_is_refused() {
        let requested = |text: &str| {
            let given = ServeOptions {
                memory_max: text.parse().ok(),
                ..ServeOptions::default()
            };
            given.requested().map_err(|error| error.exit_code())
        };
        assert_eq!(requested("8").err(), Some(2));
        assert!(requested("8G").is_ok() && requested("max").is_ok());
    }

    /// Regression: if `serve` might change the host's own groups, a policy still had no effect on
    /// them, and no message reported that.
    #[test]
    fn the_hosts_groups_get_settings_if_they_may_be_changed() {
        let folder = std::env::temp_dir().join(format!("pagetide-host-{}", std::process::id()));
        let text = "[tenants.\"host/a\"]\npolicy = { by = \"cold-age\" }\nnoreuse = true\n";
        std::fs::write(&folder, text).expect("a file");
        let requested = |manage_host, host: Option<&str>| {
            let given = ServeOptions {
                config: Some(folder.clone()),
                manage_host,
                host: host.map(str::to_owned),
                ..ServeOptions::default()
            };
            given.requested().map_err(|error| error.exit_code())
        };
        assert_eq!(requested(false, None).err(), Some(2));
        assert_eq!(requested(true, Some("none")).err(), Some(2));
        let requested = requested(true, None);
        std::fs::remove_file(&folder).expect("it was written");
        let requested = requested.expect("it may be");
        assert_eq!((requested.policies.len(), requested.noreuse.len()), (1, 1));
        assert_eq!(
            requested.configured.paths().count(),
            0,
            "it is not made here"
        );
    }

    #[test]
    fn the_command_line_comes_before_the_file() {
        let folder = std::env::temp_dir().join(format!("pagetide-asked-{}", std::process::id()));
        let text = "root = \"b\"\nlook-budget = \"1%\"\nmemory-max = \"25%\"\nhost = \"none\"\n[pressure]\navailable-low = 0\n";
        std::fs::write(&folder, text).expect("a file");
        let given = ServeOptions {
            config: Some(folder.clone()),
            root: Some("a".into()),
            ..ServeOptions::default()
        };
        let requested = given.requested();
        std::fs::remove_file(&folder).expect("it was written");
        let requested = requested.expect("it is right");
        assert_eq!(requested.fixed.root, PathBuf::from("a"));
        assert_eq!(requested.fixed.host, None);
        assert_eq!(requested.fixed.interval, Duration::from_secs(10));
        assert_eq!(
            requested.memory_max,
            Some(Limit::Bytes(Bytes(requested.total.0 / 4)))
        );
        assert_eq!(requested.watermarks, None);
        assert_eq!(requested.budget, ScanBudget::of_hundredths(100));
    }

    /// Regression: the README named `--mount /run/pagetide`, which hid the token that a browser
    /// needs, and the file that `swap off` reads.
    #[test]
    fn a_mount_hides_no_file_of_pagetide() {
        let with = |mount: &str, listen: &str, history: &str| {
            let given = ServeOptions {
                mount: Some(mount.into()),
                listen: vec![listen.parse().expect("an address")],
                history: Some(history.into()),
                ..ServeOptions::default()
            };
            {
                let requested = given.requested().expect("it is right");
                requested
                    .fixed
                    .check_mount_hides_nothing(None)
                    .err()
                    .map(|error| error.exit_code())
            }
        };
        let (tcp, refused) = ("127.0.0.1:9477", Some(2));
        assert_eq!(with("/run/pagetide/tenants", tcp, "none"), None);
        assert_eq!(with("/run/pagetide", tcp, "none"), refused);
        assert_eq!(with("/run/", tcp, "none"), refused);
        assert_eq!(with("/srv/t", tcp, "/srv/t/history"), refused);
        assert_eq!(with("/srv/t", "unix:/srv/t/http", "none"), refused);
        assert_eq!(with("/srv/t", "unix:/srv/http", "/srv/history"), None);
    }

    /// Regression: on SIGHUP `serve` opened a file below its own mount, and waited for its own
    /// reply for ever.
    #[test]
    fn a_mount_does_not_hide_the_configuration() {
        let folder = std::env::temp_dir().join(format!("pagetide-hides-{}", std::process::id()));
        let (below, beside) = (folder.join("mount"), folder.join("link"));
        std::fs::create_dir_all(&below).expect("a folder");
        let file = below.join("pagetide.toml");
        std::fs::write(&file, "").expect("a file");
        std::os::unix::fs::symlink(&file, &beside).expect("a link");
        let given = ServeOptions {
            mount: Some(below),
            history: Some("none".into()),
            ..ServeOptions::default()
        };
        let fixed = given.requested().expect("it is right").fixed;
        let refused = |config: &Path| fixed.check_mount_hides_nothing(Some(config)).is_err();
        let all = [&file, &beside, &folder.join("pagetide.toml")].map(|path| refused(path));
        std::fs::remove_dir_all(&folder).expect("it was made");
        assert_eq!(all, [true, true, false]);
    }

    #[test]
    fn policies_go_by_path_and_the_command_line_is_for_all() {
        let text = "policy = { by = \"fit\" }\n[tenants.\"a/b\"]\npolicy = { by = \"cold-age\" }\n\
            [tenants.c]\npolicy = { by = \"none\" }\n[tenants.d]\nmemory-max = 1048576";
        let file = Config::parse(text).expect("it is right");
        let names = |given: &ServeOptions| -> Vec<(String, Option<(&str, bool)>)> {
            let policies = given.policies(&file).into_iter();
            let of = |requested: PolicyRequest| (requested.settings.name(), requested.dry_run);
            policies
                .map(|(path, requested)| (path.display().to_string(), requested.map(of)))
                .collect()
        };
        let own = |dry_run| {
            [
                ("a/b".to_owned(), Some(("cold-age", dry_run))),
                ("c".to_owned(), None),
            ]
        };
        let mut expected = vec![(String::new(), Some(("fit", false)))];
        expected.extend(own(false));
        assert_eq!(names(&ServeOptions::default()), expected);
        let given = ServeOptions {
            evict_by: "pressure".parse().ok(),
            dry_run: true,
            ..ServeOptions::default()
        };
        let mut expected = vec![(String::new(), Some(("pressure", true)))];
        expected.extend(own(true));
        assert_eq!(names(&given), expected);
    }

    #[test]
    fn watermarks_move_each_other_and_do_not_cross() {
        let total = Bytes(1000 << 20);
        let size = |mib: u64| Some(Size::Bytes(Bytes(mib << 20)));
        let of = |low, high| {
            let marks = watermarks(low, high, total).ok().flatten();
            marks.map(|marks| (marks.low >> 20, marks.high >> 20))
        };
        assert_eq!(of(None, None), Some((100, 150)));
        assert_eq!(of(size(400), None), Some((400, 400)));
        assert_eq!(of(size(10), size(20)), Some((10, 20)));
        assert_eq!(of(Some(Size::ZERO), size(20)), None);
        assert!(watermarks(size(30), size(20), total).is_err());
    }
}
