//! Plans a file from the descriptions of its tensors: every offset and length, and the header's text. Checks
//! everything and writes nothing.

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    DType, Part, TensorTable,
    author::{Extent, NewTensor},
};
use modelfmt_write::{Segment, TensorSpec};

use crate::error::{Fault, WriteError};
use crate::{MAX_HEADER_LEN, state, wire};

/// Options for writing a file or a set.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub(crate) max_header_len: u64,
    pub(crate) shard_size: u64,
    pub(crate) file_metadata: Object,
    pub(crate) reserve: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteOptions {
    /// Creates the default options: headers of at most [`MAX_HEADER_LEN`] bytes, and set files of at most 2
    /// GiB.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_header_len: MAX_HEADER_LEN, shard_size: 2 << 30, file_metadata: Object::new(), reserve: 0 }
    }

    /// Allows headers of up to this many bytes. Most readers refuse headers longer than [`MAX_HEADER_LEN`].
    #[must_use]
    pub const fn max_header_len(mut self, len: u64) -> Self {
        self.max_header_len = len;
        self
    }

    /// Limits each file of a set to this many bytes, including its header. A larger tensor gets its own file.
    #[must_use]
    pub const fn shard_size(mut self, nbytes: u64) -> Self {
        self.shard_size = nbytes;
        self
    }

    /// Reserves this many bytes, as spaces in the header of each file, for later edits in place
    /// ([`Index::edit`](crate::Index::edit)).
    #[must_use]
    pub const fn reserve(mut self, nbytes: u64) -> Self {
        self.reserve = nbytes;
        self
    }

    /// Sets strings that each file of a set has in its `__metadata__` in addition to the strings of the
    /// index. Most published sets have `format` there but not in the index.
    #[must_use]
    pub fn file_metadata(mut self, strings: Object) -> Self {
        self.file_metadata = strings;
        self
    }
}

/// A file to write: checked and laid out.
///
/// Tensors keep the order in which they are given. Their data are in the same order without gaps, and begin
/// at a multiple of 8 (docs/formats/safetensors.md#order).
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) tensors: TensorTable,
    /// The length field and the JSON, including the spaces that fill it up.
    pub(crate) head: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) data: Extent,
}

impl Plan {
    /// Lays out tensors, with the strings of `metadata` as `__metadata__`. With `None`, the file has no
    /// `__metadata__`.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] for the first tensor or key that the format cannot hold.
    pub fn new<'a, 'm>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: impl Into<Option<&'m Object>>,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let mut draft = Draft::new(metadata.into(), 0)?;
        for spec in specs {
            draft.push(&spec)?;
        }
        draft.finish(options)
    }

    /// Returns the tensors, in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.data.end()
    }
}

/// A plan under construction. Offsets count from the start of the data.
pub(crate) struct Draft {
    tensors: TensorTable,
    json: Vec<u8>,
    has_entry: bool,
    data_len: u64,
    /// The position in the whole model of the draft's first tensor, for errors.
    first: usize,
}

impl Draft {
    pub(crate) fn new(metadata: Option<&Object>, first: usize) -> Result<Self, WriteError> {
        let mut json = vec![b'{'];
        if let Some(metadata) = metadata {
            push_metadata(&mut json, metadata)?;
        }
        let has_entry = metadata.is_some();
        Ok(Self { tensors: TensorTable::default(), json, has_entry, data_len: 0, first })
    }

