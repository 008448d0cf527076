//! GGUF: read only.

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
    choices: &[],
    driver: driver!("gguf", on::open),
};

#[cfg(feature = "gguf")]
mod on {
    use modelfmt_core::AnyError;

    use crate::formats::entry::{Opened, ToOpen};

    /// Opens one file.
    pub(super) fn open(opened: ToOpen<'_>) -> Result<Box<dyn Opened>, AnyError> {
        opened.open_file::<modelfmt_gguf::Reader<_>>()
    }
}
