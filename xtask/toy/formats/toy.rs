//! TOY: read, and edited where it stands.

use modelfmt_core::DType::{F32, U8};

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, Names, Properties};
use super::entry::{Detection, Entry, format_fns};

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
    fns: format_fns!("toy", edit: Some(on::edit)),
};

#[cfg(feature = "toy")]
mod on {
    use modelfmt_core::source::BoxSource;
    use modelfmt_write::edit::NewFile;

    use crate::formats::change::{Change, EditFault};
    use crate::formats::entry::{AnyReader, reader_of};

    /// What becomes of a file with other names. It has no metadata.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<toy::Reader<BoxSource>>(opened) else {
            return Err(EditFault::unopened());
        };
        if change.has_metadata() {
            return Err(EditFault::unfit("the metadata", "", "TOY has none".to_owned()));
        }
        Ok(reader.index().edit(change.names)?)
    }
}
