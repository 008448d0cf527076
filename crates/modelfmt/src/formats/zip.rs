//! Zip archives, which hold models of several formats: the names of their members tell which.

/// The name of the first member of an archive that begins so, as far as it is there.
pub(super) fn first_name(first: &[u8]) -> Option<&[u8]> {
    let rest = first.strip_prefix(b"PK\x03\x04")?;
    let len = rest.get(22..24).and_then(|len| len.try_into().ok()).map(u16::from_le_bytes)?;
    rest.get(26..)?.get(..usize::from(len))
}
