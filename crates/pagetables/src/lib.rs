//! Accessed, present, dirty and swapped bits of another process, read from its page tables.
//!
//! Invariant: this crate reads and clears bits; what they mean for a program's memory is the
//! caller's. It knows no tenant, age or report. All unsafe code of the product is here.
