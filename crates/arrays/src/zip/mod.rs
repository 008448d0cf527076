//! Zip archives that are read by ranges: the end records, the directory, and the header before each member
//! (PKWARE's APPNOTE.TXT, 4.3).
//!
//! Archives that two zip readers could read differently are refused: bytes before or after the archive, names
//! that occur twice, members that share bytes, headers that contradict the directory.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod directory;
mod end;

pub use directory::{Directory, DirectoryParser, Member};
