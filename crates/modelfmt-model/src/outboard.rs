//! Outboards: with the small file `NAME.obao4` beside a file, any range of the file can be checked against
//! the BLAKE3 of the whole file.
//!
//! [`outboard()`] writes one. [`OpenOptions::pin`](crate::OpenOptions::pin) with [`Pin::B3`] opens a file with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use modelfmt_core::source::{FileVersion, Source as _};
use modelfmt_core::{AnyError, Execution};
use modelfmt_write::{AtomicFile, InputFiles, Output as _, Overwrite};
use modelfmt_write::{OutboardError, write_outboard};

use crate::error::{Error, Result};
use crate::model::pinned::path_of_outboard;
use crate::open::OpenOptions;
use modelfmt_rules::pin::Pin;
use modelfmt_rules::wording::Note;

/// A written outboard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outboard {
    /// The BLAKE3 of the file: what [`Pin::B3`] takes.
    pub blake3: [u8; 32],
    /// The path of the outboard: the path of the file with `.obao4` appended.
    pub path: PathBuf,
    /// Its size in bytes; 0 for a file of up to 16 KiB.
    pub nbytes: u64,
}

/// Writes the outboard of any file beside it, in one pass over the file, and returns the BLAKE3 of the file. The outboard appears
/// when it is complete.
///
/// ```
/// use modelfmt::{Execution, OpenOptions, Pin};
/// use modelfmt::convert::Overwrite;
/// use modelfmt::outboard::outboard;
///
/// # let folder = std::env::temp_dir().join(format!("modelfmt-outboard-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("m.mag");
/// # std::fs::copy("../../testdata/mag/dtypes-crc32.mag", &path)?;
/// let written = outboard(&path, Overwrite::Refuse, &Execution::default())?; // FILE.obao4, 0.39 % of FILE
/// let pin = Pin::B3(written.blake3);                                        // keep this where it is safe
///
/// # #[cfg(feature = "mag")] {
/// let model = OpenOptions::new().pin(pin).open(&path)?;                     // every byte is checked by it
/// assert_eq!(model.pin(), Some(pin));
/// # }
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Open`] and [`Error::File`] if the file cannot be read, or changes meanwhile; [`Error::Interrupted`] if its last edit
/// was interrupted; [`Error::Exists`] and [`Error::Write`] if the outboard cannot be written.
pub fn outboard(path: impl AsRef<Path>, overwrite: Overwrite, work: &Execution<'_>) -> Result<Outboard> {
    outboard_with(path, &OpenOptions::new(), overwrite, work)
}

/// Writes an outboard like [`outboard`](fn@outboard), for a file that the policy of the options allows.
///
/// # Errors
/// Those of [`outboard`](fn@outboard), and [`Error::Policy`].
pub fn outboard_with(
    path: impl AsRef<Path>,
    options: &OpenOptions,
    overwrite: Overwrite,
    work: &Execution<'_>,
) -> Result<Outboard> {
    let file = path.as_ref();
    let path = path_of_outboard(file);
    let failed = |source| Error::Open { path: file.to_owned(), source };
    if let Some(journal) = modelfmt_write::edit::interrupted_by(file) {
        return Err(Error::Interrupted { path: file.to_owned(), journal });
    }
    let before = FileVersion::of(file).map_err(failed)?;
    let source = options.open_other(file)?;
    let len = source.len();
    let not_written = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.clone() },
        _ => Error::Write { path: path.clone(), source },
    };
    let sink =
        AtomicFile::create_protecting(&path, overwrite, &InputFiles::new([file])).map_err(not_written)?;
    let blake3 = write_outboard(&source, &sink, work).map_err(|error| match error {
        OutboardError::Read(error) => Error::file(file.to_owned(), AnyError::from(error)),
        OutboardError::Write(source) => not_written(source),
        other => not_written(io::Error::other(other)),
    })?;
    if FileVersion::of(file).map_err(failed)? != before {
        let source = io::Error::other("the file was changed while it was read");
        return Err(Error::file(file.to_owned(), AnyError::Io { at: 0, len, source }));
    }
    sink.commit().map_err(not_written)?;
    let nbytes = fs::metadata(&path).map_or(0, |file| file.len());
    Ok(Outboard { blake3, path, nbytes })
}

/// Writes the outboard of a new output file, and returns a note about it. The bytes of the file have been
/// counted as progress already.
pub fn of_output(file: &Path, overwrite: Overwrite, work: &Execution<'_>) -> Result<Note> {
    let go_on = |_| work.advance(0);
    let work = Execution { threads: work.threads, progress: Some(&go_on) };
    let Outboard { blake3, path, .. } = outboard(file, overwrite, &work)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = format!("{name} proves any range of a file with the pin {}", Pin::B3(blake3));
    Ok(Note::about(path, text))
}

/// Returns a note about the outboard of a file that was just replaced, if it has one.
pub fn of_before(file: &Path) -> Option<Note> {
    let path = path_of_outboard(file);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    fs::symlink_metadata(&path).ok()?;
    let text = format!(
        "{name} is the outboard of another file, or of an older version of this one; make it again or remove it"
    );
    Some(Note::about(path, text))
}

/// Fails before any work if the outboard could not be written afterwards.
///
/// # Errors
/// [`Error::Exists`] if a file has an outboard that may not be replaced.
pub fn expect_none(file: &Path, overwrite: Overwrite) -> Result<()> {
    let path = path_of_outboard(file);
    if overwrite == Overwrite::Refuse && fs::symlink_metadata(&path).is_ok() {
        return Err(Error::Exists { path });
    }
    Ok(())
}
