//! Zip archives, which hold models of several formats. The names of their members show the format.

use std::io;

use modelfmt_core::Fetch;

use super::Format;

/// Returns the name of the first member of an archive, as far as it is in these first bytes.
pub(super) fn first_name(first: &[u8]) -> Option<&[u8]> {
    let rest = first.strip_prefix(b"PK\x03\x04")?;
    let len = rest.get(22..24).and_then(|len| len.try_into().ok()).map(u16::from_le_bytes)?;
    rest.get(26..)?.get(..usize::from(len))
}

/// Detects the format of an archive from the names in its directory, if its first member does not show it.
/// `None` if no format fits, or the source is not an archive.
///
/// # Errors
/// If the source cannot be read.
#[cfg(any(feature = "npy", feature = "pytorch"))]
pub(super) async fn detect(first: &[u8], source: &(impl Fetch + ?Sized)) -> io::Result<Option<Format>> {
    use modelfmt_core::Limits;
    #[cfg(feature = "npy")]
    use modelfmt_npy::{Fault, arrays::zip::DirectoryParser};
    #[cfg(not(feature = "npy"))]
    use modelfmt_pytorch::{Fault, arrays::zip::DirectoryParser};

    if !first.starts_with(b"PK\x03\x04") {
        return Ok(None);
    }
    let mut parser = DirectoryParser::new(source.size(), Limits::default());
    while let Some(range) = parser.need() {
        let bytes = source.fetch(range).await?;
        if parser.feed::<Fault>(&bytes).is_err() {
            return Ok(None);
        }
    }
    let Ok(directory) = parser.finish::<Fault>() else { return Ok(None) };
    let has = |ending: &str| directory.names().iter().any(|name| name.ends_with(ending));
    Ok(match () {
        () if has("/data.pkl") => Some(Format::Pytorch),
        () if has(".npy") => Some(Format::Npz),
        () => None,
    })
}

/// Detects the format of an archive from its first member. The error of a build that reads neither format
/// needs this.
#[cfg(not(any(feature = "npy", feature = "pytorch")))]
pub(super) async fn detect(first: &[u8], source: &(impl Fetch + ?Sized)) -> io::Result<Option<Format>> {
    const NAMED: u64 = 96;
    if !first.starts_with(b"PK\x03\x04") {
        return Ok(None);
    }
    let (len, longer) = (source.size(), source.fetch(0..source.size().min(NAMED)).await?);
    Ok(Format::from_first_bytes(&longer, len))
}
