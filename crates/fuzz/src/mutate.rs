//! Changes bytes at random, as damage, truncation, copying or an attacker would change them.
//!
//! Invariant: one change adds at most 20 bytes, unless it repeats a part of the input. Repeating
//! never makes an input longer than [`LONGEST`].

use crate::Chance;

/// Maximum length of an input after a part of the input was repeated, bytes.
const LONGEST: usize = 1 << 20;

/// Byte sequences that often break parsers.
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

/// Makes one to four random changes to `bytes`.
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
