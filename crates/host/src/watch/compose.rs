//! Makes a report from everything that is known after a scan.
//!
//! Invariant: this module reads nothing that a scan could have read. It reads only the kernel's own
//! figures for the same processes, and rarely ([`super::kernel_sums`]).

use engine::units::PAGE_SIZE;
use engine::{Bytes, Millis, age_bins};

use super::bins::Bins;
use super::process_names::ProcessName;
use super::{Watch, group, kernel_sums, source};
use crate::ages::{Hidden, Space};
use crate::report::{Ended, KernelSays, Overhead, Process, Reaccess, Report, Unknown};
use crate::swap::Swap;
use crate::system::Identity;
use crate::system::family::Target;
use crate::system::own_cpu;

impl Watch {
    /// Returns a report as of the last completed scan.
    #[must_use]
    pub fn report(&mut self) -> Report {
        let mut report = self.begun();
        if let Target::Descendants(pid) = self.settings.target {
            report.pid = Some(pid);
        }
        self.fill_processes(&mut report, &mut self.members.iter().copied());
        if let Target::Descendants(pid) = self.settings.target
            && let Some(first) = report.processes.iter().find(|process| process.pid == pid)
        {
            self.command.clone_from(&first.command);
        }
        report.command = match self.command.is_empty() {
            true => self.name(),
            false => self.command.clone(),
        };
        report.resident_peak_bytes = self.peak_bytes.max(report.resident_bytes);
        self.fill_kernel(&mut report);
        report.reaccessed = reaccessed(self);
        // Callers take the exit code to mean that the target has ended. So it is reported only when
        // all processes have ended: the first process may end long before its workers.
        report.exit = self.exit.filter(|_| self.finished);
        report.ended = self.ended();
        report.overhead = self.overhead();
        self.add_notes(&mut report);
        report
    }

    /// Returns sizes and ages of the processes `who`, without reading anything from the kernel.
    #[must_use]
    pub fn report_of(&self, name: String, who: &mut dyn Iterator<Item = Identity>) -> Report {
        let mut report = self.begun();
        self.fill_processes(&mut report, who);
        report.command = name;
        report.resident_peak_bytes = report.resident_bytes;
        report.overhead = self.overhead();
        report
    }

    /// Returns a report with only those fields that do not depend on which processes are reported.
    fn begun(&self) -> Report {
        let (age_source, age_grain) = source::names(self.ages.source());
        Report {
            wall_ms: self.ended_ms,
            age_source,
            age_grain,
            interval_ms: self.interval_ms(),
            walks: self.rounds,
            notes: self.notes.clone(),
            ..Report::default()
        }
    }

    /// Updates the peak of resident memory. Called after each scan, because memory that made a peak
    /// may be freed before the next report.
    pub(super) fn note_peak(&mut self) {
        let spaces = self.members.iter().filter_map(|one| self.ages.space(*one));
        let resident: u64 = spaces.map(|space| self.ages.resident(space.owner)).sum();
        self.peak_bytes = self.peak_bytes.max(resident * PAGE_SIZE);
    }

    /// Forgets the peaks. Called after the target's exec: before the exec, the process was a copy
    /// of pagetide, and its size was not the target's.
    pub fn forget_peaks(&mut self) {
        self.peak_bytes = 0;
        self.family.forget_peaks();
    }

    /// Adds notes for the user to the report.
    fn add_notes(&self, report: &mut Report) {
        let (count, first) = &self.denied;
        let processes = |count: u64| {
            if count == 1 {
                "1 process".to_owned()
            } else {
                format!("{count} processes")
            }
        };
        if *count > 0 {
            report.notes.push(format!(
                "{} could not be read; the first: {first}",
                processes(*count)
            ));
        }
        let note = self.note_in_exec(&mut self.in_exec());
        report.notes.extend(note);
        if self.ages.source().foreign_clearer() > 0 {
            report.notes.push(FOREIGN_CLEARER.to_owned());
        }
        let scanned = self.proc.vmstat().unwrap_or_default().scanned;
        if scanned != self.vmstat.scanned {
            let pages = scanned.saturating_sub(self.vmstat.scanned);
            report.notes.push(format!(
                "the kernel's reclaim checked {pages} pages of this host meanwhile and cleared \
                 their accessed bits: watched pages among them may be younger than reported"
            ));
        }
        if self.events.is_some() && !self.family.ended().by_events {
            report.notes.push("some of the kernel's events of forks and exits were lost: processes that lived only between two scans may be missing".to_owned());
        }
        let missed = self.family.maybe_missed();
        if missed > 0 {
            report.notes.push(format!(
                "left out: {} that lost their parents between two scans and may be descendants",
                processes(missed)
            ));
        }
    }

