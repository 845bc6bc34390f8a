//! Each policy on a real process: it pages out what it should and nothing else, by the kernel's
//! count, and reports a reason for each action.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::aged::number;
use e2e::cold_and_hot::{self, COLD, HOT, swapped};
use e2e::guard::Run;
use e2e::guard::Running;
use e2e::idle_program::IdleProgram;
use e2e::paced::{Pace, Paced};
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration_reclaiming_cold};
use e2e::web::listening;
use e2e::zram::Swap;
use e2e::{pagetide, proc, programs, wait};
use serde_json::Value;

/// Longest wait. Beside busy loops, memory in use is touched late, and `fit` estimates the needed
/// size too high or too low until those times have left its history.
const LIMIT: Duration = Duration::from_secs(240);
const MIB: u64 = 1 << 20;

/// Starts the test program under `run` with this policy.
fn start_managed(policy: &str) -> Running {
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

/// The object `policy` in the manager's report on this program.
fn policy_of(pid: u32) -> Value {
    pagetide::report(pid)["policy"].clone()
}

/// Checks that the policy's actions have at least 98% of the `out` bytes that the kernel has
/// swapped out, and that the reason of each action contains `word`.
fn check_actions(policy: &Value, out: u64, word: &str) {
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

/// Waits until the policy's actions account for all swapped-out memory, then checks their reasons.
/// (An action is listed only after it has ended.)
fn wait_until_accounted(pid: u32, word: &str) {
    let all = || {
        let out = swapped(pid);
        let policy = policy_of(pid);
        let actions = policy["actions"].as_array()?;
        let pages: u64 = actions.iter().map(|action| number(action, "pages")).sum();
        (pages > 0 && pages * 4096 >= out / 100 * 98).then_some((policy, out))
    };
    let (policy, out) = wait::poll(LIMIT, all).expect("it accounts for what is out");
    check_actions(&policy, out, word);
}

#[test]
fn cold_age_pages_out_memory_older_than_its_threshold() {
    let _serial = serial();
    let _swap = Swap::shared();
    let managed = start_managed("cold-age:older-than=2s,every=1s");
    let pid = managed.pid();
    wait::until("it leaves", LIMIT, || swapped(pid) > COLD / 100 * 95);
    assert!(swapped(pid) < COLD + HOT, "what is used all the time stays");
    let policy = policy_of(pid);
    assert_eq!(policy["name"], "cold-age");
    assert_eq!(number(&policy, "threshold_ms"), 2000);
    wait_until_accounted(pid, "cold-age: every 1s");
}

/// Without refaults the threshold is at its minimum. Then the program uses all pages at once: the
/// threshold rises above the age that the pages had, and they are not paged out again.
///
/// Regression (of this test): the rate was 0.2% a minute, so no more than one of these pages might
/// refault in two seconds. A process that reads all command lines, as tests beside this one do,
/// uses one or two pages of each program, and the threshold rose to 30 s.
#[test]
fn promotion_rate_learns_from_refaults() {
    let _serial = serial();
    let _swap = Swap::shared();
    let own = pagetide::binary();
    let rule = "promotion-rate:rate=10%,min-age=2s,window=2s,warm-up=4s,history=10m,percentile=98%";
    let wrap = [&own, "run", "--age-every", "1s", "--evict-by", rule, "--"];
    let managed = IdleProgram::start(wrap.map(str::to_owned), 64);
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
    wait_until_accounted(pid, "promotion-rate");

    let _ = managed.touch();
    // A scan may have come in the middle of the touch: the next scan finds the other pages.
    let mut policy = policy_of(pid);
    wait::until("it has learned, and all is back", LIMIT, || {
        policy = policy_of(pid);
        let back = number(&policy, "came_back_pages") * 4096;
        number(&policy, "threshold_ms") > 2000 && back >= size / 100 * 95
    });
    let back = number(&policy, "came_back_pages") * 4096;
    assert!(back < size + HOT, "{policy}");
    // While the pages are younger than the threshold, three more scans page nothing out.
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

/// While no task waits for memory, the limit falls to the configured floor or to the size in use.
#[test]
fn pressure_lowers_the_limit_while_no_task_waits() {
    let _serial = serial();
    let _swap = Swap::shared();
    let managed = start_managed("pressure:every=1s,stall=20ms,probe=25%,floor=4M");
    let pid = managed.pid();
    wait::until("it leaves", LIMIT, || swapped(pid) > COLD / 100 * 95);
    let policy = policy_of(pid);
    assert_eq!(policy["name"], "pressure");
    let limit = number(&policy, "limit_bytes");
    assert!((4 * MIB..COLD).contains(&limit), "{policy}");
    wait_until_accounted(pid, "(pressure: in ");
    let in_memory = proc::number(pid, "VmRSS").expect("it runs");
    assert!(
        in_memory > HOT / 2,
        "{in_memory} bytes are left of what is in use"
    );
}

/// Regression: ages were computed for a moment some milliseconds after the scan, but uses for the
/// scan itself. All hot pages seemed older than that, and `fit` needed 0 bytes in most windows.
#[test]
fn fit_measures_the_hot_memory_of_each_window() {
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
    let mut reported = Vec::new();
    wait::until("limits of six windows", LIMIT, || {
        let limit = policy_of(managed.pid())["limit_bytes"].as_u64();
        reported.extend(limit.filter(|limit| reported.last() != Some(limit)));
        std::thread::sleep(std::time::Duration::from_millis(250));
        reported.len() >= 4 || number(&pagetide::report(managed.pid()), "walks") > 30
    });
    assert!(
        reported.iter().all(|limit| *limit >= 14 * MIB),
        "{reported:?}"
    );
    assert!(!reported.is_empty());
}

/// `fit` sets the limit to the size that the program is known to use: two fifths of its memory. (An
/// earlier version of this test compared the limit with what `fit` had kept resident.)
#[test]
fn fit_finds_the_needed_size() {
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
    // (Where DAMON was seen to clear bits, idle memory in large folios may count as used for as
    // long as the manager remembers DAMON: docs/known-gaps.md. A new manager mostly knows nothing
    // of DAMON, so it is tried next. Without a foreign clearer the first manager has all the time.)
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
    wait_until_accounted(pid, "(fit: with less, ");
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
    assert!(program.is_healthy());
    drop(managed);
}

/// Four tenants get one policy each from a file. For each policy, `attach --dry-run` of a program
/// pages nothing out and reports what it would do.
#[test]
fn each_policy_acts_under_serve_and_reports_in_a_dry_run_of_attach() {
    // The policies as options, and as tables of the configuration file.
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
            IdleProgram::start(tree.inside(name), 32),
            IdleProgram::start([], 32),
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
            let said = tree.stdout();
            let mut lines = said.lines();
            lines.any(|line| line.contains(&format!("pages of /{name}: ")) && line.contains(name))
        });
        let is_reported = || {
            let policy = policy_of(dry.pid());
            let last = policy["actions"]
                .as_array()
                .and_then(|all| all.last())
                .cloned();
            let last = last.unwrap_or_default();
            last["is_dry"] == true && last["why"].as_str().is_some_and(|why| why.contains(name))
        };
        wait::until("it says what it would do", LIMIT, is_reported);
        assert_eq!(dry.status("VmSwap"), 0, "{name}: it is a dry run");
    }
}

