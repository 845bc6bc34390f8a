//! The kernels that are compared: how a page that was out comes in, under which policy.
//!
//! Invariant: what is chosen here is where a page starts; what leaves is the engine's choice.

use crate::tenant::Tenant;
use ::engine::active_inactive::Stage;
use ::engine::lru_gen::Profile;
use ::engine::{FaultKind, FolioId, FolioType, Pages, Policy};

/// Pages that a CPU collects before it adds them to the lists (v5.8).
const ADD_BATCH: u32 = 15;

/// A row of the table, for each parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// v5.8: a page that is swapped in is to be activated, which misses it while it waits in its
    /// CPU's add batch: only the page that fills the batch is on a list by then.
    Base,
    /// v5.8, had it no add batches: every page that is swapped in starts active.
    BaseAtOnce,
    /// The first half of the series.
    Protection,
    /// All of it.
    Detection,
    /// The multi-gen LRU, about v6.16.
    MultiGen,
}

impl Kernel {
    /// All that run on the engine; base comes first.
    pub const ALL: [Self; 5] = [
        Self::Base,
        Self::Protection,
        Self::Detection,
        Self::BaseAtOnce,
        Self::MultiGen,
    ];

    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::BaseAtOnce => "base, no add batch",
            Self::Protection => "prot",
            Self::Detection => "detect",
            Self::MultiGen => "multi-gen",
        }
    }

    /// The engine's policy, on a machine of `total` pages.
    #[must_use]
    pub const fn policy(self, total: Pages) -> Policy {
        match self {
            Self::Base | Self::BaseAtOnce => Policy::ActiveInactive(Stage::Base, total),
            Self::Protection => Policy::ActiveInactive(Stage::Protection, total),
            Self::Detection => Policy::ActiveInactive(Stage::Detection, total),
            Self::MultiGen => Policy::MultiGen(Profile::P616),
        }
    }
}

/// A program on one of the kernels.
#[derive(Debug)]
pub struct Machine {
    tenant: Tenant,
    kernel: Kernel,
    /// Pages in the add batch, by CPU.
    batches: Vec<u32>,
}

impl Machine {
    /// A program of `pages` pages on `cpus` CPUs, with memory for `limit`.
    #[must_use]
    pub fn new(kernel: Kernel, pages: u32, limit: Pages, cpus: usize) -> Self {
        Self {
            tenant: Tenant::new(kernel.policy(limit), pages, limit),
            kernel,
            batches: vec![0; cpus],
        }
    }

    /// A touch by the thread on `cpu`.
    #[inline]
    pub fn touch(&mut self, page: u32, cpu: usize) {
        if !self.tenant.lruvec_mut().touch(FolioId(page)) {
            self.fault(page, cpu);
        }
    }

    fn fault(&mut self, page: u32, cpu: usize) {
        let kind = match self.kernel {
            Kernel::Base => self.swap_in(cpu),
            _ => FaultKind::Refault,
        };
        self.tenant.fault(page, FolioType::Anon, kind);
    }

    /// Whether the activation at the fault finds the page on a list.
    fn swap_in(&mut self, cpu: usize) -> FaultKind {
        let waiting = &mut self.batches[cpu];
        *waiting = (*waiting + 1) % ADD_BATCH;
        if *waiting == 0 {
            FaultKind::Refault
        } else {
            FaultKind::Readahead
        }
    }

    /// The program.
    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The program, for what is not a touch.
    pub const fn tenant_mut(&mut self) -> &mut Tenant {
        &mut self.tenant
    }
}