    /// Returns the PIDs of processes that could not be read in the last scan because they were
    /// within an exec.
    pub fn in_exec(&self) -> impl Iterator<Item = u32> {
        self.family.locked()
    }

    /// Returns a note that names the processes `pids`, which are within an exec; `None` if there
    /// are none.
    #[must_use]
    pub fn note_in_exec(&self, pids: &mut dyn Iterator<Item = u32>) -> Option<String> {
        let name = |pid| self.proc.name(pid).ok().flatten().unwrap_or_default();
        let all: Vec<String> = pids.map(|pid| format!("{pid} [{}]", name(pid))).collect();
        named_note(
            "within an exec that does not end (waits for a file server?), and left out",
            &all,
        )
    }

    /// Fills in the processes `who`, their sums, and the histogram of their ages.
    fn fill_processes(&self, report: &mut Report, who: &mut dyn Iterator<Item = Identity>) {
        let mut bins = Bins::new(self.ages.nodes().all().len(), self.ended_ms, self.ended_ms);
        let mut unknown: Vec<(Hidden, u64)> = Vec::new();
        let (mut unsure, mut locked, mut late) = (0, Vec::new(), Vec::new());
        for identity in who {
            let Some(person) = self.people.get(identity) else {
                continue;
            };
            if self.is_locked(identity) {
                locked.push(format!("{} {}", identity.pid, person.command));
            }
            if self.shared.postponed.contains(&identity) {
                late.push(format!("{} {}", identity.pid, person.command));
            }
            let Some(space) = self.ages.space(identity) else {
                if let Some(why) = self.why_unread(identity) {
                    let process = self.unread(identity, person);
                    report.resident_bytes += process.resident_bytes;
                    report.unknown_age_bytes += process.unknown_age_bytes;
                    add_unknown(&mut unknown, why, process.unknown_age_bytes);
                    report.processes.push(process);
                }
                continue;
            };
            let found = space.found;
            let mut process = Process {
                pid: identity.pid,
                command: person.command.clone(),
                uid: person.uid,
                cgroup: person.cgroup.clone(),
                mapped_bytes: found.present * PAGE_SIZE,
                swapped_bytes: found.swapped * PAGE_SIZE,
                ..Process::default()
            };
            bins.add(&self.ages, space.owner, &mut process);
            if process.unknown_age_bytes > 0 {
                // If the process has no reason of its own, a process that shares its memory has
                // one.
                let why = space.why_unknown().unwrap_or(Hidden::Shared);
                add_unknown(&mut unknown, why, process.unknown_age_bytes);
            }
            report.resident_bytes += process.resident_bytes;
            report.unknown_age_bytes += process.unknown_age_bytes;
            report.swapped_bytes += process.swapped_bytes;
            report.hugetlb_bytes += found.hugetlb * PAGE_SIZE;
            unsure += found.unsure;
            report.processes.push(process);
        }
        report.page_age = bins.finish(self.ages.nodes().all());
        report
            .processes
            .sort_by_key(|process| std::cmp::Reverse((process.resident_bytes, process.pid)));
        report.unknown_because = in_words(unknown);
        report.notes.extend(named_note(
            "memory is locked (waits for a file server?), so the ages of its used pages are not known",
            &locked,
        ));
        report.notes.extend(named_note(LATE, &late));
        (report.evicted_pages, report.refaulted_pages) = self.paged();
        if unsure > 0 {
            let bytes = unsure * PAGE_SIZE;
            report.notes.push(format!("page tables that map {bytes} bytes changed while they were read, and are left out of this scan"));
        }
    }

