//! Rule: modules stand on floors: each imports only what is below it. The floors of a crate are a list,
//! from the ground; modules of one line stand on the same floor and do not know each other.

use super::code::{code_only, has_word};
use super::sources::Source;

/// For each folder that has floors: its modules from the ground up.
const FLOORS: [(&str, &[&[&str]]); 43] = [
    (
        "crates/engine/src",
        &[
            &["log_bins", "units", "word", "ring"],
            &["folio"],
            &["list", "memcg", "vmstat", "workingset"],
            &["lru_gen", "active_inactive"],
            &["lruvec", "rstat"],
            &["memory_stat", "vmscan", "workingset_report"],
            &["machine", "policy"],
        ],
    ),
    (
        "crates/engine/src/policy",
        &[
            &["age_histogram", "pace", "rate"],
            &["why", "windows"],
            &["settings"],
            &["seen"],
            &["testing"],
            &[
                "cold_age",
                "fit",
                "pressure",
                "promotion_rate",
                "write_back",
            ],
        ],
    ),
    (
        "crates/engine/src/memcg",
        &[
            &[
                "counter",
                "events",
                "protection",
                "stock",
                "throttle",
                "memcg_lru",
            ],
            &["order"],
            &["scan_protection", "tree"],
            &["measured", "shared_walk"],
        ],
    ),
    (
        "crates/engine/src/vmscan",
        &[
            &["scan_control", "watermark"],
            &["settle"],
            &["batch"],
            &["by_age", "classic"],
            &["shrink"],
        ],
    ),
    ("crates/models/src", &[&["mmu_gather", "vma"]]),
    (
        "crates/event-log/src",
        &[
            &["varint", "frame", "item", "pages", "unit"],
            &["header", "order", "runs"],
            &["decode", "encode"],
        ],
    ),
    (
        "crates/touches/src",
        &[
            &["case", "figures", "rng"],
            &["cases", "zipf"],
            &["stream"],
            &["turns"],
            &["bin"],
        ],
    ),
    (
        "crates/sim/src",
        &[
            &[
                "hardware",
                "in_words",
                "mapped",
                "memory_bound",
                "minder",
                "nearest",
                "stats",
                "trace",
            ],
            &["outcome"],
            &["mrc", "parallel", "show", "stopwatch", "tenant"],
            &["scenario", "experiments"],
            &["fidelity", "job"],
        ],
    ),
    (
        "crates/sim/src/scenario",
        &[
            &["assign", "values", "space", "recorded"],
            &["policy", "spaces"],
            &["file"],
            &["balloon", "error", "hierarchy", "pattern", "yardstick"],
            &["plan"],
            &["world"],
            &["oracle", "report"],
        ],
    ),
    (
        "crates/sim/src/mrc/yardsticks",
        &[
            &["rings", "xxh64"],
            &["sketch"],
            &["arc", "lirs", "s3_fifo", "sieve", "w_tiny_lfu"],
        ],
    ),
    (
        "crates/pagetables/src",
        &[
            &["sys", "entry", "btf", "unavailable"],
            &["access", "program", "zero"],
            &["copier", "clear"],
            &["reader"],
            &["walk", "folios", "mappings", "lock"],
            &["source"],
            &["page_tables", "idle", "sizes"],
        ],
    ),
    (
        "crates/pictures/src",
        &[
            &["ages", "decades", "share", "style", "text"],
            &["track"],
            &["axis"],
            &["figure"],
            &["bars", "heat"],
            &["area", "curve", "level", "strip"],
        ],
    ),
    (
        "crates/host/src",
        &[
            &["report", "system", "books", "confine"],
            &["ages", "price", "swap", "wall", "workload"],
            &["watch"],
            &["doctor", "manage"],
        ],
    ),
    (
        "crates/host/src/workload",
        &[&["files", "path"], &["names", "resolve"]],
    ),
    (
        "crates/host/src/wall",
        &[
            &["attribute", "files", "scope"],
            &["fresh", "handle"],
            &["error", "limits"],
            &["due", "lowered", "mark", "place"],
            &["guard", "reclaim", "tenant"],
            &["close_in"],
        ],
    ),
    (
        "crates/daemon/src",
        &[
            &["budget", "options", "hash"],
            &["curves", "error"],
            &["control", "rights", "walls"],
            &["record"],
            &["handshake"],
            &["http", "preflight"],
            &["serve"],
            &["reclaim", "tenants"],
            &["manager", "launch"],
        ],
    ),
    (
        "crates/host/src/books",
        &[
            &["word", "index"],
            &["head"],
            &["slabs"],
            &["timeline", "histogram", "tally", "again", "frames"],
            &["owners"],
            &["see", "arrive", "rounds", "run"],
        ],
    ),
    (
        "crates/host/src/manage",
        &[
            &[
                "actions", "options", "ids", "members", "advise", "flags", "near", "noreuse",
                "pause", "spent", "stall",
            ],
            &[
                "culled",
                "homes",
                "out",
                "outrun",
                "outside",
                "said",
                "second_chance",
                "tally",
                "thrash",
                "unseen",
                "waits",
                "why",
                "workers",
                "written",
            ],
            &["feed", "host_memory", "room"],
            &["record"],
            &["driver"],
            &["demote", "minder"],
            &["ordered"],
            &["act", "report", "tenants"],
        ],
    ),
    (
        "crates/host/src/manage/tenants",
        &[
            &[
                "budget",
                "by_path",
                "cache",
                "closing",
                "group_share",
                "host_notes",
                "left_out",
                "seldom",
            ],
            &["tenant", "under_way"],
            &["host", "membership", "pressure", "protection"],
            &["unmapped", "list", "curves"],
            &["cold_cache", "last_resort"],
            &["thrashing"],
            &[
                "look",
                "hold",
                "ask",
                "events",
                "policy",
                "reclaim",
                "figures",
                "write_back",
            ],
        ],
    ),
    (
        "crates/daemon/src/http",
        &[
            &["address", "date", "door", "query", "stream", "token"],
            &["answer"],
            &["head"],
            &["gate"],
            &["client"],
            &["listener"],
            &["fuzz", "server"],
        ],
    ),
    (
        "crates/daemon/src/tenants",
        &[
            &["awake", "recompress"],
            &["names"],
            &["file", "values", "near", "notify", "snapshot"],
            &["config", "inode", "reports", "metrics", "history"],
            &["changes", "configured", "content", "keeper", "page"],
            &["desk", "site"],
            &["listen"],
            &["asked", "directory"],
            &["opened"],
            &["mount", "talk"],
            &["fuzz", "leave", "mounter"],
        ],
    ),
    (
        "crates/host/src/swap",
        &[
            &["error"],
            &["header", "stat", "slot", "kernel"],
            &["places", "record"],
            &["zram", "file"],
            &["area", "backing", "room", "write_back"],
            &["swap_type", "recompress"],
            &["on", "off", "status", "lease", "tier"],
        ],
    ),
    (
        "crates/host/src/ages",
        &[
            &["found", "claim", "costs", "listener", "held", "slices"],
            &["space"],
            &["clearing", "pauses", "page"],
            &["reader"],
            &["together", "in_parts", "late"],
        ],
    ),
    (
        "crates/engine/src/machine",
        &[
            &[
                "aging",
                "by_age",
                "charge",
                "config",
                "global",
                "guest",
                "hierarchy",
                "high",
                "idle",
                "pages",
                "report",
                "sharing",
                "shrink",
                "soft_limit",
                "stats",
                "usage",
            ],
            &["iterator", "phases"],
            &["passes", "reclaimers"],
            &["ongoing"],
        ],
    ),
    (
        "crates/engine/src/lru_gen",
        &[
            &[
                "bloom",
                "budget",
                "by_age",
                "check",
                "controller",
                "look_around",
                "refs",
            ],
            &["aging", "insert", "refault"],
            &["eviction"],
        ],
    ),
    (
        "crates/engine/src/lruvec",
        &[
            &["policy", "reclaim", "shadow_bound", "unmap"],
            &["rename"],
            &["classic", "fault", "multi_gen"],
        ],
    ),
    (
        "crates/engine/src/active_inactive",
        &[
            &[
                "level",
                "prepare",
                "refault",
                "reference",
                "scan_count",
                "target",
            ],
            &["shrink"],
        ],
    ),
    (
        "crates/engine/src/rstat",
        &[&["changes", "threshold", "updated"]],
    ),
    (
        "crates/engine/src/workingset",
        &[&["by_size", "later", "shadow", "shadow_nodes"], &["curve"]],
    ),
    (
        "crates/engine/src/workingset_report",
        &[&["balloon", "files", "page_age", "report"], &["host"]],
    ),
    (
        "crates/host/src/system",
        &[
            &["descriptors", "paths", "rights", "start", "text"],
            &["error"],
            &["events", "mountinfo", "private_dir", "proc"],
            &["cgroup", "filesystems", "load", "nodes", "swap", "vmstat"],
            &["maps", "pressure", "testing"],
            &["process"],
            &["family"],
        ],
    ),
    (
        "crates/host/src/watch",
        &[
            &[
                "bins",
                "error",
                "falling",
                "group",
                "kernel_sums",
                "own",
                "people",
                "phase",
                "shares",
                "source",
            ],
            &["curve", "round"],
            &["compose"],
            &["parts"],
        ],
    ),
    (
        "crates/host/src/doctor",
        &[&[
            "forks", "groups", "kernel", "memory", "others", "rights", "source", "walls",
        ]],
    ),
    (
        "crates/sim/src/mrc",
        &[
            &[
                "clock",
                "curve",
                "curve_policy",
                "engine_run",
                "gap",
                "job",
                "lru",
                "miniature",
                "opt",
                "ranks",
                "shards",
                "yardsticks",
            ],
            &["stack"],
        ],
    ),
    (
        "crates/sim/src/trace",
        &[
            &["dense", "error", "unzstd"],
            &["input"],
            &["arc", "csv", "oracle_general", "page_windows", "recording"],
            &["format", "looks"],
        ],
    ),
    (
        "crates/sim/src/experiments",
        &[&[
            "anon_workingset",
            "memcg_lru",
            "memcg_scale",
            "mmu_gather",
            "noreuse",
            "policies",
            "rstat",
            "workingset_report",
        ]],
    ),
    (
        "crates/sim/src/scenario/world",
        &[&["balloons", "config", "reclaim", "worker"], &["guest"]],
    ),
    (
        "crates/daemon/src/control",
        &[
            &["error", "peer", "protocol", "tenant"],
            &["socket"],
            &["client"],
            &["find"],
            &["server"],
        ],
    ),
    (
        "crates/daemon/src/options",
        &[&["units", "write_back"], &["evict_by"]],
    ),
    (
        "crates/cli/src",
        &[
            &["terminal", "used_memory"],
            &["view"],
            &["failure"],
            &["own_limits", "workloads"],
            &["watching"],
            &["args"],
            &["commands"],
            &["call"],
        ],
    ),
    (
        "crates/cli/src/args",
        &[
            &["examples", "knobs", "manage", "mrc"],
            &["report", "serve", "swap"],
            &["recommend", "resize", "top"],
        ],
    ),
    (
        "crates/cli/src/commands",
        &[
            &[
                "ask", "doctor", "live", "looks", "manual", "page", "screen", "shell", "stop",
                "users",
            ],
            &["gate"],
            &["run"],
            &[
                "attach",
                "demo",
                "mrc",
                "reclaim",
                "report",
                "serve",
                "tenant_rows",
            ],
            &["browse", "recommend", "resize", "sim", "swap"],
            &["top"],
        ],
    ),
    (
        "crates/cli/src/view",
        &[
            &["bars", "status", "text"],
            &["curves", "sheet"],
            &["findings", "memory"],
            &["recommend", "swap", "top"],
        ],
    ),
];

