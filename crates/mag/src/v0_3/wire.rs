//! The header of version 0.3, 44 bytes. It is little-endian, even if the values are big-endian.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent},
};

use crate::error::{Error, Fault, Result};
use crate::preamble::MAGIC;
use crate::version::{PAGE, Version};

pub(crate) const HEADER_LEN: u64 = 44;
/// The only known bit of the aux field: values are big-endian.
const BIG_ENDIAN: u32 = 1;

/// The offsets of the fields that are checked.
const AUX_AT: u64 = 8;
const MANIFEST_AT: u64 = 12;
const MANIFEST_LEN_AT: u64 = 20;
const VALUES_AT: u64 = 28;
const VALUES_LEN_AT: u64 = 36;

/// The ranges of the manifest and the values, and the byte order of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) is_big_endian: bool,
    pub(crate) manifest: Extent,
    pub(crate) values: Extent,
}

impl Header {
    pub(crate) fn decode(c: &mut Cursor<'_>, file_len: u64, limits: &Limits) -> Result<Self> {
        Version::decode(c)?;
        let aux = c.u32("aux")?;
        let (manifest_offset, manifest_len) = (c.u64("manifest offset")?, c.u64("manifest bytes")?);
        let (values_offset, values_len) = (c.u64("values offset")?, c.u64("values bytes")?);
        let malformed =
            |field, at, fault| Error::Malformed { part: Part::new("header").with_field(field), at, fault };
        let place = |field, at, found, rule| malformed(field, at, Fault::Place { found, rule });
        if aux & !BIG_ENDIAN != 0 {
            return Err(malformed("aux", AUX_AT, Fault::Reserved(aux)));
        }
        if manifest_offset < HEADER_LEN {
            let rule = "the manifest is after the header of 44 bytes";
            return Err(place("manifest offset", MANIFEST_AT, manifest_offset, rule));
        }
        let manifest = Extent::new(manifest_offset, manifest_len, file_len)
            .map_err(|fault| malformed("manifest bytes", MANIFEST_LEN_AT, fault.into()))?;
        Limits::check("the length of the manifest", manifest_len, limits.index_len)?;
        if !values_offset.is_multiple_of(PAGE) || values_offset < manifest.end() {
            let rule = "values begin after the manifest, at a multiple of 4,096";
            return Err(place("values offset", VALUES_AT, values_offset, rule));
        }
        if values_len == 0 || i64::try_from(values_len).is_err() {
            let rule = "values take from 1 byte to 2^63 - 1";
            return Err(place("values bytes", VALUES_LEN_AT, values_len, rule));
        }
        let values = Extent::new(values_offset, values_len, file_len)
            .map_err(|fault| malformed("values bytes", VALUES_LEN_AT, fault.into()))?;
        Ok(Self { is_big_endian: aux == BIG_ENDIAN, manifest, values })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(Version::V0_3.number().to_le_bytes());
        out.extend(u32::from(self.is_big_endian).to_le_bytes());
        for extent in [self.manifest, self.values] {
            out.extend(extent.offset().to_le_bytes());
            out.extend(extent.len().to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back() {
        let extent = |offset, len| Extent::new(offset, len, 10_000).unwrap();
        for is_big_endian in [false, true] {
            let header = Header { is_big_endian, manifest: extent(44, 1000), values: extent(4096, 5000) };
            let mut out = Vec::new();
            header.encode(&mut out);
            assert_eq!(out.len() as u64, HEADER_LEN);
            let read = Header::decode(&mut Cursor::new(&out, 0), 10_000, &Limits::default());
            assert_eq!(read.unwrap(), header);
        }
    }
}
