//! Writes the two files of a new key.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::PrivateKey;
use crate::error::{Error, Result};

/// Writes a private key to `path` and its public key to `path.pub`, and returns the latter path. On Unix, the file of the
/// private key is never readable by other users. Either both files appear or neither.
///
/// # Errors
/// [`Error::Exists`] if one of the files exists, [`Error::Write`] if one cannot be written.
pub fn write_pair(path: &Path, key: &PrivateKey) -> Result<PathBuf> {
    let mut name = OsString::from(path);
    name.push(".pub");
    let public = PathBuf::from(name);
    // Write the public key first: if its file already exists, no private key has touched the disk.
    create(&public, false, key.public().to_pem().as_bytes())?;
    let written = key.to_pem().and_then(|pem| create(path, true, pem.as_bytes()));
    if let Err(error) = written {
        let _ = fs::remove_file(&public); // it is ours: it did not exist before
        return Err(error);
    }
    Ok(public)
}

/// Creates a new file, and removes it again if it cannot be written completely.
fn create(path: &Path, is_secret: bool, bytes: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_secret {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = is_secret;
    let mut file = options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        io::ErrorKind::NotFound => {
            let source = io::Error::new(source.kind(), "its folder does not exist; make it first");
            Error::Write { path: path.to_owned(), source }
        }
        _ => Error::Write { path: path.to_owned(), source },
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|source| {
        let _ = fs::remove_file(path);
        Error::Write { path: path.to_owned(), source }
    })
}
