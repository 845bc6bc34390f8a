//! Tests of what Linux v6.12 does differently from v6.16, and of look-around; all of it was
//! observed in a virtual machine (docs/fidelity.md).

use super::*;
use crate::word::Word;

fn p612(pages: u32) -> Lruvec {
    let mut lruvec = Lruvec::new(Policy::MultiGen(Profile::P612), Millis(0));
    lruvec.ensure(pages as usize);
    lruvec
}

fn fault(lruvec: &mut Lruvec, id: u32) {
    lruvec.fault_in(FolioId(id), FolioType::Anon, FaultKind::Refault, true, true);
}

fn open_generation(lruvec: &mut Lruvec) {
    let seq = lruvec.lru_gen().max_seq();
    assert!(lruvec.inc_max_seq(seq, Swappiness::default(), Millis(seq)));
}

fn isolated(lruvec: &mut Lruvec) -> Vec<FolioId> {
    let mut isolated = Vec::new();
    // The first calls may only drop empty generations.
    for _ in 0..MAX_NR_GENS {
        if isolated.is_empty() {
            let budget = IsolateBudget::default();
            lruvec.isolate(ScanReason::Direct, SWAPPINESS, budget, &mut isolated);
        }
    }
    isolated
}

/// The generation in which pages start by the rules of Linux v6.7 to v6.13.
/// spec: lru-gen.md 4.
#[test]
fn where_pages_start() {
    let mut lruvec = p612(1);
    let start_seq = |lruvec: &Lruvec, word, insertion| lruvec.lru_gen().start_seq(word, insertion);
    let anon = Word::default();
    let file = anon.with(Flag::File, true);
    // With min_seq 0 and max_seq 3 the oldest generation is not one of the two youngest.
    for (word, insertion, seq) in [
        (anon.with(Flag::Active, true), Insertion::Normal, 3),
        (anon, Insertion::Normal, 2),
        (anon, Insertion::Reclaiming, 0),
        (anon.with(Flag::SwapCache, true), Insertion::Normal, 1),
        (file, Insertion::Normal, 1),
        (file.with(Flag::Workingset, true), Insertion::Normal, 1),
    ] {
        assert_eq!(
            start_seq(&lruvec, word, insertion),
            seq,
            "{word:?} {insertion:?}"
        );
    }
    isolated(&mut lruvec);
    assert_eq!(
        lruvec.lru_gen().nr_gens(FolioType::Anon),
        2,
        "empty generations were dropped"
    );
    assert_eq!(
        start_seq(&lruvec, file, Insertion::Normal),
        2,
        "no generation between oldest and youngest"
    );
}

/// By the rules before v6.14 a page that a process soon faults on again is restored, whatever its
/// shadow says. Regression: under P63 it was restored only if its shadow had the workingset bit, as
/// under P616.
#[test]
fn a_page_that_refaults_soon_is_restored() {
    for profile in [Profile::P612, Profile::P63] {
        check_restored_after_soon_refault(profile);
    }
}

fn check_restored_after_soon_refault(profile: Profile) {
    let mut lruvec = Lruvec::new(Policy::MultiGen(profile), Millis(0));
    lruvec.ensure(200);
    (0..100).for_each(|id| fault(&mut lruvec, id));
    isolated(&mut lruvec);
    open_generation(&mut lruvec);
    open_generation(&mut lruvec);
    let batch = isolated(&mut lruvec);
    assert_eq!(batch.len(), 64);
    lruvec.evicted_all(&batch, ScanReason::Direct);
    fault(&mut lruvec, batch[0].0);
    let counted = |lruvec: &Lruvec, event| lruvec.stat().get(event);
    assert_eq!(counted(&lruvec, VmEvent::WorkingsetRestoreAnon), 1);
    assert_eq!(counted(&lruvec, VmEvent::WorkingsetActivateAnon), 1);
    let word = lruvec.folios().get(batch[0]);
    assert!(word.has(Flag::Workingset));
    assert_eq!(tier(profile, refs(profile, word), true), 1);
    // Evicting the rest of the generation advances min_seq: refaults of pages evicted before are
    // not recent any more.
    let second_batch = isolated(&mut lruvec);
    lruvec.evicted_all(&second_batch, ScanReason::Direct);
    isolated(&mut lruvec);
    fault(&mut lruvec, batch[1].0);
    assert_eq!(counted(&lruvec, VmEvent::WorkingsetRestoreAnon), 1);
    assert_eq!(counted(&lruvec, VmEvent::WorkingsetRefaultAnon), 2);
}

/// A page found accessed moves to the youngest generation, but counts as activated only from the
/// second time on.
#[test]
fn a_page_in_use_goes_to_the_youngest_uncounted() {
    let mut lruvec = p612(4);
    (0..4).for_each(|id| fault(&mut lruvec, id));
    open_generation(&mut lruvec);
    open_generation(&mut lruvec);
    isolated(&mut lruvec);
    lruvec.put_back(FolioId(0), true);
    assert_eq!(seq(&lruvec, 0), 5);
    assert_eq!(lruvec.stat().get(VmEvent::Pgactivate), 0);
}

#[test]
fn isolation_forgets_the_working_set() {
    let word = Word::default().with(Flag::Workingset, true);
    let after = |profile, word| refs::isolated(profile, word).has(Flag::Workingset);
    assert!(!after(Profile::P612, word) && !after(Profile::P63, word));
    assert!(
        after(Profile::P616, word),
        "P616 keeps the flag for the shadow"
    );
    for profile in [Profile::P612, Profile::P63] {
        assert!(after(profile, word.with(Flag::Referenced, true)));
    }
}

