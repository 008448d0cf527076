//! The options for writing a file.

use crate::error::{Fault, WriteError, unfit_key};
use crate::metadata::{MetaValue, Metadata};
use crate::wire;

/// Options for writing a file or a split set.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    alignment: Option<u32>,
    pub(crate) shard_size: u64,
    utf8_keys: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteOptions {
    /// Creates the default options: the alignment of the metadata, and split files of at most 2 GiB.
    #[must_use]
    pub const fn new() -> Self {
        Self { alignment: None, shard_size: 2 << 30, utf8_keys: false }
    }

    /// Aligns tensors to this power of two. The file states the alignment under `general.alignment`, unless
    /// it is the default of 32.
    #[must_use]
    pub const fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = Some(alignment);
        self
    }

    /// Limits each file of a split to this many bytes, including its header. A larger tensor gets its own
    /// file.
    #[must_use]
    pub const fn shard_size(mut self, nbytes: u64) -> Self {
        self.shard_size = nbytes;
        self
    }

    /// Sets whether to also write keys that are not ASCII, for instance when copying a file that has some.
    /// GGUF does not allow them, but llama.cpp and gguf-py read and write them. `verify` reports them.
    #[must_use]
    pub const fn utf8_keys(mut self, utf8_keys: bool) -> Self {
        self.utf8_keys = utf8_keys;
        self
    }

    pub(crate) fn check_keys(&self, metadata: &Metadata) -> Result<(), WriteError> {
        metadata.keys().try_for_each(|key| match wire::check_key(key) {
            Err(Fault::KeyNotAscii) if self.utf8_keys => {
                wire::check_key_len(key).map_err(|fault| unfit_key(key, fault))
            }
            checked => checked.map_err(|fault| unfit_key(key, fault)),
        })
    }

    /// Returns the alignment to use, and the metadata with this alignment if the given metadata states
    /// another one.
    pub(crate) fn alignment_for(&self, metadata: &Metadata) -> Result<(u32, Option<Metadata>), WriteError> {
        let unfit = |fault| unfit_key(wire::ALIGNMENT, fault);
        let stated = match metadata.get(wire::ALIGNMENT) {
            None => None,
            Some(MetaValue::U32(stated)) => Some(stated),
            Some(_) => return Err(unfit(Fault::AlignmentType)),
        };
        let alignment = self.alignment.or(stated).unwrap_or(wire::DEFAULT_ALIGNMENT);
        if !alignment.is_power_of_two() {
            return Err(unfit(Fault::Alignment(alignment)));
        }
        if stated.unwrap_or(wire::DEFAULT_ALIGNMENT) == alignment {
            return Ok((alignment, None));
        }
        let mut others = metadata.without(&[wire::ALIGNMENT]);
        others.push(wire::ALIGNMENT, MetaValue::U32(alignment)).map_err(unfit)?;
        Ok((alignment, Some(others)))
    }
}
