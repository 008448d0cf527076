//! Pickles: a machine that interprets the opcodes of protocols 0 to 5 and calls nothing (docs/formats/pytorch.md#pickles).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub(crate) mod globals;
mod machine;
mod node;

pub(crate) use self::machine::{Pickle, Stop, run};
pub(crate) use self::node::{Call, Global, Id, Node, Values};
