//! The engine on a host: looks tell it what is in memory, and what it chooses leaves by the kernel's hand.
//!
//! Invariant: the engine hears of processes from here alone, and pages leave from here alone, whoever asked: one tenant
//! ([`super::Manager`]) or a tree of them ([`super::tenants`]).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::lru_gen::LruGen;
use engine::memcg::MemcgId;
use engine::policy::{AgeHistogram, Order};
use engine::{FolioId, Machine, Millis, Pages};

use super::culled::Culled;
use super::feed::{Back, Feed, Noticed, Returns};
use super::flags::Flags;
use super::homes::Homes;
use super::host_memory::HostMemory;
use super::members::Members;
use super::noreuse::{Noreuse, NoreuseFiles};
use super::options::Ask;
use super::out::Out;
use super::pause::Pause;
use super::record::{Recorder, Recording};
use super::spent::Spent;
use super::tally::Tally;
use crate::ages::{Listener, MemoryKind};
use crate::system::{Identity, Proc, thread_cpu};
use crate::watch::{Sharing, Watch, WatchError};

/// Pages that the engine isolates at a time: some milliseconds of paging out.
pub(super) const BATCH: usize = 2048;

/// How pages are to leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Pages that were accessed after this time of the books (milliseconds) stay.
    pub(super) idle_since: Option<u64>,
    /// None leaves.
    pub(super) dry_run: bool,
    /// Pages of which nobody knows whether they are in use leave, too; else they stay.
    pub(super) all: bool,
    /// Walks clear the bits of processes whose bits looks leave set (a second chance): no wall is there, at which the kernel would.
    pub(super) clears: bool,
}

/// See the module.
pub(super) struct Driver {
    pub(super) watch: Watch,
    pub(super) machine: Machine,
    pub(super) members: Members,
    homes: Homes,
    /// Pages that the kernel skips are off the lists.
    culled: Option<Culled>,
    flags: Flags,
    /// Processors that we may use, as it was at the beginning.
    pub(super) processors: usize,
    recorder: Option<Recorder>,
    /// Where somebody goes by how old it is: what is out.
    out: Option<Out>,
    /// Of tenants with a policy: what was used again since it was asked last.
    back: BTreeMap<MemcgId, Back>,
    looks: u64,
    /// The time of the look before the one that is under way, milliseconds of the books.
    looked_ms: u64,
    /// What the look that is under way, or the last one, has found.
    noticed: Noticed,
    /// When the last look was, and what it took of a processor, with the generations that were opened after it.
    looked: Instant,
    look_took: Duration,
    /// What the one that is under way has taken until now.
    taken: Duration,
    /// What reading tables had taken when it began.
    walked: Duration,
    spent: Spent,
}

