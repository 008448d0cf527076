//! The vocabulary that the modelfmt format crates share.

pub mod dtype;
pub mod shape;
