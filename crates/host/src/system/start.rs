//! How this process was started, and becoming another program the same way; the calls are `pagetables`',
//! where all unsafe code of the product is.

pub use pagetables::{
    Found, become_program, block_no_signal, child_signal_waits, close_on_exec_from, found,
    take_child_signal,
};

/// What `ps` shows of each process of ours. Run by `/proc/self/exe`, one without this is called `exe`.
pub const NAME: &str = "pagetide";

/// Calls this process by [`NAME`]; without effect where the kernel refuses.
pub fn take_name() {
    let _ = rustix::thread::set_name(c"pagetide");
}