impl Driver {
    pub(super) fn new(watch: Watch, machine: Machine) -> Driver {
        Driver {
            flags: Flags::open(watch.proc()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            watch,
            machine,
            members: Members::default(),
            homes: Homes::default(),
            culled: None,
            recorder: None,
            out: None,
            back: BTreeMap::new(),
            looks: 0,
            looked_ms: 0,
            noticed: Noticed::default(),
            looked: Instant::now(),
            look_took: Duration::ZERO,
            taken: Duration::ZERO,
            walked: Duration::ZERO,
            spent: Spent::default(),
        }
    }

    /// Reads all tables and tells the engine: what was accessed is of the youngest generation. `home_of` says whose
    /// tenant a process is.
    pub(super) fn look(
        &mut self,
        home_of: &dyn Fn(Identity) -> MemcgId,
    ) -> Result<Noticed, WatchError> {
        self.begin_look(home_of, None)?;
        self.go_on_with_look(home_of, &Pause::never())?;
        Ok(self.noticed)
    }

    /// Begins to look as [`Driver::look`], in slices ([`Driver::go_on_with_look`]).
    pub(super) fn begin_look(
        &mut self,
        home_of: &dyn Fn(Identity) -> MemcgId,
        sharing: Option<&Sharing<'_>>,
    ) -> Result<(), WatchError> {
        (self.noticed, self.taken) = (Noticed::default(), Duration::ZERO);
        self.walked = self.watch.ages().costs().reading;
        self.looked_ms = self.watch.ages().books().last_round_ms();
        self.watch.advance();
        self.looks += 1;
        if let Some(culled) = &mut self.culled {
            culled.rescue(&mut self.machine);
        }
        self.slice(home_of, |watch, feed| {
            watch.begin_shared_look(feed, sharing)
        })
    }

    /// Goes on until all is read (true) or `pause` is due.
    pub(super) fn go_on_with_look(
        &mut self,
        home_of: &dyn Fn(Identity) -> MemcgId,
        pause: &Pause,
    ) -> Result<bool, WatchError> {
        let is_over = self.slice(home_of, |watch, feed| {
            watch.go_on(feed, &mut || pause.is_due())
        })?;
        if is_over {
            self.note_used_again();
            self.looked = Instant::now();
            self.look_took = self.taken;
            let reading = self.watch.ages().costs().reading;
            self.spent.walks.note(reading.saturating_sub(self.walked));
            if let Some(recorder) = &mut self.recorder {
                recorder.end_look(self.watch.looked_ms());
            }
        }
        Ok(is_over)
    }

    /// A part of a look. By the clock, a look on a busy host counted the others' time as its own work: of a program with a
    /// terabyte of shadow memory (ThreadSanitizer), beside two busy loops, nothing left in time.
    fn slice<T>(
        &mut self,
        home_of: &dyn Fn(Identity) -> MemcgId,
        look: impl FnOnce(&mut Watch, &mut dyn Listener) -> Result<T, WatchError>,
    ) -> Result<T, WatchError> {
        let worked = thread_cpu();
        let by_others = self.watch.ages().costs().by_others;
        let (before_ms, now_ms) = (self.looked_ms, self.watch.elapsed_ms());
        let returns = self.out.as_mut().map(|out| Returns {
            out,
            back: &mut self.back,
            before_ms,
            now_ms,
        });
        let mut feed = Feed::new(
            &mut self.machine,
            (&mut self.homes, home_of),
            &mut self.members,
            returns,
        );
        let answer = match &mut self.recorder {
            None => look(&mut self.watch, &mut feed)?,
            Some(recorder) => {
                let mut both: (&mut dyn Listener, &mut dyn Listener) = (&mut feed, recorder);
                look(&mut self.watch, &mut both)?
            }
        };
        self.noticed.add(feed.noticed);
        let by_others = self
            .watch
            .ages()
            .costs()
            .by_others
            .saturating_sub(by_others);
        // Not of other threads of ours, which may compress once more for a minute.
        let work = thread_cpu().saturating_sub(worked) + by_others;
        self.taken += work;
        self.spent.look += work;
        Ok(answer)
    }

    /// Opens a generation of a tenant's own pages, as part of what the last look took. None of one whose pages it would not tell apart:
    /// reclaim by age goes by the books, which nothing has to be moved for. (The story: each look moved every page of all who slept.)
    pub(super) fn age(&mut self, memcg: MemcgId, now: Millis) {
        let generations = self.machine.lruvec(memcg).multi_gen();
        if generations.is_some_and(LruGen::is_all_oldest) {
            return;
        }
        let worked = thread_cpu();
        self.machine.age(memcg, now);
        self.look_took += thread_cpu().saturating_sub(worked);
    }

    /// The last look also took this, beside reading and aging.
    pub(super) fn also_took(&mut self, time: Duration) {
        self.look_took += time;
        self.spent.look += time;
    }

    /// Looks are recorded from now on.
    pub(super) fn record(&mut self, recording: Recording) {
        let (interval, now_ms) = (self.watch.interval(), self.watch.elapsed_ms());
        self.recorder = Some(Recorder::new(recording, interval, now_ms));
    }

    /// What records, if anything does.
    pub(super) fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_mut()
    }

