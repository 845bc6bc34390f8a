//! What `serve` does, of what the command line and the configuration ask for.
//!
//! Invariant: the command line comes before the file, the file before the defaults; sizes are bytes of this host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::memcg::MemcgId;
use engine::policy::WriteBudget;
use engine::units::{Bytes, Limit};
use host::manage::tenants::{
    HostGroups, LookBudget, NoreuseOfTenants, Policies, Settings, Watermarks, WriteBackAges,
};
use host::manage::{PolicyAsked, WriteBackAsked};
use host::system::PathPattern;
use rustix::io::Errno;

use super::config::{Age, Config, Global, Policy, Tenant, is_of_host};
use super::configured::Configured;
use super::desk::Tree;
use super::listen::Wanted;
use crate::control;
use crate::error::{Error, ExitCode};
use crate::http::Address;
use crate::options::{CpuShare, EvictBy, MAX_LEAST, Millis, Percent, Size};
use crate::preflight;

/// Where pagetide keeps what it must find again: the token, the record of `swap on`.
const OURS: &str = "/run/pagetide";
/// Where a token is kept that nobody gave a place.
const TOKEN_FILE: &str = "/run/pagetide/token";
/// Where history is kept that nobody gave a place: by the tree's root.
const HISTORY: &str = "/var/lib/pagetide/history";
/// Between two looks.
const AGE_EVERY: Millis = Millis(10_000);

/// What the command line asks for. What it leaves out (none, an empty list, false) the configuration may say, by the key of that name
/// (`policy` for `evict_by`); else the default holds.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The file of the configuration.
    pub config: Option<PathBuf>,
    /// The directory at which the tenants are mounted as files. Default: nowhere.
    pub mount: Option<PathBuf>,
    /// The socket at which another process brings that mount ([`super::mounter`]). Default: we mount ourselves.
    pub mount_socket: Option<PathBuf>,
    /// The control group that made tenants are below, from the mount of control groups on. Default: `pagetide`.
    pub root: Option<PathBuf>,
    /// What all tenants together may use, bytes or a share of the host's memory. Default: what was asked for last.
    pub memory_max: Option<Size>,
    /// Time between two looks. Default: 10 s.
    pub age_every: Option<Millis>,
    /// What looks may take of one processor. Default: a tenth.
    pub look_budget: Option<CpuShare>,
    /// What leaves each tenant that the configuration gives no policy of its own. Default: nothing.
    pub evict_by: Option<EvictBy>,
    /// What is out of each tenant and was not accessed for so long goes on to a disk, unless the configuration gives that tenant
    /// another time. Default: nothing.
    pub write_back_older_than: Option<Millis>,
    /// Most bytes that go on to the disk in a day, of all tenants. Default: a GiB.
    pub write_back_max: Option<Bytes>,
    /// The zram from which they go. Default: the one that `swap on` made.
    pub write_back_from: Option<PathBuf>,
    /// What has lain for so long in the zram of `swap on` is compressed once more. Default: nothing.
    pub recompress_older_than: Option<Millis>,
    /// Policies and writing back decide and say why, and move nothing; nothing is compressed once more.
    pub dry_run: bool,
    /// How a reclaim of all tenants goes about. Default: by the memcg LRU.
    pub global: Option<Global>,
    /// The first of the host's own groups that are tenants, too, or `none`. Default: all of them, from `/` on.
    pub host: Option<String>,
    /// Whether these may be changed and reclaimed from. Default: no.
    pub manage_host: bool,
    /// Where metrics and the page are served. Default: nowhere.
    pub listen: Vec<Address>,
    /// The file of the token that TCP takes, which is made if it is not there. Default: `/run/pagetide/token`.
    pub token_file: Option<PathBuf>,
    /// The file that keeps what the page shows of the past, or `none`. Default: `/var/lib/pagetide/history`, for another root with its name.
    pub history: Option<PathBuf>,
}

/// All that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) fixed: Fixed,
    pub(super) memory_max: Option<Limit>,
    pub(super) watermarks: Option<Watermarks>,
    budget: LookBudget,
    policies: Policies,
    write_back: WriteBack,
    configured: Configured,
    /// Files that everybody uses once, and those of tenants.
    noreuse_paths: Vec<PathPattern>,
    noreuse: NoreuseOfTenants,
    /// The host's own groups that the file names.
    of_host: Vec<PathBuf>,
    total: Bytes,
}

/// What of tenants that is out goes on to a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WriteBack {
    ages: WriteBackAges,
    most_a_day: u64,
    from: Option<PathBuf>,
    dry_run: bool,
}

