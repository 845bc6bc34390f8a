//! A report, from all that is known after a round.
//!
//! Invariant: nothing is read here that a look could have read; what the kernel says of the same
//! processes is asked for here, and rarely ([`super::kernel_sums`]).

use engine::Millis;

use super::bins::Bins;
use super::people::Person;
use super::{Watch, group, kernel_sums, source};
use crate::ages::{Hidden, Space};
use crate::report::{Ended, KernelSays, Overhead, Process, Reaccess, Report, Unknown};
use crate::system::Identity;
use crate::system::family::Target;
use crate::system::own_cpu;

const PAGE: u64 = 4096;

impl Watch {
    /// Everything until now.
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
        // Who waits for it waits for all of them: the first process may end long before its workers.
        report.exit = self.exit.filter(|_| self.finished);
        report.ended = self.ended();
        report.overhead = self.overhead();
        self.add_notes(&mut report);
        report
    }

    /// Sizes and ages of some of the processes: the kernel is asked nothing.
    #[must_use]
    pub fn report_of(&self, name: String, who: &mut dyn Iterator<Item = Identity>) -> Report {
        let mut report = self.begun();
        self.fill_processes(&mut report, who);
        report.command = name;
        report.resident_peak_bytes = report.resident_bytes;
        report.overhead = self.overhead();
        report
    }

    /// What a report of any of the processes begins with.
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

    /// After a look. (The story: only reports were counted, and a manager's last one told a peak of 5 MiB of a program
    /// that had had 66, which had left by then.)
    pub(super) fn note_peak(&mut self) {
        let spaces = self.members.iter().filter_map(|one| self.ages.space(*one));
        let resident: u64 = spaces.map(|space| self.ages.resident(space.owner)).sum();
        self.peak_bytes = self.peak_bytes.max(resident * PAGE);
    }

    /// The target has become another program: how large it was before is not told of it. (The story: `sleep` had a peak of 7 MiB, which was pagetide's.)
    pub fn forget_peaks(&mut self) {
        self.peak_bytes = 0;
        self.family.forget_peaks();
    }

    /// What a reader should know.
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
        if self.ages.source().company() > 0 {
            report.notes.push(COMPANY.to_owned());
        }
        let scanned = self.proc.vmstat().unwrap_or_default().scanned;
        if scanned != self.vmstat.scanned {
            let pages = scanned.saturating_sub(self.vmstat.scanned);
            report.notes.push(format!(
                "the kernel's reclaim looked at {pages} pages of this host meanwhile and cleared their \
                 accessed bits: those of them that are watched may look older than they are"
            ));
        }
        if self.events.is_some() && !self.family.ended().by_events {
            report.notes.push("some of the kernel's events of forks and exits were lost: processes that lived between two looks may be missing".to_owned());
        }
        let missed = self.family.maybe_missed();
        if missed > 0 {
            report.notes.push(format!(
                "left out: {} that lost their parents between two looks and may be descendants",
                processes(missed)
            ));
        }
    }

    /// Processes that were within an exec at the last look, so that nothing of them could be read.
    pub fn in_exec(&self) -> impl Iterator<Item = u32> {
        self.family.locked()
    }

    /// A note that names them; none if there are none.
    #[must_use]
    pub fn note_in_exec(&self, pids: &mut dyn Iterator<Item = u32>) -> Option<String> {
        let name = |pid| self.proc.name(pid).ok().flatten().unwrap_or_default();
        let all: Vec<String> = pids.map(|pid| format!("{pid} [{}]", name(pid))).collect();
        named_note(
            "within an exec that does not end (waits for a file server?), and left out",
            &all,
        )
    }

    /// Processes, their sums, and the histogram.
    fn fill_processes(&self, report: &mut Report, who: &mut dyn Iterator<Item = Identity>) {
        let mut bins = Bins::new(self.ages.nodes().len(), self.ended_ms, self.ended_ms);
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
                mapped_bytes: found.present * PAGE,
                swapped_bytes: found.swapped * PAGE,
                ..Process::default()
            };
            bins.add(&self.ages, space.owner, &mut process);
            if process.unknown_age_bytes > 0 {
                // A page may be unknown because of another process that maps it, too.
                let why = space.why_unknown().unwrap_or(Hidden::Shared);
                add_unknown(&mut unknown, why, process.unknown_age_bytes);
            }
            report.resident_bytes += process.resident_bytes;
            report.unknown_age_bytes += process.unknown_age_bytes;
            report.swapped_bytes += process.swapped_bytes;
            report.hugetlb_bytes += found.hugetlb * PAGE;
            unsure += found.unsure;
            report.processes.push(process);
        }
        report.page_age = bins.finish(self.ages.nodes());
        report
            .processes
            .sort_by_key(|process| std::cmp::Reverse((process.resident_bytes, process.pid)));
        report.unknown_because = in_words(unknown);
        report.notes.extend(named_note(
            "memory is locked (waits for a file server?), and ages of what is used are not known",
            &locked,
        ));
        report.notes.extend(named_note(LATE, &late));
        (report.evicted_pages, report.refaulted_pages) = self.paged();
        if unsure > 0 {
            let bytes = unsure * PAGE;
            report.notes.push(format!("{bytes} bytes of tables changed while they were read, and are left out of this look"));
        }
    }

    /// Whether a member's memory was locked at the last look.
    fn is_locked(&self, identity: Identity) -> bool {
        let space = self.ages.space(identity);
        self.locked.contains(&identity) || space.is_some_and(Space::is_locked)
    }

    /// Why nothing of a member was read yet; none if that is not known.
    fn why_unread(&self, identity: Identity) -> Option<Hidden> {
        let is_late = self.shared.postponed.contains(&identity);
        let is_locked = self.locked.contains(&identity);
        is_late
            .then_some(Hidden::Late)
            .or(is_locked.then_some(Hidden::Locked))
    }

    /// A process of which nothing could be read: all of it is of unknown age.
    fn unread(&self, identity: Identity, person: &Person) -> Process {
        let resident = self.proc.resident(identity.pid).ok().flatten();
        let bytes = resident.unwrap_or(0) * PAGE;
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

    /// Pages that went to swap and came back: of the host, by the kernel's count; of a part of it, by what
    /// more is in swap and by faults that needed reading, which the host's count bounds.
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

    /// What the kernel says of the same.
    fn fill_kernel(&mut self, report: &mut Report) {
        let groups = self.groups.as_ref();
        let own = match (&self.settings.target, groups) {
            (Target::Descendants(pid), Some(groups)) => {
                group::own(groups, &self.proc, *pid, &self.members)
            }
            _ => self.group.clone(),
        };
        let own = groups.zip(own.as_ref());
        if let Some((groups, group)) = own {
            group::fill(report, groups, group);
        }
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
        report.kernel_says = KernelSays {
            pss_bytes: sums.map(|sums| sums.pss),
            swap_pss_bytes: sums.map(|sums| sums.swap_pss),
            shared_bytes: sums.map(|sums| sums.shared),
            asked_ms_ago: self.kernel.age_ms(),
            pressure_some_avg10: group::pressure(&self.proc, own),
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
            memory_bytes: self.ages.books().memory_bytes() as u64,
        }
    }
}

