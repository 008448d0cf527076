//! Pages as files.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::key::CacheKey;

/// The length of a page in bytes; the last page of an object may be shorter.
pub(crate) const PAGE: u64 = 256 << 10;
/// The length of the hash before the bytes.
pub(super) const HASH_LEN: u64 = 32;
/// The prefix of the names of files that are being written.
pub(super) const UNFINISHED: &str = ".new-";

pub(super) fn path(pages: &Path, key: &CacheKey, number: u64) -> PathBuf {
    pages.join(key.to_string()).join(format!("{number}.page"))
}

/// Reads the bytes of a page, if they match its hash.
pub(super) fn read(file: &mut File) -> Option<Bytes> {
    let mut all = Vec::new();
    file.take(HASH_LEN + PAGE + 1).read_to_end(&mut all).ok()?;
    let (hash, bytes) = all.split_at_checked(usize::try_from(HASH_LEN).ok()?)?;
    let is_whole = bytes.len() as u64 <= PAGE && Sha256::digest(bytes).as_slice() == hash;
    is_whole.then(|| Bytes::from(all).slice(32..))
}

pub(super) fn write(pages: &Path, key: &CacheKey, number: u64, bytes: &[u8]) -> io::Result<()> {
    write_whole(&path(pages, key, number), &[Sha256::digest(bytes).as_slice(), bytes])
}

/// Writes a file under another name and renames it, so that it appears complete.
pub(super) fn write_whole(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let random = RandomState::new().hash_one(0); // other keys for each
    let new = path.with_file_name(format!("{UNFINISHED}{name}-{random:016x}"));
    let written = in_folder(&new, |new| File::options().write(true).create_new(true).open(new))
        .and_then(|mut file| parts.iter().try_for_each(|part| file.write_all(part)))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Opens a file of the cache, and creates missing folders, which only the owner may access.
pub(super) fn in_folder(path: &Path, open: impl Fn(&Path) -> io::Result<File>) -> io::Result<File> {
    match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(path.parent().unwrap_or(Path::new(".")))?;
            open(path)
        }
        opened => opened,
    }
}
