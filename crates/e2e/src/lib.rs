//! The finished `pagetide` binary, exercised from outside: real programs, hostile ones, kills and bad
//! input. Nothing in here knows how it works, only its commands and its files.
//!
//! Every wait has a limit, every process is marked and killed by its id when its guard is dropped,
//! and one test runs at a time: they measure memory on a machine with two cores.
//!
//! Failures panic: this is a library of test helpers.
#![forbid(unsafe_code)]

pub mod aged;
pub mod agent;
pub mod ages;
pub mod autopsy;
pub mod bench;
pub mod browser;
pub mod cells;
pub mod cold_and_hot;
pub mod compare;
pub mod control;
pub mod core;
pub mod frames;
pub mod guard;
pub mod hostile;
pub mod kills;
pub mod leftovers;
pub mod loaded;
pub mod locked;
pub mod memcg;
pub mod notice;
pub mod paced;
pub mod packages;
pub mod page_cache;
pub mod pagetide;
pub mod paired;
pub mod past;
pub mod postgres;
pub mod prefork;
pub mod proc;
pub mod programs;
pub mod python;
pub mod redis;
pub mod redis_pairs;
pub mod report;
pub mod resp;
pub mod root;
pub mod sides;
pub mod sizes;
pub mod sleeper;
pub mod starts;
pub mod subject;
pub mod swap_file;
pub mod swap_turn;
pub mod temp;
pub mod tenants;
pub mod terminal;
pub mod typed;
pub mod verdict;
pub mod wait;
pub mod web;
pub mod zram;
