//! Runs the how-tos: the commands of `docs/howto` exactly as they are written, each page in one
//! shell.
//!
//! Replaced are only times and names that a page makes up (a process, a program, a group, a file),
//! which the test creates first. A command that a page runs until ^C gets a ^C after four seconds.
//! Other tests run the pages `install` and `python` (test `package`, `python`), `service` and
//! `kubernetes` (`shipped`), and `prometheus` (`serve_metrics`).
#![forbid(unsafe_code)]

use e2e::idle_program::IdleProgram;
use e2e::memcg::MemoryGroup;
use e2e::paced::{Pace, Paced};
use e2e::programs;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Groups;
use e2e::typed::Page;
use e2e::zram::Swap;

/// Shell functions for commands that run until ^C: `serve` in the background, mounted, and `attach`
/// without a time.
const FOREVER: &str = r#"
trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT
sudo() { [ "$1" = -s ] || "$@"; }
pagetide() {
    case "$*" in
    serve*)
        command pagetide "$@" --root "$ROOT" --host none > serve.log 2>&1 &
        timeout 30 sh -c 'until grep -q serving serve.log; do sleep 0.1; done' ;;
    attach*--for*) command pagetide "$@" ;;
    attach*) timeout --preserve-status -s INT 4 pagetide "$@" ;;
    *) command pagetide "$@" ;;
    esac
}
"#;
/// A command that uses 64 MiB and ends on its own.
const PROGRAM: &str = "python3 -c 'print(len(bytearray(64 << 20)))'";
/// Size in MiB of the `idle_program` that replaces the process 1234 of the pages.
const MIB: u64 = 128;

/// A page of which all indented lines are run.
fn page(text: &str) -> Page {
    Page::new(text, |_| true).first(FOREVER)
}

/// A page whose process 1234 is replaced by `idle_program`.
fn page_with_process(text: &str, idle_program: &IdleProgram) -> Page {
    page(text).substitute("1234", &idle_program.pid().to_string())
}

#[test]
fn limit() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let done = page(include_str!("../../../docs/howto/limit.md"))
        .substitute("./program --its-own-options", "./program")
        .substitute("./program", PROGRAM)
        .run_in(&folder);
    for words in ["--its-own-options", "setpriv", "--evict-older-than"] {
        assert!(done.of(words).contains("67108864"), "{}", done.reported());
    }
}

#[test]
fn measure() {
    let (_serial, folder) = (serial(), TempDir::new());
    let idle_program = IdleProgram::start([], MIB);
    let done = page_with_process(
        include_str!("../../../docs/howto/measure.md"),
        &idle_program,
    )
    .substitute("$(pgrep -o redis-server)", &idle_program.pid().to_string())
    .substitute("--for 1m", "--for 3s")
    .substitute("--for 1h", "--for 12s")
    .run_in(&folder);
    assert!(
        done.of("--for 1m").contains("Page age"),
        "{}",
        done.reported()
    );
    let pictures = std::fs::read_to_string(folder.path().join("hour.html"));
    assert!(pictures.is_ok_and(|text| text.contains("<svg")));
}

#[test]
fn park() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let idle_program = IdleProgram::start([], MIB);
    let done = page_with_process(include_str!("../../../docs/howto/park.md"), &idle_program)
        .run_in(&folder);
    assert!(
        done.of("--bring-back").contains("pages"),
        "{}",
        done.reported()
    );
}

#[test]
fn take_back() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let group = MemoryGroup::new();
    let _inside = IdleProgram::start_in(&group, 16, None);
    let idle_program = IdleProgram::start([], MIB);
    let done = page_with_process(
        include_str!("../../../docs/howto/take-back.md"),
        &idle_program,
    )
    .substitute("system.slice/nginx.service", &group.name())
    .substitute("--older-than 10s", "--older-than 2s")
    .substitute("256M", "64M")
    .run_in(&folder);
    assert!(
        idle_program.status("VmSwap") > (MIB / 2) << 20,
        "{}",
        done.reported()
    );
}

