//! The two write commands of debugfs lru_gen: age (`+`) and evict (`-`). spec: lru-gen.md 10.

use super::{LruGen, MAX_NR_GENS, MIN_NR_GENS, evictable};
use crate::folio::FolioTable;
use crate::units::{Millis, Swappiness};

/// Why a command was refused, named after the kernel's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The seq lies outside what the command may name.
    Invalid,
    /// That generation exists already.
    Exists,
    /// The window of generations is full (P63 without force).
    Range,
}

/// One step of the evict command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Pages were isolated or moved on; call again.
    More,
    /// Nothing at or below that seq is left, or nothing there can go.
    Done,
}

impl LruGen {
    pub(crate) fn run_aging(
        &mut self,
        folios: &mut FolioTable,
        (seq, swappiness, force_scan): (u64, Swappiness, bool),
        now: Millis,
    ) -> Result<(), CommandError> {
        if seq > self.max_seq {
            return Err(CommandError::Invalid);
        }
        let full = evictable(swappiness).any(|ty| self.nr_gens(ty) == MAX_NR_GENS);
        if self.profile.is_before_614() && seq < self.max_seq {
            return Ok(());
        }
        if self.profile.is_before_614() && full && !force_scan {
            return Err(CommandError::Range);
        }
        let advanced = self.inc_max_seq(folios, seq, swappiness, now);
        if advanced {
            Ok(())
        } else {
            Err(CommandError::Exists)
        }
    }

    /// The youngest two generations are not for eviction.
    pub(crate) const fn check_eviction(&self, seq: u64) -> Result<(), CommandError> {
        if seq + MIN_NR_GENS > self.max_seq {
            Err(CommandError::Invalid)
        } else {
            Ok(())
        }
    }
}
