//! Measures what one reclaim of 1,024 pages by the memcg LRU costs, after many reclaims in a row:
//! `cargo run --release -p sim --example memcg_scale -- RECLAIMS TENANTS...`.
#![forbid(unsafe_code)]

use engine::machine::GlobalReclaim;
use sim::experiments::memcg_scale::{Caches, World};

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|n| n.parse().ok());
    let reclaims: u32 = args.next().unwrap_or(200);
    println!("| tenants | caches | visits | looks | median (us) |\n|---|---|---|---|---|");
    for tenants in args {
        for caches in [Caches::AsLeft, Caches::Cleared] {
            let mut world = World::new(tenants, 1);
            let cost = world.measure(GlobalReclaim::MemcgLru, caches, reclaims);
            println!(
                "| {tenants} | {caches:?} | {:.2} | {:.2} | {:.1} |",
                cost.visited, cost.scanned, cost.median_us
            );
        }
    }
}
