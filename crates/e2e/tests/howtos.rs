//! The how-tos, typed: the commands of `docs/howto` as they stand there, each page in one shell.
//!
//! Otherwise are the names that a page makes up (a process, a program, a group, a file), which are made here first, and times. What a page has run until
//! ^C gets it after four seconds. `install`, `python`, `service`, `prometheus` and `kubernetes` are not here: their tests are
//! `package`, `python`, `shipped` and `serve_metrics`.
#![forbid(unsafe_code)]

use e2e::memcg::MemoryGroup;
use e2e::paced::{Pace, Paced};
use e2e::programs;
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Groups;
use e2e::typed::Page;
use e2e::zram::Swap;

/// What runs until ^C: `serve` beside the rest, mounted, and `attach` without a time.
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
/// A program of 64 MiB that ends by itself.
const PROGRAM: &str = "python3 -c 'print(len(bytearray(64 << 20)))'";
/// Of the sleepers that pages have for process 1234.
const MIB: u64 = 128;

/// All indented lines of a page are typed.
fn page(text: &str) -> Page {
    Page::new(text, |_| true).first(FOREVER)
}

/// A page with a process.
fn page_of(text: &str, sleeper: &Sleeper) -> Page {
    page(text).instead("1234", &sleeper.pid().to_string())
}

#[test]
fn limit() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let done = page(include_str!("../../../docs/howto/limit.md"))
        .instead("./program --its-own-options", "./program")
        .instead("./program", PROGRAM)
        .type_in(&folder);
    for words in ["--its-own-options", "setpriv", "--evict-older-than"] {
        assert!(done.of(words).contains("67108864"), "{}", done.told());
    }
}

#[test]
fn measure() {
    let (_serial, folder) = (serial(), TempDir::new());
    let sleeper = Sleeper::start([], MIB);
    let done = page_of(include_str!("../../../docs/howto/measure.md"), &sleeper)
        .instead("$(pgrep -o redis-server)", &sleeper.pid().to_string())
        .instead("--for 1m", "--for 3s")
        .instead("--for 1h", "--for 12s")
        .type_in(&folder);
    assert!(done.of("--for 1m").contains("Page age"), "{}", done.told());
    let pictures = std::fs::read_to_string(folder.path().join("hour.html"));
    assert!(pictures.is_ok_and(|text| text.contains("<svg")));
}

#[test]
fn park() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let sleeper = Sleeper::start([], MIB);
    let done = page_of(include_str!("../../../docs/howto/park.md"), &sleeper).type_in(&folder);
    assert!(done.of("--bring-back").contains("pages"), "{}", done.told());
}

#[test]
fn take_back() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let group = MemoryGroup::new();
    let _inside = Sleeper::start_in(&group, 16, None);
    let sleeper = Sleeper::start([], MIB);
    let done = page_of(include_str!("../../../docs/howto/take-back.md"), &sleeper)
        .instead("system.slice/nginx.service", &group.name())
        .instead("--older-than 10s", "--older-than 2s")
        .instead("256M", "64M")
        .type_in(&folder);
    assert!(
        sleeper.status("VmSwap") > (MIB / 2) << 20,
        "{}",
        done.told()
    );
}

#[test]
fn swap() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let done = page(include_str!("../../../docs/howto/swap.md"))
        .instead("/var/pagetide.swap", &folder.file("pagetide.swap"))
        .instead(
            "sudo pagetide swap on --file",
            "sudo pagetide swap off && sudo pagetide swap on --size 64M --file",
        )
        .type_in(&folder);
    assert!(
        done.of("swap off").contains("swap is off"),
        "{}",
        done.told()
    );
    assert!(!folder.path().join("pagetide.swap").exists());
}

#[test]
fn tenants() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let root = format!("pagetide-e2e-howto-{}", std::process::id());
    let _groups = Groups::named(&root);
    let sleeper = Sleeper::start([], MIB);
    let done = page_of(include_str!("../../../docs/howto/tenants.md"), &sleeper)
        .first(&format!("ROOT={root}\n"))
        .instead("serve --mount", "serve --age-every 1s --mount")
        .instead("N0=10000", "N0=1000")
        .instead(
            "echo 256M > memory.reclaim",
            "sleep 5; echo 64M > memory.reclaim",
        )
        .type_in(&folder);
    let stolen = done.of("pgsteal");
    let of_web = stolen.lines().filter(|line| line.starts_with("web/"));
    let pages = of_web.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(pages.max() >= Some(16_000), "{}", done.told());
    assert!(
        done.of("cat web/memory.workingset.page_age")
            .contains("anon="),
        "{}",
        done.told()
    );
}

#[test]
fn scripts() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let root = format!("pagetide-e2e-scripts-{}", std::process::id());
    let _groups = Groups::named(&root);
    let sleeper = Sleeper::start([], MIB);
    let done = page(include_str!("../../../docs/howto/scripts.md"))
        .first(&format!(
            "ROOT={root}\nPID={}\npagetide serve\n",
            sleeper.pid()
        ))
        .instead("--for 2m", "--for 2s")
        .instead("./test", PROGRAM)
        .instead("/ --all", &format!("/ --all --root {root}"))
        .type_in(&folder);
    assert!(done.of("pagetide stat").contains('/'), "{}", done.told());
    assert!(done.of("jq -e").contains("true"), "{}", done.told());
}

#[test]
fn simulate() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let examples = format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"));
    // What rests leaves nothing to replay.
    let pace = Pace {
        values: 4096,
        per_second: 1000,
        seconds: 120,
    };
    let busy = Paced::array("zipf", pace);
    let done = page(include_str!("../../../docs/howto/simulate.md"))
        .instead("1234", &busy.pid.to_string())
        .first(&format!("ln -s {examples} examples\n"))
        .instead("--for 10m", "--for 3s")
        .type_in(&folder);
    assert!(done.of("--list").contains("memcg-lru"), "{}", done.told());
    assert!(folder.path().join("results").is_dir(), "{}", done.told());
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
        .type_in(&folder);
    assert!(done.of("jq").contains("lru"), "{}", done.told());
    assert!(folder.path().join("curve.html").exists());
}

#[test]
fn trouble() {
    let (_serial, _swap, folder) = (serial(), Swap::shared(), TempDir::new());
    let done = page(include_str!("../../../docs/howto/trouble.md")).type_in(&folder);
    assert!(
        done.of("doctor").contains("All commands work here"),
        "{}",
        done.told()
    );
}
