//! `pagetide reclaim`.
//!
//! Invariant: what left is the kernel's count; less than was asked for is a failure that says why.

use std::io::Write;

use daemon::control::{Ask, Done, Request, Response, TenantAsk, ask};
use daemon::error::Error;
use daemon::options::{Bytes, Pages};

use crate::args::{Reclaim, Who, Whose};
use crate::failure::Failure;
use crate::view::count;

use super::ask::{LONG, Whole, of_tenant, unexpected, whose, whose_manager};

pub(super) fn reclaim(args: &Reclaim) -> Result<u8, Failure> {
    let (told, what) = args.plan()?;
    if let Some(Who::Tenant(path)) = &told.who {
        let answer = of_tenant(&args.tree, path, TenantAsk::Reclaim(what), LONG)?;
        let Response::Reclaimed(done) = answer else {
            return Err(unexpected());
        };
        let written = print(&done, args.json);
        return ended(short(&format!("tenant {path}"), what, &done), written);
    }
    let (done, name) = page_out(&whose(&told), what)?;
    let written = print(&done, args.json);
    ended(short(&name, what, &done), written)
}

/// Pages out by the manager of a target, or by one for this alone; what left, and the target's name.
pub(super) fn page_out(whose: &Whose, what: Ask) -> Result<(Done, String), Failure> {
    match whose_manager(whose)? {
        Whole::Managed(managed) => match ask(&managed.tenant, &Request::Reclaim { what }, LONG)? {
            Response::Reclaimed(done) => Ok((done, managed.tenant.to_string())),
            _ => Err(unexpected()),
        },
        Whole::Alone(chosen) => {
            let name = chosen.tenant.to_string();
            let done = daemon::reclaim::alone(chosen, what, &mut |line| {
                // Progress: no result, and no failure when nobody reads it.
                let _ = writeln!(std::io::stderr(), "{line}");
            })?;
            Ok((done, name))
        }
    }
}

/// What failed is told even if nobody reads what was done.
fn ended(failed: Option<Failure>, written: Result<(), Failure>) -> Result<u8, Failure> {
    match failed {
        Some(failed) => Err(failed),
        None => written.map(|()| 0),
    }
}

fn print(done: &Done, json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", crate::view::text::json_line(done))?;
        return Ok(());
    }
    let (did, pages) = match done.would_pages {
        0 => ("put out", done.evicted_pages),
        would => ("its manager only tries (--dry-run): would put out", would),
    };
    writeln!(
        out,
        "{did} {} ({} pages)",
        Pages(pages).bytes(),
        count(pages)
    )?;
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

/// What stayed, by reason.
pub(super) fn stayed(done: &Done) -> String {
    // Whose accesses leave no trace for us counts as accessed.
    let in_use = match done.unknown_pages {
        0 => "accessed meanwhile",
        _ => "accessed meanwhile or of unknown age",
    };
    let kept = [
        ("mapped more than once", done.shared_pages),
        ("locked", done.locked_pages),
        ("given back by the program", done.lazyfree_pages),
        (in_use, done.referenced_pages),
        ("in use by the kernel", done.busy_pages),
    ];
    let kept = kept.into_iter().filter(|(_, pages)| *pages > 0);
    let words: Vec<String> = kept
        .map(|(why, pages)| format!("{} {why}", Pages(pages).bytes()))
        .collect();
    words.join(", ")
}

/// The failure, if less left than was asked for (as memory.reclaim has it).
pub(super) fn short(name: &str, what: Ask, done: &Done) -> Option<Failure> {
    let pages = done.evicted_pages + done.would_pages;
    let out = Pages(pages).bytes();
    if let Some(why) = &done.refused {
        let what = format!("cannot page out memory of {name}: the kernel refuses: {why}");
        return Some(Failure::from(Error::missing(
            what,
            "run as root, or give pagetide's file CAP_SYS_NICE: `pagetide doctor` says how",
        )));
    }
    // Pages of files may have made up for what had no room.
    let is_met = matches!(what, Ask::Bytes(_)) && pages >= done.asked_pages;
    if done.no_swap && !is_met {
        let what = format!("cannot reclaim more of {name}: swap is full; {out} went out before");
        return Some(Failure::new(what, "make more room: `pagetide swap status`"));
    }
    match what {
        // By who did it: of a tenant a part of a page is left out, as memory.reclaim does. (The story: of 4096 sizes 4095 ended with 1.)
        Ask::Bytes(bytes) if pages < done.asked_pages => Some(Failure::new(
            format!(
                "cannot reclaim all of {} from {name}: {out} could leave",
                Bytes(bytes)
            ),
            "what is in use or pinned stays; `--all` takes what can leave",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_asked_for_is_a_failure() {
        let done = Done {
            asked_pages: 256,
            evicted_pages: 256,
            locked_pages: 1,
            ..Done::default()
        };
        assert!(short("pid 5", Ask::Bytes(1 << 20), &done).is_none());
        // A part of a page nobody can put out: a tenant was not asked for it.
        assert!(short("tenant /a", Ask::Bytes((1 << 20) + 1), &done).is_none());
        let more = Done {
            asked_pages: 512,
            ..done.clone()
        };
        let told = format!("{:?}", short("pid 5", Ask::Bytes(2 << 20), &more));
        assert!(told.contains("cannot reclaim all of 2 MiB from pid 5: 1 MiB could leave"));
        assert!(short("pid 5", Ask::All, &done).is_none());
        assert_eq!(stayed(&done), "4 KiB locked");
        let mut unseen = Done {
            referenced_pages: 2,
            ..Done::default()
        };
        assert_eq!(stayed(&unseen), "8 KiB accessed meanwhile");
        // Beside another pagetide nobody knows, and it is not said that they were accessed.
        unseen.unknown_pages = 2;
        assert_eq!(
            stayed(&unseen),
            "8 KiB accessed meanwhile or of unknown age"
        );
        let full = Done {
            no_swap: true,
            ..done
        };
        let told = format!("{:?}", short("pid 5", Ask::All, &full));
        assert!(
            told.contains("swap is full; 1 MiB went out before"),
            "{told}"
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
        let told = format!("{:?}", short("pid 5", Ask::All, &refused));
        assert!(told.contains("CAP_SYS_NICE"), "{told}");
    }
}
