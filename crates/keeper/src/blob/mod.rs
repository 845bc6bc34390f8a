//! The keeper's code. It runs as a process of its own that shares the target's address space: no
//! libc, no thread-local storage, no allocation, no access to memory that the target manages (a
//! fault of ours on it would wait for ourselves).
//!
//! Two keepers live beside each target and share one descriptor table: one serves, one stands by
//! and takes over when the first dies. All their state is in memory that both see.
//!
//! Modules, lowest first; each uses only those above it:
//! `sys` system calls; `rt` what the compiler expects of a runtime; `table` the shared table;
//! `store` reading stored bytes; `present` what is really mapped; `view` an address space that is served; `transit` moving pages
//! out; `install` bringing pages back; `queue` events that wait; `events` what the program did to its address space;
//! `children` forked children; `command` the manager's wishes; `recover` after a death;
//! `unstick` a way out of a kernel deadlock; `halt` a moment in which nothing is announced;
//! `serve` the loop; `boot` start.

mod boot;
mod children;
mod command;
mod events;
mod halt;
mod install;
mod present;
mod queue;
mod recover;
mod registered;
mod regs;
mod rt;
mod serve;
mod sketch;
mod store;
mod sys;
mod table;
mod transit;
mod unstick;
mod view;
