//! Working-set reports of tenants and nodes: their settings and their texts.
//!
//! spec: workingset-report.md 2, 3.
//!
//! Invariant: a node's report is made again only when its refresh interval has passed; until then
//! all readers get the same text. Each node has bins of its own; a change of them applies from the
//! node's next report on. Ages are exact: they come from page tables, not from generations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use engine::Millis;
use engine::memcg::MemcgId;
use engine::workingset_report::Bins;
use engine::workingset_report::files::{
    FileError, parse_intervals, parse_millis, parse_node_millis, print_intervals, print_millis,
    print_node_millis,
};
use fuser::PollNotifier;
use host::manage::tenants::{NodeAges, Tenants};
use rustix::io::Errno;

/// Ticks a second: intervals are rounded to whole ticks.
const HZ: u32 = 1000;
/// Upper edge of the last bin, in milliseconds.
const EDGE_MAX: u64 = u64::MAX;

/// Report settings of one tenant; the root's reports are about all tenants together.
#[derive(Debug, Default)]
struct ReportSettings {
    /// Refresh interval by the node's index; 0 for no reports.
    refresh: Vec<Millis>,
    threshold: Vec<Millis>,
    /// The last report of each node that has reports, by the node's index, with the time when it
    /// was made.
    last: BTreeMap<usize, (u64, NodeAges)>,
    /// Number of pressure notifications so far that were sent to clients that poll page_age.
    reported: u64,
    /// Time of the last reclaim for lack of memory; `None` if the clients have been notified of it.
    reclaimed_at: Option<u64>,
    /// Clients that wait for a pressure notification (poll(2) on page_age), by the handle of the
    /// open file.
    waiting: BTreeMap<u64, PollNotifier>,
}

impl ReportSettings {
    /// Makes all waiting clients poll again.
    fn wake(&mut self) {
        for (_, notifier) in std::mem::take(&mut self.waiting) {
            // This fails if the client has closed the file; then no client needs it.
            let _ = notifier.notify();
        }
    }
}

/// The report settings of all tenants.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Bins by the node's index; a node without an entry has no edges.
    bins: Vec<Bins>,
    by_serial: BTreeMap<u64, ReportSettings>,
}

/// A setting that a tenant's reports have for each node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    Refresh,
    Threshold,
}

/// The settings, with their names in the notes for the next manager.
const SETTINGS: [(Setting, &str); 2] = [
    (Setting::Refresh, "refresh_interval"),
    (Setting::Threshold, "report_threshold"),
];
const INTERVALS: &str = "page_age_intervals";

/// Which memory a report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    All,
    /// Only unmapped page cache, the age of which is an estimate.
    Estimated,
}

impl ReportSettings {
    fn is_on(&self, index: usize) -> bool {
        self.refresh.get(index).is_some_and(|one| *one != Millis(0))
    }

    /// Returns the least time between two notifications for a node's report; `None` if there are
    /// none.
    fn threshold_of(&self, index: usize) -> Option<Millis> {
        let threshold = self.threshold.get(index).copied();
        threshold.filter(|one| *one != Millis(0) && self.is_on(index))
    }

    /// Returns the time at which the clients must be notified of the last reclaim. `None` if they
    /// have been notified, if no notifications are enabled, or if all reports are younger than the
    /// reclaim.
    fn notified_at(&self) -> Option<u64> {
        let reclaimed_at = self.reclaimed_at?;
        let at = |index: usize| {
            let taken = self.last.get(&index).map_or(0, |(taken, _)| *taken);
            let threshold = self.threshold_of(index).filter(|_| taken <= reclaimed_at)?;
            Some(taken.saturating_add(threshold.0))
        };
        (0..self.threshold.len()).filter_map(at).min()
    }
}

impl Reports {
    /// Returns the text of a node's file `page_age_intervals`, by the node's index.
    pub(super) fn intervals(&self, index: usize) -> String {
        print_intervals(self.bins.get(index).unwrap_or(&Bins::default()))
    }

