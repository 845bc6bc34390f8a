//! Protection of nested tenants that claim more than those above them have: each keeps its share, as the kernel's formula deals
//! it out, on real processes and by the kernel's figures. spec: reclaim-control.md 2.1.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::time::Duration;

use e2e::guard::Run;
use e2e::redis::{NOISE, Redis};
use e2e::sleeper::Sleeper;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{programs, wait};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
const TRY_AGAIN: i32 = 11;
/// Of one request, MiB: shares change with what is charged, so they are compared as often.
const STEP: u64 = 2;
/// What a request may move a share by, bytes.
const MOVED: u64 = 512 << 10;
/// What is charged for no page of a program: tables, and what each processor charges ahead. Bytes.
const BESIDE: u64 = 1 << 20;

/// A tenant, those above it first: its path, what of it is protected and what a process in it has, MiB.
type Row = (&'static str, u64, u64);

/// `over` has 64 MiB for children that claim 128, of which one deals out 48 for the 96 that are claimed below it. `most` has 48 for
/// one that claims 16: the rest is for both by what they use beyond that. `none` has nothing.
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

/// Tenants with their processes, protected by this file's limit.
struct Stand {
    tree: Tree,
    sleepers: Vec<(&'static str, u64, Sleeper)>,
}

impl Stand {
    fn new(file: &str) -> Stand {
        let tree = Tree::serve(&["--age-every", "1s"]);
        ROWS.iter().for_each(|(path, ..)| tree.make(path));
        let with = ROWS.iter().filter(|(_, _, mib)| *mib > 0);
        let start = |(path, _, mib): &Row| (*path, *mib, Sleeper::start(tree.inside(path), *mib));
        let sleepers: Vec<(&str, u64, Sleeper)> = with.map(start).collect();
        wait::until("all pages are known", SOON, || {
            let sum: u64 = ROWS.iter().map(|(_, _, mib)| mib * MIB).sum();
            tree.line("memory.stat", "anon") >= sum
        });
        for (path, protected, _) in ROWS {
            tree.write(&format!("{path}/{file}"), &format!("{protected}m"));
        }
        Stand { tree, sleepers }
    }

    /// What the kernel charges to a tenant with all below it, bytes.
    fn charged(&self, path: &str) -> u64 {
        let text = std::fs::read_to_string(self.tree.group(path).join("memory.usage_in_bytes"));
        text.expect("the kernel's")
            .trim()
            .parse()
            .expect("a number")
    }

    /// What is in memory of the processes in it and below it, bytes.
    fn inside(&self, path: &str) -> u64 {
        let below = format!("{path}/");
        let is_in = |at: &str| at == path || at.starts_with(&below);
        let those = self.sleepers.iter().filter(|(at, ..)| is_in(at));
        those.map(|(.., one)| one.status("RssAnon")).sum()
    }

    /// What each may keep when the root is reclaimed, bytes, by what is charged now: the formula, from above to below.
    fn shares(&self) -> Vec<(&'static str, u64)> {
        let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        let claim = |(path, protected, _): &Row| self.charged(path).min(protected * MIB);
        let mut shares: Vec<(&str, u64)> = Vec::new();
        for row in &ROWS {
            let (path, claimed) = (row.0, claim(row));
            let Some(above) = parent(path) else {
                // Right below who is reclaimed, what is set holds.
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

    /// Asks the root for so many MiB, step by step. Who has no more than its share before a step loses no page by it. Whether all
    /// was to be had. (The story: by the charge one lost 189 pages. That has what each processor charged ahead for each of its five
    /// children, and gives it back when another is charged.)
    fn reclaim(&self, mib: u64) -> bool {
        for _ in 0..mib.div_ceil(STEP) {
            let shares = self.shares();
            let now = |(path, _): &(&str, u64)| (self.charged(path), self.inside(path));
            let before: Vec<(u64, u64)> = shares.iter().map(now).collect();
            let asked = self.tree.try_write("memory.reclaim", &format!("{STEP}m"));
            for ((path, share), (charged, before)) in shares.iter().zip(before) {
                let after = self.inside(path);
                assert!(
                    charged > *share || after + MOVED >= before,
                    "{path} had {before} bytes in memory, charged {charged}, no more than its {share}, and has {after}"
                );
            }
            match asked {
                Ok(()) => {}
                Err(TRY_AGAIN) => return false,
                Err(errno) => panic!("memory.reclaim: {errno}"),
            }
        }
        true
    }

    /// What everybody has at the end, against what the formula dealt out at first; so many bytes were not asked for. Who loses
    /// claims less, and the others' shares grow: what two that claim too much have together is exact, what each has depends on who
    /// was met when. In the guest (tests/guest/44-protection.sh) the kernel's own reclaim does the same.
    fn judge(&self, first: &[(&str, u64)], left: u64) {
        let mut told = String::new();
        for (path, share) in first {
            let charged = self.charged(path);
            let _ = writeln!(told, "{path}: {} of {} KiB", charged >> 10, share >> 10);
        }
        eprintln!("{told}");
        for (path, share) in first {
            let (charged, exact) = (self.charged(path), !path.contains('/'));
            let (least, most) = match exact {
                true => (share - share / 50, share + share / 50),
                false => (share / 2, share * 2),
            };
            let most = most + BESIDE + left;
            assert!(
                (least..=most).contains(&charged),
                "{path}: {charged} bytes, not {least} to {most}\n{told}"
            );
        }
        for (path, mib, one) in &self.sleepers {
            let (inside, out) = (one.status("RssAnon"), one.status("VmSwap"));
            assert!(
                inside.abs_diff(self.charged(path)) <= BESIDE,
                "{path}: {inside}\n{told}"
            );
            assert!(
                (inside + out).abs_diff(mib * MIB) <= BESIDE,
                "{path}: {inside}, {out}"
            );
        }
        for (_, _, one) in &self.sleepers {
            let _ = one.touch();
        }
    }
}

/// Everything that is not protected goes, and no more, however much is asked for.
#[test]
fn min_that_is_overcommitted_is_shared_out() {
    let _serial = serial();
    let _swap = Swap::shared();
    let stand = Stand::new("memory.min");
    let first = stand.shares();
    assert!(!stand.reclaim(1000), "it cannot all be had");
    stand.judge(&first, 0);
}

/// As long as anybody has something that is not protected.
#[test]
fn low_that_is_overcommitted_is_shared_out() {
    let _serial = serial();
    let _swap = Swap::shared();
    let stand = Stand::new("memory.low");
    let first = stand.shares();
    let top = first.iter().filter(|(path, _)| !path.contains('/'));
    let protected: u64 = top.map(|(_, share)| share).sum();
    // What is charged beside their pages does not go.
    let beside = ROWS.len() as u64 * BESIDE;
    let all = stand.charged("") - protected - beside;
    assert!(stand.reclaim(all / MIB), "it can be had");
    stand.judge(&first, beside);
}

/// A limit over two of which one is protected: a pre-fork server keeps what it shares and what it has written, its neighbour gives.
#[test]
fn at_a_limit_above_both_who_is_protected_keeps_its_pages() {
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
    let plain = Sleeper::start(tree.inside("p/plain"), 96);
    for tenant in ["p", "p/kept"] {
        tree.write(&format!("{tenant}/memory.low"), "80m");
    }
    tree.write("p/memory.max", "112m");
    wait::until("it is held", SOON, || {
        tree.number("p/memory.current") <= 112 * MIB
    });
    let (kept, given) = (
        tree.of_kernel("p/kept", "total_swap"),
        tree.of_kernel("p/plain", "total_swap"),
    );
    assert!(
        kept < 4 * MIB && given > 24 * MIB,
        "{kept} and {given} bytes are out"
    );
    let _ = plain.touch();
}

/// Servers with what they use: redis under `memory.min`, two pre-fork servers under a parent's `memory.low` that has less than they claim, and a
/// neighbour, all idle but for what they do by themselves. The root is asked for more and more: redis loses nothing whatever is asked for,
/// what `low` protects goes after all that nobody protects, and nothing that anybody has is lost. By the kernel's figures of swap.
#[test]
fn real_servers_keep_what_is_protected() {
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
    let plain = Sleeper::start(tree.inside("plain"), 64);
    let charged = |name: &str| tree.number(&format!("{name}/memory.current"));
    wait::until("all pages are known", SOON, || {
        // Each server's workers have 4 MiB of their own beside what they share.
        tree.line("memory.stat", "anon") >= (32 + 2 * 56 + 64) * MIB
    });
    tree.write("db/memory.min", "64m");
    tree.write("web/memory.low", "80m");
    for name in ["web/a", "web/b"] {
        tree.write(&format!("{name}/memory.low"), "64m");
    }
    let out = || ["db", "web", "plain"].map(|name| tree.of_kernel(name, "total_swap"));
    // No more than what nobody protects: the neighbour's, and what the servers have above their parent's share.
    for _ in 0..12 {
        let asked = tree.try_write("memory.reclaim", "4m");
        assert!(matches!(asked, Ok(()) | Err(TRY_AGAIN)), "{asked:?}");
    }
    let [db_out, web_out, plain_out] = out();
    eprintln!("48 MiB asked for: {db_out}, {web_out}, {plain_out} bytes are out");
    assert!(db_out == 0 && plain_out >= 8 * MIB, "{db_out}, {plain_out}");
    assert!(
        charged("web") + MOVED >= 80 * MIB,
        "{} of 80 MiB under low are left",
        charged("web")
    );
    // All that is to be had: of min nothing, of low something.
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
