//! Tests scans that open generations while a limit makes reclaim evict pages.

use super::{World, ended, plans};
use engine::FolioType;

/// A tenant with a limit of 24 MiB. It has 16 MiB of files, each page of which it touches once in
/// 68 s, and 16 MiB of anonymous memory that it touches only at the start.
const HOT_FILE_BESIDE_IDLE_ANON: &str = r#"
run = { duration = "30m", step = "1s" }
[[tenant]]
name = "t"
memory-max = "24M"
work = [
  { pattern = "uniform", size = "16M", rate = 60, memory = "file" },
  { pattern = "scan", size = "16M", rate = 4096 },
]
"#;

fn refaults(text: &str, set: &[&str]) -> u64 {
    ended(text, set).guests[0].counts.refaults
}

/// Regression: each scan opened a generation, so after some scans no refault was recent. The
/// refault controller learned nothing and evicted files for ever, though there was anonymous memory
/// that nothing used: 105,798 refaults in an hour, compared with 558 without scans.
#[test]
fn scans_do_not_blind_the_refault_controller() {
    let text = HOT_FILE_BESIDE_IDLE_ANON;
    let alone = refaults(text, &[]);
    for every in ["2s", "10s", "60s"] {
        let scanned = refaults(text, &[&format!("run.age-every={every}")]);
        assert!(
            scanned * 5 <= alone * 6,
            "every {every}: {scanned}, without scans {alone}"
        );
    }
}

/// The opposite case: anonymous memory is used, and files are idle.
#[test]
fn idle_files_leave_before_anonymous_memory_in_use() {
    let text = HOT_FILE_BESIDE_IDLE_ANON
        .replace("memory = \"file\" }", "memory = \"anon\" }")
        .replace("rate = 4096 }", "rate = 4096, memory = \"file\" }");
    for set in [&[][..], &["run.age-every=10s"]] {
        assert_eq!(refaults(&text, set), 0, "{set:?}");
    }
}

/// If both types of memory are in use alike, a higher swappiness makes reclaim evict less file
/// memory, averaged over time, also if scans open generations. (At a single moment the amount
/// varies.)
#[test]
fn swappiness_orders_what_is_taken() {
    let text = HOT_FILE_BESIDE_IDLE_ANON.replace(
        "pattern = \"scan\", size = \"16M\", rate = 4096",
        "pattern = \"uniform\", size = \"16M\", rate = 60",
    );
    let file_out = |swappiness: u8| {
        let set = format!("tenant.t.swappiness={swappiness}");
        let mut world = World::new(&plans(&text, &[&set, "run.age-every=10s"]).runs[0]);
        let mut sum = 0;
        while !world.is_over() {
            world.step();
            let id = world.guests[0].memcg.expect("the tenant is there");
            sum += world.machine.lruvec(id).out(FolioType::File).0;
        }
        sum / 1800
    };
    let all = [0, 60, 100, 200].map(file_out);
    assert!(all.is_sorted_by(|more, less| more > less), "{all:?}");
}