pub(super) fn problems(files: &[Source]) -> Vec<String> {
    FLOORS
        .iter()
        .flat_map(|(folder, floors)| of_folder(folder, floors, files))
        .collect()
}

fn of_folder(folder: &str, floors: &[&[&str]], files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(module) = module_in(folder, &file.path) else {
            continue;
        };
        let Some(floor) = floors.iter().position(|floor| floor.contains(&module)) else {
            found.push(format!(
                "{}: stands on no floor; give it one in {}",
                file.path,
                file!()
            ));
            continue;
        };
        // Tests may use everything.
        let code = code_only(file.text.split("#[cfg(test)]").next().unwrap_or_default());
        for other in floors[floor..]
            .iter()
            .copied()
            .flatten()
            .filter(|other| **other != module)
        {
            if imports(&code, folder, other) {
                found.push(format!(
                    "{}: imports {other}, which is not below it",
                    file.path
                ));
            }
        }
    }
    found
}

/// The module of `folder` in which a file is; none for the folder's own root and for tests.
fn module_in<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?.strip_prefix('/')?;
    let module = inside.split('/').next()?;
    let module = module.strip_suffix(".rs").unwrap_or(module);
    let is_root = matches!(module, "lib" | "mod" | "main" | "tests");
    let is_test = ["tests.rs", "canaries.rs"]
        .iter()
        .any(|end| inside.ends_with(end));
    (!is_root && !is_test && !inside.contains("tests/")).then_some(module)
}

