//! What storing and reading back a page costs, and what it saves, by kind of page.
//!
//! `cargo run --release -p pager --example store [FILE]`: with FILE its pages are measured too
//! (a shared library or a core dump are good ones). Medians of several runs, in microseconds a
//! page; `plain` is the ratio of lz4 alone, without granules, raw pages and slabs. The last
//! table fills a pool to its limit and then replaces random pages for long, to see how much of
//! it stays usable.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::File;
use std::sync::atomic::AtomicU16;
use std::time::Instant;

use keeper::Place;
use keeper::word::Bytes;
use pager::store::{Compress, MemBacking, Options, Page, Store, Temperature, Tier};
use rustix::fs::{MemfdFlags, memfd_create};

const PAGES: usize = 4096;
const RUNS: usize = 7;
const BATCH: usize = 32;
const PAGE: usize = 4096;

/// xorshift64: the same pages in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }
}

fn text(random: &mut Random) -> Page {
    const WORDS: [&str; 16] = [
        "memory",
        "reclaim",
        "the",
        "folio",
        "generation",
        "of",
        "page",
        "and",
        "tenant",
        "limit",
        "cold",
        "store",
        "return",
        "keeper",
        "struct",
        "kernel",
    ];
    let mut text = String::new();
    while text.len() < PAGE {
        text += WORDS[random.below(WORDS.len())];
        match random.below(8) {
            0 => text += "\n    ",
            1 => text += &format!(" {} ", random.below(100_000)),
            _ => text += " ",
        }
    }
    page_of(text.as_bytes())
}

/// Objects of a heap: pointers into one arena, small numbers, zeros.
fn pointers(random: &mut Random) -> Page {
    let mut words = Vec::new();
    while words.len() < PAGE {
        let word = match random.below(4) {
            0 => 0,
            1 => random.next() % 256,
            _ => 0x7f12_3400_0000 + ((random.next() % (1 << 20)) << 4),
        };
        words.extend(word.to_le_bytes());
    }
    page_of(&words)
}

fn noise(random: &mut Random) -> Page {
    let words: Vec<u8> = (0..PAGE / 8)
        .flat_map(|_| random.next().to_le_bytes())
        .collect();
    page_of(&words)
}

fn page_of(bytes: &[u8]) -> Page {
    let mut page = [0; PAGE];
    page.copy_from_slice(&bytes[..PAGE]);
    page
}

fn store(compress: Compress, bytes: u64) -> Result<Store, Box<dyn Error>> {
    let file = File::from(memfd_create("store-bench", MemfdFlags::CLOEXEC)?);
    let counts: Vec<AtomicU16> = (0..bytes / 64).map(|_| AtomicU16::new(0)).collect();
    let pool = Tier {
        backing: Box::new(MemBacking(file)),
        refs: Box::new(counts),
    };
    Ok(Store::new(
        pool,
        None,
        Options {
            compress,
            pool_max: bytes,
            file_max: 0,
        },
    ))
}

/// Runs `work` several times; the median in microseconds a page.
fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6 / PAGES as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

fn plain_ratio(pages: &[Page]) -> f64 {
    let sizes = pages
        .iter()
        .map(|page| lz4_flex::block::compress(page).len());
    (pages.len() * PAGE) as f64 / sizes.sum::<usize>() as f64
}

fn measure(name: &str, pages: &[Page], compress: Compress) -> Result<(), Box<dyn Error>> {
    let mut store = store(compress, 64 << 20)?;
    let mut places: Vec<Place> = Vec::new();
    let free_all = |store: &mut Store, places: &mut Vec<Place>| {
        places.drain(..).for_each(|place| store.free(place));
    };
    let single = median(|| {
        free_all(&mut store, &mut places);
        places.extend(
            pages
                .iter()
                .filter_map(|page| store.put(page, Temperature::Warm).ok()),
        );
    });
    let mut out = Vec::new();
    let batch = median(|| {
        free_all(&mut store, &mut places);
        for batch in pages.chunks(BATCH) {
            store.put_batch(batch, Temperature::Warm, &mut out);
        }
        places.extend(out.drain(..).flatten());
    });
    let mut page = [0; PAGE];
    let mut wrong = 0;
    let get = median(|| {
        wrong += places
            .iter()
            .filter(|place| store.get(**place, &mut page).is_err())
            .count();
    });
    if wrong > 0 || places.len() != pages.len() {
        return Err("a page was not stored or not read back".into());
    }
    store.shrink();
    let ratio = (pages.len() * PAGE) as f64 / store.used_bytes() as f64;
    let compress = format!("{compress:?}");
    let plain = plain_ratio(pages);
    println!("{name:10} {compress:6} {single:8.2} {batch:8.2} {get:8.2} {ratio:8.2} {plain:8.2}");
    Ok(())
}

