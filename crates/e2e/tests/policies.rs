//! Each policy on a real process: what it orders leaves and nothing else, by the kernel's count, each with its reason.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::aged::number;
use e2e::cold_and_hot::{self, COLD, HOT, swapped};
use e2e::guard::Run;
use e2e::guard::Running;
use e2e::paced::{Pace, Paced};
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, gives_what_is_cold};
use e2e::web::listening;
use e2e::zram::Swap;
use e2e::{pagetide, proc, programs, wait};
use serde_json::Value;

/// Beside busy loops what is in use is touched late, and `fit` takes it for needed less or more until its history has passed.
const LIMIT: Duration = Duration::from_secs(240);
const MIB: u64 = 1 << 20;

/// The program under `run` with this policy.
fn subject(policy: &str) -> Running {
    let own = pagetide::binary();
    let words = [
        own.as_str(),
        "run",
        "--age-every",
        "1s",
        "--evict-by",
        policy,
        "--",
    ];
    let running = cold_and_hot::start(&words, LIMIT);
    let listens = || pagetide::on("stat", running.pid()).status.success();
    wait::until("the manager", LIMIT, listens);
    running
}

fn policy_of(pid: u32) -> Value {
    pagetide::report(pid)["policy"].clone()
}

/// What it did, by its own words: as many pages as the kernel has out, and each time the reason.
fn accounts_for(policy: &Value, out: u64, word: &str) {
    let actions = policy["actions"].as_array().expect("actions");
    let pages: u64 = actions.iter().map(|action| number(action, "pages")).sum();
    assert!(
        !actions.is_empty() && pages == number(policy, "evicted_pages"),
        "{policy}"
    );
    assert!(
        pages * 4096 >= out / 100 * 98,
        "{out} bytes are out: {policy}"
    );
    for action in actions {
        let why = action["why"].as_str().expect("a reason");
        assert!(why.contains(word), "{why}");
    }
}

/// The account of what is out: an order has one when it is done.
fn accounted(pid: u32, word: &str) {
    let all = || {
        let out = swapped(pid);
        let policy = policy_of(pid);
        let actions = policy["actions"].as_array()?;
        let pages: u64 = actions.iter().map(|action| number(action, "pages")).sum();
        (pages > 0 && pages * 4096 >= out / 100 * 98).then_some((policy, out))
    };
    let (policy, out) = wait::poll(LIMIT, all).expect("it accounts for what is out");
    accounts_for(&policy, out, word);
}

#[test]
fn cold_age_takes_what_is_older_than_told() {
    let _serial = serial();
    let _swap = Swap::shared();
    let managed = subject("cold-age:older-than=2s,every=1s");
    let pid = managed.pid();
    wait::until("it leaves", LIMIT, || swapped(pid) > COLD / 100 * 95);
    assert!(swapped(pid) < COLD + HOT, "what is used all the time stays");
    let policy = policy_of(pid);
    assert_eq!(policy["name"], "cold-age");
    assert_eq!(number(&policy, "threshold_ms"), 2000);
    accounted(pid, "cold-age: every 1s");
}

