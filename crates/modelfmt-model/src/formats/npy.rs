//! NumPy's files, single arrays and archives of them: read only.

use modelfmt_core::DType;

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Contents, Metadata, Names, Properties};
use super::entry::{Detection, Entry, format_fns};

pub(super) static NPY: Entry = Entry {
    name: "npy",
    feature: "npy",
    detection: Detection::Magic(b"\x93NUMPY"),
    ending: Some(".npy"),
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: CAPABILITIES,
    choices: &[],
    fns: format_fns!("npy"),
};

pub(super) static NPZ: Entry = Entry {
    name: "npz",
    feature: "npy",
    detection: Detection::Header(is_archive),
    ending: Some(".npz"),
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: Capabilities { format: Format::Npz, ..CAPABILITIES },
    choices: &[],
    fns: format_fns!("npy"),
};

const CAPABILITIES: Capabilities = Capabilities {
    format: Format::Npy,
    numbers: &[
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::F32,
        DType::F64,
    ],
    blocks: Blocks::None,
    complex: true,
    packed: false,
    min_rank: 0,
    max_rank: 64,
    names: Names::Any,
    declared: false,
    quants: false,
    metadata: Metadata::ReadOnly,
    access: Access::ReadOnly(Some("`extract` writes .npy and .npz")),
    properties: Properties { contents: Contents::Arrays, ..Properties::NONE },
};

/// Checks whether a file is an archive whose first member is an array.
fn is_archive(first: &[u8]) -> bool {
    super::zip::first_name(first).is_some_and(|name| name.ends_with(b".npy"))
}
