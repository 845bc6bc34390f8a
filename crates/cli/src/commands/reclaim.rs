//! `pagetide reclaim`: pages out memory of a process, a control group or a tenant.
//!
//! Invariant: the number of paged-out pages is the kernel's. If it is less than requested, that is
//! a failure that says why.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use daemon::control::{Ask, Done, Request, Response, TenantAsk, ask};
use daemon::error::Error;
use daemon::options::{Bytes, Pages};
use daemon::reclaim::{WATCH_MIN, WatchBeforeReclaim};
use host::report::{Saving, SwapStore};
use host::swap::Swap;
use serde::Serialize;

use crate::args::{ProcessOrTenant, Reclaim, TargetArgs};
use crate::failure::Failure;
use crate::view::count;

use super::requests::{LONG_TIMEOUT, TargetFound, find_target, of_tenant, target_args, unexpected};

pub(super) fn reclaim(args: &Reclaim) -> Result<u8, Failure> {
    let (target, what) = args.plan()?;
    let before = Swap::system().store();
    if let Some(ProcessOrTenant::Tenant(path)) = &target.target {
        let answer = of_tenant(&args.tree, path, TenantAsk::Reclaim(what), LONG_TIMEOUT)?;
        let Response::Reclaimed(done) = answer else {
            return Err(unexpected());
        };
        let written = print(&Answer::of(done.clone(), before), args.json);
        return exit_code_of(short(&format!("tenant {path}"), what, &done), written);
    }
    let glance = WatchBeforeReclaim {
        time: WATCH_MIN,
        stop: &AtomicBool::new(false),
    };
    let (done, name) = page_out(&target_args(&target), (what, glance))?;
    let written = print(&Answer::of(done.clone(), before), args.json);
    exit_code_of(short(&name, what, &done), written)
}

/// The output of `reclaim`: what was paged out, and what the swapped-out part of it saves.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    done: Done,
    saving: Saving,
}

impl Answer {
    /// Returns the output for a reclaim that has ended. `before` is the host's store of swapped-out
    /// memory before it.
    ///
    /// The part that was swapped out is the growth of the host's swap meanwhile, at most what was
    /// paged out: the kernel drops pages of files, and does not report how many.
    fn of(done: Done, before: Option<SwapStore>) -> Answer {
        let after = Swap::system().store();
        Answer {
            saving: saving(done.evicted_pages, before, after),
            done,
        }
    }
}

/// Returns what reclaiming `pages` pages saves, by the host's store before it and after it.
fn saving(pages: u64, before: Option<SwapStore>, after: Option<SwapStore>) -> Saving {
    let Some((before, after)) = before.zip(after) else {
        return Saving::default();
    };
    let growth = after.swapped_bytes.saturating_sub(before.swapped_bytes);
    let swapped = growth.min(Pages(pages).bytes().0);
    Saving::of(swapped, Some(after), None)
}

/// Pages out through the manager of a target. If the target has none, a manager for this command
/// alone watches for a moment and then pages out. Returns what was paged out, and the target's
/// name.
pub(super) fn page_out(
    target: &TargetArgs,
    (what, glance): (Ask, WatchBeforeReclaim),
) -> Result<(Done, String), Failure> {
    match find_target(target)? {
        TargetFound::Managed(managed) => {
            match ask(&managed.tenant, &Request::Reclaim { what }, LONG_TIMEOUT)? {
                Response::Reclaimed(done) => Ok((done, managed.tenant.to_string())),
                _ => Err(unexpected()),
            }
        }
        TargetFound::Alone(chosen) => {
            let name = chosen.tenant.to_string();
            let done = daemon::reclaim::alone(chosen, (what, glance), &mut |line| {
                // Progress is no result: a failed write is ignored.
                let _ = writeln!(std::io::stderr(), "{line}");
            })?;
            Ok((done, name))
        }
    }
}

/// Returns the failure, even if the result could not be written.
fn exit_code_of(failed: Option<Failure>, written: Result<(), Failure>) -> Result<u8, Failure> {
    match failed {
        Some(failed) => Err(failed),
        None => written.map(|()| 0),
    }
}

fn print(answer: &Answer, json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", crate::view::text::json_line(answer))?;
        return Ok(());
    }
    let done = &answer.done;
    let (did, pages) = match done.would_pages {
        0 => ("paged out", done.evicted_pages),
        would => ("dry run of its manager (--dry-run): would page out", would),
    };
    writeln!(
        out,
        "{did} {} ({} pages)",
        Pages(pages).bytes(),
        count(pages)
    )?;
    if let Some(saved) = answer.saving.words() {
        writeln!(out, "saved: {saved}")?;
    }
    let stayed = stayed(done);
    if !stayed.is_empty() {
        writeln!(out, "stayed: {stayed}")?;
    }
    if done.unknown_pages > 0 {
        let bytes = Pages(done.unknown_pages).bytes();
        writeln!(out, "of unknown age: {bytes} (`pagetide report` says why)")?;
    }
    Ok(())
}

