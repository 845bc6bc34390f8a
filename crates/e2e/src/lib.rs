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

pub mod ages;
pub mod bench;
pub mod control;
pub mod core;
pub mod paired;
pub mod proc;
pub mod report;
pub mod resp;
pub mod temp;
pub mod wait;

pub mod autopsy;
pub mod leftovers;
pub mod past;
pub mod programs;
pub mod swap_file;
pub mod swap_turn;
pub mod verdict;
pub mod vmstat;

pub mod guard;
pub mod locked;
pub mod zram;

pub mod cold_and_hot;
pub mod hostile;
pub mod memcg;
pub mod pagetide;
pub mod postgres;
pub mod prefork;
pub mod python;
pub mod redis;
pub mod root;
pub mod terminal;
pub mod user;

pub mod aged;
pub mod idle_program;
pub mod kills;
pub mod loaded;
pub mod notice;
pub mod redis_pairs;
pub mod services;
pub mod subject;
pub mod typed;

pub mod compare;
pub mod frames;
pub mod paced;
pub mod sides;
pub mod starts;
pub mod tenants;

pub mod agent;
pub mod cells;
pub mod fairness;
pub mod packages;
pub mod page_cache;
pub mod sizes;
pub mod web;

pub mod browser;
