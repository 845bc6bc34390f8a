//! Decides which tests may have swap at the same time: several tests that share one swap area, or
//! one test with areas of its own.
//!
//! Why: switching an area off swaps in all pages in it, also those of other tests' programs, and
//! these tests count swapped-out pages. Several lanes run tests at the same time
//! ([`crate::temp::serial`]), so the shared area stays on until the last of the tests that share it
//! has ended.
//!
//! Invariant: a test that waits for areas of its own is not overtaken by later tests that share.
//! Each test takes the lock `swap-gate` before it waits, and keeps it while it waits.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FlockOperation, flock};

use crate::temp::target_dir;

/// A lock: the right to share the swap area, or to have areas of its own, until this is dropped.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "the open file is the lock")] File);

/// The lock of this process's test that has swap areas of its own. All areas of that test share the
/// lock, which is released with the last of them.
static EXCLUSIVE_TURN: Mutex<Weak<Turn>> = Mutex::new(Weak::new());

/// Waits until no test has areas of its own; returns the right to share the swap area.
pub(crate) fn shared() -> Turn {
    let _gate = lock("swap-gate", FlockOperation::LockExclusive);
    Turn(lock("swap", FlockOperation::LockShared))
}

/// Waits until no other test has a swap area; returns the right to have areas of its own. Later
/// tests wait until the result is dropped.
///
/// # Panics
/// If a lock file cannot be made.
#[must_use]
pub fn exclusive() -> Arc<Turn> {
    let mut held = EXCLUSIVE_TURN
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(turn) = held.upgrade() {
        return turn;
    }
    let _gate = lock("swap-gate", FlockOperation::LockExclusive);
    let turn = Arc::new(Turn(lock("swap", FlockOperation::LockExclusive)));
    *held = Arc::downgrade(&turn);
    turn
}

/// Locks making and removing the shared area, until the result is dropped.
pub(crate) fn lock_shared_area() -> File {
    lock("swap-making", FlockOperation::LockExclusive)
}

/// Waits for the lock `name`, a file in cargo's target directory.
fn lock(name: &str, how: FlockOperation) -> File {
    let folder = target_dir().join("e2e");
    std::fs::create_dir_all(&folder).expect("the target directory is writable");
    let file = File::create(folder.join(format!("{name}.lock")));
    let file = file.expect("the lock file can be made");
    flock(&file, how).expect("a lock can be waited for");
    file
}