#[test]
fn swap() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let done = page(include_str!("../../../docs/howto/swap.md"))
        .substitute("/var/pagetide.swap", &folder.file("pagetide.swap"))
        .substitute(
            "sudo pagetide swap on --file",
            "sudo pagetide swap off && sudo pagetide swap on --size 64M --file",
        )
        .run_in(&folder);
    assert!(
        done.of("swap off").contains("swap is off"),
        "{}",
        done.reported()
    );
    assert!(!folder.path().join("pagetide.swap").exists());
}

#[test]
fn tenants() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let root = format!("pagetide-e2e-howto-{}", std::process::id());
    let _groups = Groups::named(&root);
    let idle_program = IdleProgram::start([], MIB);
    let done = page_with_process(
        include_str!("../../../docs/howto/tenants.md"),
        &idle_program,
    )
    .first(&format!("ROOT={root}\n"))
    .substitute("serve --mount", "serve --age-every 1s --mount")
    .substitute("N0=10000", "N0=1000")
    .substitute(
        "echo 256M > memory.reclaim",
        "sleep 5; echo 64M > memory.reclaim",
    )
    .run_in(&folder);
    let stolen = done.of("pgsteal");
    let of_web = stolen.lines().filter(|line| line.starts_with("web/"));
    let pages = of_web.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(pages.max() >= Some(16_000), "{}", done.reported());
    assert!(
        done.of("cat web/memory.workingset.page_age")
            .contains("anon="),
        "{}",
        done.reported()
    );
}

#[test]
fn scripts() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let root = format!("pagetide-e2e-scripts-{}", std::process::id());
    let _groups = Groups::named(&root);
    let idle_program = IdleProgram::start([], MIB);
    let done = page(include_str!("../../../docs/howto/scripts.md"))
        .first(&format!(
            "ROOT={root}\nPID={}\npagetide serve\n",
            idle_program.pid()
        ))
        .substitute("--for 2m", "--for 2s")
        .substitute("./test", PROGRAM)
        .substitute("/ --all", &format!("/ --all --root {root}"))
        .run_in(&folder);
    assert!(
        done.of("pagetide stat").contains('/'),
        "{}",
        done.reported()
    );
    assert!(done.of("jq -e").contains("true"), "{}", done.reported());
}

#[test]
fn simulate() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let examples = format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"));
    // An idle program would leave no accesses in the recording that is replayed.
    let pace = Pace {
        values: 4096,
        per_second: 1000,
        seconds: 120,
    };
    let busy = Paced::array("zipf", pace);
    let done = page(include_str!("../../../docs/howto/simulate.md"))
        .substitute("1234", &busy.pid.to_string())
        .first(&format!("ln -s {examples} examples\n"))
        .substitute("--for 10m", "--for 3s")
        .run_in(&folder);
    assert!(
        done.of("--list").contains("memcg-lru"),
        "{}",
        done.reported()
    );
    assert!(
        folder.path().join("results").is_dir(),
        "{}",
        done.reported()
    );
}

#[test]
fn traces() {
    let (_serial, folder) = (serial(), TempDir::new());
    let first = format!(
        "{} zipf 8 10000 1 trace.oracleGeneral < /dev/zero; zstd -q trace.oracleGeneral\n\
         python3 -c 'import struct, sys; [sys.stdout.buffer.write(struct.pack(\"<Q\", n % 5 << 2 | 1 if n % 6 else 2**64 - 1)) for n in range(6000)]' \
         > trace.w10000; zstd -q trace.w10000\n\
         awk 'BEGIN {{ for (i = 0; i < 100000; i++) print \"a;\" i \";b;c;\" int(rand() * 9999) }}' > huge.csv\n",
        programs::c("paced")
    );
    let done = page(include_str!("../../../docs/howto/traces.md"))
        .first(&first)
        .run_in(&folder);
    assert!(done.of("jq").contains("lru"), "{}", done.reported());
    assert!(folder.path().join("curve.html").exists());
}

#[test]
fn trouble() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let done = page(include_str!("../../../docs/howto/trouble.md")).run_in(&folder);
    assert!(
        done.of("doctor").contains("All commands work here"),
        "{}",
        done.reported()
    );
}
