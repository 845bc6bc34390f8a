//! Held against a stack that sees each access; and by hand.

use super::*;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;

fn cohort(last: u64, pages: u64) -> Cohort {
    Cohort {
        last: Millis(last),
        pages: Pages(pages),
        files: Pages(0),
    }
}

/// Accesses in order, with looks between them: the curve, and beside it what LRU memories really miss, which begin empty.
struct Both {
    curve: RefaultCurve,
    /// By page: the look of its last access; the first look is 1.
    last: BTreeMap<u32, u64>,
    found: BTreeMap<u32, u64>,
    now: u64,
    /// Most recent last.
    stack: Vec<u32>,
    /// Distances of all accesses, with how many pages had been accessed by then.
    distances: Vec<(u64, u64)>,
}

impl Both {
    fn new(pages: u32) -> Both {
        let mut both = Both {
            curve: RefaultCurve::default(),
            last: (0..pages).map(|page| (page, 0)).collect(),
            found: BTreeMap::new(),
            now: 0,
            stack: Vec::new(),
            distances: Vec::new(),
        };
        both.look();
        both
    }

    fn access(&mut self, page: u32) {
        let used = self.stack.len() as u64;
        // All pages are there from the beginning: below those that were used.
        let mut distance = used;
        if let Some(at) = self.stack.iter().position(|one| *one == page) {
            distance = used - 1 - at as u64;
            self.stack.remove(at);
        }
        self.distances.push((distance, used));
        self.stack.push(page);
        self.found.entry(page).or_insert(self.now);
    }

    fn look(&mut self) {
        let (mut again, mut pages) = (BTreeMap::new(), BTreeMap::new());
        for page in core::mem::take(&mut self.found).into_keys() {
            if let Some(before) = self.last.insert(page, self.now) {
                *again.entry(before).or_insert(0) += 1;
            }
        }
        for last in self.last.values() {
            *pages.entry(*last).or_insert(0) += 1;
        }
        let cohorts = |counts: BTreeMap<u64, u64>| {
            let all = counts.into_iter();
            all.map(|(last, pages)| cohort(last, pages)).collect()
        };
        self.curve.look(CurveLook {
            now: Millis(self.now),
            again: cohorts(again),
            pages: cohorts(pages),
            ..CurveLook::default()
        });
        self.now += 1000;
    }

    /// What a memory of this size missed once it was full, a look.
    fn truth(&self, size: u64, warm: u64) -> f64 {
        let missed = self.distances.iter();
        let missed = missed.filter(|(distance, used)| *distance >= size && *used >= size);
        missed.count() as f64 / warm as f64
    }
}

fn chance(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33
}

/// Pages that are the rarer the higher their number, so that each size misses something: the curve is within a tenth
/// of what a stack of all accesses says, at sizes above what is used between two looks.
#[test]
fn it_is_what_a_stack_of_all_accesses_says() {
    let (mut both, mut state) = (Both::new(2000), 88_172_645_463_325_252);
    let looks = 400;
    for _ in 0..looks {
        for _ in 0..150 {
            // Of two numbers the smaller, twice: density falls with the cube.
            let page = (0..4).map(|_| chance(&mut state) % 2000).min();
            both.access(u32::try_from(page.unwrap_or(0)).unwrap_or(0));
        }
        both.look();
    }
    let known = both.curve.known().0;
    assert!(known > 1500, "{known}");
    for size in [200, 300, 500, 800, 1100] {
        let missed = both.curve.at(Pages(size), Period::All);
        let ours = missed.refaults.0 as f64 * 1000.0 / missed.watched.0 as f64;
        let truth = both.truth(size, missed.watched.0 / 1000);
        assert!(
            (ours / truth - 1.0).abs() < 0.1,
            "{size} pages: {ours} a look, in truth {truth}"
        );
    }
}

#[test]
fn a_loop_fits_or_misses_all_of_it() {
    let mut both = Both::new(1000);
    for round in 0..300_u32 {
        (0..100).for_each(|n| both.access((round * 100 + n) % 1000));
        both.look();
    }
    let rate = |size: u64| {
        let missed = both.curve.at(Pages(size), Period::All);
        missed.refaults.0 * 1000 / missed.watched.0
    };
    assert_eq!(rate(800), 100, "LRU keeps none of a loop that does not fit");
    // The last tenth: its pages came before or after, in the same look.
    assert!(rate(990) < 30, "{}", rate(990));
    assert_eq!(both.curve.idle(Pages(500)), Millis(4000));
}

