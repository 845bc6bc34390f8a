//! Swap in words: what there is, what was made, what was removed.
//!
//! Invariant: paths are as safe to show as all words from outside ([`Sheet`] cleans them); advice
//! names the command to run.

use daemon::options::Bytes;
use host::swap::{Area, Made, Maker, Recompressed, Removed, Status, Zswap};

use crate::terminal::Style;

use super::memory::per_cent;
use super::sheet::Sheet;

const PAGE_CLUSTER: &str = "sysctl vm.page-cluster=0";

/// Describes all swap areas, what made each of them, and what to do if one could be better.
pub(crate) fn status(status: &Status, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    if status.areas.is_empty() {
        sheet.line("There is no swap: cold memory cannot be swapped out.");
        sheet.hanging("  -> ", "as root: pagetide swap on");
    }
    if let Some(why) = &status.invented {
        sheet.hanging("", &format!("This may not be the host's swap: {why}."));
        sheet.blank();
    }
    for area in &status.areas {
        area_lines(area, &mut sheet);
    }
    if let Some(zswap) = status.zswap.as_ref().filter(|zswap| zswap.matters()) {
        zswap_lines(zswap, &mut sheet);
    }
    if status.wants_page_cluster_0() {
        sheet.blank();
        cluster(status.page_cluster, &mut sheet);
    }
    for (path, name) in status.left.iter().zip(&status.left_names) {
        sheet.blank();
        let text = format!("{path} was made by pagetide and is not swapped to any more");
        sheet.hanging("", &text);
        sheet.hanging("  -> ", &format!("as root: {}", off(name.as_deref())));
    }
    sheet.finish()
}

/// Returns the command that switches off the area of this name, or the shared one.
fn off(name: Option<&str>) -> String {
    let name = name.map_or_else(String::new, |name| format!(" --name {name}"));
    format!("pagetide swap off{name}")
}

/// Returns the maker of an area in words.
fn whose(area: &Area) -> String {
    let by = |by: Maker| format!(" for user {}", by.uid);
    let by = area.by.map_or_else(String::new, by);
    match (area.ours, &area.name) {
        (false, _) => "not pagetide's".to_owned(),
        (true, None) => format!("made by pagetide{by}"),
        (true, Some(name)) => format!("made by pagetide{by}, --name {name}"),
    }
}

/// Describes zswap, which takes pages before the areas get them.
fn zswap_lines(zswap: &Zswap, sheet: &mut Sheet) {
    let text = match zswap.enabled {
        true => "zswap  (on: it takes swapped-out pages before the areas above get them)",
        false => "zswap  (off, and still holds pages that it took before)",
    };
    sheet.heading(text);
    let holds = match (zswap.original_bytes, zswap.memory_bytes) {
        (Some(held), Some(memory)) => {
            let by = zswap.algorithm.as_deref().unwrap_or("an unknown algorithm");
            let (held, memory) = (Bytes(held), Bytes(memory));
            format!("{held} by {by}, in {memory} of memory; the areas count them as used")
        }
        _ => "an unknown amount: this kernel does not report it".to_owned(),
    };
    sheet.row("holds", &holds);
}

fn area_lines(area: &Area, sheet: &mut Sheet) {
    let whose = whose(area);
    let (path, kind) = (area.path.display(), area.kind);
    sheet.heading(&format!(
        "{path}  ({kind}, {whose}, priority {})",
        area.priority
    ));
    let share = per_cent(area.used_bytes, area.size_bytes);
    let (used, size) = (Bytes(area.used_bytes), Bytes(area.size_bytes));
    sheet.row("used", &format!("{used} of {size} ({share})"));
    let Some(compressed) = &area.compressed else {
        return;
    };
    let by = compressed
        .algorithm
        .as_deref()
        .unwrap_or("an unknown algorithm");
    let text = match compressed.ratio {
        None => format!("by {by}, nothing yet"),
        Some(ratio) => format!(
            "{} by {by} to {}, in {} of memory (ratio {ratio:.1})",
            Bytes(compressed.original_bytes),
            Bytes(compressed.compressed_bytes),
            Bytes(compressed.memory_bytes),
        ),
    };
    sheet.row("compressed", &text);
    if let Some(second) = &compressed.recompress {
        let when = match area.ours {
            true => ", when `pagetide swap recompress` runs",
            false => ", on request",
        };
        sheet.row("once more", &format!("by {second}{when}"));
    }
    if let Some(behind) = &compressed.backing {
        let text = format!(
            "{} on {} ({} written, {} read back)",
            Bytes(behind.held_bytes),
            behind.path.display(),
            Bytes(behind.written_bytes),
            Bytes(behind.read_bytes),
        );
        sheet.row("behind it", &text);
    }
}

