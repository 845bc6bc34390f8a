//! The ebizzy workload: threads copy chunks of the allocated memory, chosen by a Zipf distribution.
//!
//! Each operation of ebizzy copies a whole chunk, searches the copy and frees it. The copies need
//! memory while an operation runs, so the machine of the patch series had less memory for the
//! chunks.
//!
//! Invariant: the order of the chunks depends only on the seed, so it is the same for all kernels.

use super::document::{Row, machine};
use super::kernel::{Kernel, Machine};
use super::opt;
use crate::rng::Rng;
use ::engine::Pages;
use ::engine::vmstat::VmEvent;

/// Number of pages in a chunk (512 KiB). With this size the kernel without the patches (`base`)
/// swaps in as many pages as in the document, at all three Zipf exponents. With 256 KiB it swaps in
/// a quarter less at exponent 1.3; with 1 MiB, a quarter more.
const CHUNK_PAGES: u64 = 128;

/// The workload of one parameter set, at one scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    threads: usize,
    alpha: f64,
    chunks: u32,
    /// Number of pages in a chunk. It is divided by the scale, so the number of chunks is the same
    /// at any scale.
    chunk: u32,
    limit: u64,
    accesses: u32,
}

impl Design {
    /// Returns the workload of a row, with sizes divided by `scale`.
    #[must_use]
    pub fn new(row: &Row, scale: u64) -> Self {
        let machine = machine(row.threads);
        let chunk = u32::try_from((CHUNK_PAGES / scale).max(1)).unwrap_or(1);
        let chunks = u64::from(row.mib) * 256 / scale / u64::from(chunk);
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        Self {
            threads: row.threads as usize,
            alpha: row.alpha,
            chunks,
            chunk,
            limit: rounded(machine.mib * 256.0) / scale,
            accesses: u32::try_from(rounded(f64::from(chunks) * machine.passes))
                .unwrap_or(u32::MAX),
        }
    }

    /// Returns the chunks in the order of their use: all chunks once, as they are allocated; then
    /// the randomly drawn ones.
    fn chunks_in_order(&self, seed: u64) -> Vec<u32> {
        let mut rng = Rng::stream(seed, 0);
        let zipf = Zipf::new(self.chunks, self.alpha);
        let mut of_rank: Vec<u32> = (0..self.chunks).collect();
        for last in (1..self.chunks).rev() {
            of_rank.swap(last as usize, rng.below(last + 1) as usize);
        }
        let drawn = (0..self.accesses).map(|_| of_rank[zipf.rank(rng.unit())]);
        (0..self.chunks).chain(drawn).collect()
    }

    /// Returns the pages swapped in by each of [`Kernel::ALL`], and last by OPT.
    #[must_use]
    pub fn run(&self, seed: u64) -> [u64; 6] {
        let order = self.chunks_in_order(seed);
        let mut swapped = [0; 6];
        for (slot, &kernel) in swapped.iter_mut().zip(&Kernel::ALL) {
            *slot = self.run_on(kernel, &order);
        }
        swapped[5] = opt::swap_ins(&order, self.chunks, u64::from(self.chunk), self.limit);
        swapped
    }

    /// Runs the workload and returns the pages swapped in. Each thread goes through its chunk page
    /// by page, all threads in turn.
    fn run_on(&self, kernel: Kernel, order: &[u32]) -> u64 {
        let pages = self.chunks * self.chunk;
        let mut machine = Machine::new(kernel, pages, Pages(self.limit), self.threads);
        let (allocated, drawn) = order.split_at(self.chunks as usize);
        let mut faults = 0;
        let groups = allocated.chunks(1).chain(drawn.chunks(self.threads));
        for group in groups {
            faults += 1;
            machine.tenant_mut().at(::engine::Millis(faults));
            for page in 0..self.chunk {
                for (cpu, &chunk) in group.iter().enumerate() {
                    machine.touch(chunk * self.chunk + page, cpu);
                }
            }
        }
        machine.tenant().stat(VmEvent::Pswpin)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of a machine of 1 GiB"
)]
const fn rounded(x: f64) -> u64 {
    x as u64
}

/// A Zipf distribution by table: ranks with probabilities proportional to `rank^-alpha`.
struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    fn new(n: u32, alpha: f64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: u32| f64::from(rank).powf(-alpha);
        let mut cumulated: Vec<f64> = (1..=n)
            .map(|rank| {
                sum += weight(rank);
                sum
            })
            .collect();
        cumulated.iter_mut().for_each(|c| *c /= sum);
        Self { cumulated }
    }

    /// Returns the rank, from 0, to which `unit` (a random number in 0..1) belongs.
    fn rank(&self, unit: f64) -> usize {
        let rank = self.cumulated.partition_point(|&c| c <= unit);
        rank.min(self.cumulated.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_zipf_weights() {
        let zipf = Zipf::new(4, 1.0);
        // The four ranks have probabilities 12/25, 6/25, 4/25 and 3/25.
        let ranks = [0.0, 0.47, 0.49, 0.71, 0.73, 0.87, 0.89, 0.9999].map(|u| zipf.rank(u));
        assert_eq!(ranks, [0, 0, 1, 1, 2, 2, 3, 3]);
    }
}
