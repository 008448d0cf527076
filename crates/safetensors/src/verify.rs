//! Makes the report of `verify`. The format has no checksum, and all its rules are checked when a file is
//! opened (docs/formats/safetensors.md#no-checksum).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Report, VerifyLevel};

use crate::index::Index;

/// Makes the report on one open file.
pub(crate) fn file(index: &Index, level: VerifyLevel) -> Report {
    let mut report = Report::new(level);
    let coverage =
        format!("{} tensors, which cover the data of {} bytes", index.tensors().len(), index.file_len());
    report.add("structure", Vec::new(), coverage);
    report
}