/// Describes the swap that was made or was on already, and the other areas.
pub(crate) fn made(made: &Made, others: &[Area], style: Style) -> String {
    let mut sheet = Sheet::new(style);
    if let Some(removed) = &made.removed {
        sheet.hanging("", &format!("removed {removed}"));
    }
    let by = made.algorithm.as_ref();
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let again = made.recompress.as_ref();
    let again = again.map_or_else(String::new, |by| format!(" and once more by {by}"));
    let behind = made.backing.as_ref();
    let behind = behind.map_or_else(String::new, |disk| format!(", with {disk} behind it"));
    let (path, size, kind) = (made.path.display(), Bytes(made.size_bytes), made.kind);
    let priority = made.priority;
    let already = if made.already_on { " already" } else { "" };
    sheet.hanging(
        "",
        &format!(
            "swap is on{already}: {path}, {size}, {kind}{by}{again}{behind}, priority {priority}"
        ),
    );
    let off = off(made.name.as_deref());
    match made.already_on {
        true => already_on(made, &off, &mut sheet),
        false => sheet.hanging("", &format!("`{off}` brings all back and removes it")),
    }
    for area in others {
        let (path, kind, whose) = (area.path.display(), area.kind, whose(area));
        let (used, size) = (Bytes(area.used_bytes), Bytes(area.size_bytes));
        let priority = area.priority;
        let text = format!(
            "also on: {path} ({kind}, {whose}, priority {priority}), {used} of {size} used"
        );
        sheet.hanging("", &text);
    }
    if made.kind == host::system::swap::SwapKind::Zram && made.page_cluster.is_some_and(|n| n > 0) {
        cluster(made.page_cluster, &mut sheet);
    }
    sheet.finish()
}

/// Describes an area that was on already: who made it, and what is not as requested.
fn already_on(made: &Made, off: &str, sheet: &mut Sheet) {
    if let Some(by) = made.by {
        sheet.hanging("", &format!("user {} switched it on", by.uid));
    }
    if !made.differs.is_empty() {
        let differs = made.differs.join(", ");
        let text = format!("not as requested: {differs}; to change that: `{off}`, then on again");
        sheet.hanging("", &text);
    }
}

/// Describes what was compressed again.
pub(crate) fn recompressed(done: &Recompressed, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    let (path, by) = (done.path.display(), &done.algorithm);
    let sizes = [
        done.original_bytes,
        done.memory_before_bytes,
        done.memory_bytes,
    ];
    let [original, before, now] = sizes.map(Bytes);
    let text = format!("{path}: {original} take {now} of memory, {before} before ({by})");
    sheet.hanging("", &text);
    if let Some(why) = &done.stopped {
        sheet.hanging("", &format!("it ended before all was tried: {why}"));
    }
    sheet.finish()
}

/// Describes the swap that was removed.
pub(crate) fn removed(removed: &Removed, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    let path = removed.path.display();
    let text = match (removed.was_on, removed.brought_back_bytes) {
        (false, _) => format!("{path} was not on any more; it is removed"),
        (true, 0) => format!("swap is off: {path} is removed; nothing was swapped out to it"),
        (true, bytes) => format!("swap is off: {path} is removed; {} came back", Bytes(bytes)),
    };
    sheet.hanging("", &text);
    sheet.finish()
}

