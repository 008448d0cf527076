//! Recognizes files that are not models, so that an error can say what to do.

use std::io;
use std::sync::LazyLock;

use modelfmt_core::Source;
use modelfmt_rules::wording::unrecognized;
pub(crate) use modelfmt_rules::wording::unrecognized::{LOOKED_AT, Unrecognized};

use crate::formats::Format;

static UNKNOWN: LazyLock<String> = LazyLock::new(|| {
    let files = Format::ALL.iter().filter(|format| !format.is_set()).map(|format| format.name());
    let files = files.collect::<Vec<_>>().join(", ");
    format!("its content is of no format that modelfmt knows ({files}, indexes of sets)")
});

/// Finds out what a source looks like, if [`Format::detect`](crate::Format::detect) does not recognize it.
///
/// # Errors
/// If the source cannot be read.
pub(crate) fn look(source: &impl Source) -> io::Result<Unrecognized> {
    Ok(from_first_bytes(&source.read(0..source.len().min(LOOKED_AT))?))
}

/// Finds out what a source looks like from its first bytes.
pub(crate) fn from_first_bytes(first: &[u8]) -> Unrecognized {
    unrecognized::from_first_bytes(first).unwrap_or(Unrecognized { hint: &UNKNOWN, is_model: false })
}