/// Nothing comes back, so the threshold is the lowest. Then everything is used at once: the threshold is above the age that
/// it had, and it stays. (The story: at 0.2% a minute one page of these may come back in two seconds, and who reads all
/// command lines, as tests beside this one do, uses a page or two of each program's: the threshold rose to 30 s.)
#[test]
fn promotion_rate_learns_from_what_comes_back() {
    let _serial = serial();
    let _swap = Swap::shared();
    let own = pagetide::binary();
    let rule = "promotion-rate:rate=10%,min-age=2s,window=2s,warm-up=4s,history=10m,percentile=98%";
    let wrap = [&own, "run", "--age-every", "1s", "--evict-by", rule, "--"];
    let managed = Sleeper::start(wrap.map(str::to_owned), 64);
    let (pid, size) = (managed.pid(), 64 * MIB);
    let listens = || pagetide::on("stat", pid).status.success();
    wait::until("the manager", LIMIT, listens);
    wait::until("it leaves", LIMIT, || {
        let out = managed.status("VmSwap");
        let has_warmed_up = || number(&pagetide::report(pid), "wall_ms") >= 4000;
        assert!(
            out < size / 100 || has_warmed_up(),
            "{out} bytes left in the warm-up"
        );
        out > size / 100 * 95
    });
    let policy = policy_of(pid);
    assert_eq!(number(&policy, "threshold_ms"), 2000, "{policy}");
    accounted(pid, "promotion-rate");

    let _ = managed.touch();
    // A look may have come in the midst of it: the next one finds the rest.
    let mut policy = policy_of(pid);
    wait::until("it has learned, and all is back", LIMIT, || {
        policy = policy_of(pid);
        let back = number(&policy, "came_back_pages") * 4096;
        number(&policy, "threshold_ms") > 2000 && back >= size / 100 * 95
    });
    let back = number(&policy, "came_back_pages") * 4096;
    assert!(back < size + HOT, "{policy}");
    // Looks at ages below the threshold: nothing is old enough to leave again.
    let walks = || number(&pagetide::report(pid), "walks");
    let (begun, threshold) = (walks(), number(&policy, "threshold_ms"));
    wait::until("three more looks", LIMIT, || walks() >= begun + 3);
    let out = managed.status("VmSwap");
    let idle_for_less = number(&pagetide::report(pid), "wall_ms") < threshold + 4000;
    assert!(
        out < size / 100 * 5 || !idle_for_less,
        "{out} bytes left: {policy}"
    );
}

/// The limit falls while nobody waits, to the floor or to what is in use.
#[test]
fn pressure_takes_what_nobody_waits_for() {
    let _serial = serial();
    let _swap = Swap::shared();
    let managed = subject("pressure:every=1s,stall=20ms,probe=25%,floor=4M");
    let pid = managed.pid();
    wait::until("it leaves", LIMIT, || swapped(pid) > COLD / 100 * 95);
    let policy = policy_of(pid);
    assert_eq!(policy["name"], "pressure");
    let limit = number(&policy, "limit_bytes");
    assert!((4 * MIB..COLD).contains(&limit), "{policy}");
    accounted(pid, "(pressure: in ");
    let in_memory = proc::number(pid, "VmRSS").expect("it runs");
    assert!(
        in_memory > HOT / 2,
        "{in_memory} bytes are left of what is in use"
    );
}

/// (The story: ages were told some milliseconds after a look, and what was used again as of it: all that was hot was older than that, and `fit` needed
/// 0 bytes in most windows.)
#[test]
fn fit_needs_what_is_hot_in_each_window() {
    let _serial = serial();
    let rule = "fit:warm-up=2s,window=1s,history=2s";
    let options = [
        "--dry-run",
        "--best-effort",
        "--age-every",
        "500ms",
        "--evict-by",
        rule,
    ];
    let hot = Run::new([
        &programs::c("hotset"),
        "48",
        "16",
        "600",
        "--rate",
        "200000",
    ]);
    let managed = pagetide::run(&options, &hot).start();
    wait::until("the manager", LIMIT, || {
        pagetide::on("stat", managed.pid()).status.success()
    });
    let mut told = Vec::new();
    wait::until("limits of six windows", LIMIT, || {
        let limit = policy_of(managed.pid())["limit_bytes"].as_u64();
        told.extend(limit.filter(|limit| told.last() != Some(limit)));
        std::thread::sleep(std::time::Duration::from_millis(250));
        told.len() >= 4 || number(&pagetide::report(managed.pid()), "walks") > 30
    });
    assert!(told.iter().all(|limit| *limit >= 14 * MIB), "{told:?}");
    assert!(!told.is_empty());
}

