//! The C border: pointers, status codes, the last error, the panic guard.
//! Nothing is decided here.

#![allow(unsafe_code)]
#![allow(non_camel_case_types)]
#![allow(clippy::missing_safety_doc)] // what a C caller must keep is said in each comment, in C's words

pub mod argument;
pub mod batch;
pub mod campaign;
pub mod commit;
pub mod constants;
pub mod coverage;
pub mod error;
pub mod group;
mod layout;
pub mod library;
pub mod look;
#[cfg(test)]
mod panics;
pub mod report;
#[cfg(test)]
mod tests;
pub mod types;
pub mod work;
