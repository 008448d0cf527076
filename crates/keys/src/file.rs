//! Keys in files.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::PrivateKey;
use crate::error::{Error, Result};

/// The largest key file that is read, in bytes. A key has less than a kilobyte.
pub const MAX_LEN: u64 = 1 << 16;

/// The label between `-----BEGIN ` and `-----` in the first such line.
pub(crate) fn label(pem: &str) -> Result<&str> {
    let (_, rest) = pem.split_once("-----BEGIN ").ok_or(Error::NotPem)?;
    rest.split_once("-----").map(|(label, _)| label).ok_or(Error::NotPem)
}

/// Reads a key's file. The bytes are always wiped afterwards: they may be the private key even if the public one was
/// meant.
pub(crate) fn read<K>(path: &Path, parse: impl FnOnce(&str) -> Result<K>) -> Result<K> {
    let named = |error| Error::File { path: path.to_owned(), error: Box::new(error) };
    let bytes = bytes(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(named(Error::TooLong { max: MAX_LEN }));
    }
    let text = str::from_utf8(&bytes).map_err(|_| named(Error::NotPem))?;
    parse(text).map_err(named)
}

/// The file's bytes, at most one more than a key may have. The buffer does not grow, which would leave copies behind.
fn bytes(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; usize::try_from(MAX_LEN + 1).unwrap_or(usize::MAX)]);
    let mut file = File::open(path)?;
    let mut len = 0;
    loop {
        match file.read(bytes.get_mut(len..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Writes a private key to `path` and its public key to `path.pub`, and returns the latter path. On Unix, nobody else can read the private key, from
/// the first moment on. Either both files appear or neither.
///
/// # Errors
/// [`Error::Exists`] if one of them exists, [`Error::Write`].
pub fn write_pair(path: &Path, key: &PrivateKey) -> Result<PathBuf> {
    let mut name = OsString::from(path);
    name.push(".pub");
    let public = PathBuf::from(name);
    // The public key first: if its file exists already, no private key has touched the disk.
    create(&public, false, key.public().to_pem().as_bytes())?;
    let written = key.to_pem().and_then(|pem| create(path, true, pem.as_bytes()));
    if let Err(error) = written {
        let _ = fs::remove_file(&public); // it is ours: it did not exist before
        return Err(error);
    }
    Ok(public)
}

/// Makes a new file, and removes it if it cannot be written completely.
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
        _ => Error::Write { path: path.to_owned(), source },
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|source| {
        let _ = fs::remove_file(path);
        Error::Write { path: path.to_owned(), source }
    })
}
