//! Tests of the command line as scripts rely on it.

use std::time::Duration;

use clap::Parser;
use daemon::control::Ask;
use daemon::options::{Algorithm, Bytes, EvictBy, Millis, Size};
use proptest::prelude::*;

use super::*;
use crate::watching::Target;

fn parse(line: &str) -> Result<Command, String> {
    let words = std::iter::once("pagetide").chain(line.split_whitespace());
    match Cli::try_parse_from(words) {
        Ok(cli) => Ok(cli.command),
        Err(error) => Err(format!("{:?}", failure_of(&error))),
    }
}

#[test]
fn the_definition_is_sound() {
    command().debug_assert();
}

#[test]
fn every_option_of_the_interface_is_there() {
    let line = "run --memory-max 512M --memory-high 50% --memory-low 1M --memory-min 4096 \
        --swap-max 2G --policy multi-gen --age-every 5s --evict-older-than 10s --every 40s \
        --swappiness 200 --dry-run --best-effort --max-wait 3ms --report out.json \
        --record out.rec --record-max 2G -- ls -l --color";
    let Ok(Command::Run(Run {
        knobs,
        report,
        record,
        command,
        ..
    })) = parse(line)
    else {
        panic!("{:?}", parse(line));
    };
    assert_eq!(report.as_deref(), Some(std::path::Path::new("out.json")));
    assert_eq!(
        record.record.as_deref(),
        Some(std::path::Path::new("out.rec"))
    );
    assert_eq!(record.record_max, Bytes(2 << 30));
    assert_eq!(command, ["ls", "-l", "--color"]);
    let options = knobs.options().expect("no contradiction");
    assert_eq!(options.limits.max, Size::Bytes(Bytes(512 << 20)));
    assert_eq!(options.limits.high.to_string(), "50%");
    assert_eq!(options.limits.swap_max, Size::Bytes(Bytes(2 << 30)));
    assert_eq!(options.policy.policy, Algorithm::MultiGen);
    let cold_age = EvictBy::cold_age(Millis(10_000), Millis(40_000));
    assert_eq!(options.policy.evict_by, Some(cold_age));
    assert_eq!(
        (options.policy.swappiness, options.policy.dry_run),
        (200, true)
    );
    assert_eq!(options.max_wait, Some(Duration::from_millis(3)));
    assert!(options.best_effort);
}

