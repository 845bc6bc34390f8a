//! Who has swap at the same time: those who share one area, or one test that has its own.
//!
//! Why: whoever switches an area off brings back all that is in it, also what others' programs have there, and those others count what is
//! out. Tests of several lanes run at a time ([`crate::temp::serial`]), so what they share stays on until the last of them has gone.
//!
//! Invariant: who waits to be alone is not overtaken by those who come later to share: all pass one gate, and he waits in it.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FlockOperation, flock};

use crate::temp::target_dir;

/// Held for as long as others may share, or nobody may.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "the open file is the lock")] File);

/// A test may have several areas of its own.
static ALONE: Mutex<Weak<Turn>> = Mutex::new(Weak::new());

/// Waits until nobody has an area of his own.
pub(crate) fn shared() -> Turn {
    let _gate = lock("swap-gate", FlockOperation::LockExclusive);
    Turn(lock("swap", FlockOperation::LockShared))
}

/// Waits until nobody else has any area of these tests, and keeps them away.
///
/// # Panics
/// If a lock file cannot be made.
#[must_use]
pub fn alone() -> Arc<Turn> {
    let mut held = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(turn) = held.upgrade() {
        return turn;
    }
    let _gate = lock("swap-gate", FlockOperation::LockExclusive);
    let turn = Arc::new(Turn(lock("swap", FlockOperation::LockExclusive)));
    *held = Arc::downgrade(&turn);
    turn
}

/// For as long as an area is made or removed that all share.
pub(crate) fn making() -> File {
    lock("swap-making", FlockOperation::LockExclusive)
}

fn lock(name: &str, how: FlockOperation) -> File {
    let folder = target_dir().join("e2e");
    std::fs::create_dir_all(&folder).expect("the target directory is writable");
    let file = File::create(folder.join(format!("{name}.lock")));
    let file = file.expect("the lock file can be made");
    flock(&file, how).expect("a lock can be waited for");
    file
}
