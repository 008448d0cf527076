//! Checks every read of a file against the signed hashes (OpenSSF Model Signing).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::source::{BoxSource, Files, SharedFiles, folder_of, shared_files};
use modelfmt_oms::SignedFiles;

use crate::open::OpenOptions;

/// Wraps `source`, which is the file `index`, and the files beside it, so that they are checked against the signed hashes. Without
/// signed files in the options, both are returned unchanged.
pub(crate) fn checked(
    options: &OpenOptions,
    index: &Path,
    source: BoxSource,
    files: Option<SharedFiles>,
) -> crate::Result<(BoxSource, Option<SharedFiles>)> {
    let Some(signed) = &options.signed else { return Ok((source, files)) };
    let source = signed.source(index, source);
    let source = source.map_err(|source| crate::Error::Open { path: index.to_owned(), source })?;
    let folder = folder_of(index).to_owned();
    let files = files.map(|files| shared_files(SignedSet { files, folder, signed: Arc::clone(signed) }));
    Ok((Box::new(source), files))
}

/// The files of a set, each checked against its signed hashes.
struct SignedSet {
    files: SharedFiles,
    folder: PathBuf,
    signed: Arc<SignedFiles>,
}

impl Files for SignedSet {
    type Source = BoxSource;

    fn open(&self, path: &str) -> io::Result<BoxSource> {
        let source = self.files.open(path)?;
        Ok(Box::new(self.signed.source(&self.folder.join(path), source)?))
    }
}