/// What holds for as long as it serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fixed {
    pub(super) mount: Option<PathBuf>,
    pub(super) mount_socket: Option<PathBuf>,
    pub(super) root: PathBuf,
    host: Option<HostGroups>,
    interval: Duration,
    global: Global,
    pub(super) listen: Wanted,
    /// None of a dry run.
    pub(super) recompress_older_than: Option<Millis>,
}

impl Given {
    /// With what the file says now.
    pub(super) fn asked(&self) -> Result<Asked, Error> {
        let file = self.config.as_deref().map(Config::read).transpose()?;
        let file = file.unwrap_or_default();
        let total = host::system::Proc::system().and_then(|proc| proc.memory());
        let total = Bytes(total.map_err(Error::from)?.total);
        self.limits_are_no_slips(&file, total)?;
        let policies = self.policies(&file);
        let write_back = self.write_back(&file);
        let follow = self.host.clone().or(file.host.clone());
        let follow = follow.unwrap_or("/".to_owned());
        let manage = self.manage_host || file.manage_host.unwrap_or(false);
        host_is_to_be_changed(&file, manage && follow != "none")?;
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
        Ok(Asked {
            fixed: Fixed {
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
                .map_or_else(LookBudget::default, |share| {
                    LookBudget::of_hundredths(share.hundredths())
                }),
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

    /// Who has a policy of its own.
    fn policies(&self, file: &Config) -> Policies {
        let given = self.evict_by.map(|by| Policy {
            by: Some(by),
            dry_run: self.dry_run,
        });
        let all = by_path(file, given.or(file.policy), |tenant| tenant.policy);
        let asked = |Policy { by, dry_run }: Policy| {
            by.map(|EvictBy(settings)| PolicyAsked {
                settings,
                dry_run: dry_run || self.dry_run,
            })
        };
        all.map(|(path, policy)| (path, asked(policy))).collect()
    }

    /// No program runs in less than some pages, so a limit of less is a number whose unit was forgotten. (In tenants' files it means what it means to
    /// the kernel. The story: with `--memory-max 8` all tenants were paged out, and whoever was moved there was killed.)
    fn limits_are_no_slips(&self, file: &Config, total: Bytes) -> Result<(), Error> {
        let root = self.memory_max.or(file.memory_max);
        let of_file = file
            .tenants
            .iter()
            .flat_map(|(path, one)| [(path.as_str(), one.memory_max), (path, one.memory_high)]);
        for (path, size) in of_file.chain([("/", root)]) {
            let bytes = size.and_then(|size| size.bytes_of(total.0)).map(Bytes);
            if let Some(bytes) = bytes.filter(|bytes| *bytes < MAX_LEAST) {
                let what = format!("cannot hold {path} to {bytes}: no program runs in that");
                let hint = format!("give at least {MAX_LEAST}: a number alone is bytes");
                return Err(Error::ending(ExitCode::Usage, what, hint));
            }
        }
        Ok(())
    }

    /// What goes on to a disk, and how old that is.
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

/// Where the host's own groups are not followed, or may not be changed, nothing can be given to them.
fn host_is_to_be_changed(file: &Config, may_change: bool) -> Result<(), Error> {
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

/// Those of the host's own groups that the file names.
fn of_host(file: &Config) -> impl Iterator<Item = &String> {
    file.tenants.keys().filter(|path| is_of_host(path))
}

/// What is meant for all tenants, at the empty path, and what the file has for single ones.
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

impl Fixed {
    /// Refuses to mount over what pagetide itself must find again. Asked before anything is mounted: later the mount itself would be asked, by whoever
    /// is to answer.
    ///
    /// Of the configuration neither its name nor the file itself may be below: SIGHUP has it read once more, by whoever answers for the mount.
    pub(super) fn hides_nothing(&self, config: Option<&Path>) -> Result<(), Error> {
        let (Some(mount), listen) = (&self.mount, &self.listen) else {
            return Ok(());
        };
        // A killed one's mount answers nothing: its name is taken as it is.
        let place = mount.canonicalize().unwrap_or_else(|_| mount.to_owned());
        let sockets = listen.addresses.iter().filter_map(|one| match one {
            Address::Unix(path) => Some(path.as_path()),
            Address::Tcp(_) => None,
        });
        let linked = config.and_then(|path| path.canonicalize().ok());
        let files = [Path::new(OURS), &listen.token_file].into_iter();
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
                format!("give a directory of their own, such as {OURS}/tenants"),
            )),
        }
    }
}

/// The file of a tree's history: of two trees, two.
fn history_of(root: &Path) -> PathBuf {
    let parts: Vec<_> = root
        .iter()
        .filter(|part| *part != "/")
        .map(|part| part.to_string_lossy().replace('%', "%25"))
        .collect();
    // What joins them stands in none of them. (The story, of a reading: `a/b` and `a-b` had one file.)
    match parts.join("%2f").as_str() {
        "pagetide" => HISTORY.into(),
        name => format!("{HISTORY}-{name}").into(),
    }
}

/// The marks, 10% and 15% of the host where none are given.
fn watermarks(
    low: Option<Size>,
    high: Option<Size>,
    total: Bytes,
) -> Result<Option<Watermarks>, Error> {
    let percent = |percent: u16| Percent::new(percent).map_or(Size::ZERO, Size::Share);
    let bytes = |size: Size| size.bytes_of(total.0).unwrap_or(total.0);
    let low = low.map_or_else(|| bytes(percent(10)), bytes);
    // What is given for one moves the other.
    let high = high.map_or_else(|| bytes(percent(15)).max(low), bytes);
    if high < low {
        let what = format!(
            "cannot keep {} available: that is below available-low, {}",
            Bytes(high),
            Bytes(low)
        );
        let hint = "available-high is where reclaim ends: give more than available-low";
        return Err(Error::ending(ExitCode::Usage, what, hint));
    }
    Ok((low > 0).then_some(Watermarks { low, high }))
}

impl WriteBack {
    /// As the tree takes it: nothing goes anywhere where nobody asked for it.
    fn asked(&self) -> Result<Option<WriteBackAsked>, Error> {
        let is_wanted = self.ages.values().any(Option::is_some);
        let from = self.from.as_deref();
        let tier = is_wanted.then(|| preflight::tier(from)).transpose()?;
        Ok(tier.map(|tier| WriteBackAsked {
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
        _ => "is there a control group of this name that is somebody else's?",
    };
    Error::failed(what, hint)
}

impl Asked {
    /// For the tree.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            root: self.fixed.root.clone(),
            interval: self.fixed.interval,
            by_iterator: self.fixed.global == Global::Iterator,
            host: self.fixed.host.clone(),
            watermarks: self.watermarks,
            budget: self.budget,
            others: control::managed_pids,
        }
    }

    /// Gives the tree its marks, tenants and limits: all that can change while it serves.
    ///
    /// # Errors
    /// A disk that is not there, before anything is changed; else the first tenant that cannot be had. The others have what they were given.
    pub(super) fn apply(&self, tree: &mut Tree) -> Result<(), Error> {
        let write_back = self.write_back.asked()?;
        tree.tenants.set_watermarks(self.watermarks);
        tree.tenants.set_look_budget(self.budget);
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
            if let Err(errno) = self.have(tree, path) {
                first = first.and(Err(cannot_have(path, errno)));
            }
        }
        tree.configured = self.configured.clone();
        first
    }

    /// The host's groups that the file names and the host does not have; a line each. (Others are made. The story: one whose name was
    /// misspelt was given a policy, and nobody was told that it does nothing.)
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

    /// Makes a tenant that is not there, with those above it, and gives it its limits.
    fn have(&self, tree: &mut Tree, path: &str) -> Result<(), Errno> {
        let mut at = MemcgId::ROOT;
        let mut whole = PathBuf::new();
        for name in path.split('/') {
            whole.push(name);
            at = match tree.tenants.find(&whole) {
                Some(known) => known,
                None => tree.tenants.make(at, name)?,
            };
        }
        self.configured.give(&mut tree.tenants, (at, &whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_its_unit_is_refused() {
        let asked = |text: &str| {
            let given = Given {
                memory_max: text.parse().ok(),
                ..Given::default()
            };
            given.asked().map_err(|error| error.exit_code())
        };
        assert_eq!(asked("8").err(), Some(2));
        assert!(asked("8G").is_ok() && asked("max").is_ok());
    }

    /// The story, of a reading: with the right to change the host's own groups a policy did nothing to them, and nobody was told.
    #[test]
    fn the_hosts_groups_are_given_something_where_they_may_be_changed() {
        let folder = std::env::temp_dir().join(format!("pagetide-host-{}", std::process::id()));
        let text = "[tenants.\"host/a\"]\npolicy = { by = \"cold-age\" }\nnoreuse = true\n";
        std::fs::write(&folder, text).expect("a file");
        let asked = |manage_host, host: Option<&str>| {
            let given = Given {
                config: Some(folder.clone()),
                manage_host,
                host: host.map(str::to_owned),
                ..Given::default()
            };
            given.asked().map_err(|error| error.exit_code())
        };
        assert_eq!(asked(false, None).err(), Some(2));
        assert_eq!(asked(true, Some("none")).err(), Some(2));
        let asked = asked(true, None);
        std::fs::remove_file(&folder).expect("it was written");
        let asked = asked.expect("it may be");
        assert_eq!((asked.policies.len(), asked.noreuse.len()), (1, 1));
        assert_eq!(asked.configured.paths().count(), 0, "it is not made here");
    }

    #[test]
    fn the_command_line_comes_before_the_file() {
        let folder = std::env::temp_dir().join(format!("pagetide-asked-{}", std::process::id()));
        let text = "root = \"b\"\nlook-budget = \"1%\"\nmemory-max = \"25%\"\nhost = \"none\"\n[pressure]\navailable-low = 0\n";
        std::fs::write(&folder, text).expect("a file");
        let given = Given {
            config: Some(folder.clone()),
            root: Some("a".into()),
            ..Given::default()
        };
        let asked = given.asked();
        std::fs::remove_file(&folder).expect("it was written");
        let asked = asked.expect("it is right");
        assert_eq!(asked.fixed.root, PathBuf::from("a"));
        assert_eq!(asked.fixed.host, None);
        assert_eq!(asked.fixed.interval, Duration::from_secs(10));
        assert_eq!(
            asked.memory_max,
            Some(Limit::Bytes(Bytes(asked.total.0 / 4)))
        );
        assert_eq!(asked.watermarks, None);
        assert_eq!(asked.budget, LookBudget::of_hundredths(100));
    }

    /// (The story: the README said `--mount /run/pagetide`. That hid the token that a browser needs, and what `swap off` goes by.)
    #[test]
    fn a_mount_hides_nothing_of_ours() {
        let with = |mount: &str, listen: &str, history: &str| {
            let given = Given {
                mount: Some(mount.into()),
                listen: vec![listen.parse().expect("an address")],
                history: Some(history.into()),
                ..Given::default()
            };
            {
                let asked = given.asked().expect("it is right");
                asked
                    .fixed
                    .hides_nothing(None)
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

    /// (The story: SIGHUP had `serve` open a file below its own mount, and wait for its own answer for ever.)
    #[test]
    fn a_mount_does_not_hide_the_configuration() {
        let folder = std::env::temp_dir().join(format!("pagetide-hides-{}", std::process::id()));
        let (below, beside) = (folder.join("mount"), folder.join("link"));
        std::fs::create_dir_all(&below).expect("a folder");
        let file = below.join("pagetide.toml");
        std::fs::write(&file, "").expect("a file");
        std::os::unix::fs::symlink(&file, &beside).expect("a link");
        let given = Given {
            mount: Some(below),
            history: Some("none".into()),
            ..Given::default()
        };
        let fixed = given.asked().expect("it is right").fixed;
        let refused = |config: &Path| fixed.hides_nothing(Some(config)).is_err();
        let all = [&file, &beside, &folder.join("pagetide.toml")].map(|path| refused(path));
        std::fs::remove_dir_all(&folder).expect("it was made");
        assert_eq!(all, [true, true, false]);
    }

    #[test]
    fn policies_go_by_path_and_the_command_line_is_for_all() {
        let text = "policy = { by = \"fit\" }\n[tenants.\"a/b\"]\npolicy = { by = \"cold-age\" }\n\
            [tenants.c]\npolicy = { by = \"none\" }\n[tenants.d]\nmemory-max = 1048576";
        let file = Config::parse(text).expect("it is right");
        let names = |given: &Given| -> Vec<(String, Option<(&str, bool)>)> {
            let policies = given.policies(&file).into_iter();
            let of = |asked: PolicyAsked| (asked.settings.name(), asked.dry_run);
            policies
                .map(|(path, asked)| (path.display().to_string(), asked.map(of)))
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
        assert_eq!(names(&Given::default()), expected);
        let given = Given {
            evict_by: "pressure".parse().ok(),
            dry_run: true,
            ..Given::default()
        };
        let mut expected = vec![(String::new(), Some(("pressure", true)))];
        expected.extend(own(true));
        assert_eq!(names(&given), expected);
    }

    #[test]
    fn marks_move_each_other_and_do_not_cross() {
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
