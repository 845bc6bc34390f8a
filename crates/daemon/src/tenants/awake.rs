//! Idle processors stay awake while somebody asks in a row.
//!
//! Invariant: for no longer than [`LINGER`] after the last row of questions, and never after we have ended: the kernel takes the
//! request back when its file is closed. Where the request cannot be made, all is as it was.
//!
//! Who asks and who answers run on two processors, and each wakes the other's. Under a hypervisor, to wake a processor that has halted takes
//! two exits and an interrupt; one that polls sees a store. A request for no latency at all (`/dev/cpu_dma_latency`,
//! Documentation/power/pm_qos_interface.rst) has each idle processor poll.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

const DEVICE: &str = "/dev/cpu_dma_latency";
/// A row is over that came no further for so long.
const LINGER: Duration = Duration::from_millis(2);
/// On more processors, what polls for two costs too much.
const PROCESSORS_MAX: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Awake {
    /// Rows of questions until now.
    rows: Arc<AtomicU64>,
    /// None where it is not to be had.
    wanted: Option<SyncSender<()>>,
}

impl Awake {
    /// From now on, where this host and our rights allow it.
    pub(super) fn begin() -> Awake {
        let processors = std::thread::available_parallelism();
        let are_few = processors.is_ok_and(|all| (2..=PROCESSORS_MAX).contains(&all.get()));
        // Opened alone, it asks for nothing.
        if !are_few || OpenOptions::new().write(true).open(DEVICE).is_err() {
            return Awake::default();
        }
        let rows = Arc::<AtomicU64>::default();
        let (wanted, asked) = sync_channel(1);
        let told = Arc::clone(&rows);
        let thread = std::thread::Builder::new().name("stay-awake".to_owned());
        let is_there = thread.spawn(move || stay_awake(&asked, &told)).is_ok();
        Awake {
            rows,
            wanted: is_there.then_some(wanted),
        }
    }

    /// Another row of questions came fast.
    pub(super) fn row(&self) {
        self.rows.fetch_add(1, Ordering::Relaxed);
        if let Some(wanted) = &self.wanted {
            // Full: it is on.
            let _ = wanted.try_send(());
        }
    }
}

/// The thread's work, until nobody can ask any more.
fn stay_awake(wanted: &Receiver<()>, rows: &AtomicU64) {
    while wanted.recv().is_ok() {
        let Ok(mut device) = OpenOptions::new().write(true).open(DEVICE) else {
            return;
        };
        if device.write_all(&0_i32.to_ne_bytes()).is_err() {
            return;
        }
        let mut before = rows.load(Ordering::Relaxed);
        loop {
            std::thread::sleep(LINGER);
            let now = rows.load(Ordering::Relaxed);
            if now == before {
                break;
            }
            before = now;
        }
    }
}
