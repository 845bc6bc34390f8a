//! Helpers for the tests of the finished `pagetide` binary. The tests run it from outside on real
//! and hostile programs, kill it, and pass it bad input. This crate knows only pagetide's commands
//! and files, not how it works.
//!
//! Every wait has a time limit. Every started process carries a mark, and is killed by its pid when
//! its guard ([`guard::Running`]) is dropped. One test runs at a time: the tests measure memory on
//! a machine with two processors.
//!
//! The functions panic on failure, as they run only in tests.
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
pub mod fairness;
pub mod frames;
pub mod guard;
pub mod hostile;
pub mod idle_program;
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
pub mod services;
pub mod sides;
pub mod sizes;
pub mod starts;
pub mod subject;
pub mod swap_file;
pub mod swap_turn;
pub mod temp;
pub mod tenants;
pub mod terminal;
pub mod typed;
pub mod user;
pub mod verdict;
pub mod vmstat;
pub mod wait;
pub mod web;
pub mod zram;