    pub(super) fn set_intervals(&mut self, index: usize, text: &str) -> Result<(), Errno> {
        let bins = parse_intervals(text, HZ).map_err(errno)?;
        if self.bins.len() <= index {
            self.bins.resize_with(index + 1, Bins::default);
        }
        self.bins[index] = bins;
        Ok(())
    }

    /// Returns the largest size in bytes of a report about this number of nodes.
    pub(super) fn at_most(&self, nodes: usize) -> usize {
        let lines = |index: usize| 2 + self.bins.get(index).map_or(0, |bins| bins.edges().len());
        (0..nodes).map(lines).sum::<usize>() * LINE_MAX
    }

    /// Returns the text of a tenant's setting, for all nodes or for one.
    pub(super) fn print(
        &self,
        serial: u64,
        which: Setting,
        nodes: &[u32],
        index: Option<usize>,
    ) -> String {
        let found = self.by_serial.get(&serial);
        let values = found.map(|settings| match which {
            Setting::Refresh => &settings.refresh,
            Setting::Threshold => &settings.threshold,
        });
        let value = |index: usize| {
            let value = values.and_then(|values| values.get(index));
            value.copied().unwrap_or(Millis(0))
        };
        match index {
            Some(index) => print_millis(value(index)),
            None => print_node_millis(
                (0..)
                    .map(value)
                    .zip(nodes)
                    .map(|(value, node)| (*node, value)),
            ),
        }
    }

    pub(super) fn set(
        &mut self,
        serial: u64,
        which: Setting,
        nodes: &[u32],
        (index, text): (Option<usize>, &str),
    ) -> Result<(), Errno> {
        let (index, value) = match index {
            Some(index) => (index, parse_millis(text).map_err(errno)?),
            None => parse_node_millis(text, nodes).map_err(errno)?,
        };
        let settings = self.by_serial.entry(serial).or_default();
        let values = match which {
            Setting::Refresh => &mut settings.refresh,
            Setting::Threshold => &mut settings.threshold,
        };
        values.resize(nodes.len().max(index + 1), Millis(0));
        values[index] = value;
        if !settings.is_on(index) {
            settings.last.remove(&index);
        }
        Ok(())
    }

    /// Returns a tenant's settings as text for the next manager: a line for each setting, with its
    /// name and its value of each node. For the root also the bins of all nodes. Empty if all
    /// settings have their defaults.
    pub(super) fn noted(&self, serial: u64, nodes: &[u32]) -> String {
        let text = self.all_of(serial, nodes);
        let is_requested = text != Reports::default().all_of(serial, nodes);
        if is_requested { text } else { String::new() }
    }

    fn all_of(&self, serial: u64, nodes: &[u32]) -> String {
        let mut text = String::new();
        for (which, name) in SETTINGS {
            let _ = write!(text, "{name} {}", self.print(serial, which, nodes, None));
        }
        if serial == 0 {
            text.push_str(INTERVALS);
            for (index, node) in (0..).zip(nodes) {
                let _ = write!(text, " N{node}={}", self.intervals(index).trim_end());
            }
        }
        text
    }

