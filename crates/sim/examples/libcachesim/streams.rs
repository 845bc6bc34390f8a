//! The references to replay: loads them from a trace file or generates them, and writes the file
//! that both sides read.

use sim::trace::{Trace, TraceError, TraceOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Returns the page of each reference in a trace file.
pub(super) fn load(file: &Path) -> Result<Vec<u64>, TraceError> {
    let mut trace = Trace::open(file, &TraceOptions::default())?;
    let (mut pages, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch)? {
        pages.extend(batch.iter().map(|reference| reference.page));
    }
    Ok(pages)
}

/// Returns references to objects with a Zipf distribution of exponent 1.0, from a fixed seed. The
/// number of an object is its rank.
pub(super) fn zipf(references: usize, objects: u32) -> Vec<u64> {
    let mut sum = 0.0;
    let weight = |rank| {
        sum += 1.0 / f64::from(rank);
        sum
    };
    let below: Vec<f64> = (1..=objects).map(weight).collect();
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let part = f64::from(u32::try_from(x >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        below
            .partition_point(|&b| b < part * sum)
            .min(below.len() - 1) as u64
    };
    (0..references).map(|_| draw()).collect()
}

/// The file that both sides read; removed when dropped.
pub(super) struct Common(pub(super) PathBuf);

impl Common {
    pub(super) fn write(pages: &[u64]) -> std::io::Result<Self> {
        let name = format!("pagetide-libcachesim-{}.bin", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = BufWriter::new(std::fs::File::create(&path)?);
        let common = Self(path);
        for page in pages {
            let mut record = [0; 24];
            record[4..12].copy_from_slice(&page.to_le_bytes());
            record[12] = 1;
            record[16..].copy_from_slice(&(-1i64).to_le_bytes());
            file.write_all(&record)?;
        }
        file.flush()?;
        Ok(common)
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        // If the file cannot be removed, the measurement is still valid.
        let _ = std::fs::remove_file(&self.0);
    }
}
