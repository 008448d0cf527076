//! TOY: read only.

use modelfmt_core::DType::{F32, U8};

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, Names, Properties};
use super::entry::{Detection, Entry, driver};

pub(super) static TOY: Entry = Entry {
    name: "toy",
    feature: "toy",
    detection: Detection::Magic(b"TOY!"),
    ending: Some(".toy"),
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: Capabilities {
        format: Format::Toy,
        numbers: &[U8, F32],
        blocks: Blocks::None,
        complex: false,
        packed: false,
        min_rank: 0,
        max_rank: 255,
        names: Names::Any,
        declared: false,
        quants: false,
        metadata: Metadata::ReadOnly,
        access: Access::ReadOnly(None),
        properties: Properties::NONE,
    },
    choices: &[],
    driver: driver!("toy"),
};