    /// Restores settings from the text of [`Reports::noted`]. Skips nodes that do not exist any
    /// more, and lines that cannot be parsed.
    pub(super) fn restore_noted(&mut self, serial: u64, nodes: &[u32], noted: &str) {
        for line in noted.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next() else {
                continue;
            };
            let setting = SETTINGS.iter().find(|(_, known)| *known == name);
            for word in words {
                match setting {
                    Some((which, _)) => {
                        let _ = self.set(serial, *which, nodes, (None, word));
                    }
                    None if name == INTERVALS => {
                        let _ = self.take_up_intervals(nodes, word);
                    }
                    None => {}
                }
            }
        }
    }

    fn take_up_intervals(&mut self, nodes: &[u32], word: &str) -> Option<()> {
        let (node, edges) = word.strip_prefix('N')?.split_once('=')?;
        let node: u32 = node.parse().ok()?;
        let index = nodes.iter().position(|known| *known == node)?;
        // A line without edges means that the node has no intervals.
        self.set_intervals(index, &format!("{edges}\n")).ok()
    }

    /// Returns the text of a tenant's page_age: for one node, or for all nodes that have a refresh
    /// interval; `part` chooses all memory or only the estimated part.
    pub(super) fn page_age(
        &mut self,
        tenants: &mut Tenants,
        (memcg, serial): (MemcgId, u64),
        (index, part): (Option<usize>, Part),
    ) -> Result<String, Errno> {
        let Reports { bins, by_serial } = self;
        let Some(settings) = by_serial.get_mut(&serial) else {
            return Ok(String::new());
        };
        let now = tenants.elapsed_ms();
        let is_requested =
            |one: usize| settings.is_on(one) && index.is_none_or(|requested| requested == one);
        let requested: Vec<usize> = (0..tenants.nodes().len())
            .filter(|one| is_requested(*one))
            .collect();
        let is_due = |one: &usize| {
            let last = settings.last.get(one);
            last.is_none_or(|(then, _)| now >= then + settings.refresh[*one].0)
        };
        let due: Vec<usize> = requested.iter().copied().filter(is_due).collect();
        if !due.is_empty() {
            let edges = bins
                .iter()
                .map(|bins| bins.edges().iter().map(|edge| edge.0).collect());
            let found = tenants.page_age(memcg, &edges.collect::<Vec<Vec<u64>>>())?;
            let found = found.nodes.into_iter().enumerate();
            let found = found.filter(|(one, _)| due.contains(one));
            settings
                .last
                .extend(found.map(|(one, ages)| (one, (now, ages))));
        }
        let mut text = String::new();
        for (_, ages) in requested.iter().filter_map(|one| settings.last.get(one)) {
            print(&mut text, ages, part, index.is_none());
        }
        Ok(text)
    }

    /// Returns the shortest refresh interval of all reports; `None` if there are no reports.
    pub(super) fn shortest(&self) -> Option<Duration> {
        let all = self.by_serial.values().flat_map(|one| &one.refresh);
        let shortest = all.filter(|one| **one != Millis(0)).min()?;
        Some(Duration::from_millis(shortest.0))
    }

    /// Whether a tenant has a report for any node.
    pub(super) fn is_on(&self, serial: u64) -> bool {
        let found = self.by_serial.get(&serial);
        found.is_some_and(|one| (0..one.refresh.len()).any(|index| one.is_on(index)))
    }

    /// Registers `notifier`, to be woken by the next pressure notification of a tenant's page_age.
    /// Returns the number of notifications so far.
    pub(super) fn wait(&mut self, serial: u64, handle: u64, notifier: PollNotifier) -> u64 {
        let settings = self.by_serial.entry(serial).or_default();
        settings.waiting.insert(handle, notifier);
        settings.reported
    }

    /// Forgets a client when its file is closed.
    pub(super) fn wait_no_more(&mut self, serial: u64, handle: u64) {
        if let Some(settings) = self.by_serial.get_mut(&serial) {
            settings.waiting.remove(&handle);
        }
    }

    /// Returns the number of pressure notifications of a tenant so far, for a client that reads
    /// now.
    pub(super) fn reported(&self, serial: u64) -> u64 {
        self.by_serial
            .get(&serial)
            .map_or(0, |settings| settings.reported)
    }

    /// Whether clients of a tenant's report can be notified of pressure.
    pub(super) fn can_notify(&self, serial: u64) -> bool {
        let found = self.by_serial.get(&serial);
        found.is_some_and(|one| (0..one.threshold.len()).any(|at| one.threshold_of(at).is_some()))
    }

    /// Notes that memory of a tenant was reclaimed for lack of memory, for
    /// [`Reports::notify_pressure`].
    pub(super) fn note_reclaim(&mut self, serial: u64, now: u64) {
        if let Some(settings) = self.by_serial.get_mut(&serial) {
            settings.reclaimed_at = Some(now);
        }
    }

    /// Sends the pending pressure notifications: of tenants from which memory was reclaimed since
    /// their last report, if that report is older than the threshold by now. Returns the time until
    /// the next call; `None` if no notification is pending.
    ///
    /// spec: workingset-report.md 5.
    pub(super) fn notify_pressure(&mut self, now: u64) -> Option<Duration> {
        let mut next: Option<u64> = None;
        for settings in self.by_serial.values_mut() {
            match settings.notified_at() {
                Some(at) if at > now => next = Some(next.map_or(at, |next| next.min(at))),
                Some(_) => {
                    settings.reclaimed_at = None;
                    settings.reported += 1;
                    settings.wake();
                }
                None => settings.reclaimed_at = None,
            }
        }
        next.map(|at| Duration::from_millis(at - now))
    }

    /// Forgets the settings of tenants for which `is_there` is false, and wakes the clients that
    /// wait for their reports.
    pub(super) fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.by_serial.retain(|serial, settings| {
            let stays = is_there(*serial);
            if !stays {
                settings.wake();
            }
            stays
        });
    }
}

