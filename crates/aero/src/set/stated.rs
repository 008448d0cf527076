//! Whether the files of a set are those that its index means: a file can be whole and belong to another version.

use modelfmt_core::claims::Claims;
use modelfmt_core::source::Files;
use modelfmt_core::{Execution, Source, now};

use super::verify::sha256;
use super::{SetFile, SetReader, file_part};
use crate::chunks::malformed;
use crate::control;
use crate::error::{Error, Fault, Hex, Result};

/// How long a file with the tensor index may be to be hashed.
const SOON: u64 = 64 << 20;

/// Checks the files of a set of which values are going to be copied: the one with the tensor index, and the sizes of these parts. `true`
/// is for a part that no hash of the tensor index ties to the set. Its SHA-256 would be a second pass over the values, so
/// that a note says that it is not checked.
pub(super) fn check<F: Files>(
    set: &SetReader<F>,
    parts: &[(usize, bool)],
    claims: &mut Claims,
) -> Result<()> {
    let (stated, source) = (set.set().global_tidx(), set.global().source());
    let in_file = |error: Error| error.in_file(&file_part(&stated.path));
    now(control::check_all(set.global().index(), source, &mut claims.of_file())).map_err(in_file)?;
    size(stated, source.len())?;
    if source.len() <= SOON {
        hash(stated, source)?;
    }
    let mut loose = 0;
    for &(number, is_loose) in parts {
        if let Some(part) = set.set().parts().get(number) {
            size(&part.file, set.part(number)?.source().len())?;
            loose += u64::from(is_loose);
        }
    }
    if loose > 0 {
        claims.note(format!(
            "the SHA-256 of {loose} of the set's files is not checked, and the tensor index has no hashes: a file of another version \
             of the model would not show; verify checks it"
        ));
    }
    Ok(())
}

fn size(stated: &SetFile, len: u64) -> Result<()> {
    if len == stated.size_bytes {
        return Ok(());
    }
    let text = format!("it has {len} bytes, but the index of the set says {}", stated.size_bytes);
    Err(malformed(file_part(&stated.path), 0, Fault::Set(text)))
}

fn hash(stated: &SetFile, source: &impl Source) -> Result<()> {
    let Some(expected) = stated.sha256 else { return Ok(()) };
    let len = source.len();
    let found =
        sha256(source, &Execution::sequential()).map_err(|source| Error::Io { at: 0, len, source })?;
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (Hex::new(found), Hex::new(expected));
    let text = format!("it has SHA-256 {found}, but the index of the set says {expected}");
    Err(malformed(file_part(&stated.path), 0, Fault::Set(text)))
}