    /// The engine forgets all pages of a tenant that is about to be removed: its processes are gone or elsewhere, where
    /// the next look finds their pages. (Its id is given to another tenant then.)
    pub(super) fn evacuate(&mut self, memcg: MemcgId) {
        if let Some(culled) = &mut self.culled {
            culled.forget(memcg);
        }
        if let Some(out) = &mut self.out {
            out.drop_tenant(memcg);
        }
        self.untrack_refaults(memcg);
        let ids = self.homes.evacuate(memcg);
        self.machine.unmap_range(memcg, FolioId(0), ids);
    }

    /// From now on it is known how old what leaves is.
    pub(super) fn track_out(&mut self) {
        self.out.get_or_insert_default();
    }

    /// From now on it is known what of a tenant is used again, and how old that was.
    pub(super) fn track_refaults(&mut self, memcg: MemcgId) {
        self.track_out();
        self.back.insert(memcg, Back::default());
    }

    /// Nobody wants to know any more.
    pub(super) fn untrack_refaults(&mut self, memcg: MemcgId) {
        self.back.remove(&memcg);
    }

    /// What was used again in the last round without having left.
    fn note_used_again(&mut self) {
        if self.back.is_empty() {
            return;
        }
        let books = self.watch.ages().books();
        let before = Millis(books.round_before_ms());
        for (owner, home) in self.homes.all() {
            let Some(back) = self.back.get_mut(&home) else {
                continue;
            };
            for (_, last, pages) in books.again(owner) {
                back.ages.add(before.since(Millis(last)), Pages(pages));
            }
        }
    }

    /// What of a tenant was used again since this was asked last.
    pub(super) fn take_refaults(&mut self, memcg: MemcgId) -> Back {
        let back = self.back.get_mut(&memcg);
        back.map(std::mem::take).unwrap_or_default()
    }

    /// A tenant's own pages in memory by age, those of unknown age left out.
    pub(super) fn ages_of(&self, memcg: MemcgId, now: Millis) -> AgeHistogram {
        let mut ages = AgeHistogram::new();
        let watched = self.watch.ages();
        for owner in self.homes.ids(memcg).owners() {
            // Of a tenant that is late, as of its last scan.
            let known = match watched.known_ms(owner) < watched.books().last_round_ms() {
                true => Millis(watched.known_ms(owner)),
                false => now,
            };
            for (_, last, pages) in watched.books().ages(owner) {
                ages.add(known.since(Millis(last)), Pages(pages));
            }
        }
        ages
    }

    /// Pages of these processes that what is asked for leaves alone, because nobody knows when they were used. All that is not in use
    /// takes them, too, but where accesses leave no trace for us.
    pub(super) fn unknown(&self, who: impl Iterator<Item = Identity>, ask: Ask) -> u64 {
        let ages = self.watch.ages();
        let spaces = who.filter_map(|one| ages.space(one));
        let stays = spaces.filter(|space| ask != Ask::All || space.is_hidden());
        let unknown = |owner| {
            let of = |class| ages.books().unknown(owner, class);
            MemoryKind::classes().map(of).sum::<u64>()
        };
        stays.map(|space| unknown(space.owner)).sum()
    }

    /// Those that are out.
    pub(super) fn ages_out(&self, memcg: MemcgId, now: Millis) -> AgeHistogram {
        let out = self.out.as_ref().map(|out| out.ages(memcg, now));
        out.unwrap_or_default()
    }

    /// Where pages that are out are, and which processes they are of; what is out, where it is kept.
    pub(super) fn outside(&mut self) -> (&Homes, &Members, &Proc, Option<&mut Out>) {
        let proc = self.watch.proc();
        (&self.homes, &self.members, proc, self.out.as_mut())
    }

    /// Pages that the kernel skips go off the lists from now on.
    pub(super) fn cull(&mut self) {
        self.culled = Some(Culled::new());
    }

    /// Pages off the lists that reclaim of their group would take.
    pub(super) fn shared(&self) -> u64 {
        self.culled.as_ref().map_or(0, Culled::shared)
    }

