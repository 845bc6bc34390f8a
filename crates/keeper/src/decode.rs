//! Turns the bytes of a slot back into a page.
//!
//! Invariant: total. Whatever the encoded bytes are (the target can write them), decoding ends
//! after bounded work, stays inside `page`, and either fills all of it or says [`Corrupt`].
//! No allocation: what a decoder needs is in [`Scratch`], which asks the C library's `malloc`
//! once, when it is made; in the blob that is a fixed arena.

use zstd_safe::DCtx;

use crate::word::{Kind, PAGE_SIZE};

/// The bytes are not what the store wrote, or the slot was reused meanwhile: look at the state
/// word again, and only if it is unchanged is the page lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// Working memory of the decoders, about 94 KiB, of which a page touches a part. Reused for ever.
pub struct Scratch {
    zstd: DCtx<'static>,
}

impl Scratch {
    /// Makes the working memory; `None` if there is none to have.
    #[must_use]
    pub fn new() -> Option<Scratch> {
        DCtx::try_create().map(|zstd| Scratch { zstd })
    }
}

/// Fills `page` from the bytes of a slot.
///
/// For [`Kind::Same`], which has no slot, `encoded` is the repeated word, little endian.
///
/// # Errors
/// [`Corrupt`]; `page` is then undefined and must not be given to the program.
pub fn decode(
    kind: Kind,
    encoded: &[u8],
    page: &mut [u8; PAGE_SIZE],
    scratch: &mut Scratch,
) -> Result<(), Corrupt> {
    let len = match kind {
        Kind::Same => {
            let word = encoded.try_into().map_err(|_| Corrupt)?;
            fill(u32::from_le_bytes(word), page);
            return Ok(());
        }
        Kind::Raw | Kind::Snapshot => {
            *page = *<&[u8; PAGE_SIZE]>::try_from(encoded).map_err(|_| Corrupt)?;
            return Ok(());
        }
        Kind::Lz4 => lz4_flex::block::decompress_into(encoded, page).map_err(|_| Corrupt)?,
        Kind::Zstd => (scratch.zstd)
            .decompress(&mut page[..], encoded)
            .map_err(|_| Corrupt)?,
    };
    if len == PAGE_SIZE {
        Ok(())
    } else {
        Err(Corrupt)
    }
}

/// Fills `page` with one repeated word, in the byte order of the machine's little-endian words.
pub fn fill(word: u32, page: &mut [u8; PAGE_SIZE]) {
    for bytes in page.as_chunks_mut::<4>().0 {
        *bytes = word.to_le_bytes();
    }
}
