//! Working-set reports of tenants and nodes: their settings and their texts. spec: workingset-report.md 2, 3.
//!
//! Invariant: a node's report is taken anew only when its refresh interval has passed since the last one; until then readers
//! see the same text. Each node has bins of its own, which count from its next report on. Ages are exact: they come from page
//! tables, not from generations.

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

/// Ticks of the clock that intervals are rounded to.
const HZ: u32 = 1000;
/// The last bin's edge.
const EDGE_MAX: u64 = u64::MAX;

/// Settings of one tenant, or of all (the root).
#[derive(Debug, Default)]
struct Settings {
    /// For each node, by its place; 0 for no reports.
    refresh: Vec<Millis>,
    threshold: Vec<Millis>,
    /// The last report of each that is on, and when it was taken.
    last: BTreeMap<usize, (u64, NodeAges)>,
    /// How often readers were told that there is pressure.
    told: u64,
    /// Who waits to be told (poll(2) on page_age), by the handle of the open file.
    waiting: BTreeMap<u64, PollNotifier>,
}

impl Settings {
    /// Whoever waits has to ask anew.
    fn wake(&mut self) {
        for (_, who) in std::mem::take(&mut self.waiting) {
            // It is closed already.
            let _ = who.notify();
        }
    }
}

/// All settings.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// By the node's place; of those behind the last, no edges.
    bins: Vec<Bins>,
    by_serial: BTreeMap<u64, Settings>,
}

/// Which setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    Refresh,
    Threshold,
}

/// Names of settings where they are noted.
const SETTINGS: [(Setting, &str); 2] = [
    (Setting::Refresh, "refresh_interval"),
    (Setting::Threshold, "report_threshold"),
];
const INTERVALS: &str = "page_age_intervals";

/// Which bytes of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    All,
    /// Those whose age no table tells.
    Estimated,
}

impl Settings {
    fn is_on(&self, place: usize) -> bool {
        self.refresh.get(place).is_some_and(|one| *one != Millis(0))
    }
}

impl Reports {
    /// `page_age_intervals` of a node.
    pub(super) fn intervals(&self, place: usize) -> String {
        print_intervals(self.bins.get(place).unwrap_or(&Bins::default()))
    }

    pub(super) fn set_intervals(&mut self, place: usize, text: &str) -> Result<(), Errno> {
        let bins = parse_intervals(text, HZ).map_err(errno)?;
        if self.bins.len() <= place {
            self.bins.resize_with(place + 1, Bins::default);
        }
        self.bins[place] = bins;
        Ok(())
    }

    /// The most bytes that a report of so many nodes has.
    pub(super) fn at_most(&self, nodes: usize) -> usize {
        let lines = |place: usize| 2 + self.bins.get(place).map_or(0, |bins| bins.edges().len());
        (0..nodes).map(lines).sum::<usize>() * LINE_MAX
    }

