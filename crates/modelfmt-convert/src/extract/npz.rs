//! numpy's archive of arrays: a zip of `.npy` files without compression.

use std::collections::HashSet;

use modelfmt_core::Execution;
use modelfmt_core::author::Crc;
use modelfmt_write::Sink;

use super::prepared::Prepared;
use super::zip::{Archive, Member};
use super::{ExtractOptions, Extracted, names};
use modelfmt_model::error::{Error, Result};

/// The ending of the archive's files, which numpy leaves out of their names.
const ENDING: &str = ".npy";

/// An archive for which all offsets are known.
pub(super) struct Npz<'a> {
    prepared: Prepared<'a>,
    archive: Archive,
}

impl<'a> Npz<'a> {
    pub(super) fn new(prepared: Prepared<'a>) -> Result<Self> {
        let refused = |name: String, why: &str| Error::NotExtractable {
            path: prepared.model.path().to_owned(),
            name,
            why: why.to_owned(),
            remedy: None,
        };
        let named: Vec<String> =
            prepared.entries.iter().map(|entry| names::member_name(entry.name, ENDING)).collect();
        if let Some(name) = mistaken(&named) {
            let why = "the archive would hold another tensor's file of exactly this name, which numpy would read; extract to a folder";
            return Err(refused(name.to_owned(), why));
        }
        let members = named.into_iter().zip(&prepared.entries);
        let members = members.map(|(name, entry)| Member::new(name, entry.len())).collect();
        let archive = Archive::new(members).map_err(|(name, why)| refused(name, why))?;
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

/// Returns a name by which numpy reads another file: it looks for a file of this name before it adds the ending.
fn mistaken(files: &[String]) -> Option<&str> {
    let all: HashSet<&str> = files.iter().map(String::as_str).collect();
    files.iter().filter_map(|file| file.strip_suffix(ENDING)).find(|name| all.contains(name))
}
