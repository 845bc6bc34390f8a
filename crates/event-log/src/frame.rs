//! Frames: the units in which a recording is written. A frame is a length, a checksum and a
//! content.
//!
//! Invariant: an incomplete frame is not read; no content is longer than [`FRAME_MAX`].

/// Number of bytes before the content: its length, then its checksum, 32 bits each, little-endian.
pub const PREFIX: usize = 8;
/// Maximum length of the content, bytes.
pub const FRAME_MAX: usize = 128 << 10;

/// The result of [`split`]: what the bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// An incomplete frame. The number is the length in bytes that is needed to continue: that of
    /// the prefix, or, if the prefix is complete, that of the whole frame.
    Needs(usize),
    /// A complete frame: its content.
    Whole(&'a [u8]),
    /// No frame: the length is 0 or above [`FRAME_MAX`], or the checksum is wrong.
    Damaged,
}

/// Appends a frame with this content to `out`.
///
/// # Panics
/// If the content is empty or longer than [`FRAME_MAX`].
pub fn put(out: &mut Vec<u8>, content: &[u8]) {
    assert!(
        (1..=FRAME_MAX).contains(&content.len()),
        "a frame has a bounded length"
    );
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc(content).to_le_bytes());
    out.extend_from_slice(content);
}

/// Returns what `bytes` begin with.
#[must_use]
pub fn split(bytes: &[u8]) -> Split<'_> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Split::Needs(PREFIX);
    };
    let [a, b, c, d, sum @ ..] = *prefix;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if !(1..=FRAME_MAX).contains(&length) {
        return Split::Damaged;
    }
    match rest.get(..length) {
        None => Split::Needs(PREFIX + length),
        Some(content) if crc(content) == u32::from_le_bytes(sum) => Split::Whole(content),
        Some(_) => Split::Damaged,
    }
}

/// Polynomial of the checksum CRC-32C (Castagnoli), with reversed bits: the highest power is the
/// lowest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// For each value of a byte: the remainder of its division by [`POLYNOMIAL`].
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                value >> 1 ^ POLYNOMIAL
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};

/// The checksum of `bytes`.
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        let low = sum.to_le_bytes()[0] ^ byte;
        sum >> 8 ^ TABLE[usize::from(low)]
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc_32c() {
        // RFC 3720 B.4.
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        assert_eq!(crc(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn an_incomplete_frame_is_not_read() {
        let mut bytes = Vec::new();
        put(&mut bytes, b"content");
        assert_eq!(split(&bytes), Split::Whole(b"content"));
        for cut in 0..bytes.len() {
            let needs = if cut < PREFIX { PREFIX } else { bytes.len() };
            assert_eq!(split(&bytes[..cut]), Split::Needs(needs));
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 4;
            assert!(!matches!(split(&other), Split::Whole(_)), "byte {at}");
        }
        assert_eq!(split(&[0; 64]), Split::Damaged);
    }
}