/// Fills a pool, then replaces random pages until each was replaced ten times over. Prints how
/// much of the limit holds live bytes, in percent, before and after, and in how many separate
/// pieces a batch then lies.
fn churn(name: &str, pages: &[Page], batch: usize) -> Result<(), Box<dyn Error>> {
    let limit = 16 << 20;
    let mut store = store(Compress::Lz4, limit)?;
    let mut random = Random(7);
    let mut places = Vec::new();
    let mut out = Vec::new();
    let mut split = (0, 0);
    let mut put = |store: &mut Store, random: &mut Random, places: &mut Vec<Place>| {
        let from = random.below(pages.len() - batch);
        store.put_batch(&pages[from..from + batch], Temperature::Warm, &mut out);
        let stored: Vec<Place> = out.drain(..).flatten().collect();
        places.extend(&stored);
        let whole = stored.len() == batch;
        if whole {
            split = (split.0 + pieces(&stored), split.1 + 1);
        }
        (whole, split)
    };
    while put(&mut store, &mut random, &mut places).0 {}
    let percent = |store: &Store| store.stats().live_bytes as f64 * 100.0 / limit as f64;
    let filled = percent(&store);
    let (_, before) = put(&mut store, &mut random, &mut places);
    let mut after = before;
    for _ in 0..10 * places.len() / batch {
        loop {
            let (whole, split) = put(&mut store, &mut random, &mut places);
            after = split;
            if whole {
                break;
            }
            for _ in 0..batch.min(places.len()) {
                let gone = random.below(places.len());
                store.free(places.swap_remove(gone));
            }
        }
    }
    let pieces = (after.0 - before.0) as f64 / f64::from(after.1 - before.1);
    println!(
        "{name:10} {batch:8} {filled:8.1} {:8.1} {pieces:8.1}",
        percent(&store)
    );
    Ok(())
}

/// Maximal sequences of slots that lie side by side.
fn pieces(places: &[Place]) -> usize {
    let mut end = None;
    let mut pieces = 0;
    for place in places {
        if let Some(Bytes::Slot(slot)) = place.bytes() {
            pieces += usize::from(end != Some(slot.offset));
            end = Some(slot.offset + u64::from(slot.len).next_multiple_of(64));
        }
    }
    pieces
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut random = Random(88_172_645_463_325_252);
    let mut make = |page: fn(&mut Random) -> Page| (0..PAGES).map(|_| page(&mut random)).collect();
    let mut sets: Vec<(&str, Vec<Page>)> = vec![
        ("text", make(text)),
        ("pointers", make(pointers)),
        ("noise", make(noise)),
    ];
    sets.push(("same", vec![[0; PAGE]; PAGES]));
    if let Some(path) = std::env::args_os().nth(1) {
        let bytes = std::fs::read(path)?;
        let pages = bytes.as_chunks::<PAGE>().0;
        sets.push(("file", pages.iter().copied().cycle().take(PAGES).collect()));
    }
    println!("pages      encode      put    batch      get    ratio    plain");
    for (name, pages) in &sets {
        for compress in [Compress::Lz4, Compress::Zstd, Compress::None] {
            measure(name, pages, compress)?;
        }
    }
    println!("\nchurn         batch   filled    after   pieces");
    let mixed: Vec<Page> = sets
        .iter()
        .flat_map(|(_, pages)| pages.iter().copied())
        .collect();
    let mut shuffled = mixed;
    for index in (1..shuffled.len()).rev() {
        shuffled.swap(index, random.below(index + 1));
    }
    sets.push(("mixed", shuffled));
    for (name, pages) in sets.iter().filter(|(name, _)| *name != "same") {
        for batch in [1, BATCH] {
            churn(name, pages, batch)?;
        }
    }
    Ok(())
}