    /// Returns whether the mmap_lock of a process was held at the last scan.
    fn is_locked(&self, identity: Identity) -> bool {
        let space = self.ages.space(identity);
        self.locked.contains(&identity) || space.is_some_and(Space::is_locked)
    }

    /// Returns why a process was never read; `None` if the reason is unknown.
    fn why_unread(&self, identity: Identity) -> Option<Hidden> {
        let is_late = self.shared.postponed.contains(&identity);
        let is_locked = self.locked.contains(&identity);
        let has_no_room = self.ages.unscanned_pages(identity).is_some();
        is_late
            .then_some(Hidden::Late)
            .or(has_no_room.then_some(Hidden::NoRoom))
            .or(is_locked.then_some(Hidden::Locked))
    }

    /// Returns the resident pages of a process that was never read; 0 for a process that was.
    #[must_use]
    pub fn unread_pages(&self, identity: Identity) -> u64 {
        if self.ages.space(identity).is_some() {
            return 0;
        }
        // The number as of the last scan. There may be thousands of such processes, too many to
        // read for each report.
        if let Some(pages) = self.ages.unscanned_pages(identity) {
            return pages;
        }
        if self.why_unread(identity).is_none() {
            return 0;
        }
        let resident = self.proc.resident(identity.pid).ok().flatten();
        resident.unwrap_or(0)
    }

    /// Returns the report's entry for a process that could not be read: all its memory has an
    /// unknown age.
    fn unread(&self, identity: Identity, person: &ProcessName) -> Process {
        let bytes = self.unread_pages(identity) * PAGE_SIZE;
        Process {
            pid: identity.pid,
            command: person.command.clone(),
            uid: person.uid,
            cgroup: person.cgroup.clone(),
            mapped_bytes: bytes,
            resident_bytes: bytes,
            unknown_age_bytes: bytes,
            ..Process::default()
        }
    }

    /// Returns the pages swapped out, then the pages refaulted, since the watch began. If the
    /// target is all processes, these are the kernel's counters. Otherwise the first is the growth
    /// of the target's swap plus its refaults, the second its major faults; each is at most the
    /// host's counter.
    fn paged(&self) -> (u64, u64) {
        let now = self.proc.vmstat().unwrap_or_default();
        let out = now.swapped_out.saturating_sub(self.vmstat.swapped_out);
        let back = now.swapped_in.saturating_sub(self.vmstat.swapped_in);
        if matches!(self.settings.target, Target::All) {
            return (out, back);
        }
        let (more, majors) = self.ages.swapped_pages();
        let back = majors.min(back);
        (back.saturating_add_signed(more).min(out), back)
    }

    /// Fills in the kernel's own figures for the same processes.
    fn fill_kernel(&mut self, report: &mut Report) {
        let groups = self.groups.as_ref();
        let own = match (&self.settings.target, groups) {
            (Target::Descendants(pid), Some(groups)) => {
                group::own(groups, &self.proc, *pid, &self.members)
            }
            _ => self.group.clone(),
        };
        let own = groups.zip(own.as_ref());
        let zswap = own.and_then(|(groups, group)| group::fill(report, groups, group));
        let member = |one: &Identity| {
            let (entries, at_most) = self.ages.lock_cost(*one);
            kernel_sums::Member {
                pid: one.pid,
                entries,
                at_most,
            }
        };
        let members: Vec<kernel_sums::Member> = self.members.iter().map(member).collect();
        self.kernel.ask(&members, &self.proc);
        report
            .notes
            .extend(self.kernel.unasked().map(str::to_owned));
        let sums = self.kernel.sums();
        report.swapped_bytes += sums.map_or(0, |sums| sums.shared_swap);
        report.secret_bytes = sums.map_or(0, |sums| sums.secret);
        if report.secret_bytes > 0 {
            let size = Bytes(report.secret_bytes);
            report.notes.push(format!(
                "{size} of secret memory (memfd_secret) are resident, too: they have no ages and \
                 cannot be swapped out"
            ));
        }
        report.device_bytes = sums.map_or(0, |sums| sums.device);
        report.pfn_bytes = sums.map_or(0, |sums| sums.pfn);
        report.set_charged_rest();
        report.set_saving(Swap::system().store(), zswap);
        let pressure = group::pressure(&self.proc, own);
        report.kernel_says = KernelSays {
            pss_bytes: sums.map(|sums| sums.pss),
            swap_pss_bytes: sums.map(|sums| sums.swap_pss),
            shared_bytes: sums.map(|sums| sums.shared),
            asked_ms_ago: self.kernel.age_ms(),
            pressure_some_avg10: pressure.map(|(hundredths, _)| hundredths),
            pressure_of: pressure.map(|(_, of)| of),
        };
    }

