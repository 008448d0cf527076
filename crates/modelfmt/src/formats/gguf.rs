//! GGUF: read only.

use modelfmt_core::DType::{BF16, F16, F32, F64, I8, I16, I32, I64};

use super::{Entry, Tells, driver};
use crate::capabilities::{Access, Blocks, Capabilities, Metadata, Names};
use crate::format::Format;

pub(super) static GGUF: Entry = Entry {
    name: "gguf",
    feature: "gguf",
    tells: Tells::Magic(b"GGUF"),
    ending: None,
    sharded: None,
    is_set: false,
    capabilities: Capabilities {
        format: Format::Gguf,
        numbers: &[I8, I16, I32, I64, F16, BF16, F32, F64],
        blocks: Blocks::All,
        complex: false,
        packed: false,
        min_rank: 1,
        max_rank: 4,
        names: Names::Any,
        declared: false,
        metadata: Metadata::ReadOnly,
        access: Access::ReadOnly(None),
    },
    driver: driver!("gguf", on::open, super::Write::Never),
};

#[cfg(feature = "gguf")]
mod on {
    use crate::error::Result;
    use crate::formats::{Opened, Source};

    /// Opens one file.
    pub(super) fn open(opened: Source<'_>) -> Result<Box<dyn Opened>> {
        opened.open_file::<modelfmt_gguf::Reader<_>>()
    }
}