/// The limit is what the program is known to use: two fifths of its memory. (The first edition of this test took for the truth what `fit` had left in.)
#[test]
fn fit_finds_what_is_needed() {
    const SIZE: u64 = 64 * MIB;
    const NEED: u64 = SIZE / 5 * 2;
    let _serial = serial();
    let _swap = Swap::shared();
    let pace = Pace {
        values: SIZE / 4096,
        per_second: 50_000,
        seconds: 3600,
    };
    let program = Paced::array("hotcold", pace);
    let pid = program.pid;
    let rule = "fit:rate=1%,window=2s,warm-up=4s,history=20s";
    // (Where a DAMON of the host's is seen to clear bits, idle memory in large folios may look used again for as long as that is remembered:
    // docs/known-gaps.md. The next manager knows nothing of it, in most cases. Whoever has no such company has all the time.)
    let has_left = || swapped(pid) > (SIZE - NEED) / 100 * 95;
    let is_left_alone = || {
        let pid_text = pid.to_string();
        let words = ["attach", "--age-every", "1s", "--evict-by", rule, &pid_text];
        let managed = pagetide::command(words).start();
        let listens = || pagetide::on("stat", pid).status.success();
        wait::until("the manager", LIMIT, listens);
        for _ in 0..4 {
            if wait::poll(LIMIT / 4, || has_left().then_some(())).is_some() {
                return Some(managed);
            }
            let report = pagetide::report(pid);
            eprintln!("it has not left: {report:#}");
            if report["notes"].to_string().contains("clears accessed bits") {
                assert!(pagetide::on("detach", pid).status.success());
                return None;
            }
        }
        panic!("it does not leave");
    };
    let managed = (0..4).find_map(|_| is_left_alone());
    let managed = managed.expect("one that is left alone");
    accounted(pid, "(fit: with less, ");
    let is_near = || {
        let limit = number(&policy_of(pid), "limit_bytes");
        let in_memory = proc::rss_anon(pid).expect("it runs");
        assert!(
            in_memory >= NEED / 10 * 9,
            "{in_memory}: what is in use stays"
        );
        limit.abs_diff(NEED) <= NEED / 10
    };
    wait::until("the limit is what is in use", LIMIT, is_near);
    assert!(program.is_well());
    drop(managed);
}

/// By file: of four tenants each has another policy, and beside each a program is attached to that is told alone.
#[test]
fn each_policy_acts_under_serve_and_says_so_dry_under_attach() {
    // As options, and as tables of the configuration.
    const RULES: [(&str, &str); 4] = [
        ("cold-age", "older-than=2s,every=1s"),
        (
            "promotion-rate",
            "rate=10%,min-age=2s,window=2s,warm-up=4s,history=10m",
        ),
        ("pressure", "every=1s,stall=20ms,probe=25%,floor=4M"),
        ("fit", "rate=1%,window=2s,warm-up=4s,history=20s"),
    ];
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let file = folder.file("pagetide.toml");
    let mut text = "age-every = \"1s\"\n".to_owned();
    for (name, settings) in RULES {
        let settings = settings.replace('=', " = \"").replace(',', "\", ");
        text += &format!("[tenants.{name}]\npolicy = {{ by = \"{name}\", {settings}\" }}\n");
    }
    std::fs::write(&file, text).expect("it can be written");
    let tree = Tree::serve(&["--config", &file]);
    let started = RULES.map(|(name, settings)| {
        let (real, dry) = (
            Sleeper::start(tree.inside(name), 32),
            Sleeper::start([], 32),
        );
        let (rule, pid) = (format!("{name}:{settings}"), dry.pid().to_string());
        let words = ["attach", "--dry-run", "--age-every", "1s", "--evict-by"];
        let words = words.into_iter().chain([rule.as_str(), "--json", &pid]);
        let attached = pagetide::command(words).start();
        (name, real, dry, attached)
    });
    for (name, real, dry, _attached) in &started {
        wait::until("it leaves", LIMIT, || real.status("VmSwap") > 24 * MIB);
        wait::until("it says why", LIMIT, || {
            let said = tree.said();
            let mut lines = said.lines();
            lines.any(|line| line.contains(&format!("pages of /{name}: ")) && line.contains(name))
        });
        let is_told = || {
            let policy = policy_of(dry.pid());
            let last = policy["actions"]
                .as_array()
                .and_then(|all| all.last())
                .cloned();
            let last = last.unwrap_or_default();
            last["is_dry"] == true && last["why"].as_str().is_some_and(|why| why.contains(name))
        };
        wait::until("it says what it would do", LIMIT, is_told);
        assert_eq!(dry.status("VmSwap"), 0, "{name}: it is a dry run");
    }
}

