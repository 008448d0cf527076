//! numpy's archive of arrays: a zip of `.npy` files without compression.

use modelfmt_core::Execution;
use modelfmt_core::author::Crc;
use modelfmt_write::Sink;

use super::prepared::Prepared;
use super::zip::{Archive, Member};
use super::{ExtractOptions, Extracted, names};
use modelfmt_model::error::{Error, Result};

/// An archive for which all offsets are known.
pub(super) struct Npz<'a> {
    prepared: Prepared<'a>,
    archive: Archive,
}

impl<'a> Npz<'a> {
    pub(super) fn new(prepared: Prepared<'a>) -> Result<Self> {
        let member = |number: usize| {
            let entry = prepared.entries.get(number)?;
            Some(Member::new(names::member_name(entry.name, ".npy"), entry.len()))
        };
        let members = (0..prepared.entries.len()).map_while(member).collect();
        let archive = Archive::new(members).map_err(|(name, why)| Error::NotExtractable {
            path: prepared.model.path().to_owned(),
            name,
            why: why.to_owned(),
            remedy: None,
        })?;
        Ok(Self { prepared, archive })
    }

    pub(super) fn write(
        mut self,
        sink: &dyn Sink,
        options: &ExtractOptions,
        work: &Execution<'_>,
    ) -> Result<Extracted> {
        let failed = |source| Error::Write { path: sink.name().into(), source };
        let values = self.prepared.values(options)?;
        for number in 0..self.prepared.entries.len() {
            let mut crc = Crc::default();
            let place = (sink, self.archive.offset(number));
            let take = |next| crc = crc.then(next);
            self.prepared.write(number, &values, place, work, (Crc::of, take))?;
            let (at, header) = self.archive.header(number, crc.value);
            sink.write_at(at, &header).map_err(failed)?;
        }
        let (at, directory) = self.archive.directory();
        sink.write_at(at, &directory).map_err(failed)?;
        values.finish(work)?;
        let nbytes = at.saturating_add(directory.len() as u64);
        Ok(self.prepared.extracted(&values, nbytes))
    }
}
