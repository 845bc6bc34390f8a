//! Nested tenants that claim more protection than their parents have: each tenant keeps its share
//! by the kernel's formula. Tested with real processes and by the kernel's figures.
//!
//! spec: reclaim-control.md 2.1.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::time::Duration;

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::redis::{NOISE, Redis};
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{programs, wait};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// EAGAIN: less was reclaimed than requested.
const TRY_AGAIN: i32 = 11;
/// Size of one reclaim request, MiB. Shares of protection change with the charges, so they are
/// computed again for each request.
const STEP: u64 = 2;
/// Largest accepted change of a share by one request, bytes.
const SHARE_CHANGE_MAX: u64 = 512 << 10;
/// Largest number of bytes charged to a tenant beside the program's pages: page tables, and what
/// each processor charges in advance.
const CHARGE_OVERHEAD_MAX: u64 = 1 << 20;

/// A tenant: its path, its protection in MiB, and the size in MiB of the process in it (0: none).
/// Parents come before their children.
type Row = (&'static str, u64, u64);

/// The tenants. `over` has 64 MiB of protection, its children claim 128, and the children of
/// `over/p` claim 96 of its share of 48. `most` has 48 MiB, and its child claims 16: the other 32
/// go to both children by their use beyond their claims. `none` has no protection.
const ROWS: [Row; 10] = [
    ("over", 64, 0),
    ("over/p", 96, 0),
    ("over/p/a", 64, 64),
    ("over/p/b", 32, 32),
    ("over/p/c", 0, 16),
    ("over/q", 32, 32),
    ("most", 48, 0),
    ("most/a", 16, 64),
    ("most/b", 0, 32),
    ("none", 0, 32),
];

/// `serve` with these tenants, and a process in each that has a size, with path and size in MiB.
struct ProtectedTree {
    tree: Tree,
    idle_programs: Vec<(&'static str, u64, IdleProgram)>,
}

impl ProtectedTree {
    fn new(file: &str) -> ProtectedTree {
        let tree = Tree::serve(&["--age-every", "1s"]);
        ROWS.iter().for_each(|(path, ..)| tree.make(path));
        let with = ROWS.iter().filter(|(_, _, mib)| *mib > 0);
        let start =
            |(path, _, mib): &Row| (*path, *mib, IdleProgram::start(tree.inside(path), *mib));
        let idle_programs: Vec<(&str, u64, IdleProgram)> = with.map(start).collect();
        wait::until("all pages are known", SOON, || {
            let sum: u64 = ROWS.iter().map(|(_, _, mib)| mib * MIB).sum();
            tree.line("memory.stat", "anon") >= sum
        });
        for (path, protected, _) in ROWS {
            tree.write(&format!("{path}/{file}"), &format!("{protected}m"));
        }
        ProtectedTree {
            tree,
            idle_programs,
        }
    }

    /// Bytes that the kernel charges to a tenant and all tenants below it.
    fn charged(&self, path: &str) -> u64 {
        let text = std::fs::read_to_string(self.tree.group(path).join("memory.usage_in_bytes"));
        text.expect("the kernel's")
            .trim()
            .parse()
            .expect("a number")
    }

    /// Bytes of resident anonymous memory of the processes in a tenant and below it.
    fn resident_inside(&self, path: &str) -> u64 {
        let below = format!("{path}/");
        let is_in = |at: &str| at == path || at.starts_with(&below);
        let those = self.idle_programs.iter().filter(|(at, ..)| is_in(at));
        those.map(|(.., one)| one.status("RssAnon")).sum()
    }

    /// Effective protection of each tenant in bytes, for a reclaim of the root, with the present
    /// charges: the kernel's formula, computed from parents to children.
    fn shares(&self) -> Vec<(&'static str, u64)> {
        let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        let claim = |(path, protected, _): &Row| self.charged(path).min(protected * MIB);
        let mut shares: Vec<(&str, u64)> = Vec::new();
        for row in &ROWS {
            let (path, claimed) = (row.0, claim(row));
            let Some(above) = parent(path) else {
                // Directly below the target of the reclaim, the configured protection applies.
                shares.push((path, claimed));
                continue;
            };
            let known = shares.iter().find(|(known, _)| *known == above);
            let effective = known.expect("it stands above").1;
            let siblings = ROWS
                .iter()
                .filter(|row| parent(row.0).as_ref() == Some(&above));
            let sum: u64 = siblings.map(claim).sum();
            let share = if sum > effective {
                u128::from(claimed) * u128::from(effective) / u128::from(sum)
            } else {
                let beyond = u128::from(self.charged(path) - claimed);
                let of_all = u128::from(self.charged(&above).saturating_sub(sum).max(1));
                u128::from(claimed) + u128::from(effective - sum) * beyond / of_all
            };
            shares.push((
                path,
                u64::try_from(share).expect("no more than the parent's"),
            ));
        }
        shares
    }

    /// Reclaims `mib` MiB from the root by requests of [`STEP`] MiB; returns whether all was
    /// reclaimed. A request takes no page of a tenant that has no more than its share before the
    /// request.
    ///
    /// Regression (of this test): by its charge, one tenant lost 189 pages. The charge includes
    /// what each processor has charged in advance for each of its five children, which the kernel
    /// takes back when another group is charged.
    fn reclaim(&self, mib: u64) -> bool {
        for _ in 0..mib.div_ceil(STEP) {
            let shares = self.shares();
            let now = |(path, _): &(&str, u64)| (self.charged(path), self.resident_inside(path));
            let before: Vec<(u64, u64)> = shares.iter().map(now).collect();
            let requested = self.tree.try_write("memory.reclaim", &format!("{STEP}m"));
            for ((path, share), (charged, before)) in shares.iter().zip(before) {
                let after = self.resident_inside(path);
                assert!(
                    charged > *share || after + SHARE_CHANGE_MAX >= before,
                    "{path} had {before} bytes in memory, charged {charged}, no more than its {share}, and has {after}"
                );
            }
            match requested {
                Ok(()) => {}
                Err(TRY_AGAIN) => return false,
                Err(errno) => panic!("memory.reclaim: {errno}"),
            }
        }
        true
    }

    /// Compares the final charge of each tenant with its share in `first`, computed before the
    /// reclaim; `left` bytes of unprotected memory were not requested. Top tenants must be within
    /// 2%: what siblings that claim too much have together is exact. Children must be within a
    /// factor of 2: a child that loses pages claims less, and the shares of its siblings grow, as
    /// in the kernel's own reclaim in the guest (tests/guest/44-protection.sh).
    fn check_shares(&self, first: &[(&str, u64)], left: u64) {
        let mut reported = String::new();
        for (path, share) in first {
            let charged = self.charged(path);
            let _ = writeln!(reported, "{path}: {} of {} KiB", charged >> 10, share >> 10);
        }
        eprintln!("{reported}");
        for (path, share) in first {
            let (charged, exact) = (self.charged(path), !path.contains('/'));
            let (least, most) = match exact {
                true => (share - share / 50, share + share / 50),
                false => (share / 2, share * 2),
            };
            let most = most + CHARGE_OVERHEAD_MAX + left;
            assert!(
                (least..=most).contains(&charged),
                "{path}: {charged} bytes, not {least} to {most}\n{reported}"
            );
        }
        for (path, mib, one) in &self.idle_programs {
            let (inside, out) = (one.status("RssAnon"), one.status("VmSwap"));
            assert!(
                inside.abs_diff(self.charged(path)) <= CHARGE_OVERHEAD_MAX,
                "{path}: {inside}\n{reported}"
            );
            assert!(
                (inside + out).abs_diff(mib * MIB) <= CHARGE_OVERHEAD_MAX,
                "{path}: {inside}, {out}"
            );
        }
        for (_, _, one) in &self.idle_programs {
            let _ = one.touch();
        }
    }
}

/// If `memory.min` protects the tenants, all unprotected memory is reclaimed, and no more, however
/// much is requested.
#[test]
fn overcommitted_min_is_distributed() {
    let _serial = serial();
    let _swap = Swap::shared();
    let stand = ProtectedTree::new("memory.min");
    let first = stand.shares();
    assert!(!stand.reclaim(1000), "it cannot all be had");
    stand.check_shares(&first, 0);
}

/// If `memory.low` protects the tenants, only unprotected memory is reclaimed as long as any tenant
/// has some.
#[test]
fn overcommitted_low_is_distributed() {
    let _serial = serial();
    let _swap = Swap::shared();
    let stand = ProtectedTree::new("memory.low");
    let first = stand.shares();
    let top = first.iter().filter(|(path, _)| !path.contains('/'));
    let protected: u64 = top.map(|(_, share)| share).sum();
    // What is charged beside the programs' pages cannot be reclaimed.
    let beside = ROWS.len() as u64 * CHARGE_OVERHEAD_MAX;
    let all = stand.charged("") - protected - beside;
    assert!(stand.reclaim(all / MIB), "it can be had");
    stand.check_shares(&first, beside);
}

/// Two tenants under a common limit, one of them protected: a pre-fork server in the protected one
/// keeps its shared and its written pages, and the neighbour is reclaimed from.
#[test]
fn under_a_common_limit_the_protected_tenant_keeps_its_pages() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    ["p", "p/kept", "p/plain"]
        .iter()
        .for_each(|name| tree.make(name));
    let server = [
        programs::c("workers"),
        "4".into(),
        "32".into(),
        "300".into(),
    ];
    let server = Run::new(server).under(tree.inside("p/kept")).start();
    wait::until("it is ready", SOON, || server.stdout().contains("ready"));
    let plain = IdleProgram::start(tree.inside("p/plain"), 96);
    for tenant in ["p", "p/kept"] {
        tree.write(&format!("{tenant}/memory.low"), "80m");
    }
    tree.write("p/memory.max", "112m");
    wait::until("it is held", SOON, || {
        tree.number("p/memory.current") <= 112 * MIB
    });
    let (kept, given) = (
        tree.kernel_stat("p/kept", "total_swap"),
        tree.kernel_stat("p/plain", "total_swap"),
    );
    assert!(
        kept < 4 * MIB && given > 24 * MIB,
        "{kept} and {given} bytes are out"
    );
    let _ = plain.touch();
}

/// Real servers, idle except for their own upkeep: redis under `memory.min`, two pre-fork servers
/// under a parent's `memory.low` that is less than they claim, and an unprotected neighbour.
///
/// More and more is reclaimed from the root. By the kernel's figures of swap, redis never loses a
/// page, and memory under `low` is reclaimed only after all unprotected memory. No data is lost.
#[test]
fn real_servers_keep_their_protected_memory() {
    const KEYS: u64 = 8000;
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    for name in ["db", "web", "web/a", "web/b", "plain"] {
        tree.make(name);
    }
    let mut db = Redis::start(NOISE, &|run| run.under(tree.inside("db")));
    db.fill(KEYS);
    let words = |mib: &str| [&programs::c("workers"), "2", mib, "300"].map(str::to_owned);
    let start = |name: &str| Run::new(words("48")).under(tree.inside(name)).start();
    let servers = ["web/a", "web/b"].map(start);
    for server in &servers {
        wait::until("it is ready", SOON, || server.stdout().contains("ready"));
    }
    let plain = IdleProgram::start(tree.inside("plain"), 64);
    let charged = |name: &str| tree.number(&format!("{name}/memory.current"));
    wait::until("all pages are known", SOON, || {
        // Each server's workers have 4 MiB of their own beside their shared pages.
        tree.line("memory.stat", "anon") >= (32 + 2 * 56 + 64) * MIB
    });
    tree.write("db/memory.min", "64m");
    tree.write("web/memory.low", "80m");
    for name in ["web/a", "web/b"] {
        tree.write(&format!("{name}/memory.low"), "64m");
    }
    let out = || ["db", "web", "plain"].map(|name| tree.kernel_stat(name, "total_swap"));
    // Requests 48 MiB, no more than the unprotected memory: the neighbour's, and what the servers
    // have above their parent's protection.
    for _ in 0..12 {
        let requested = tree.try_write("memory.reclaim", "4m");
        assert!(
            matches!(requested, Ok(()) | Err(TRY_AGAIN)),
            "{requested:?}"
        );
    }
    let [db_out, web_out, plain_out] = out();
    eprintln!("48 MiB asked for: {db_out}, {web_out}, {plain_out} bytes are out");
    assert!(db_out == 0 && plain_out >= 8 * MIB, "{db_out}, {plain_out}");
    assert!(
        charged("web") + SHARE_CHANGE_MAX >= 80 * MIB,
        "{} of 80 MiB under low are left",
        charged("web")
    );
    // Requests more than there is: nothing under min is reclaimed, some memory under low is.
    let before = charged("db");
    for _ in 0..40 {
        let _ = tree.try_write("memory.reclaim", "4m");
    }
    let [db_out, web_out, plain_out] = out();
    eprintln!("160 MiB more: {db_out}, {web_out}, {plain_out} bytes are out");
    assert_eq!(db_out, 0, "{before} bytes were charged");
    assert!(plain_out >= 48 * MIB, "{plain_out}");
    (0..KEYS).for_each(|key| db.check(key));
    let _ = plain.touch();
    for server in &servers {
        assert!(e2e::proc::is_alive(server.pid()), "{}", server.stderr());
    }
    for name in ["db", "web/a", "web/b", "plain"] {
        assert_eq!(tree.line(&format!("{name}/memory.events"), "oom_kill"), 0);
    }
}