#[test]
fn nothing_is_said_of_sizes_that_were_never_full() {
    let mut both = Both::new(1000);
    for _ in 0..20 {
        (0..100).for_each(|page| both.access(page));
        both.look();
    }
    let curve = &both.curve;
    assert_eq!((curve.known(), curve.untouched()), (Pages(100), Pages(900)));
    assert_eq!(curve.at(Pages(200), Period::All), Missed::default());
    assert_eq!(curve.in_use(), Pages(100));
    assert_eq!(curve.accessed_within(Millis(1)), Pages(100));
}

/// What came back from swap was older than all that stayed: a memory of any size that was seen in use had lost it.
#[test]
fn what_comes_back_counts_at_each_known_size() {
    let mut curve = RefaultCurve::default();
    let look = |now, pages: &[Cohort], again: &[Cohort], back| CurveLook {
        now: Millis(now),
        again: again.to_vec(),
        back: Pages(back),
        pages: pages.to_vec(),
        ..CurveLook::default()
    };
    curve.look(look(0, &[cohort(0, 500)], &[], 0));
    curve.look(look(
        1000,
        &[cohort(0, 400), cohort(1000, 100)],
        &[cohort(0, 100)],
        0,
    ));
    let pages = [cohort(0, 400), cohort(1000, 60), cohort(2000, 47)];
    curve.look(look(2000, &pages, &[cohort(1000, 40)], 7));
    let missed = curve.at(Pages(90), Period::All);
    assert!(missed.refaults.0 >= 7, "{missed:?}");
    assert_eq!(missed.watched, Millis(1000));
}

/// Pages that nobody knows of hold memory, and are in use for all that is known.
#[test]
fn what_is_unknown_has_room() {
    let mut curve = RefaultCurve::default();
    for now in [0, 1000, 2000] {
        curve.look(CurveLook {
            now: Millis(now),
            again: vec![cohort(now.max(1000) - 1000, 10); usize::from(now > 0)],
            pages: vec![Cohort {
                files: Pages(7),
                ..cohort(now, 1000)
            }],
            unseen: Cohort {
                files: Pages(60),
                ..cohort(0, 60)
            },
            unknown: Pages(30),
            ..CurveLook::default()
        });
    }
    assert_eq!((curve.known(), curve.in_use()), (Pages(1030), Pages(1030)));
    let all = curve.at(Pages(20), Period::All).refaults;
    assert_eq!(all, Pages(20), "none of them is in the first 30 pages");
    assert_eq!(curve.untouched(), Pages(60));
    assert_eq!(curve.accessed_within(Millis(1)), Pages(1030));
    assert_eq!(curve.files_beyond(Pages(500)), Pages(60));
}

/// The story: programs of 340 to 400 MiB whose bits could not be cleared within 5 ms were said to have working sets of all their
/// memory, and refaults that were off by 99%.
#[test]
fn a_look_that_does_not_know_counts_nothing() {
    let mut curve = RefaultCurve::default();
    let look = |now, unknown| CurveLook {
        now: Millis(now),
        again: vec![cohort(now - 1000, 50)],
        pages: vec![cohort(now, 100)],
        unknown: Pages(unknown),
        ..CurveLook::default()
    };
    curve.look(look(1000, 0));
    curve.look(look(2000, 50));
    curve.look(look(3000, 0));
    assert_eq!(
        (curve.blind(), curve.at(Pages(0), Period::All)),
        (Millis(2000), Missed::default())
    );
    curve.look(look(4000, 5));
    assert_eq!(curve.at(Pages(0), Period::All).watched, Millis(1000));
}