    /// Appends a tensor.
    pub(crate) fn push(&mut self, spec: &TensorSpec<'_>) -> Result<(), WriteError> {
        let number = self.first.saturating_add(self.tensors.len()) as u64;
        let unfit = |fault: Fault| WriteError::Unsupported {
            part: Part::entry("tensor", number).with_name(&spec.name),
            fault,
        };
        let dtype = check(spec).map_err(unfit)?;
        let begin = self.data_len;
        let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset: Some(begin), packed_nbytes: 0 };
        let nbytes =
            self.tensors.push(tensor, spec.shape.iter().copied()).map_err(|fault| unfit(fault.into()))?;
        let too_long = || {
            let fault =
                modelfmt_core::CommonFault::OutOfBounds { offset: begin, len: nbytes, end: MAX_DATA_LEN };
            unfit(fault.into())
        };
        let end = begin.checked_add(nbytes).filter(|&end| end <= MAX_DATA_LEN).ok_or_else(too_long)?;
        if self.has_entry {
            self.json.push(b',');
        }
        self.has_entry = true;
        wire::push_entry(&mut self.json, &spec.name, dtype, &spec.shape, begin, end);
        self.data_len = end;
        Ok(())
    }

    /// Returns the number of tensors so far.
    pub(crate) fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns the length of the file if this tensor were appended.
    pub(crate) fn file_len_with(&self, spec: &TensorSpec<'_>) -> u64 {
        let nbytes = spec.dtype.nbytes(&spec.shape).unwrap_or(0); // `push` says what is wrong with it
        let end = self.data_len.saturating_add(nbytes);
        let mut entry = Vec::new();
        wire::push_entry(
            &mut entry,
            &spec.name,
            wire::dtype_name(spec.dtype).unwrap_or(""),
            &spec.shape,
            self.data_len,
            end,
        );
        // The added bytes are a comma, the entry and the closing brace.
        let json_len = (self.json.len() as u64).saturating_add(entry.len() as u64).saturating_add(2);
        let head = wire::padded_len(json_len).unwrap_or(u64::MAX).saturating_add(wire::LEN_SIZE);
        head.saturating_add(end)
    }

    pub(crate) fn finish(self, options: &WriteOptions) -> Result<Plan, WriteError> {
        let Self { mut tensors, mut json, data_len, .. } = self;
        json.push(b'}');
        let len = (json.len() as u64).checked_add(options.reserve).and_then(wire::padded_len);
        let len = len.unwrap_or(u64::MAX);
        let max = options.max_header_len;
        let too_long = || WriteError::Unsupported {
            part: Part::new("header"),
            fault: Fault::HeaderTooLong { len, max },
        };
        if len > max {
            return Err(too_long());
        }
        json.resize(usize::try_from(len).map_err(|_| too_long())?, b' ');
        let mut head = len.to_le_bytes().to_vec();
        head.append(&mut json);
        let data_start = head.len() as u64;
        let file_len = data_start.saturating_add(data_len);
        let extent = |offset, len| {
            Extent::new(offset, len, file_len)
                .map_err(|fault| WriteError::Unsupported { part: Part::new("data"), fault: fault.into() })
        };
        let mut segments = Vec::new();
        for tensor in 0..tensors.len() {
            let nbytes = tensors.info(tensor).map_or(0, |t| t.nbytes);
            let offset = data_start.saturating_add(tensors.offset(tensor).unwrap_or(0));
            tensors.set_offset(tensor, offset);
            if nbytes > 0 {
                segments.push(Segment { tensor, extent: extent(offset, nbytes)? });
            }
        }
        Ok(Plan { tensors, head, segments, data: extent(data_start, data_len)? })
    }
}

/// Returns whether the format has a name for a dtype.
#[must_use]
pub fn can_hold(dtype: DType) -> bool {
    wire::dtype_name(dtype).is_some()
}

/// The largest length of the data. It leaves room for the header in a file of 2^63 − 1 bytes.
const MAX_DATA_LEN: u64 = i64::MAX as u64 - (1 << 40);

/// Checks that the format can hold the tensor, and returns the format's name of its dtype.
fn check(spec: &TensorSpec<'_>) -> Result<&'static str, Fault> {
    if spec.name == wire::METADATA {
        return Err(Fault::ReservedName);
    }
    if !spec.has_data {
        return Err(Fault::NoValues);
    }
    state::check_countable(&spec.shape)?;
    wire::dtype_name(spec.dtype).ok_or(Fault::NoCounterpart(spec.dtype))
}

pub(crate) fn push_metadata(json: &mut Vec<u8>, metadata: &Object) -> Result<(), WriteError> {
    wire::push_string(json, wire::METADATA);
    json.extend_from_slice(b":{");
    for (number, (key, value)) in metadata.iter().enumerate() {
        let Value::String(text) = value else {
            return Err(WriteError::Unsupported {
                part: Part::named("metadata", key),
                fault: Fault::NotAString(value.kind()),
            });
        };
        if number > 0 {
            json.push(b',');
        }
        wire::push_string(json, key);
        json.push(b':');
        wire::push_string(json, text);
    }
    json.push(b'}');
    Ok(())
}
