//! A simple model of the page-age histogram in exact mode, written from spec/workingset-report.md
//! 4.

use super::{Naive, PageState};
use engine::FolioType;

/// Returns the number of pages in each bin, `[anon, file]`; the last bin has no upper edge.
pub fn naive_page_age(model: &Naive, edges: &[u64], now: u64) -> Vec<[u64; 2]> {
    let mut bins = vec![[0; 2]; edges.len() + 1];
    for ty in FolioType::ALL {
        let t = ty as usize;
        let mut bin = 0;
        for seq in (model.min_seq[t]..=model.max_seq).rev() {
            let is_in_generation = |p: &&super::Page| p.ty == ty && p.place == PageState::Gen(seq);
            let mut size = model.pages.iter().filter(is_in_generation).count() as u64;
            let mut start = if seq == model.max_seq {
                now
            } else {
                model.births[&(seq + 1)]
            };
            let birth = model.births[&seq];
            while bin < edges.len() && birth + edges[bin] < now && start > birth {
                let part = size * (start + edges[bin] - now) / (start - birth);
                bins[bin][t] += part;
                size -= part;
                start = now - edges[bin];
                bin += 1;
            }
            bins[bin][t] += size;
        }
        let is_off_list = |p: &&super::Page| p.ty == ty && p.place == PageState::Off;
        bins[0][t] += model.pages.iter().filter(is_off_list).count() as u64;
    }
    bins
}