/// Whatever is told: no size misses less than a larger one, and none more than all touches.
#[test]
fn curves_fall() {
    let mut state = 3;
    let mut curve = RefaultCurve::default();
    let mut times: BTreeSet<u64> = BTreeSet::new();
    for now in 0..200 {
        let mut cohorts = |times: &BTreeSet<u64>| -> Vec<Cohort> {
            let all = times.iter();
            all.map(|last| cohort(*last, chance(&mut state) % 5000))
                .collect()
        };
        let again = cohorts(&times);
        times.insert(now * 10);
        let pages = cohorts(&times);
        curve.look(CurveLook {
            now: Millis(now * 10),
            again,
            back: Pages(now % 3),
            pages,
            unknown: Pages(now % 7),
            ..CurveLook::default()
        });
        if times.len() > 40 {
            times.pop_first();
        }
    }
    let all: Vec<Missed> = (0..300)
        .map(|step| curve.at(Pages(step * step * 10), Period::All))
        .collect();
    for pair in all.windows(2) {
        assert!(pair[0].refaults >= pair[1].refaults, "{pair:?}");
        assert!(pair[0].watched >= pair[1].watched, "{pair:?}");
    }
}

/// Regression: what a report took over from another one counted as used, and each of its pages as one that had come back. A page that becomes
/// known has no place on the stack before its first access, and that one is as far as what was used since.
#[test]
fn what_becomes_known_was_not_accessed() {
    let mut curve = RefaultCurve::default();
    let look = |now: u64, pages, again, first, unseen| CurveLook {
        now: Millis(now),
        pages,
        again,
        first,
        unseen: cohort(0, unseen),
        ..CurveLook::default()
    };
    curve.look(look(0, vec![], vec![], vec![], 100));
    // 100 pages are used each second. At the third look 5,000 more become known.
    for now in [1000, 2000, 3000] {
        let again = vec![cohort(now - 1000, if now > 1000 { 100 } else { 0 })];
        let first = vec![cohort(0, if now == 1000 { 100 } else { 0 })];
        let unseen = if now == 3000 { 5000 } else { 0 };
        curve.look(look(now, vec![cohort(now, 100)], again, first, unseen));
    }
    assert_eq!(
        (curve.known(), curve.untouched()),
        (Pages(100), Pages(5000))
    );
    // Then 300 of these are used for the first time that is seen: they are as far as what was used since they are known.
    curve.look(look(
        4000,
        vec![cohort(4000, 400)],
        vec![cohort(3000, 100)],
        vec![cohort(3000, 300)],
        4700,
    ));
    assert_eq!(curve.at(Pages(0), Period::All).refaults.0, 700);
    assert_eq!(curve.at(Pages(1), Period::All).refaults.0, 298);
    assert_eq!(curve.known(), Pages(400));
    // Another hand brings 1,000 back from swap, that are not used; a curve that counted them would count them at each size.
    let mut back = look(
        5000,
        vec![cohort(5000, 400)],
        vec![cohort(4000, 400)],
        vec![],
        5700,
    );
    back.back = Pages(1000);
    let before = curve.at(Pages(100), Period::All).refaults;
    curve.look(back);
    let after = curve.at(Pages(100), Period::All).refaults;
    assert!(after.0 - before.0 <= 300, "{before:?} {after:?}");
}

/// Counts older than an hour are halved again and again, and the later part of the time is counted apart.
#[test]
fn what_is_told_is_of_late() {
    let mut both = Both::new(1000);
    // An hour in which all pages of 1,000 are used in turn, then an hour of 200.
    for (wide, looks) in [(1000_u32, 3600_u32), (200, 7200)] {
        for number in 0..looks {
            (0..100).for_each(|n| both.access((number * 100 + n) % wide));
            both.look();
        }
    }
    let rate = |period| {
        let missed = both.curve.at(Pages(500), period);
        missed.refaults.0 as f64 * 1000.0 / missed.watched.0 as f64
    };
    assert!(rate(Period::Later) < 1.0, "{}", rate(Period::Later));
    assert!(rate(Period::All) < 25.0, "{}", rate(Period::All));
    let sum = |period| both.curve.at(Pages(0), period).watched.0;
    assert_eq!(sum(Period::All), sum(Period::Earlier) + sum(Period::Later));
    assert!(both.curve.memory_bytes() < 100_000);
}

