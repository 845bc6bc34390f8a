//! The events of memory.events and memory.swap.events.
//! spec: reclaim-control.md 9.

/// An event of a tenant, counted in memory.events or memory.swap.events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcgEvent {
    /// Pages of the tenant were reclaimed although its usage was below low.
    Low,
    /// A task was throttled because the usage was above high.
    High,
    /// A charge was about to exceed max.
    Max,
    /// A charge failed at max after reclaim.
    Oom,
    /// A process of the tenant was killed.
    OomKill,
    /// All processes of the tenant were killed together.
    OomGroupKill,
    /// The usage of swap was above swap.high.
    SwapHigh,
    /// A page could not be swapped out because of swap.max.
    SwapMax,
    /// A page could not be swapped out: by swap.max, or because the machine has no free swap.
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

    /// Returns the event's key in memory.events or memory.swap.events.
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

/// How often each event happened; the counts never decrease.
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
