//! Mistakes that the search must find: each is one rule of the protocol, broken.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// Faults are answered while events that were read are not applied.
    AnswersBeforeEvents,
    /// A page that returned is noted by load and store, not by swap.
    ReturnStores,
    /// A reference is released before the word says so.
    ReleasesFirst,
    /// What is in the transit window is not in a journal.
    NoTransitJournal,
    /// A page is moved out of memory that is being removed.
    NoRest,
    /// A word says `Stored` before the store holds the bytes.
    CommitsFirst,
    /// A commit is a store, not a compare-and-swap.
    CommitStores,
    /// Settling loads and stores.
    SettleStores,
    /// A keeper that takes over wakes nobody.
    WakesNobody,
    /// A keeper that takes over settles nothing.
    SettlesNothing,
    /// Recovery closes the transit journal before it has set right what that names.
    NoHandOver,
    /// A move takes a write-back along.
    MoveKeepsWriteback,
    /// A move does not look whether the page is there: a keeper died before it could say so.
    MoveBelievesWord,
    /// A move stores the word at the new place over whatever is there.
    MoveStores,
    /// Adoption leaves write-backs as they are.
    AdoptKeepsWriteback,
    /// Adoption counts while the keeper is in the middle of giving a slot back.
    AdoptWithoutBarrier,
    /// Adoption believes what it read although a word was moved meanwhile.
    AdoptIgnoresMoves,
    /// Adoption believes its count although slots were given back meanwhile.
    AdoptCountsOnce,
}