    /// A tenant's setting, all nodes or one.
    pub(super) fn print(
        &self,
        serial: u64,
        which: Setting,
        nodes: &[u32],
        place: Option<usize>,
    ) -> String {
        let found = self.by_serial.get(&serial);
        let values = found.map(|settings| match which {
            Setting::Refresh => &settings.refresh,
            Setting::Threshold => &settings.threshold,
        });
        let value = |place: usize| {
            let value = values.and_then(|values| values.get(place));
            value.copied().unwrap_or(Millis(0))
        };
        match place {
            Some(place) => print_millis(value(place)),
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
        (place, text): (Option<usize>, &str),
    ) -> Result<(), Errno> {
        let (place, value) = match place {
            Some(place) => (place, parse_millis(text).map_err(errno)?),
            None => parse_node_millis(text, nodes).map_err(errno)?,
        };
        let settings = self.by_serial.entry(serial).or_default();
        let values = match which {
            Setting::Refresh => &mut settings.refresh,
            Setting::Threshold => &mut settings.threshold,
        };
        values.resize(nodes.len().max(place + 1), Millis(0));
        values[place] = value;
        if !settings.is_on(place) {
            settings.last.remove(&place);
        }
        Ok(())
    }

    /// All that was asked for a tenant, for the next manager: a line for each setting, with its name and what would be written for each node. The
    /// root's have the bins of all. Empty if nothing was.
    pub(super) fn noted(&self, serial: u64, nodes: &[u32]) -> String {
        let text = self.all_of(serial, nodes);
        let is_asked = text != Reports::default().all_of(serial, nodes);
        if is_asked { text } else { String::new() }
    }

    fn all_of(&self, serial: u64, nodes: &[u32]) -> String {
        let mut text = String::new();
        for (which, name) in SETTINGS {
            let _ = write!(text, "{name} {}", self.print(serial, which, nodes, None));
        }
        if serial == 0 {
            text.push_str(INTERVALS);
            for (place, node) in (0..).zip(nodes) {
                let _ = write!(text, " N{node}={}", self.intervals(place).trim_end());
            }
        }
        text
    }

    /// What [`Reports::noted`] told holds. A node that there is no more is left out, and so is what cannot be read.
    pub(super) fn take_up(&mut self, serial: u64, nodes: &[u32], noted: &str) {
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
        let place = nodes.iter().position(|known| *known == node)?;
        // None are written by an empty line.
        self.set_intervals(place, &format!("{edges}\n")).ok()
    }

    /// `page_age` of a tenant: of one node, or of all that have a refresh interval; or what of it is an estimate.
    pub(super) fn page_age(
        &mut self,
        tenants: &mut Tenants,
        (memcg, serial): (MemcgId, u64),
        (place, part): (Option<usize>, Part),
    ) -> Result<String, Errno> {
        let Reports { bins, by_serial } = self;
        let Some(settings) = by_serial.get_mut(&serial) else {
            return Ok(String::new());
        };
        let now = tenants.elapsed_ms();
        let is_asked = |one: usize| settings.is_on(one) && place.is_none_or(|asked| asked == one);
        let asked: Vec<usize> = (0..tenants.nodes().len())
            .filter(|one| is_asked(*one))
            .collect();
        let is_due = |one: &usize| {
            let last = settings.last.get(one);
            last.is_none_or(|(then, _)| now >= then + settings.refresh[*one].0)
        };
        let due: Vec<usize> = asked.iter().copied().filter(is_due).collect();
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
        for (_, ages) in asked.iter().filter_map(|one| settings.last.get(one)) {
            print(&mut text, ages, part, place.is_none());
        }
        Ok(text)
    }

    /// The shortest interval that any report is to be refreshed by; none if all are off.
    pub(super) fn shortest(&self) -> Option<Duration> {
        let all = self.by_serial.values().flat_map(|one| &one.refresh);
        let shortest = all.filter(|one| **one != Millis(0)).min()?;
        Some(Duration::from_millis(shortest.0))
    }

    /// Whether any report of a tenant is on.
    pub(super) fn is_on(&self, serial: u64) -> bool {
        let found = self.by_serial.get(&serial);
        found.is_some_and(|one| (0..one.refresh.len()).any(|place| one.is_on(place)))
    }

    /// How often readers of a tenant's page_age were told of pressure; `who` waits to be told the next time.
    pub(super) fn wait(&mut self, serial: u64, handle: u64, who: PollNotifier) -> u64 {
        let settings = self.by_serial.entry(serial).or_default();
        settings.waiting.insert(handle, who);
        settings.told
    }

    /// The file is closed.
    pub(super) fn wait_no_more(&mut self, serial: u64, handle: u64) {
        if let Some(settings) = self.by_serial.get_mut(&serial) {
            settings.waiting.remove(&handle);
        }
    }

    /// The same number, for whoever reads now.
    pub(super) fn told(&self, serial: u64) -> u64 {
        self.by_serial
            .get(&serial)
            .map_or(0, |settings| settings.told)
    }

    /// A tenant is under pressure: whoever waits for its report is told, if that is on and the last report is older than
    /// the threshold. spec: workingset-report.md 5.
    pub(super) fn press(&mut self, serial: u64, now: u64) {
        let Some(settings) = self.by_serial.get_mut(&serial) else {
            return;
        };
        let is_due = |(place, threshold): (usize, &Millis)| {
            let taken = settings.last.get(&place).map_or(0, |(taken, _)| *taken);
            *threshold != Millis(0) && settings.is_on(place) && taken + threshold.0 <= now
        };
        if settings.threshold.iter().enumerate().any(is_due) {
            settings.told += 1;
            settings.wake();
        }
    }

    /// The tenants that are there; settings of others go, and whoever waits for their reports is woken: there will be none.
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

/// The longest line of a report, bytes: three numbers of twenty digits, their names and the line's end.
const LINE_MAX: usize = 20 + " anon=".len() + 20 + " file=".len() + 20 + 1;

/// A node's lines, behind one with its name if there are others'.
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

    /// What stat(2) tells of a report's size is no less than its text: sendfile(2) reads no further. (The story: the size of
    /// what is estimated was a page, whatever the number of nodes, and so was that of memory.numa_stat.)
    #[test]
    fn a_report_has_no_more_bytes_than_that() {
        let mut reports = Reports::default();
        let edges: Vec<String> = (0..31).map(|at| (u32::MAX - 31 + at).to_string()).collect();
        for place in 0..64 {
            let set = reports.set_intervals(place, &edges.join(","));
            assert_eq!(
                (set, reports.intervals(place)),
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

    /// (The story: a service manager started a killed `serve` anew, and the agent beside it read empty reports from then on, without an error.)
    #[test]
    fn what_is_noted_is_taken_up() {
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
            next.take_up(serial, &nodes, &noted);
            assert_eq!(next.noted(serial, &nodes), noted);
        }
        assert!(next.is_on(0) && next.is_on(7) && !next.is_on(8));
        assert_eq!(next.intervals(0), "\n");
        assert_eq!(next.intervals(1), "1000,2000\n");
        // Of a node that is gone, and of nonsense, nothing is left.
        let mut other = Reports::default();
        other.take_up(7, &[0], &reports.noted(7, &nodes));
        other.take_up(0, &[0], &reports.noted(0, &nodes));
        other.take_up(
            9,
            &[0],
            "x N0=1\nrefresh_interval N0= =1 N 5\n\npage_age_intervals N0",
        );
        assert_eq!(other.print(7, Setting::Refresh, &[0], None), "N0=500 \n");
        assert!(!other.is_on(0) && !other.is_on(9));
        assert_eq!(other.intervals(0), "\n");
    }

    #[test]
    fn settings_are_of_one_node() {
        let (mut reports, nodes) = (Reports::default(), [0, 2]);
        let set = |reports: &mut Reports, place, text| {
            reports.set(7, Setting::Refresh, &nodes, (place, text))
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
