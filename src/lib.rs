//! symlease: work leases, target groups and a coverage authority that many
//! coordinators of one hybrid fuzzing campaign share.
//!
//! The C interface is the product; see `include/symlease.h`. The Rust modules
//! are laid out so that what decides is pure (`record`, `model`) and what
//! touches the system sits behind two traits (`engine::Engine`, `sys::Sys`).

// For what the tests share, which names the crate as users do.
#[cfg(test)]
extern crate self as symlease;

pub mod campaign;
pub mod engine;
pub mod environment;
pub mod error;
pub mod ffi;
pub mod guard;
pub mod model;
pub mod record;
pub mod sys;
