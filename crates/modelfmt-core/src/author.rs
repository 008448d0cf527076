//! What the authors of format crates need, and readers of files do not.
//!
//! A [`Parser`] asks for the bytes that it needs and makes an index of them: a [`Cursor`] reads records, every range becomes an
//! [`Extent`], and names go into a [`NameTable`]. [`FileIndex`] is what the shared readers ask of an index, [`ShardMap`] what
//! they ask of the index of a set. [`reader!`](crate::reader!), [`set_reader!`](crate::set_reader) and [`save!`](crate::save) make
//! the public types of the crate.

#[cfg(feature = "crc32")]
pub use crate::crc32::{Crc, Crc32};
pub use crate::cursor::Cursor;
pub use crate::error::{Located, Shortened};
pub use crate::execution::PIECE;
pub use crate::extent::{Extent, Overlap, align_up, overlaps};
pub use crate::fetch::{Dealt, Scan, ScanError, ScanRange, each_step, now, now_or_never};
pub use crate::file_index::FileIndex;
pub use crate::format::FormatReader;
pub use crate::names::NameTable;
pub use crate::parcel::Parcel;
pub use crate::parse::{Parser, parse_fetched, parse_source, require_len};
pub use crate::reader::view_of_source;
pub use crate::report::{finding, with_causes};
pub use crate::set::{MapError, OpenSet, Placed, ShardMap};
pub use crate::table::{NewTensor, Place, TableIter};
pub use tensor_core::debug_as_sentence;
