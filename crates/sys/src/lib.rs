//! Thin wrappers of system calls that no safe library offers: launch, priority, swap, memory.
//!
//! Invariant: nothing here decides. Each wrapper checks its arguments as far as it can, passes the
//! kernel only memory that lives for the call, and returns the kernel's error number as
//! [`std::io::Error`].
//!
//! The feature `launch` adds the module `start`, which notes the state of the process in a
//! constructor that runs before `main`. Libraries that are linked into other programs do not use
//! that feature.

mod heap;
mod memory;
mod peer;
mod priority;
#[cfg(feature = "launch")]
mod start;
mod swap;

pub use heap::give_large_blocks_back;
pub use memory::unlock;
pub use peer::peer;
pub use priority::{has_time, set_real_time_priority, with_real_time_priority};
#[cfg(feature = "launch")]
pub use start::{
    StartState, become_program, block_no_signal, child_signal_waits, close_on_exec_from, found,
    is_ignored, take_child_signal,
};
pub use swap::{swap_off, swap_on};
