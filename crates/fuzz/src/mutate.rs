//! Changes to bytes: what damage, a cut, a copy or a hostile hand would make of them.
//!
//! Invariant: no input becomes longer than [`LONGEST`] by it.

use crate::Chance;

/// Longest input that changes make, bytes.
const LONGEST: usize = 1 << 20;

/// What parsers like least.
const ODD: [&[u8]; 14] = [
    b"\0",
    b"\r\n",
    b"\n",
    b"\"",
    b"\\",
    b"/../",
    b"%00",
    b"18446744073709551616",
    b"-1",
    b"1e999",
    b"\xff\xfe",
    b"\xf0\x9f\x92\xa9",
    b"\x1b]0;x\x07",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
];

/// Changes `bytes` in one to four places.
pub fn mutate(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() + 1);
        let end = (at + chance.below(64)).min(bytes.len());
        match chance.below(6) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << chance.below(8);
                }
            }
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, chance.bytes(16))),
            4 => {
                let odd = chance.pick(&ODD);
                drop(bytes.splice(at..at, odd.iter().copied()));
            }
            _ => {
                let part = bytes[at..end].repeat(1 + chance.below(100));
                if bytes.len() + part.len() <= LONGEST {
                    drop(bytes.splice(at..at, part));
                }
            }
        }
    }
}