#[test]
fn a_dry_run_reports_what_it_would_do_and_why() {
    let _serial = serial();
    let _swap = Swap::shared();
    let idle_program = IdleProgram::start([], 32);
    let pid = idle_program.pid().to_string();
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
        (
            number(&report, "evicted_pages"),
            idle_program.status("VmSwap")
        ),
        (0, 0)
    );
    assert_eq!(policy["dry_run"], true, "{policy}");
    let actions = policy["actions"].as_array().expect("a list");
    let all_are_dry = actions.iter().all(|action| action["is_dry"] == true);
    // Regression: the last action had only 8 MiB, because the command's time was over while the
    // policy was still going through the pages.
    let is_all = |would: &&Value| number(would, "pages") * 4096 > 30 * MIB;
    let would = actions.iter().find(is_all);
    let why = would.map(|would| would["why"].as_str().unwrap_or_default());
    assert!(
        all_are_dry && why.is_some_and(|why| why.contains("not accessed for 1s")),
        "{policy}"
    );
}

/// From its first scan on, a tenant has the policy of the nearest tenant above it that has one.
/// After SIGHUP it has the policy of the changed file.
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
    let [c, d] = ["a/c", "b/d"].map(|name| IdleProgram::start(tree.inside(name), 32));
    wait::until("it leaves", LIMIT, || c.status("VmSwap") > 30 * MIB);
    assert_eq!(d.status("VmSwap"), 0, "it has none");
    // `serve` reports an action when the last page of the action is swapped out.
    wait::until("it says why", LIMIT, || {
        tree.stdout()
            .contains("pages of /a/c: not accessed for 1s (cold-age")
    });

    write("by = \"cold-age\", older-than = \"1s\", every = \"1s\", dry-run = true");
    tree.reload();
    wait::until("it says what it would do", LIMIT, || {
        let said = tree.stdout();
        said.lines()
            .any(|line| line.contains("would page out") && line.contains("/b/d"))
    });
    assert_eq!(d.status("VmSwap"), 0, "it is a dry run");

    write("by = \"cold-age\", older-than = \"1s\", every = \"1s\"");
    tree.reload();
    wait::until("it leaves, too", LIMIT, || d.status("VmSwap") > 30 * MIB);
    // An action is listed only after it has ended.
    wait::until("it is told", LIMIT, || {
        let words = ["report", "/b/d", "--root", tree.root(), "--json"];
        let outcome = pagetide::command(words).finish(LIMIT);
        let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
        assert_eq!(report["policy"]["name"], "cold-age", "{report}");
        number(&report["policy"], "evicted_pages") * 4096 > 30 * MIB
    });
}

