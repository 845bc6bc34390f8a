//! What v6.12 does differently from v6.16, and what look-around does; all observed in a guest
//! (docs/fidelity.md).

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

fn step(lruvec: &mut Lruvec) {
    let seq = lruvec.lru_gen().max_seq();
    assert!(lruvec.inc_max_seq(seq, Swappiness::default(), Millis(seq)));
}

fn isolated(lruvec: &mut Lruvec) -> Vec<FolioId> {
    let mut out = Vec::new();
    // The first calls may only drop empty generations.
    for _ in 0..MAX_NR_GENS {
        if out.is_empty() {
            let budget = IsolateBudget::default();
            lruvec.isolate(ScanReason::Direct, SWAPPINESS, budget, &mut out);
        }
    }
    out
}

/// lru-gen.md 4, v6.7 to v6.13.
#[test]
fn where_pages_start() {
    let mut lruvec = p612(1);
    let lru = |lruvec: &Lruvec, word, how| lruvec.lru_gen().start_seq(word, how);
    let anon = Word::default();
    let file = anon.with(Flag::File, true);
    // min_seq 0, max_seq 3: the oldest is out of reach of the youngest two.
    for (word, how, seq) in [
        (anon.with(Flag::Active, true), Insertion::Normal, 3),
        (anon, Insertion::Normal, 2),
        (anon, Insertion::Reclaiming, 0),
        (anon.with(Flag::SwapCache, true), Insertion::Normal, 1),
        (file, Insertion::Normal, 1),
        (file.with(Flag::Workingset, true), Insertion::Normal, 1),
    ] {
        assert_eq!(lru(&lruvec, word, how), seq, "{word:?} {how:?}");
    }
    isolated(&mut lruvec);
    assert_eq!(
        lruvec.lru_gen().nr_gens(FolioType::Anon),
        2,
        "empty ones went"
    );
    assert_eq!(lru(&lruvec, file, Insertion::Normal), 2, "nothing between");
}

/// v6.3 restored a page that was soon faulted on again only if its shadow had the workingset bit,
/// which is also v6.16's rule.
#[test]
fn a_page_that_refaults_soon_is_restored() {
    for profile in [Profile::P612, Profile::P63] {
        comes_back_soon(profile);
    }
}

fn comes_back_soon(profile: Profile) {
    let mut lruvec = Lruvec::new(Policy::MultiGen(profile), Millis(0));
    lruvec.ensure(200);
    (0..100).for_each(|id| fault(&mut lruvec, id));
    isolated(&mut lruvec);
    step(&mut lruvec);
    step(&mut lruvec);
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
    // min_seq advances: pages evicted before are not recent any more.
    let rest = isolated(&mut lruvec);
    lruvec.evicted_all(&rest, ScanReason::Direct);
    isolated(&mut lruvec);
    fault(&mut lruvec, batch[1].0);
    assert_eq!(counted(&lruvec, VmEvent::WorkingsetRestoreAnon), 1);
    assert_eq!(counted(&lruvec, VmEvent::WorkingsetRefaultAnon), 2);
}

/// A page found in use goes to the youngest generation, but counts as activated only from the
/// second time on.
#[test]
fn a_page_in_use_goes_to_the_youngest_uncounted() {
    let mut lruvec = p612(4);
    (0..4).for_each(|id| fault(&mut lruvec, id));
    step(&mut lruvec);
    step(&mut lruvec);
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
    assert!(after(Profile::P616, word), "it is what the shadow tells");
    for profile in [Profile::P612, Profile::P63] {
        assert!(after(profile, word.with(Flag::Referenced, true)));
    }
}

/// workingset.md 6. A page read through a descriptor is restored if it had been read often enough;
/// its activation counts in any case. A page that v6.12 restored in this way had one reference, and
/// starts where a page with all references does.
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

/// Regression: lru-gen.md 5.4. Pages that aging moved up counted as protected under every profile,
/// and a tier with many of them seemed to refault less than it did.
#[test]
fn before_614_aging_protects_nothing() {
    for (profile, expect) in [(Profile::P616, 2), (Profile::P612, 0), (Profile::P63, 0)] {
        let mut lruvec = Lruvec::new(Policy::MultiGen(profile), Millis(0));
        lruvec.ensure(4);
        for id in (0..4).map(FolioId) {
            lruvec.fault_in(id, FolioType::File, FaultKind::Descriptor, true, true);
        }
        while seq(&lruvec, 0) > window(&lruvec).1[FolioType::File.index()] {
            step(&mut lruvec);
        }
        // Makes the pages tier 1 with every profile.
        (0..8).for_each(|time| lruvec.mark_accessed(FolioId(time % 4)));
        step(&mut lruvec);
        // The average of four protected pages and, before, none.
        let tier = lruvec.lru_gen().controller().read(FolioType::File, 1..2, 1);
        assert_eq!(tier.total, expect, "{profile:?}");
    }
}

/// Direct reclaim makes no walk that could collect them: neighbours change lists at once, and count
/// as activated.
#[test]
fn neighbours_are_moved_at_once_or_by_the_walk() {
    let mut lruvec = p612(10);
    (0..10).for_each(|id| fault(&mut lruvec, id));
    step(&mut lruvec);
    let activated = |lruvec: &Lruvec| lruvec.stat().get(VmEvent::Pgactivate);
    let on = |lruvec: &Lruvec, seq| lruvec.list_order(seq, FolioType::Anon);
    lruvec.young_neighbour(FolioId(3), ScanReason::Direct);
    assert_eq!(
        (on(&lruvec, 4), activated(&lruvec)),
        ([FolioId(3)].to_vec(), 1)
    );
    lruvec.young_neighbour(FolioId(3), ScanReason::Direct);
    assert_eq!(activated(&lruvec), 1, "it is among the youngest already");
    lruvec.young_neighbour(FolioId(4), ScanReason::Background);
    assert_eq!(activated(&lruvec), 1);
    assert_eq!(lruvec.lru_gen().size(4, FolioType::Anon), 2);
    assert_eq!(on(&lruvec, 3).len(), 9, "it stands where it stood");
    lruvec.young_neighbour(FolioId(99), ScanReason::Direct);
    lruvec.check_invariants(Swappiness::default());
}

/// P616 promotes a neighbour only the second time that it is found young.
#[test]
fn a_neighbour_is_known_before_it_is_moved() {
    let mut lruvec = Lruvec::new(Policy::default(), Millis(0));
    lruvec.ensure(4);
    (0..4).for_each(|id| fault(&mut lruvec, id));
    step(&mut lruvec);
    lruvec.young_neighbour(FolioId(1), ScanReason::Direct);
    let word = lruvec.folios().get(FolioId(1));
    assert!(word.has(Flag::Referenced) && word.state() == State::Listed);
    assert_eq!(lruvec.stat().get(VmEvent::Pgactivate), 0);
    lruvec.young_neighbour(FolioId(1), ScanReason::Direct);
    assert_eq!(lruvec.stat().get(VmEvent::Pgactivate), 1);
    assert_eq!(lruvec.lru_gen().size(4, FolioType::Anon), 1);
}
