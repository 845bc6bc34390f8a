//! memory.events and memory.swap.events. spec: reclaim-control.md 9.

/// An event of a tenant's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcgEvent {
    /// Reclaimed although below low.
    Low,
    /// Throttled for being above high.
    High,
    /// A charge was about to go over max.
    Max,
    /// A charge failed at max after reclaim.
    Oom,
    /// A process was killed.
    OomKill,
    /// The whole group was killed.
    OomGroupKill,
    /// Usage of swap above swap.high.
    SwapHigh,
    /// No swap slot within swap.max.
    SwapMax,
    /// No swap slot at all.
    SwapFail,
}

impl MemcgEvent {
    /// All events, those of memory.events first.
    pub const ALL: [Self; 9] = [
        Self::Low,
        Self::High,
        Self::Max,
        Self::Oom,
        Self::OomKill,
        Self::OomGroupKill,
        Self::SwapHigh,
        Self::SwapMax,
        Self::SwapFail,
    ];

    /// The name in its file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High | Self::SwapHigh => "high",
            Self::Max | Self::SwapMax => "max",
            Self::Oom => "oom",
            Self::OomKill => "oom_kill",
            Self::OomGroupKill => "oom_group_kill",
            Self::SwapFail => "fail",
        }
    }
}

/// How often each happened. Never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemcgEvents([u64; MemcgEvent::ALL.len()]);

impl MemcgEvents {
    /// How often `event` happened.
    #[must_use]
    pub const fn get(&self, event: MemcgEvent) -> u64 {
        self.0[event as usize]
    }

    pub(crate) const fn add(&mut self, event: MemcgEvent, nr: u64) {
        self.0[event as usize] += nr;
    }
}