/// workingset.md 6. A page that refaults through a read call is restored if it had been read often
/// enough before its eviction. Under P612 it then gets back all its references.
#[test]
fn a_page_read_again_is_restored_by_its_references() {
    for (profile, accesses, expect) in [
        (Profile::P612, 4, true),
        (Profile::P612, 3, false),
        (Profile::P63, 5, true),
        (Profile::P63, 4, false),
    ] {
        let mut lruvec = Lruvec::new(Policy::MultiGen(profile), Millis(0));
        lruvec.ensure(1);
        let id = FolioId(0);
        let read = |lruvec: &mut Lruvec| {
            lruvec.fault_in(id, FolioType::File, FaultKind::Descriptor, true, true)
        };
        read(&mut lruvec);
        (0..accesses).for_each(|_| lruvec.mark_accessed(id));
        let (lru, folios) = lruvec.multi_gen_mut().expect("multi-gen");
        let shadow = {
            let word = folios.get(id).into_state(State::OffList);
            folios.set(id, word);
            lru.evicted(folios, id);
            folios.get(id)
        };
        let (word, restored) = lru.restore(Word::default(), shadow, false);
        assert_eq!(restored, expect, "{profile:?}, {accesses} accesses");
        assert_eq!(word.has(Flag::Workingset), expect);
        let is_full = expect && profile == Profile::P612;
        let field = if is_full { refs::FIELD_MAX } else { 0 };
        assert_eq!(
            (word.refs_field(), word.has(Flag::Referenced)),
            (field, false)
        );
        assert_eq!(refs::is_saturated(profile, word), is_full);
        // A fault makes the page active, which clears its references.
        let (word, restored) = lru.restore(Word::default(), shadow, true);
        assert_eq!((word.refs_field(), restored), (0, true));
    }
}

/// Regression: lru-gen.md 5.4. Under every profile pages that aging moved counted as protected, so
/// a tier with many such pages seemed to refault less than it did.
#[test]
fn before_614_aging_protects_nothing() {
    for (profile, expect) in [(Profile::P616, 2), (Profile::P612, 0), (Profile::P63, 0)] {
        let mut lruvec = Lruvec::new(Policy::MultiGen(profile), Millis(0));
        lruvec.ensure(4);
        for id in (0..4).map(FolioId) {
            lruvec.fault_in(id, FolioType::File, FaultKind::Descriptor, true, true);
        }
        while seq(&lruvec, 0) > window(&lruvec).1[FolioType::File.index()] {
            open_generation(&mut lruvec);
        }
        // Two accesses of each page put it into tier 1 under every profile.
        (0..8).for_each(|time| lruvec.mark_accessed(FolioId(time % 4)));
        open_generation(&mut lruvec);
        // The moving average of four protected pages and none before.
        let tier = lruvec.lru_gen().controller().read(FolioType::File, 1..2, 1);
        assert_eq!(tier.total, expect, "{profile:?}");
    }
}

/// In direct reclaim, which makes no walk, young neighbours change lists at once and count as
/// activated. In background reclaim only their words change, as in a walk.
#[test]
fn neighbours_are_moved_at_once_or_by_the_walk() {
    let mut lruvec = p612(10);
    (0..10).for_each(|id| fault(&mut lruvec, id));
    open_generation(&mut lruvec);
    let activated = |lruvec: &Lruvec| lruvec.stat().get(VmEvent::Pgactivate);
    let on = |lruvec: &Lruvec, seq| lruvec.list_order(seq, FolioType::Anon);
    lruvec.young_neighbour(FolioId(3), ScanReason::Direct);
    assert_eq!(
        (on(&lruvec, 4), activated(&lruvec)),
        ([FolioId(3)].to_vec(), 1)
    );
    lruvec.young_neighbour(FolioId(3), ScanReason::Direct);
    assert_eq!(activated(&lruvec), 1, "already in the youngest generation");
    lruvec.young_neighbour(FolioId(4), ScanReason::Background);
    assert_eq!(activated(&lruvec), 1);
    assert_eq!(lruvec.lru_gen().size(4, FolioType::Anon), 2);
    assert_eq!(on(&lruvec, 3).len(), 9, "its list entry did not move");
    lruvec.young_neighbour(FolioId(99), ScanReason::Direct);
    lruvec.check_invariants(Swappiness::default());
}

/// P616 promotes a neighbour only the second time that it is found young.
#[test]
fn a_neighbour_moves_only_the_second_time() {
    let mut lruvec = Lruvec::new(Policy::default(), Millis(0));
    lruvec.ensure(4);
    (0..4).for_each(|id| fault(&mut lruvec, id));
    open_generation(&mut lruvec);
    lruvec.young_neighbour(FolioId(1), ScanReason::Direct);
    let word = lruvec.folios().get(FolioId(1));
    assert!(word.has(Flag::Referenced) && word.state() == State::Listed);
    assert_eq!(lruvec.stat().get(VmEvent::Pgactivate), 0);
    lruvec.young_neighbour(FolioId(1), ScanReason::Direct);
    assert_eq!(lruvec.stat().get(VmEvent::Pgactivate), 1);
    assert_eq!(lruvec.lru_gen().size(4, FolioType::Anon), 1);
}
