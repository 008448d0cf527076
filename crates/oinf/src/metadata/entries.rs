//! The metadata of a file: entries of the table, and the bytes of their payloads.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent, NameTable},
};

use super::{MetaValue, Payload};
use crate::error::{Error, Fault, Result};
use crate::wire::{ValueType, malformed};

/// If the gap between two payloads is at most this many bytes, they are read together …
const GAP: u64 = 4096;
/// … as long as all such gaps together are at most this many bytes.
const SLACK: u64 = 64 << 10;

/// Keys, types and extents as the table lists them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) keys: NameTable,
    pub(crate) values: Vec<Entry>,
    payloads: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) value_type: ValueType,
    pub(crate) extent: Extent,
}

/// Bytes of the file that hold payloads. Spans ascend and do not overlap, so payloads that share bytes (in a
/// hostile file there may be a million of them) take memory once.
#[derive(Clone, Debug)]
struct Span {
    offset: u64,
    bytes: Vec<u8>,
}

impl Entries {
    /// Creates a list with capacity for `count` entries. The caller has checked `count` against the bytes
    /// that exist.
    pub(crate) fn with_capacity(count: usize) -> Self {
        let keys = NameTable::with_capacity(count);
        Self { keys, values: Vec::with_capacity(count), payloads: Vec::new() }
    }

    pub(crate) fn push(&mut self, key: &str, entry: Entry) -> Result<(), modelfmt_core::CommonFault> {
        self.keys.push(key)?;
        self.values.push(entry);
        Ok(())
    }

    /// Returns the extents of the file that hold all payloads. They are ascending and disjoint, and nearby
    /// payloads share an extent.
    pub(crate) fn spans(&self, limits: &Limits, file_len: u64) -> Result<Vec<Extent>> {
        let mut order: Vec<Extent> = self.values.iter().map(|entry| entry.extent).collect();
        // This bounds the work on payloads that share bytes. Otherwise many values of a small file could be
        // the same large payload, and decoding each of them would take memory for all of them.
        let total = order.iter().fold(0u64, |sum, extent| sum.saturating_add(extent.len()));
        if total > file_len {
            return Err(malformed(Part::new("metadata values"), 0, Fault::SharedMetadata(total)));
        }
        Limits::check("the length of the metadata", total, limits.metadata_len)?;
        order.retain(|extent| !extent.is_empty());
        order.sort_unstable();
        let (mut spans, mut slack) = (Vec::<Extent>::new(), SLACK);
        for extent in order {
            let Some(last) = spans.last_mut() else {
                spans.push(extent);
                continue;
            };
            let gap = extent.offset().saturating_sub(last.end());
            if gap > GAP.min(slack) {
                spans.push(extent);
                continue;
            }
            slack = slack.saturating_sub(gap);
            let end = extent.end().max(last.end());
            if let Ok(joined) = Extent::new(last.offset(), end.saturating_sub(last.offset()), file_len) {
                *last = joined;
            }
        }
        Ok(spans)
    }

    /// Keeps the bytes of the next span.
    pub(crate) fn push_payloads(&mut self, offset: u64, bytes: &[u8]) {
        self.payloads.push(Span { offset, bytes: bytes.to_vec() });
    }

    /// Returns the number of spans that have been read.
    pub(crate) fn span_count(&self) -> usize {
        self.payloads.len()
    }

    /// Returns the offset and the bytes of the entry at a position, or no bytes if there is no such entry.
    pub(crate) fn bytes(&self, position: usize) -> (u64, &[u8]) {
        let Some(Entry { extent, .. }) = self.values.get(position) else { return (0, &[]) };
        let at = self.payloads.partition_point(|span| span.offset <= extent.offset());
        let span = at.checked_sub(1).and_then(|at| self.payloads.get(at));
        let bytes = span.and_then(|span| {
            let start = usize::try_from(extent.offset().saturating_sub(span.offset)).ok()?;
            span.bytes.get(start..)?.get(..usize::try_from(extent.len()).ok()?)
        });
        (extent.offset(), bytes.unwrap_or_default())
    }

    /// Decodes the value of the entry at a position, with its padding.
    pub(crate) fn payload(&self, position: usize, limits: &Limits) -> Result<Payload<'_>> {
        let Some((entry, key)) = self.values.get(position).zip(self.keys.name(position)) else {
            return Err(Error::NotFound { name: format!("number {position}") });
        };
        let (offset, bytes) = self.bytes(position);
        let mut c = Cursor::new(bytes, offset);
        c.record("metadata value", Some(position as u64));
        MetaValue::decode(entry.value_type, &mut c, limits).map_err(|error| named(error, position, key))
    }

    /// Returns the value of the entry at a position. The value was checked when the index was made.
    pub(crate) fn value(&self, position: usize) -> MetaValue<'_> {
        // Each payload was decoded once when the index was made, so the fallback is never used.
        self.checked(position).map_or(MetaValue::Bool(false), |payload| payload.value)
    }

    /// Returns the value of the entry at a position, with its padding. No limits apply, because the index was
    /// made within them.
    pub(crate) fn checked(&self, position: usize) -> Option<Payload<'_>> {
        let mut unlimited = Limits::default();
        (unlimited.metadata_len, unlimited.rank) = (u64::MAX, u64::MAX);
        self.payload(position, &unlimited).ok()
    }

    /// Returns the heap memory in bytes that the list takes.
    pub(crate) fn heap_size(&self) -> usize {
        self.keys
            .heap_size()
            .saturating_add(self.values.capacity().saturating_mul(size_of::<Entry>()))
            .saturating_add(
                self.payloads
                    .iter()
                    .map(|span| size_of::<Span>().saturating_add(span.bytes.capacity()))
                    .sum::<usize>(),
            )
    }
}

/// Adds the position and the key of the entry to an error about it.
#[cold]
fn named(error: Error, position: usize, key: &str) -> Error {
    match error {
        Error::Malformed { mut part, at, fault } => {
            part.entry = Some(position as u64);
            Error::Malformed { part: part.with_name(key), at, fault }
        }
        other => other,
    }
}