/// Advises about the sysctl `vm.page-cluster`, but does not set it, because it applies to the whole
/// machine.
fn cluster(page_cluster: Option<u32>, sheet: &mut Sheet) {
    let exponent = page_cluster.unwrap_or_default();
    let pages = 1u64.checked_shl(exponent).unwrap_or(u64::MAX);
    let text = format!(
        "vm.page-cluster is {exponent}: {pages} pages are read where zram gives one at once"
    );
    sheet.hanging("", &text);
    sheet.hanging("  -> ", PAGE_CLUSTER);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use host::swap::{Backing, Compressed};
    use host::system::swap::SwapKind;

    use super::*;

    fn area(path: &str, ours: bool) -> Area {
        Area {
            path: PathBuf::from(path),
            kind: SwapKind::File,
            ours,
            name: None,
            by: None,
            size_bytes: 2 << 30,
            used_bytes: 512 << 20,
            priority: -2,
            compressed: None,
        }
    }

    #[test]
    fn each_area_is_shown_with_its_maker_and_what_to_do() {
        let zram = Area {
            kind: SwapKind::Zram,
            priority: 100,
            compressed: Some(Compressed {
                algorithm: Some("lz4".to_owned()),
                original_bytes: 512 << 20,
                compressed_bytes: 190 << 20,
                memory_bytes: 200 << 20,
                ratio: Some(2.56),
                recompress: Some("zstd".to_owned()),
                backing: Some(Backing {
                    path: PathBuf::from("/dev/vdb1"),
                    held_bytes: 3 << 20,
                    written_bytes: 5 << 20,
                    read_bytes: 4096,
                }),
            }),
            ..area("/dev/zram1", true)
        };
        let all = Status {
            areas: vec![zram, area("/my\x1b[2J swap", false)],
            page_cluster: Some(3),
            left: vec!["/old".to_owned()],
            left_names: vec![Some("trial".to_owned())],
            zswap: Some(Zswap {
                enabled: true,
                algorithm: Some("lzo".to_owned()),
                original_bytes: Some(64 << 20),
                memory_bytes: Some(18 << 20),
            }),
            invented: None,
        };
        let want = "\
/dev/zram1  (zram, made by pagetide, priority 100)
  used       512 MiB of 2 GiB (25%)
  compressed 512 MiB by lz4 to 190 MiB, in 200 MiB of memory (ratio 2.6)
  once more  by zstd, when `pagetide swap recompress` runs
  behind it  3 MiB on /dev/vdb1 (5 MiB written, 4 KiB read back)

/my?[2J swap  (file, not pagetide's, priority -2)
  used       512 MiB of 2 GiB (25%)

zswap  (on: it takes swapped-out pages before the areas above get them)
  holds      64 MiB by lzo, in 18 MiB of memory; the areas count them as used

vm.page-cluster is 3: 8 pages are read where zram gives one at once
  -> sysctl vm.page-cluster=0

/old was made by pagetide and is not swapped to any more
  -> as root: pagetide swap off --name trial
";
        assert_eq!(status(&all, Style::PLAIN), want);
    }

    #[test]
    fn a_host_without_swap_gets_advice() {
        let none = Status {
            areas: Vec::new(),
            page_cluster: Some(3),
            left: Vec::new(),
            left_names: Vec::new(),
            zswap: None,
            invented: Some("why".to_owned()),
        };
        let text = status(&none, Style::PLAIN);
        assert!(
            text.contains("no swap") && text.contains("pagetide swap on"),
            "{text}"
        );
        assert!(text.contains("may not be the host's swap: why."), "{text}");
        assert!(!text.contains("page-cluster"), "{text}");
    }

    #[test]
    fn swap_that_is_on_already_is_shown_with_what_differs_and_all_other_swap() {
        let one = Made {
            path: PathBuf::from("/dev/zram1"),
            name: None,
            kind: SwapKind::Zram,
            size_bytes: 12 << 30,
            algorithm: Some("lz4".to_owned()),
            recompress: None,
            priority: 100,
            page_cluster: Some(0),
            removed: None,
            backing: None,
            already_on: true,
            differs: vec!["--size", "--compress"],
            by: Some(Maker { uid: 1000, at_s: 0 }),
        };
        let want = "\
swap is on already: /dev/zram1, 12 GiB, zram by lz4, priority 100
user 1000 switched it on
not as requested: --size, --compress; to change that: `pagetide swap off`, then
on again
also on: /swap (file, not pagetide's, priority -2), 512 MiB of 2 GiB used
";
        assert_eq!(made(&one, &[area("/swap", false)], Style::PLAIN), want);
    }

    #[test]
    fn the_result_is_shown() {
        let mut one = Made {
            path: PathBuf::from("/dev/zram1"),
            name: None,
            kind: SwapKind::Zram,
            size_bytes: 12 << 30,
            algorithm: Some("lz4".to_owned()),
            recompress: None,
            priority: 100,
            page_cluster: Some(0),
            removed: Some("/old, left by an earlier command".to_owned()),
            backing: None,
            already_on: false,
            differs: Vec::new(),
            by: None,
        };
        let want = "\
removed /old, left by an earlier command
swap is on: /dev/zram1, 12 GiB, zram by lz4, priority 100
`pagetide swap off` brings all back and removes it
";
        assert_eq!(made(&one, &[], Style::PLAIN), want);
        (one.page_cluster, one.recompress) = (Some(3), Some("zstd".to_owned()));
        assert!(made(&one, &[], Style::PLAIN).contains(PAGE_CLUSTER));
        assert!(made(&one, &[], Style::PLAIN).contains("by lz4 and once more by zstd, priority"));
        one.name = Some("trial".to_owned());
        assert!(made(&one, &[], Style::PLAIN).contains("`pagetide swap off --name trial` brings"));
        let mut done = Recompressed {
            path: PathBuf::from("/dev/zram1"),
            algorithm: "zstd".to_owned(),
            original_bytes: 64 << 20,
            memory_before_bytes: 30 << 20,
            memory_bytes: 20 << 20,
            won_bytes: 9 << 20,
            stopped: None,
        };
        let want = "/dev/zram1: 64 MiB take 20 MiB of memory, 30 MiB before (zstd)\n";
        assert_eq!(recompressed(&done, Style::PLAIN), want);
        done.stopped = Some("why".to_owned());
        assert!(recompressed(&done, Style::PLAIN).ends_with("all was tried: why\n"));
        let mut gone = Removed {
            path: PathBuf::from("/swap"),
            kind: SwapKind::File,
            size_bytes: 1 << 30,
            brought_back_bytes: 3 << 20,
            was_on: true,
        };
        assert!(removed(&gone, Style::PLAIN).contains("3 MiB came back"));
        gone.was_on = false;
        assert!(removed(&gone, Style::PLAIN).contains("not on any more"));
    }
}
