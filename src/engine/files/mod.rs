//! The files engine.
