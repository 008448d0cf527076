//! Items for the authors of format crates. Readers of files do not need them.
//!
//! A [`Parser`] requests the bytes that it needs and builds an index from them: a [`Cursor`] reads records,
//! every range becomes an [`Extent`], and names go into a [`NameTable`]. The shared readers use an index
//! through [`FileIndex`], and the index of a set through [`ShardMap`]. The readers of a format crate are
//! aliases of [`Reader`](crate::Reader) and [`AsyncReader`](crate::AsyncReader) over these traits.

pub use crate::cursor::Cursor;
pub use crate::error::Shortened;
pub use crate::execution::PIECE;
pub use crate::extent::{Extent, Overlap, align_up, overlaps, to_usize_saturating};
pub use crate::fetch::{Scan, ScanError, ScanRange, SharedScan, each_step, now, now_or_never};
pub use crate::file_index::FileIndex;
pub use crate::ledger::Parcel;
#[cfg(feature = "crc32")]
pub use crate::ledger::{Crc, Crc32};
#[cfg(feature = "json")]
pub use crate::metadata::parse_object;
pub use crate::parse::{Parser, parse_fetched, parse_source, require_len};
pub use crate::read::{Opened, OpenedNow, view_of_source};
pub use crate::report::{finding, with_causes};
pub use crate::set::{MapError, OpenSet, Placed, Shard, ShardMap};
pub use crate::settings::OpenSettings;
pub use crate::table::{NewTensor, Place, TableIter};
pub use crate::value::{NameError, NameTable};
pub use tensor_core::debug_as_sentence;
