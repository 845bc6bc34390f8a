//! Writes a made-up history, in the format of `serve --history` (docs/formats.md).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::wait::Chance;

/// The three tables of a history: milliseconds that a column covers, and number of columns.
const TIERS: [(u64, u64); 3] = [(15_000, 240), (300_000, 288), (1_800_000, 336)];
/// Number of figures in a column, in this order: ages, unknown age, swapped out, refaults (2),
/// steals (3), whether pressure is known, and pressure in microseconds.
const FIELDS: usize = 27;
/// Number of the figures that are ages.
const AGES: u64 = 18;

/// A tenant with a made-up day.
#[derive(Clone, Debug)]
pub struct Past {
    /// Name of the tenant, with its leading slash.
    pub name: String,
    /// Number of pages.
    pub pages: u64,
    /// Percentage of the pages in use at the busiest time.
    pub hot: u64,
}

impl Past {
    /// Makes a tenant of random size for each name.
    #[must_use]
    pub fn some(names: &[String], seed: u64) -> Vec<Past> {
        let mut chance = Chance::new(seed);
        let one = |name: &String| Past {
            name: name.clone(),
            pages: 1 << (8 + chance.below(11)),
            hot: 5 + chance.below(70),
        };
        names.iter().map(one).collect()
    }

    /// The figures at a time: more memory is in use at noon than at night, and unused memory grows
    /// older.
    fn row(&self, at_ms: u64, chance: &mut Chance) -> [u64; FIELDS] {
        let mut row = [0; FIELDS];
        let of_day = at_ms % 86_400_000 / 864_000;
        let busy = 100 - of_day.abs_diff(50) * 2;
        let hot = self.pages * self.hot * (20 + busy * 8 / 10) / 10_000;
        let mut cold = self.pages - hot;
        for young in row.iter_mut().take(3) {
            *young = hot / 4 + chance.below(hot / 8 + 2);
        }
        for age in 3..AGES {
            let part = cold / (3 + chance.below(4));
            row[usize::try_from(age).unwrap_or(0)] = part;
            cold -= part;
        }
        row[19] = cold;
        // In the morning cold memory is used again and refaults.
        if (25..45).contains(&of_day) {
            row[20] = chance.below(self.pages / 40 + 2);
            row[26] = chance.below(400_000);
        }
        row[23] = chance.below(50);
        row[25] = 1;
        row
    }
}

/// Writes a history of these tenants that ends now, with an action for each tenant.
///
/// # Panics
/// If it cannot be written.
pub fn write(path: &Path, tenants: &[Past]) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    let now_ms = u64::try_from(now.as_millis()).expect("64 bits are enough");
    let mut body = Vec::new();
    put(tenants.len() as u64, &mut body);
    for (number, tenant) in (0..).zip(tenants) {
        put(number, &mut body);
        put_bytes(tenant.name.as_bytes(), &mut body);
    }
    put(tenants.len() as u64, &mut body);
    for (number, tenant) in (0..).zip(tenants) {
        put(now_ms - number * 60_000, &mut body);
        let action = format!(
            "paged out {} pages of {}: over memory.high, or too close to memory.max",
            tenant.pages / 9,
            tenant.name
        );
        put_bytes(action.as_bytes(), &mut body);
    }
    put(TIERS.len() as u64, &mut body);
    for (step_ms, length) in TIERS {
        put(step_ms, &mut body);
        put(length, &mut body);
        let newest = now_ms / step_ms;
        let mut chance = Chance::new(step_ms);
        for slot in newest + 1 - length..=newest {
            put(slot, &mut body);
            put(step_ms, &mut body);
            let mut rows = Vec::new();
            for (number, tenant) in (0..).zip(tenants) {
                let row = tenant.row(slot * step_ms, &mut chance);
                put(number, &mut rows);
                let bit = |(at, value): (usize, &u64)| u64::from(*value > 0) << at;
                put(row.iter().enumerate().map(bit).sum(), &mut rows);
                row.iter()
                    .filter(|value| **value > 0)
                    .for_each(|value| put(*value, &mut rows));
            }
            put_bytes(&rows, &mut body);
        }
    }
    let mut file = b"pagetide history 1\n".to_vec();
    file.extend((body.len() as u64).to_le_bytes());
    let hash = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    file.extend(hash.to_le_bytes());
    file.extend(body);
    std::fs::write(path, file).expect("it can be written");
}

/// Appends a number, seven bits in each byte, lowest bits first.
fn put(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Appends the number of bytes, and the bytes.
fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