/// Whether code names a module of `folder`: from the crate's root, or, in a folder below, from its parent.
fn imports(code: &str, folder: &str, module: &str) -> bool {
    let within = folder
        .split_once("/src")
        .map_or("", |(_, within)| within.trim_start_matches('/'));
    let paths = match within {
        "" => vec![format!("crate::{module}")],
        within => vec![
            format!("super::{module}"),
            format!("crate::{within}::{module}"),
        ],
    };
    let parent = if within.is_empty() { "crate" } else { "super" };
    grouped(code, parent).any(|name| name == module)
        || paths.iter().any(|path| {
            code.match_indices(path.as_str()).any(|(at, _)| {
                let tail = &code[at + path.len()..];
                !tail.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    && has_word(path, module)
            })
        })
}

/// What `use PARENT::{A, B::C}` names of its parent: A and B.
fn grouped<'a>(code: &'a str, parent: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("use {parent}::{{");
    let groups = code.split(&begin as &str).skip(1).collect::<Vec<&str>>();
    groups.into_iter().flat_map(|group| {
        let mut depth = 0;
        let end = group.find(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        });
        let mut depth = 0;
        let parts = group[..end.unwrap_or(group.len())].split(move |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && c == ','
        });
        parts.map(|part| part.trim().split([':', ' ']).next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOORS: &[&[&str]] = &[&["low", "beside"], &["high"]];

    fn of(path: &str, text: &str) -> Vec<String> {
        of_folder("crates/a/src", FLOORS, &[Source::new(path, text)])
    }

    #[test]
    fn what_is_above_or_beside_is_found() {
        assert_eq!(of("crates/a/src/low.rs", "use crate::high::X;").len(), 1);
        assert_eq!(
            of("crates/a/src/low/inner.rs", "use crate::beside::X;").len(),
            1
        );
        assert_eq!(of("crates/a/src/new.rs", "").len(), 1);
    }

    #[test]
    fn what_is_named_in_a_group_is_found() {
        let group = "use crate::{low::{X, high}, high::Y};";
        assert_eq!(of("crates/a/src/beside.rs", group).len(), 2);
        let file = [Source::new(
            "crates/a/src/b/low.rs",
            "use super::{A, high};",
        )];
        assert_eq!(of_folder("crates/a/src/b", FLOORS, &file).len(), 1);
        assert!(of("crates/a/src/low.rs", "use crate::{Low, other::{high}};").is_empty());
    }

    #[test]
    fn what_is_below_is_fine_and_tests_may_all() {
        assert!(of("crates/a/src/high.rs", "use crate::low::X;").is_empty());
        assert!(of("crates/a/src/low.rs", "#[cfg(test)]\nuse crate::high::X;").is_empty());
        assert!(of("crates/a/src/low/tests.rs", "use crate::high::X;").is_empty());
        assert!(
            of(
                "crates/a/src/low.rs",
                "// crate::high\nuse crate::highest::X;"
            )
            .is_empty()
        );
        assert!(of("crates/a/src/lib.rs", "use crate::high::X;").is_empty());
    }

    #[test]
    fn in_a_folder_the_parent_is_super() {
        let file = [Source::new("crates/a/src/b/low.rs", "use super::high::X;")];
        assert_eq!(of_folder("crates/a/src/b", FLOORS, &file).len(), 1);
    }
}