/// Regression: while a policy paged out 100 GiB of cold memory of a database, which takes minutes,
/// no request was served.
#[test]
fn requests_are_served_while_a_policy_pages_out() {
    const SIZE: u64 = 512 * MIB;
    let _serial = serial();
    let _swap = Swap::shared();
    let own = pagetide::binary();
    let rule = "cold-age:older-than=2s,every=1s";
    let wrap = [&own, "run", "--age-every", "1s", "--evict-by", rule, "--"];
    let managed = IdleProgram::start(wrap.map(str::to_owned), SIZE / MIB);
    let pid = managed.pid();
    let evicted = || number(&pagetide::report(pid), "evicted_pages") * 4096;
    // The policy may have paged out all of the program's memory before the first answer. Such a run
    // shows nothing and is repeated.
    let mut earlier = 0;
    let is_answered = |_: u32| {
        wait::until("it leaves", LIMIT, || swapped(pid) > SIZE / 100);
        let (mut answers, mut out) = (0, 0);
        while out < SIZE / 100 * 95 {
            let before = swapped(pid);
            let reported = evicted().saturating_sub(earlier);
            assert!(reported >= before / 100 * 90, "{reported} of {before}");
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
    wait_until_accounted(pid, "cold-age: every 1s");
}

/// Regression: a policy harmed a tenant and was removed from it, but the last page-out that it had
/// begun went on for minutes, to the last page.
#[test]
fn a_page_out_stops_when_its_policy_is_removed() {
    const SIZE: u64 = 512 * MIB;
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let file = folder.file("pagetide.toml");
    let write = |by: &str| {
        let text = format!("age-every = \"500ms\"\npolicy = {{ {by} }}\n");
        std::fs::write(&file, text).expect("it can be written");
    };
    // The policy may have paged out all of the program's memory before the reload. Such a run shows
    // nothing and is repeated.
    let is_cut_short = |number: u32| {
        write("by = \"cold-age\", older-than = \"2s\", every = \"1s\"");
        let tree = Tree::serve(&["--config", &file]);
        let name = format!("a{number}");
        tree.make(&name);
        let idle_program = IdleProgram::start(tree.inside(&name), SIZE / MIB);
        let out = || idle_program.status("VmSwap");
        write("by = \"none\"");
        wait::until("it leaves", LIMIT, || out() > SIZE / 100);
        tree.reload();
        // The page-out was stopped, or had ended before the reload: nothing more is paged out.
        let (mut last, mut still) = (out(), 0);
        wait::until("it is stopped", LIMIT, || {
            std::thread::sleep(Duration::from_millis(200));
            let now = out();
            still = if now == last { still + 1 } else { 0 };
            last = now;
            tree.stdout()
                .contains("by a policy that the tenant no longer has")
                || still >= 10
        });
        let said = tree.stdout();
        let at_once = out();
        std::thread::sleep(Duration::from_secs(1));
        let is_short = said.contains("by a policy that the tenant no longer has");
        assert!(!is_short || out() <= at_once, "{at_once} {} {said}", out());
        is_short
    };
    assert!((0..6).any(is_cut_short), "all had left each time");
}

/// A tenant's web page shows the actions on it, with their reasons.
#[test]
fn actions_are_reported_with_their_reasons() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let file = configuration_reclaiming_cold(&folder);
    let (tree, place) = listening(&folder, &["--config", &file]);
    tree.make("web");
    let _idle_program = IdleProgram::start(tree.inside("web"), 32);
    wait::until("its page says why", LIMIT, || {
        let page = place.get("/?tenant=/web").body;
        page.contains("not accessed for 1s (cold-age: every 1s)")
    });
}

/// `serve` can read the sample configurations that ship, unchanged.
#[test]
fn serve_reads_the_sample_configurations() {
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
