//! `cargo xtask bench kill [--kills 200] [--session 120] [--ops LIST] [--json]`: pagetide killed with
//! SIGKILL at a random instant under the hostile workload and, after a random while, adopted again.
//! No wrong byte, no hang, and the workload gets on as fast while nobody manages it.
//!
//! The workload runs in sessions, each with an end of its own, so that its verdict is heard.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median, percents};
use e2e::guard::{Running, tail};
use e2e::hostile::Hostile;
use e2e::wait::{self, Chance};
use e2e::{pagetide, proc};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

const SOON: Duration = Duration::from_secs(60);

/// What came of the sessions so far.
#[derive(Default)]
struct Tally {
    kills: u64,
    adoptions: u64,
    /// Operations a second while managed and while not, one pair a kill.
    managed: Vec<f64>,
    alone: Vec<f64>,
    wrong: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("kill", &args);
    let kills = args.number("--kills", 200);
    let mut chance = Chance::from_env("kill");
    set_child_subreaper(Some(getpid())).expect("a process may adopt its orphans");
    let mut tally = Tally::default();
    while tally.kills < kills && tally.wrong.len() < 3 {
        session(&args, kills, &mut chance, &mut tally);
    }
    for wrong in &tally.wrong {
        eprintln!("{wrong}");
    }
    let ratios = percents(&tally.alone, &tally.managed);
    found.at_least("kills", tally.kills as f64, "", kills as f64);
    found.figure("adoptions", tally.adoptions as f64, "");
    found.at_most(
        "sessions that ended wrong",
        tally.wrong.len() as f64,
        "",
        0.0,
    );
    found.figure(
        "operations a second, managed, median",
        median(&tally.managed),
        "/s",
    );
    found.figure(
        "operations a second, nobody manages, median",
        median(&tally.alone),
        "/s",
    );
    found.at_least(
        "progress while nobody manages, median",
        median(&ratios),
        "% of before",
        95.0,
    );
    found.finish()
}

fn session(args: &Args, kills: u64, chance: &mut Chance, tally: &mut Tally) {
    let seconds = args.seconds("--session", 120);
    let ops = args.text("--ops");
    let more: Vec<&str> = ops.iter().flat_map(|ops| ["--ops", ops]).collect();
    let seed = chance.below(1 << 32);
    let hostile = Hostile::new(seconds.as_secs(), seed, &more);
    let first = pagetide::run(&pagetide::EVICT_FAST, hostile.run()).start();
    let target = hostile.target(&first);
    let mut managers = vec![first];
    let end = Instant::now() + seconds.saturating_sub(Duration::from_secs(10));
    while tally.kills < kills && Instant::now() < end && proc::is_alive(target) {
        if let Err(what) = one_kill(target, &hostile, &mut managers, chance, tally) {
            tally
                .wrong
                .push(format!("seed {seed}, kill {}: {what}", tally.kills));
            return;
        }
    }
    let status = status_of_orphan(target, seconds + SOON * 2);
    if status != Some(0) {
        let said = tail(&managers[0].stderr(), 3000).to_owned();
        tally.wrong.push(format!(
            "seed {seed}: the workload ended with {status:?}\n{said}"
        ));
    }
}

fn one_kill(
    target: u32,
    hostile: &Hostile,
    managers: &mut Vec<Running>,
    chance: &mut Chance,
    tally: &mut Tally,
) -> Result<(), String> {
    tally.managed.push(rate(hostile, chance.millis(20, 1500)));
    if let Some(manager) = managers.last_mut() {
        manager.kill_and_reap();
    }
    tally.kills += 1;
    let before = hostile.ops();
    tally.alone.push(rate(hostile, chance.millis(300, 1000)));
    let on = || hostile.ops() > before || !proc::is_alive(target);
    if wait::poll(SOON, || on().then_some(())).is_none() {
        return Err(format!("it hangs\n{}", managers[0].state()));
    }
    if !proc::is_alive(target) {
        return Ok(()); // its status tells
    }
    let mut words = vec!["adopt".to_owned(), target.to_string()];
    words.extend(pagetide::EVICT_FAST.map(str::to_owned));
    let mut manager = pagetide::command(words).start();
    let managed = || pagetide::try_report(target).is_some() || !proc::is_alive(target);
    let came = wait::poll(SOON, || {
        (manager.ended().is_some() || managed()).then_some(())
    });
    let ended = manager.ended();
    let said = manager.stderr();
    managers.push(manager);
    match (came, ended) {
        (None, _) => Err(format!(
            "adopt does nothing: {said}\n{}",
            managers[0].state()
        )),
        (_, Some(status)) if proc::is_alive(target) => Err(format!(
            "adopt ended with {status}: {said}\n{}",
            managers[0].state()
        )),
        _ => {
            tally.adoptions += 1;
            Ok(())
        }
    }
}

/// Operations a second over a while.
fn rate(hostile: &Hostile, window: Duration) -> f64 {
    let (before, begin) = (hostile.ops(), Instant::now());
    std::thread::sleep(window);
    (hostile.ops() - before) as f64 / begin.elapsed().as_secs_f64()
}

/// The exit status of a process that was re-parented to this one.
fn status_of_orphan(pid: u32, limit: Duration) -> Option<i32> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    wait::poll(limit, || match waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(found) => found.map(|(_, status)| status.exit_status().unwrap_or(-1)),
        Err(_) => Some(-2),
    })
}