/// Processes whose memory is locked that a note names.
const LOCKED_NAMED: usize = 5;

/// A note that names processes of which something is said; none if there are none.
fn named_note(what: &str, all: &[String]) -> Option<String> {
    let named = &all[..all.len().min(LOCKED_NAMED)];
    let more = match all.len() - named.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!all.is_empty()).then(|| format!("{what}: {}{more}", named.join(", ")))
}

/// Why ages are not known, the most bytes first.
fn in_words(unknown: Vec<(Hidden, u64)>) -> Vec<Unknown> {
    let told = unknown.into_iter().map(|(why, bytes)| Unknown {
        reason: why.words(),
        bytes,
    });
    let mut told: Vec<Unknown> = told.collect();
    told.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    told
}

/// Adds bytes of unknown age to those of the same reason.
fn add_unknown(unknown: &mut Vec<(Hidden, u64)>, why: Hidden, bytes: u64) {
    match unknown.iter_mut().find(|(known, _)| known.is_like(&why)) {
        Some((known, of_reason)) => {
            *known = why.max(*known);
            *of_reason += bytes;
        }
        None => unknown.push((why, bytes)),
    }
}

/// What is said of processes that were not read in the last look.
const LATE: &str = "scans cost more than their share of what all scans may take, so they are rarer, and ages are as of the last one";

const COMPANY: &str = "something else on this host clears accessed bits (DAMON, idle-page tracking); what it \
    took is seen by the folios' young marks, but for parts of large folios, whose ages are unknown";

/// The promotion histogram, under the edges of the report's bins.
fn reaccessed(watch: &Watch) -> Vec<Reaccess> {
    let mut found: Vec<Reaccess> = Vec::new();
    for (age_ms, pages) in watch.ages.books().reaccessed() {
        let older_than_ms = super::bins::edge_of(age_ms);
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