#[test]
fn a_dry_run_says_what_it_would_do_and_why() {
    let _serial = serial();
    let _swap = Swap::shared();
    let sleeper = Sleeper::start([], 32);
    let pid = sleeper.pid().to_string();
    let rule = "cold-age:older-than=1s,every=1s";
    let words = [
        "attach",
        "--dry-run",
        "--age-every",
        "500ms",
        "--evict-by",
        rule,
    ];
    let words = words.into_iter().chain(["--for", "6s", "--json", &pid]);
    let outcome = pagetide::command(words).finish(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
    let policy = &report["policy"];
    assert_eq!(
        (number(&report, "evicted_pages"), sleeper.status("VmSwap")),
        (0, 0)
    );
    assert_eq!(policy["dry_run"], true, "{policy}");
    let would = policy["actions"]
        .as_array()
        .and_then(|actions| actions.last());
    let would = would.unwrap_or_else(|| panic!("no action: {policy}"));
    assert!(
        number(would, "pages") * 4096 > 30 * MIB && would["is_dry"] == true,
        "{would}"
    );
    assert!(
        would["why"]
            .as_str()
            .is_some_and(|why| why.contains("not accessed for 1s"))
    );
}

/// A tenant has the policy of the nearest above it that is given one, from its first look on, and another after SIGHUP.
#[test]
fn tenants_inherit_policies_and_get_others_on_reload() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let file = folder.file("pagetide.toml");
    let write = |of_b: &str| {
        let text = format!(
            "age-every = \"500ms\"\npolicy = {{ by = \"cold-age\", older-than = \"1s\", every = \"1s\" }}\n\
             [tenants.b]\npolicy = {{ {of_b} }}\n"
        );
        std::fs::write(&file, text).expect("it can be written");
    };
    write("by = \"none\"");
    let tree = Tree::serve(&["--config", &file]);
    for name in ["a", "a/c", "b/d"] {
        tree.make(name);
    }
    let [c, d] = ["a/c", "b/d"].map(|name| Sleeper::start(tree.inside(name), 32));
    wait::until("it leaves", LIMIT, || c.status("VmSwap") > 30 * MIB);
    assert_eq!(d.status("VmSwap"), 0, "it has none");
    // It says so when the last page is out.
    wait::until("it says why", LIMIT, || {
        tree.said()
            .contains("pages of /a/c: not accessed for 1s (cold-age")
    });

    write("by = \"cold-age\", older-than = \"1s\", every = \"1s\", dry-run = true");
    tree.reload();
    wait::until("it says what it would do", LIMIT, || {
        let said = tree.said();
        said.lines()
            .any(|line| line.contains("would page out") && line.contains("/b/d"))
    });
    assert_eq!(d.status("VmSwap"), 0, "it is a dry run");

    write("by = \"cold-age\", older-than = \"1s\", every = \"1s\"");
    tree.reload();
    wait::until("it leaves, too", LIMIT, || d.status("VmSwap") > 30 * MIB);
    // An order counts when it is done.
    wait::until("it is told", LIMIT, || {
        let words = ["report", "/b/d", "--root", tree.root(), "--json"];
        let outcome = pagetide::command(words).finish(LIMIT);
        let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
        assert_eq!(report["policy"]["name"], "cold-age", "{report}");
        number(&report["policy"], "evicted_pages") * 4096 > 30 * MIB
    });
}

