//! APR1: the generation before, read through the same types (DECISIONS, APR2: APR1).
//!
//! ```text
//! APR1 │ u32 metadata length │ JSON object │ u32 tensor count │ u32 index length │ JSON array │ tensors │ u32 CRC-32
//! ```

use tensor_core::value::{KeyError, Object, ParseOptions, Value, json};
use tensor_core::{Cursor, Extent, Limits, Part};

use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Claim, Generation, Sections, Tensors};
use crate::parser::Head;
use crate::wire::{self, Flags};

/// Tensor count and index length, which follow the metadata.
pub(crate) const COUNTS_LEN: u64 = 8;
/// The CRC-32 at the end.
pub(crate) const CRC_LEN: u64 = 4;
/// A member of the index array with all its keys cannot be shorter: `{"name":"","dtype":"F32","shape":[],"offset":0,"size":0},`.
const MIN_ENTRY_LEN: u64 = 40;

/// Where the metadata lies, with room for the counts and the CRC after it.
pub(crate) fn metadata_extent(bytes: &[u8], file_len: u64, limits: &Limits) -> Result<Extent> {
    let mut c = Cursor::new(bytes, 0);
    c.record("header", None);
    c.bytes(4, "magic")?;
    let len = u64::from(c.u32("metadata length")?);
    let end = file_len.saturating_sub(COUNTS_LEN + CRC_LEN);
    let metadata = Extent::new(c.offset(), len, end)
        .map_err(|fault| malformed(Part::new("header").with_field("metadata length"), 4, fault))?;
    Limits::check("the length of the metadata", len, limits.metadata_len)?;
    Ok(metadata)
}

/// The sections, from the two counts that follow the metadata.
pub(crate) fn head(metadata: Extent, counts: &[u8], file_len: u64, limits: &Limits) -> Result<Head> {
    let mut c = Cursor::new(counts, metadata.end());
    c.record("index header", None);
    let tensor_count = c.u32("tensor count")?;
    let at = c.offset();
    let len = u64::from(c.u32("index length")?);
    let end = file_len.saturating_sub(CRC_LEN);
    let fault = |fault| malformed(Part::new("index header").with_field("index length"), at, fault);
    let index = Extent::new(c.offset(), len, end).map_err(fault)?;
    if index.is_empty() {
        let nothing = tensor_core::Fault::Metadata("expected a JSON array, found nothing".to_owned());
        return Err(malformed(Part::new("tensor index"), index.offset(), nothing));
    }
    Limits::check("the length of the index", len, limits.index_len)?;
    Limits::check("the number of tensors", tensor_count.into(), limits.tensors)?;
    let data = Extent::new(index.end(), end - index.end(), end).map_err(fault)?;
    Ok(Head {
        generation: Generation::Apr1,
        version: (1, 0),
        flags: Flags::empty(),
        sections: Sections { metadata, index, data },
        tensor_count: Some(tensor_count),
    })
}

/// The tensors, from the JSON array.
pub(crate) fn tensors(bytes: &[u8], head: &Head, limits: &Limits) -> Result<Tensors> {
    let at = head.sections.index.offset();
    let part = || Part::new("tensor index");
    let bad = |text: String| malformed(part(), at, tensor_core::Fault::Metadata(text));
    let stated = u64::from(head.tensor_count.unwrap_or(0));
    Limits::fits(part(), at, stated, MIN_ENTRY_LEN, bytes.len() as u64)?;
    let depth = u32::try_from(limits.depth).unwrap_or(u32::MAX);
    let tree = json::parse_with(bytes, ParseOptions::new().with_max_depth(depth));
    let tree = tree.map_err(|error| {
        let at = at.saturating_add(error.offset().unwrap_or(0) as u64);
        malformed(part(), at, tensor_core::Fault::Metadata(format!("is not good JSON: {error}")))
    })?;
    let entries = match &tree {
        Value::Array(entries) => entries,
        other => return Err(bad(format!("expected a JSON array, found {}", other.kind()))),
    };
    if entries.len() as u64 != stated {
        return Err(bad(format!("the header counts {stated} tensors, the array has {}", entries.len())));
    }
    let mut tensors = Tensors::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let key = |error: KeyError| {
            let part = Part::entry("tensor entry", number as u64);
            malformed(part, at, tensor_core::Fault::Metadata(error.to_string()))
        };
        let object =
            entry.as_object().ok_or_else(|| key(KeyError::new("entry", "an object", Some(entry))))?;
        push(&mut tensors, number, object, at, head.sections.data, limits, &key)?;
    }
    Ok(tensors)
}

fn push(
    tensors: &mut Tensors,
    number: usize,
    entry: &Object,
    at: u64,
    data: Extent,
    limits: &Limits,
    key: &dyn Fn(KeyError) -> Error,
) -> Result<()> {
    let name = entry.required_str("name").map_err(key)?;
    let fault = |fault: Fault| malformed(wire::entry_part(number, name), at, fault);
    if name.is_empty() {
        return Err(fault(Fault::EmptyName));
    }
    let dtype = entry.required_str("dtype").map_err(key)?;
    let dtype = wire::dtype_named(dtype).ok_or_else(|| fault(Fault::UnknownDTypeName(dtype.to_owned())))?;
    let shape = entry.required_array("shape").map_err(key)?;
    let dim = |value: &Value| {
        value.as_u64().ok_or_else(|| key(KeyError::new("shape", "unsigned integers", Some(value))))
    };
    let shape = shape.iter().map(dim).collect::<Result<Vec<_>>>()?;
    let claim = Claim {
        name,
        dtype,
        offset: entry.required_u64("offset").map_err(key)?,
        size: entry.required_u64("size").map_err(key)?,
        raw_size: 0,
        flags: 0,
    };
    tensors.push(claim, shape.into_iter(), at, data, limits)
}