/// Returns how much memory stayed resident, by reason.
pub(super) fn stayed(done: &Done) -> String {
    // Pages whose accesses cannot be seen count as accessed.
    let in_use = match done.unknown_pages {
        0 => "accessed meanwhile",
        _ => "accessed meanwhile or of unknown age",
    };
    let kept = [
        ("mapped more than once", done.shared_pages),
        ("locked", done.locked_pages),
        ("freed by the program", done.lazyfree_pages),
        (in_use, done.referenced_pages),
        ("pinned by a driver (io_uring, RDMA)", done.pinned_pages),
        ("in use by the kernel", done.busy_pages),
    ];
    let kept = kept.into_iter().filter(|(_, pages)| *pages > 0);
    let words: Vec<String> = kept
        .map(|(why, pages)| format!("{} {why}", Pages(pages).bytes()))
        .collect();
    words.join(", ")
}

/// Returns the failure if less than requested was paged out (as a write to memory.reclaim fails).
pub(super) fn short(name: &str, what: Ask, done: &Done) -> Option<Failure> {
    let pages = done.evicted_pages + done.would_pages;
    let paged_out = Pages(pages).bytes();
    if let Some(why) = &done.refused {
        let what = format!("cannot page out memory of {name}: the kernel refuses: {why}");
        return Some(Failure::from(Error::missing(
            what,
            "run as root, or give pagetide's file CAP_SYS_NICE: `pagetide doctor` says how",
        )));
    }
    // Pages of files may have replaced those that did not fit into swap.
    let is_met = matches!(what, Ask::Bytes(_)) && pages >= done.asked_pages;
    if done.no_swap && !is_met {
        let what = format!(
            "cannot reclaim more of {name}: swap is full; {paged_out} was paged out before"
        );
        return Some(Failure::new(what, "make more room: `pagetide swap status`"));
    }
    match what {
        // Compares with the whole pages that the manager counted as requested: for a tenant, a part
        // of a page is ignored, as memory.reclaim ignores it.
        Ask::Bytes(bytes) if pages < done.asked_pages => Some(Failure::new(
            format!(
                "cannot reclaim all of {} from {name}: {paged_out} could be paged out",
                Bytes(bytes)
            ),
            "pages in use or pinned stay; `--all` pages out what can be",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_swapped_out_counts_as_saved() {
        let store = |swapped_mib: u64, compressed_mib: u64| {
            Some(SwapStore {
                swapped_bytes: swapped_mib << 20,
                compressed_bytes: compressed_mib << 20,
            })
        };
        let saving = |pages, before, after| {
            let saving = saving(pages, before, after);
            (
                saving.swapped_bytes >> 20,
                saving.net_bytes.map(|net| net >> 20),
            )
        };
        // Of 64 MiB that were paged out, 16 MiB were pages of files.
        let found = saving(64 << 8, store(16, 4), store(64, 16));
        assert_eq!(found, (48, Some(36)));
        // Other programs' pages were swapped out meanwhile, or swapped in.
        assert_eq!(saving(1 << 8, store(0, 0), store(64, 16)).0, 1);
        assert_eq!(saving(1 << 8, store(64, 16), store(0, 0)), (0, Some(0)));
        assert_eq!(saving(1 << 8, None, store(1, 1)), (0, None));
    }

    #[test]
    fn less_than_requested_is_a_failure() {
        let done = Done {
            asked_pages: 256,
            evicted_pages: 256,
            locked_pages: 1,
            ..Done::default()
        };
        assert!(short("pid 5", Ask::Bytes(1 << 20), &done).is_none());
        // A part of a page cannot be paged out, so the tenant's manager did not count it as
        // requested.
        assert!(short("tenant /a", Ask::Bytes((1 << 20) + 1), &done).is_none());
        let more = Done {
            asked_pages: 512,
            ..done.clone()
        };
        let reported = format!("{:?}", short("pid 5", Ask::Bytes(2 << 20), &more));
        assert!(
            reported.contains("cannot reclaim all of 2 MiB from pid 5: 1 MiB could be paged out")
        );
        assert!(short("pid 5", Ask::All, &done).is_none());
        assert_eq!(stayed(&done), "4 KiB locked");
        let mut unseen = Done {
            referenced_pages: 2,
            ..Done::default()
        };
        assert_eq!(stayed(&unseen), "8 KiB accessed meanwhile");
        // If another pagetide clears the accessed bits, accesses are not known. Then the text must
        // not claim that the pages were accessed.
        unseen.unknown_pages = 2;
        assert_eq!(
            stayed(&unseen),
            "8 KiB accessed meanwhile or of unknown age"
        );
        let pinned = Done {
            pinned_pages: 4096,
            ..Done::default()
        };
        assert_eq!(
            stayed(&pinned),
            "16 MiB pinned by a driver (io_uring, RDMA)"
        );
        let full = Done {
            no_swap: true,
            ..done
        };
        let reported = format!("{:?}", short("pid 5", Ask::All, &full));
        assert!(
            reported.contains("swap is full; 1 MiB was paged out before"),
            "{reported}"
        );
        assert!(short("pid 5", Ask::Bytes(1 << 20), &full).is_none());
        let tried = Done {
            asked_pages: 256,
            would_pages: 256,
            ..Done::default()
        };
        assert!(short("pid 5", Ask::Bytes(1 << 20), &tried).is_none());
        let refused = Done {
            refused: Some("EPERM".to_owned()),
            ..Done::default()
        };
        let reported = format!("{:?}", short("pid 5", Ask::All, &refused));
        assert!(reported.contains("CAP_SYS_NICE"), "{reported}");
    }
}