/// No order within a look makes it less than `at_least` or more than `at_most`.
#[test]
fn bounds_are_on_both_sides() {
    let (mut both, mut state) = (Both::new(2000), 77);
    for _ in 0..200 {
        for _ in 0..150 {
            let page = (0..3).map(|_| chance(&mut state) % 2000).min();
            both.access(u32::try_from(page.unwrap_or(0)).unwrap_or(0));
        }
        both.look();
    }
    for size in [200, 400, 700, 1000] {
        let missed = both.curve.at(Pages(size), Period::All);
        let truth = both.truth(size, 1);
        let (low, high) = (missed.at_least.0 as f64, missed.at_most.0 as f64);
        assert!(low <= missed.refaults.0 as f64 && missed.refaults.0 as f64 <= high);
        // A page that is used twice between two looks counts once.
        assert!(
            low <= truth * 1.02 && truth <= high * 1.1,
            "{size}: {low} {truth} {high}"
        );
    }
}

/// A program that is watched from its start: it touches new pages before each scan until it has `all`, then the pages that
/// `uses` returns.
fn started(all: u32, filled_a_look: u32, looks: u32, uses: impl Fn(u32) -> Vec<u32>) -> Both {
    let mut both = Both::new(0);
    let mut filled = 0;
    while filled < all {
        let to = (filled + filled_a_look).min(all);
        (filled..to).for_each(|page| both.access(page));
        filled = to;
        both.look();
    }
    for number in 0..looks {
        uses(number).into_iter().for_each(|page| both.access(page));
        both.look();
    }
    both
}

/// The smallest size at which nothing misses; none where no size that was full is so large.
fn enough(curve: &RefaultCurve) -> Option<u64> {
    let told = |size: &u64| curve.at(Pages(*size), Period::All).watched.0 > 0;
    let misses = |size: &u64| curve.at(Pages(*size), Period::All).refaults.0 > 0;
    let mut sizes = (0..).step_by(50).take_while(told);
    sizes.find(|size| !misses(size))
}

/// Regression: a program filled 200 MiB and used 20 of them for 8 s. That these came back once after the start counted, and by the
/// number it needed 122 to 195 MiB.
#[test]
fn a_start_is_left_out_of_a_short_run() {
    for filled_a_look in [2_000, 7_000, 20_000, 51_200] {
        let both = started(51_200, filled_a_look, 6, |_| (0..5_120).collect());
        let curve = &both.curve;
        let enough = enough(curve).expect("the hot pages were in use all the time");
        assert!(enough <= 5_150, "{filled_a_look} a look: {enough}");
        // The last growth that was too small to begin again is used once.
        let in_use = curve.in_use().0;
        assert!(in_use < 5_120 + 51_200 / 8 / 5, "{in_use}");
        assert!(curve.watched() >= Millis(5_000), "{:?}", curve.watched());
    }
}

/// What comes back steadily after the start counts as before, however short the run is: a loop over all memory needs all of it.
#[test]
fn a_short_loop_over_all_memory_needs_all_of_it() {
    let mut state = 11;
    for _ in 0..30 {
        let all = 1_000 + u32::try_from(chance(&mut state) % 4_000).expect("small");
        let filled_a_look = 300 + u32::try_from(chance(&mut state)).expect("31 bits") % all;
        let step = all / (2 + u32::try_from(chance(&mut state) % 4).expect("small"));
        let looks = 3 * all.div_ceil(step);
        let uses = |number: u32| -> Vec<u32> {
            let at = |n| (number * step + n) % all;
            (0..step).map(at).collect()
        };
        let both = started(all, filled_a_look, looks, uses);
        let missed = |size: u32| both.curve.at(Pages(size.into()), Period::All);
        let rate = |missed: Missed| missed.refaults.0 as f64 / missed.watched.0.max(1) as f64;
        for part in [2, 3, 4] {
            let size = (all - step) * part / 4;
            let rate = 1000.0 * rate(missed(size)) / f64::from(step);
            assert!(
                rate > 0.6,
                "{all} pages, {step} a look, at {size}: {rate} of all"
            );
        }
        let sizes: Vec<Missed> = (0..=20).map(|part| missed(all * part / 20)).collect();
        assert!(sizes.is_sorted_by(|one, more| one.refaults >= more.refaults));
    }
}

/// A start is over once: what grows later, and what a report takes over from another one, forgets nothing.
#[test]
fn later_growth_forgets_nothing() {
    let mut both = started(2_000, 2_000, 10, |_| (0..1_000).collect());
    let before = both.curve.watched();
    (2_000..30_000).for_each(|page| both.access(page));
    both.look();
    assert_eq!(both.curve.watched(), Millis(before.0 + 1_000));
}
