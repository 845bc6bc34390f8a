//! The keeper: the program that pagetide injects into a target. See `blob/mod.rs`.
#![no_std]
#![no_main]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::cast_lossless,
    reason = "x86-64 only: usize is u64, and the kernel's results change sign by convention"
)]

mod blob;
mod freestanding;