/// The story: a database had 100 GiB that were cold, and while they left, for minutes, nobody was answered.
#[test]
fn who_asks_is_answered_while_an_order_is_under_way() {
    const SIZE: u64 = 512 * MIB;
    let _serial = serial();
    let _swap = Swap::shared();
    let own = pagetide::binary();
    let rule = "cold-age:older-than=2s,every=1s";
    let wrap = [&own, "run", "--age-every", "1s", "--evict-by", rule, "--"];
    let managed = Sleeper::start(wrap.map(str::to_owned), SIZE / MIB);
    let pid = managed.pid();
    let evicted = || number(&pagetide::report(pid), "evicted_pages") * 4096;
    // All may have left before the first is answered: that says nothing, and it is tried again.
    let mut earlier = 0;
    let is_answered = |_: u32| {
        wait::until("it leaves", LIMIT, || swapped(pid) > SIZE / 100);
        let (mut answers, mut out) = (0, 0);
        while out < SIZE / 100 * 95 {
            let before = swapped(pid);
            let told = evicted().saturating_sub(earlier);
            assert!(told >= before / 100 * 90, "{told} of {before}");
            out = swapped(pid);
            answers += u32::from(out < SIZE / 100 * 95);
        }
        if answers == 0 {
            earlier = evicted();
            let _ = managed.touch();
        }
        answers > 0
    };
    assert!((0..5).any(is_answered), "all had left each time");
    accounted(pid, "cold-age: every 1s");
}

/// The story: a policy hurt a tenant, and was taken away from it; what it had ordered went on for minutes, to the last page.
#[test]
fn an_order_ends_with_its_policy() {
    const SIZE: u64 = 512 * MIB;
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let file = folder.file("pagetide.toml");
    let write = |by: &str| {
        let text = format!("age-every = \"500ms\"\npolicy = {{ {by} }}\n");
        std::fs::write(&file, text).expect("it can be written");
    };
    // All may have left before the order to stop is read: that says nothing, and it is tried again.
    let is_cut_short = |number: u32| {
        write("by = \"cold-age\", older-than = \"2s\", every = \"1s\"");
        let tree = Tree::serve(&["--config", &file]);
        let name = format!("a{number}");
        tree.make(&name);
        let sleeper = Sleeper::start(tree.inside(&name), SIZE / MIB);
        let out = || sleeper.status("VmSwap");
        write("by = \"none\"");
        wait::until("it leaves", LIMIT, || out() > SIZE / 100);
        tree.reload();
        // Stopped, or done before that was read: nothing more leaves.
        let (mut last, mut still) = (out(), 0);
        wait::until("it is stopped", LIMIT, || {
            std::thread::sleep(Duration::from_millis(200));
            let now = out();
            still = if now == last { still + 1 } else { 0 };
            last = now;
            tree.said().contains("by a policy that it has no more") || still >= 10
        });
        let said = tree.said();
        let at_once = out();
        std::thread::sleep(Duration::from_secs(1));
        let is_short = said.contains("by a policy that it has no more");
        assert!(!is_short || out() <= at_once, "{at_once} {} {said}", out());
        is_short
    };
    assert!((0..6).any(is_cut_short), "all had left each time");
}

/// What was done to a tenant stands on its page, with the reason.
#[test]
fn actions_are_told_with_their_reasons() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let file = gives_what_is_cold(&folder);
    let (tree, place) = listening(&folder, &["--config", &file]);
    tree.make("web");
    let _sleeper = Sleeper::start(tree.inside("web"), 32);
    wait::until("its page says why", LIMIT, || {
        let page = place.get("/?tenant=/web").body;
        page.contains("not accessed for 1s (cold-age: every 1s)")
    });
}

/// The samples that ship are read as they are.
#[test]
fn the_samples_are_served() {
    let _serial = serial();
    for name in ["cold-age", "promotion-rate", "pressure", "fit"] {
        let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/policies");
        let tree = Tree::serve(&["--config", &format!("{dist}/{name}.toml")]);
        tree.make("a");
        let words = ["report", "/a", "--root", tree.root(), "--json"];
        let outcome = pagetide::command(words).finish(LIMIT);
        let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
        assert_eq!(report["policy"]["name"], name, "{}", outcome.stderr);
    }
}