    /// It was asked for, and got so many.
    pub(super) fn note_reclaimed(&mut self, pages: u64) {
        if let Some(culled) = &mut self.culled {
            culled.note_reclaimed(pages);
        }
    }

    /// Which files are used once. All processes are read at the next look, even those that sleep.
    pub(super) fn set_noreuse(&mut self, noreuse: Noreuse) {
        if self.homes.set_noreuse(noreuse) {
            let needs_names = self.homes.needs_names();
            let members = self.watch.members().to_vec();
            let (ages, _) = self.watch.ages_and_proc();
            ages.need_names(needs_names);
            members.into_iter().for_each(|one| ages.read_again(one));
        }
    }

    /// The same of a tenant of which nothing was read yet.
    pub(super) fn add_noreuse(&mut self, memcg: MemcgId, files: NoreuseFiles) {
        self.homes.add_noreuse(memcg, files);
        let needs_names = self.homes.needs_names();
        self.watch.ages_and_proc().0.need_names(needs_names);
    }

    /// An order, as far as what it may take is not protected. (The story, of a reading: a dry run told of all that was cold, protected or not.)
    pub(super) fn unprotected(&self, memcg: MemcgId, order: Order) -> Order {
        let most = order.most.min(self.machine.unprotected(memcg));
        Order { most, ..order }
    }

    /// How long ago the last look was.
    pub(super) fn look_age(&self) -> Duration {
        self.looked.elapsed()
    }

    /// What the last look took of a processor.
    pub(super) fn look_took(&self) -> Duration {
        self.look_took
    }

    /// What the last look counts for when the next one is planned: a tenant whose scan costs more than its share pays for it by being late,
    /// and the others do not.
    pub(super) fn look_counts(&self) -> Duration {
        match self.watch.shared_cost() {
            Some((cost, counts)) => self.look_took.saturating_sub(cost) + counts,
            None => self.look_took,
        }
    }

    /// What the last look took beside reading processes.
    pub(super) fn look_took_beside(&self) -> Duration {
        let cost = self
            .watch
            .shared_cost()
            .map_or(Duration::ZERO, |(cost, _)| cost);
        self.look_took.saturating_sub(cost)
    }

    /// Looks until now.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// What it took until now.
    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// Which tenant each address space is of.
    pub(super) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// One call of the engine, `reclaim`, with the host as its memory: what it came to, and what the call returned.
    pub(super) fn page_out<T>(
        &mut self,
        how: How,
        reclaim: impl FnOnce(&mut Machine, &mut HostMemory<'_>) -> T,
    ) -> (Tally, T) {
        let mut tally = Tally::default();
        let answer = self.page_out_until((how, &Pause::never()), &mut tally, reclaim);
        (tally, answer)
    }

    /// The same in slices: the call is asked to bail out when `pause` is due, and `tally` goes on from what it was.
    pub(super) fn page_out_until<T>(
        &mut self,
        (how, pause): (How, &Pause),
        tally: &mut Tally,
        reclaim: impl FnOnce(&mut Machine, &mut HostMemory<'_>) -> T,
    ) -> T {
        tally.begin(self.looks);
        let of_thread = thread_cpu();
        let (ages, proc) = self.watch.ages_and_proc();
        let mut kernel = HostMemory {
            homes: &self.homes,
            members: &mut self.members,
            ages,
            proc,
            flags: &self.flags,
            processors: self.processors,
            idle_since: how.idle_since,
            dry_run: how.dry_run,
            all: how.all,
            clears: how.clears,
            culled: self.culled.as_mut(),
            out: self.out.as_mut(),
            pause,
            tally: std::mem::take(tally),
        };
        let (by_others, shared) = (kernel.tally.by_others, kernel.tally.shared);
        let answer = reclaim(&mut self.machine, &mut kernel);
        let by_others = kernel.tally.by_others.saturating_sub(by_others);
        self.spent.page_out += thread_cpu().saturating_sub(of_thread) + by_others;
        *tally = kernel.tally;
        if let Some(culled) = &mut self.culled {
            culled.note_shared(tally.shared - shared);
        }
        answer
    }
}
