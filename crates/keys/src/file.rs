//! Reads keys from files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// The largest key file that is read, in bytes. A key has less than a kilobyte.
pub const MAX_LEN: u64 = 1 << 16;

/// Returns the label between `-----BEGIN ` and `-----` in the first such line.
pub(crate) fn label(pem: &str) -> Result<&str> {
    let (_, rest) = pem.split_once("-----BEGIN ").ok_or(Error::NotPem)?;
    rest.split_once("-----").map(|(label, _)| label).ok_or(Error::NotPem)
}

/// Reads a key from a file. The bytes are always wiped afterwards, because they may be a private key even if a public one is
/// expected.
pub(crate) fn read<K>(path: &Path, parse: impl FnOnce(&str) -> Result<K>) -> Result<K> {
    let named = |error| Error::File { path: path.to_owned(), error: Box::new(error) };
    let bytes = bytes(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(named(Error::TooLong { max: MAX_LEN }));
    }
    let text = str::from_utf8(&bytes).map_err(|_| named(Error::NotPem))?;
    parse(text).map_err(named)
}

/// Reads the file's bytes, at most one more than is allowed. The buffer never grows, because growing would
/// leave copies in memory.
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