/// Longest line of a report in bytes: three numbers of at most twenty digits, the names of two of
/// them, and the line end.
const LINE_MAX: usize = 20 + " anon=".len() + 20 + " file=".len() + 20 + 1;

/// Appends a node's lines, after a line with the node's name if `is_named`.
fn print(text: &mut String, ages: &NodeAges, part: Part, is_named: bool) {
    if is_named {
        let _ = writeln!(text, "N{}", ages.number);
    }
    let edges = ages.edges.iter().copied().chain([EDGE_MAX]);
    for ((edge, [anon, file]), estimated) in edges.zip(&ages.bytes).zip(&ages.estimated) {
        let _ = match part {
            Part::All => writeln!(text, "{edge} anon={anon} file={file}"),
            Part::Estimated => writeln!(text, "{edge} file={estimated}"),
        };
    }
}

fn errno(error: FileError) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: for any number of nodes, stat(2) reported one page as the size of an estimated
    /// report and of memory.numa_stat. Their text may be longer, and sendfile(2) reads no further
    /// than that size.
    #[test]
    fn a_report_is_no_longer_than_its_bound() {
        let mut reports = Reports::default();
        let edges: Vec<String> = (0..31).map(|at| (u32::MAX - 31 + at).to_string()).collect();
        for index in 0..64 {
            let set = reports.set_intervals(index, &edges.join(","));
            assert_eq!(
                (set, reports.intervals(index)),
                (Ok(()), edges.join(",") + "\n")
            );
        }
        for part in [Part::All, Part::Estimated] {
            let mut text = String::new();
            for number in (0..64).map(|at| u32::MAX - at) {
                let ages = NodeAges {
                    number,
                    edges: vec![u64::MAX; 31],
                    bytes: vec![[u64::MAX; 2]; 32],
                    estimated: vec![u64::MAX; 32],
                };
                print(&mut text, &ages, part, true);
            }
            assert!(text.len() <= reports.at_most(64), "{} bytes", text.len());
            assert!(text.len() > 4096);
        }
    }

    /// Regression: after a service manager had restarted a killed `serve`, an agent on the same
    /// host read empty reports, without an error.
    #[test]
    fn noted_settings_are_restored() {
        let nodes = [0, 2];
        let (mut reports, mut next) = (Reports::default(), Reports::default());
        for (which, text) in [
            (Setting::Refresh, "N0=500"),
            (Setting::Threshold, "N2=2500"),
        ] {
            assert_eq!(reports.set(7, which, &nodes, (None, text)), Ok(()));
            assert_eq!(reports.set(0, which, &nodes, (Some(1), "10")), Ok(()));
        }
        assert_eq!(reports.set_intervals(1, "1000,2000"), Ok(()));
        for serial in [0, 7, 8] {
            let noted = reports.noted(serial, &nodes);
            next.restore_noted(serial, &nodes, &noted);
            assert_eq!(next.noted(serial, &nodes), noted);
        }
        assert!(next.is_on(0) && next.is_on(7) && !next.is_on(8));
        assert_eq!(next.intervals(0), "\n");
        assert_eq!(next.intervals(1), "1000,2000\n");
        // Settings of a node that is gone, and invalid lines, are dropped.
        let mut other = Reports::default();
        other.restore_noted(7, &[0], &reports.noted(7, &nodes));
        other.restore_noted(0, &[0], &reports.noted(0, &nodes));
        other.restore_noted(
            9,
            &[0],
            "x N0=1\nrefresh_interval N0= =1 N 5\n\npage_age_intervals N0",
        );
        assert_eq!(other.print(7, Setting::Refresh, &[0], None), "N0=500 \n");
        assert!(!other.is_on(0) && !other.is_on(9));
        assert_eq!(other.intervals(0), "\n");
    }

    /// Regression: if memory was reclaimed sooner than the threshold after a report, its clients
    /// were not notified, unless more was reclaimed later. workingset-report.md 11, test 10.
    #[test]
    fn a_reclaim_is_notified_once_and_never_before_the_threshold() {
        let mut reports = Reports::default();
        let taken = |reports: &mut Reports, at: u64| {
            let ages = NodeAges {
                number: 0,
                edges: Vec::new(),
                bytes: Vec::new(),
                estimated: Vec::new(),
            };
            let settings = reports.by_serial.get_mut(&7).expect("it has settings");
            settings.last.insert(0, (at, ages));
        };
        let nodes = [0];
        let mut set = |which, text| reports.set(7, which, &nodes, (None, text));
        assert_eq!(set(Setting::Refresh, "N0=100"), Ok(()));
        taken(&mut reports, 1000);
        // Without a threshold there are no notifications.
        reports.note_reclaim(7, 9000);
        assert!(!reports.can_notify(7));
        assert_eq!(
            (reports.notify_pressure(9000), reports.reported(7)),
            (None, 0)
        );
        let set = reports.set(7, Setting::Threshold, &nodes, (None, "N0=2000"));
        assert!(set.is_ok() && reports.can_notify(7));
        assert_eq!(
            (reports.notify_pressure(9000), reports.reported(7)),
            (None, 0)
        );
        let left = |millis| Some(Duration::from_millis(millis));
        reports.note_reclaim(7, 1200);
        assert_eq!(
            (reports.notify_pressure(2999), reports.reported(7)),
            (left(1), 0)
        );
        assert_eq!(
            (reports.notify_pressure(3000), reports.reported(7)),
            (None, 1)
        );
        assert_eq!(
            (reports.notify_pressure(9000), reports.reported(7)),
            (None, 1)
        );
        // A report that is younger than the reclaim already shows its effect, so no notification is
        // sent.
        reports.note_reclaim(7, 9100);
        taken(&mut reports, 9200);
        assert_eq!(
            (reports.notify_pressure(99_000), reports.reported(7)),
            (None, 1)
        );
        // A tenant without settings has no clients.
        reports.note_reclaim(8, 9300);
        assert_eq!(reports.notify_pressure(99_000), None);
    }

    #[test]
    fn settings_are_of_one_node() {
        let (mut reports, nodes) = (Reports::default(), [0, 2]);
        let set = |reports: &mut Reports, index, text| {
            reports.set(7, Setting::Refresh, &nodes, (index, text))
        };
        assert_eq!(set(&mut reports, None, "N2=500"), Ok(()));
        assert_eq!(set(&mut reports, None, "N1=500"), Err(Errno::INVAL));
        assert_eq!(
            reports.print(7, Setting::Refresh, &nodes, None),
            "N0=0 N2=500 \n"
        );
        assert_eq!(reports.print(7, Setting::Refresh, &nodes, Some(1)), "500\n");
        assert!(reports.is_on(7));
        assert_eq!(set(&mut reports, Some(1), "0"), Ok(()));
        assert!(!reports.is_on(7));
        assert_eq!(reports.set_intervals(1, "10,20"), Ok(()));
        assert_eq!(
            (reports.intervals(0), reports.intervals(1)),
            ("\n".into(), "10,20\n".into())
        );
    }
}
