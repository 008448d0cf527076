//! GGUF, one file or a split set; read only.

use modelfmt_core::DType::{BF16, F16, F32, F64, I8, I16, I32, I64};

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, Names};
use super::entry::{Entry, Tells, driver};

pub(super) static GGUF: Entry = Entry {
    name: "gguf",
    feature: "gguf",
    tells: Tells::Magic(b"GGUF"),
    ending: Some(".gguf"),
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: CAPABILITIES,
    choices: &[],
    driver: driver!("gguf", on::open, found: Some(on::found)),
};

pub(super) static GGUF_SHARDED: Entry = Entry {
    name: "gguf-sharded",
    feature: "gguf",
    // A file of a split begins as any other does, and its metadata says that it is one.
    tells: Tells::Opening,
    ending: None,
    sharded: None,
    is_set: true,
    versions: &[],
    capabilities: Capabilities { format: Format::GgufSharded, ..CAPABILITIES },
    choices: &[],
    driver: driver!("gguf", on::open),
};

const CAPABILITIES: Capabilities = Capabilities {
    format: Format::Gguf,
    numbers: &[I8, I16, I32, I64, F16, BF16, F32, F64],
    blocks: Blocks::All,
    complex: false,
    packed: false,
    min_rank: 0,
    max_rank: 4,
    names: Names::Any,
    declared: false,
    quants: false,
    metadata: Metadata::ReadOnly,
    access: Access::ReadOnly(None),
};

#[cfg(feature = "gguf")]
mod on {
    use std::sync::Arc;

    use modelfmt_core::source::SharedFiles;
    use modelfmt_core::{AnyError, author::now};
    use modelfmt_gguf::{Index, Reader, SetIndex, SetReader};

    use crate::formats::Format;
    use crate::formats::entry::{Opened, ToOpen, own_options, reader_of};

    /// Opens one file; if it is one of a split, the split.
    pub(super) fn open(opened: ToOpen<'_>) -> Result<Box<dyn Opened>, AnyError> {
        let options = own_options::<Index>(opened.options);
        let ToOpen { source, name, files, .. } = opened;
        let reader: Reader<_> = modelfmt_core::Reader::open_source(source, &options)?.into();
        if !reader.index().is_split() {
            return Ok(Box::new(reader));
        }
        let first = Index::clone(reader.index());
        let split = now(SetIndex::read_others(first, &name, &files, &options))?;
        Ok(Box::new(SetReader::from(modelfmt_core::SetReader::with_index(Arc::new(split), files, options))))
    }

    /// The format of what was opened.
    pub(super) fn found(opened: &dyn Opened) -> Option<Format> {
        reader_of::<SetReader<SharedFiles>>(opened).map(|_| Format::GgufSharded)
    }
}