#[test]
fn a_policy_is_set_by_its_name_and_parameters() {
    let evict_by = |line| match parse(line) {
        Ok(Command::Run(Run { knobs, .. })) => {
            knobs.options().expect("no contradiction").policy.evict_by
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        evict_by("run --evict-by cold-age:older-than=10s,every=5s -- ls"),
        evict_by("run --evict-older-than 10s --every 5s -- ls")
    );
    let rate = evict_by("run --evict-by promotion-rate:rate=0.1% -- ls").expect("a policy");
    assert_eq!(rate.0.get("rate"), Some(1000));
    let reported = parse("run --evict-by presure -- ls").expect_err("no such policy");
    assert!(
        reported.contains("`pressure`") && reported.contains("--evict-by"),
        "{reported}"
    );
    let both = parse("run --evict-by fit --evict-older-than 1s -- ls").expect_err("one of them");
    assert!(both.contains("--evict-older-than"), "{both}");
}

#[test]
fn the_classic_policy_knows_no_ages() {
    let policy = |line| match parse(line) {
        Ok(Command::Run(Run { knobs, .. })) => knobs.options().map(|options| options.policy.policy),
        other => panic!("{other:?}"),
    };
    let classic = policy("run --policy active-inactive -- ls");
    assert_eq!(classic.ok(), Some(Algorithm::ActiveInactive));
    assert!(policy("run --policy active-inactive --evict-older-than 1s -- ls").is_err());
    assert!(policy("run --policy active-inactive --evict-by fit -- ls").is_err());
}

#[test]
fn without_options_nothing_is_limited() {
    let Ok(Command::Run(Run { knobs, command, .. })) = parse("run ls -l") else {
        panic!("{:?}", parse("run ls -l"));
    };
    assert_eq!(command, ["ls", "-l"], "the program's options are its own");
    let options = knobs.options().expect("no contradiction");
    assert_eq!(options, daemon::options::Options::default());
}

#[test]
fn bad_usage_is_reported_in_our_form() {
    for (line, what, hint) in [
        (
            "run --memory-max -1 ls",
            "bad value for --memory-max: `-1`",
            "512M",
        ),
        ("run --memory-max 12Q ls", "unknown suffix `Q`", "50%"),
        ("run --age-every 10 ls", "has no unit", "500ms"),
        ("attach 12x", "`12x` is no process id", "pgrep"),
        ("attach -5", "`-5` is no process id", "pgrep"),
        ("run --swappiness 201 ls", "201", "--help"),
        ("run --policy clock ls", "clock", "multi-gen"),
        ("attach", "required", "usage: pagetide attach"),
        ("attach --cgroup /a 5", "--cgroup", "usage: pagetide attach"),
        ("run --memory-mx 5M ls", "--memory-mx", "--memory-max"),
        ("run", "required", "usage: pagetide run"),
        (
            "run --every 5s ls",
            "--evict-older-than",
            "usage: pagetide run",
        ),
        ("report --json --csv 5", "--csv", "usage: pagetide report"),
        ("atach 5", "atach", "attach"),
        ("swap on --size 0", "`0` is no swap at all", "50%"),
        ("swap on --size 0%", "`0%` is no swap at all", "50%"),
        ("swap on --size 500%", "more than all of it", "50%"),
        ("swap on --size -1", "never negative", "2G"),
        ("swap on --size max", "without an end", "2G"),
        (
            "swap on --file /x --compress lz4",
            "--compress",
            "usage: pagetide swap on",
        ),
        ("swap of", "of", "off"),
        // Regression: `-1` was reported as an unknown option.
        (
            "sim memcg-lru --scale -1",
            "invalid value '-1' for '--scale",
            "--help",
        ),
        (
            "sim memcg-lru --seed -1",
            "invalid value '-1' for '--seed",
            "--help",
        ),
    ] {
        let reported = parse(line).expect_err(line);
        assert!(reported.contains(what), "{line}: {reported}");
        assert!(reported.contains(hint), "{line}: {reported}");
        assert!(reported.contains("exit: 2"), "{line}: {reported}");
        assert!(
            !reported.contains("error:") && !reported.contains("\\u{1b}"),
            "{reported}"
        );
    }
}

#[test]
fn contradictions_are_bad_usage() {
    let Ok(Command::Run(Run { knobs, .. })) = parse("run --memory-max 1M --memory-min 2M ls")
    else {
        panic!("it parses");
    };
    let reported = format!("{:?}", knobs.options().expect_err("crossed"));
    assert!(
        reported.contains("--memory-min is above --memory-max"),
        "{reported}"
    );
    assert!(reported.contains("exit: 2"), "{reported}");
}

/// Target, time between scans (ms), total time (ms; `None` for until ^C), time between reports (ms;
/// `None` for a single report).
type Planned = (Target, u128, Option<u128>, Option<u128>);

fn planned(line: &str) -> Result<Planned, String> {
    let plan = match parse(line)? {
        Command::Report(report) => report.plan(),
        Command::Top(top) => top.plan(),
        other => panic!("{line}: {other:?}"),
    };
    let plan = plan.map_err(|failure| format!("{failure:?}"))?;
    let ms = |time: Option<Duration>| time.map(|time| time.as_millis());
    let Plan {
        settings,
        time,
        each,
        any_time,
        until_sure: _,
    } = plan;
    let asks_for_a_time = line.contains("--for") || line.contains("--watch");
    let is_report = line.starts_with("report");
    assert_eq!(any_time, is_report && !asks_for_a_time, "{line}");
    let every = settings.age_every.as_millis();
    Ok((settings.target, every, ms(time), ms(each)))
}

#[test]
fn a_report_is_planned_from_few_words() {
    let pid = Target::Pid(5);
    for (line, want) in [
        ("report 5", (pid.clone(), 1000, Some(10_000), None)),
        ("report --all", (Target::All, 1000, Some(10_000), None)),
        (
            "report --for 2m 5",
            (pid.clone(), 1000, Some(120_000), None),
        ),
        (
            "report --for 10m 5",
            (pid.clone(), 5000, Some(600_000), None),
        ),
        (
            "report --for 1d 5",
            (pid.clone(), 10_000, Some(86_400_000), None),
        ),
        (
            "report --age-every 1m 5",
            (pid.clone(), 60_000, Some(180_000), None),
        ),
        (
            "report --for 500ms --age-every 100ms 5",
            (pid.clone(), 100, Some(500), None),
        ),
        ("report --watch 5", (pid.clone(), 1000, None, Some(1000))),
        (
            "report --watch=10s 5",
            (pid.clone(), 10_000, None, Some(10_000)),
        ),
        (
            "report --watch=10s --age-every 2s --for 1h 5",
            (pid, 2000, Some(3_600_000), Some(10_000)),
        ),
        (
            "report --cgroup /a/b",
            (Target::Cgroup("/a/b".into()), 1000, Some(10_000), None),
        ),
        ("top", (Target::All, 2000, None, Some(2000))),
        ("top --once", (Target::All, 2000, Some(2000), None)),
        (
            "top --once --for 1m --every 5s",
            (Target::All, 5000, Some(60_000), None),
        ),
        (
            "top --for 1m",
            (Target::All, 2000, Some(60_000), Some(2000)),
        ),
    ] {
        assert_eq!(planned(line), Ok(want), "{line}");
    }
    let Ok(Command::Report(report)) = parse("report --max-wait 20ms 5") else {
        panic!("it parses");
    };
    let plan = report.plan().expect("no contradiction");
    assert_eq!(plan.settings.max_wait, Some(Duration::from_millis(20)));
}

#[test]
fn reports_that_cannot_be_are_bad_usage() {
    for (line, what) in [
        ("report", "give a PID, --cgroup PATH or --all"),
        ("report --json", "e.g. `pagetide report"),
        ("report 5 --all", "--all"),
        ("report --cgroup /a --all", "--all"),
        ("report 5 --cgroup /a", "--cgroup"),
        ("report --for 1s --age-every 2s 5", "an age takes two scans"),
        ("report --for 10 5", "has no unit"),
        ("report --age-every 10ms 5", "give 100ms or more"),
        ("report --watch=0 5", "give 100ms or more"),
        ("report --max-wait=-1ms 5", "-1ms"),
        ("top --every 10ms", "give 100ms or more"),
        ("top --for 1s", "an age takes two scans"),
        ("top --by user", "cgroup"),
        ("top --sort pid", "swapped"),
    ] {
        let reported = planned(line).expect_err(line);
        assert!(
            reported.contains(what) && reported.contains("exit: 2"),
            "{line}: {reported}"
        );
    }
}

#[test]
fn reclaim_takes_exactly_one_amount() {
    let plan = |line: &str| match parse(line)? {
        Command::Reclaim(args) => args
            .plan()
            .map(|(reported, ask)| (reported.target, reported.cgroup.is_some(), ask))
            .map_err(|failure| format!("{failure:?}")),
        other => panic!("{line}: {other:?}"),
    };
    let pid = |pid| Some(ProcessOrTenant::Pid(pid));
    for (line, want) in [
        ("reclaim 5 1M", (pid(5), false, Ask::Bytes(1 << 20))),
        ("reclaim --cgroup /a 1M", (None, true, Ask::Bytes(1 << 20))),
        (
            "reclaim 5 --older-than 10s",
            (pid(5), false, Ask::OlderThan(Duration::from_secs(10))),
        ),
        ("reclaim --all 5", (pid(5), false, Ask::All)),
        (
            "reclaim /a/b 1M",
            (
                Some(ProcessOrTenant::Tenant("/a/b".to_owned())),
                false,
                Ask::Bytes(1 << 20),
            ),
        ),
    ] {
        assert_eq!(plan(line), Ok(want), "{line}");
    }
    for (line, what) in [
        ("reclaim", "no process or tenant"),
        ("reclaim 5", "how much"),
        ("reclaim 5 50%", "unknown suffix `%`"),
        ("reclaim x 5M", "`x` is no process id"),
        ("reclaim 5 1M 2M", "2M"),
        ("reclaim 5 1M --all", "only one of"),
        ("reclaim 5 --all --older-than 1s", "--older-than"),
        ("reclaim --cgroup /a 5 1M", "too many words"),
    ] {
        let reported = plan(line).expect_err(line);
        assert!(
            reported.contains(what) && reported.contains("exit: 2"),
            "{line}: {reported}"
        );
    }
}

#[test]
fn swap_sizes_are_converted_to_bytes() {
    let request = |line: &str| match parse(line) {
        Ok(Command::Swap {
            verb: SwapVerb::On(on),
        }) => on.request(1000 << 20),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(request("swap on").size, Some(500 << 20));
    assert_eq!(request("swap on --size 2G").size, Some(2 << 30));
    let requested = request("swap on --compress zstd --size 12.5%");
    assert_eq!(requested.algorithm.as_deref(), Some("zstd"));
    assert_eq!(requested.size, Some(125 << 20));
    let requested = request("swap on --recompress zstd");
    assert_eq!(
        (requested.algorithm, requested.recompress.as_deref()),
        (None, Some("zstd"))
    );
    let Ok(Command::Swap {
        verb: SwapVerb::Off(off),
    }) = parse("swap off --name a-1 --force")
    else {
        panic!("swap off has these options");
    };
    assert!(off.force && off.name.as_deref() == Some("a-1"));
    assert!(parse("swap on --name ../x").is_err());
    let requested = request("swap on --file x");
    assert_eq!(requested.file.as_deref(), Some(std::path::Path::new("x")));
}

#[test]
fn commands_are_those_that_work_and_each_has_examples() {
    let mut cli = command();
    cli.build();
    let mut names = Vec::new();
    for sub in cli.get_subcommands_mut() {
        let name = sub.get_name().to_owned();
        let help = sub.render_long_help().to_string();
        let example = format!("pagetide {name}");
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_default();
        assert!(examples.contains(&example), "{name}: {help}");
        names.push(name);
    }
    assert_eq!(
        names,
        [
            "demo",
            "run",
            "attach",
            "detach",
            "report",
            "recommend",
            "resize",
            "top",
            "stat",
            "reclaim",
            "serve",
            "swap",
            "sim",
            "mrc",
            "doctor",
            "completions",
            "man"
        ]
    );
}

proptest! {
    /// Words that are nearly right, in any order: the result must be a command, or an error that
    /// shows the usage.
    #[test]
    fn any_command_line_is_understood_or_refused(
        line in "(swap on|swap off|swap|run|attach|detach|report|top|stat|reclaim|doctor|man)( (--memory-max|--size|--file|--memory-high=|--every|--evict-older-than|--evict-by|--watch|--json|--all|--cgroup|--for|--age-every|--once|--older-than|--best-effort|--dry-run|--swappiness|--|-[1-9]|[0-9]{1,22}[KMGTPs%]?|max|-h|[^ ]{0,4})){0,8}"
    ) {
        match parse(&line) {
            Ok(Command::Run(Run { knobs, .. }) | Command::Attach(Attach { knobs, .. })) => {
                let _ = knobs.options();
            }
            Ok(Command::Report(report)) => {
                let _ = report.plan();
            }
            Ok(Command::Reclaim(args)) => {
                let _ = args.plan();
            }
            Ok(Command::Top(top)) => {
                let _ = top.plan();
            }
            Ok(_) => {}
            Err(complaint) => prop_assert!(!complaint.is_empty()),
        }
    }
}

/// For each typical mistake of a new user the hint names the right form.
#[test]
fn common_mistakes_have_a_hint() {
    for (line, hint) in [
        ("report --watch 10s 1234", "--watch=10s"),
        ("attach 10s", "--watch=10s"),
        ("report 12 13", "one process at a time"),
        ("report nginx", "pgrep -o"),
        ("help", "pagetide --help"),
        ("swap remove", "pagetide swap --help"),
        ("doctor 5", "usage: "),
    ] {
        let reported = parse(line).err().unwrap_or_default();
        assert!(reported.contains(hint), "{line}: {reported}");
    }
}

/// Regression: a site's wrapper passed options, and the caller of the wrapper could not override
/// them.
#[test]
fn the_last_of_repeated_options_wins() {
    let twice = "run --memory-max 64M --age-every 1s --memory-max 128M -- true";
    let once = "run --age-every 1s --memory-max 128M -- true";
    let reported = |line: &str| format!("{:?}", parse(line).expect("it is right"));
    assert_eq!(reported(twice), reported(once));
}