    fn ended(&self) -> Ended {
        let ended = self.family.ended();
        Ended {
            processes: ended.processes,
            unseen: ended.unseen,
            peak_resident_bytes: ended.peak_resident,
            counted_by_events: ended.by_events,
        }
    }

    fn overhead(&self) -> Overhead {
        let costs = self.ages.costs();
        let ms = |time: std::time::Duration| Millis::from(time).0;
        Overhead {
            cpu_ms: ms(own_cpu().saturating_sub(self.cpu_before)),
            walk_ms: ms(costs.reading),
            clear_ms: ms(costs.clear),
            clear_longest_us: u64::try_from(costs.clear_longest.as_micros()).unwrap_or(u64::MAX),
            page_out_ms: 0,
            memory_bytes: self.ages.age_table().memory_bytes() as u64,
        }
    }
}

/// Maximum number of processes that one note names.
const LOCKED_NAMED: usize = 5;

/// Returns a note that says `what` about the processes in `all`; `None` if there are none.
fn named_note(what: &str, all: &[String]) -> Option<String> {
    let named = &all[..all.len().min(LOCKED_NAMED)];
    let more = match all.len() - named.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!all.is_empty()).then(|| format!("{what}: {}{more}", named.join(", ")))
}

/// Returns the reasons for unknown ages in words, in descending order of their bytes.
fn in_words(unknown: Vec<(Hidden, u64)>) -> Vec<Unknown> {
    let reported = unknown.into_iter().map(|(why, bytes)| Unknown {
        reason: why.words(),
        bytes,
    });
    let mut reported: Vec<Unknown> = reported.collect();
    reported.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    reported
}

/// Adds bytes of unknown age to the entry for the same reason.
fn add_unknown(unknown: &mut Vec<(Hidden, u64)>, why: Hidden, bytes: u64) {
    match unknown.iter_mut().find(|(known, _)| known.is_like(&why)) {
        Some((known, of_reason)) => {
            *known = why.max(*known);
            *of_reason += bytes;
        }
        None => unknown.push((why, bytes)),
    }
}

/// Note for a report if some processes were postponed in the last scan.
const LATE: &str = "scans cost more than their share of the scan budget, so they are less frequent, and ages are as of the last one";

const FOREIGN_CLEARER: &str = "another tool on this host (DAMON, idle-page tracking) also clears \
    accessed bits; pagetide still sees what it cleared, except in parts of large folios, whose \
    ages are unknown";

/// Returns the promotion histogram: pages that were accessed again, by the age that they had
/// before. Its bins have the edges of the page-age histogram.
fn reaccessed(watch: &Watch) -> Vec<Reaccess> {
    let mut found: Vec<Reaccess> = Vec::new();
    for (age_ms, pages) in watch.ages.age_table().reaccessed() {
        let older_than_ms = age_bins::EDGES_MS[age_bins::bin(age_ms)];
        match found
            .last_mut()
            .filter(|last| last.older_than_ms == older_than_ms)
        {
            Some(last) => last.pages += pages,
            None => found.push(Reaccess {
                older_than_ms,
                pages,
            }),
        }
    }
    found
}
