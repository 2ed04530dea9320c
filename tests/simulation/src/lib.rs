//! The simulation: coordinators over the simulated kernel, in seeded schedules
//! and in exhaustive sweeps, and a checker that knows the protocol's promises.

pub mod calls;
pub mod check;
pub mod client;
pub mod exhaustive;
pub mod history;
pub mod keep;
pub mod plan;
pub mod scenario;
pub mod steps;
pub mod tally;
pub mod world;
