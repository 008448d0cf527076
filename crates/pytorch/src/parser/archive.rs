//! The current form: a zip archive with a pickle, and a record for each storage (docs/formats/pytorch.md#the-archive).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_arrays::zip::Directory;
use modelfmt_arrays::{Arrays, Method, Record, inflate_whole};
use modelfmt_core::author::NameTable;
use modelfmt_core::{Limits, Part};

use super::{Context, assembled, stopped};
use crate::checkpoint::{self, Checkpoint};
use crate::error::{Error, Fault, Result};
use crate::index::{Form, Index};
use crate::pickle;

const PICKLE: &str = "/data.pkl";
/// Headers within this distance are read together.
const WINDOW: u64 = 64 << 10;
/// The maximum number of bytes of extra fields in a header.
const EXTRA: u64 = 0xffff;
/// Records that hold a single word (version, byte order) are shorter than this.
const WORD: u64 = 64;

#[derive(Debug)]
pub(super) struct Archive {
    context: Context,
    directory: Directory,
    arrays: Arrays,
    /// The members that are read in full. The next one is last.
    whole: Vec<(usize, What)>,
    /// The members whose headers are read after the pickle. The next one is last.
    headers: Vec<usize>,
    /// The number of each member's record, if its header has been read.
    records: Vec<Option<usize>>,
    prefix: String,
    found: Option<Checkpoint>,
    protocol: u8,
    version: Option<String>,
    is_big_endian: bool,
}

/// The members that are read in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Pickle,
    ByteOrder,
    Version,
}

impl Archive {
    pub(super) fn new(directory: Directory, context: Context) -> Result<Self> {
        let (pickle, prefix) = pickle_of(&directory)?;
        let prefix = prefix.to_owned();
        let mut arrays = Arrays::new(context.file_len, context.limits.clone());
        arrays.reserve(0, directory.len());
        let small = |name: &str, what| {
            let number = directory.names().find(&format!("{prefix}/{name}"))?;
            directory.member(number).filter(|member| member.len() <= WORD)?;
            Some((number, what))
        };
        // The pickle is read after the other two. It then determines which storages there are.
        let words = [small("version", What::Version), small("byteorder", What::ByteOrder)];
        let whole = [(pickle, What::Pickle)].into_iter().chain(words.into_iter().flatten()).collect();
        let records = vec![None; directory.len()];
        Ok(Self {
            context,
            directory,
            arrays,
            whole,
            headers: Vec::new(),
            records,
            prefix,
            found: None,
            protocol: 0,
            version: None,
            is_big_endian: false,
        })
    }

    /// Returns the range of a member, from its header to its end.
    fn whole_range(&self, number: usize) -> Range<u64> {
        let header = self.directory.header_range(number);
        let Some(member) = self.directory.member(number) else { return header };
        let most = header.end.saturating_add(EXTRA).saturating_add(member.stored_len());
        header.start..most.min(member.next())
    }

    pub(super) fn need(&self) -> Option<Range<u64>> {
        if let Some(&(number, _)) = self.whole.last() {
            return Some(self.whole_range(number));
        }
        let mut left = self.headers.iter().rev();
        let mut range = self.directory.header_range(*left.next()?);
        for &number in left {
            let next = self.directory.header_range(number);
            if next.end.saturating_sub(range.start) > WINDOW {
                break;
            }
            range.end = range.end.max(next.end);
        }
        Some(range)
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(&(number, what)) = self.whole.last() {
            let record = self.record(number, bytes)?;
            let start = self.directory.header_range(number).start;
            let from = usize::try_from(record.at.saturating_sub(start)).unwrap_or(usize::MAX);
            let stored =
                bytes.get(from..).and_then(|rest| rest.get(..usize::try_from(record.stored_len).ok()?));
            let part = self.directory.part(number);
            let missing = || Error::Truncated {
                part: part.clone(),
                at: record.at,
                need: record.stored_len,
                have: bytes.len().saturating_sub(from) as u64,
            };
            let stored = stored.ok_or_else(missing)?;
            let inflated;
            let content = match record.method {
                Method::Stored => stored,
                Method::Deflated => {
                    Limits::check("the length of a pickle", record.len, self.context.limits.index_len)?;
                    let damaged = |fault: modelfmt_arrays::Fault| Error::Malformed {
                        part: part.clone(),
                        at: record.at,
                        fault: fault.into(),
                    };
                    inflated = inflate_whole(stored, record.len).map_err(damaged)?;
                    &inflated
                }
            };
            self.take(what, &part, content)?;
            self.whole.pop();
            return Ok(());
        }
        let Some(&first) = self.headers.last() else { return Ok(()) };
        let start = self.directory.header_range(first).start;
        let end = start.saturating_add(bytes.len() as u64);
        while let Some(&number) = self.headers.last() {
            let header = self.directory.header_range(number);
            if header.start < start || header.end > end {
                break; // it is asked for next
            }
            let from = usize::try_from(header.start.saturating_sub(start)).unwrap_or(usize::MAX);
            match self.record(number, bytes.get(from..).unwrap_or_default()) {
                Ok(_) => {}
                // A record without tensors may use any compression method.
                Err(Error::Malformed { fault: Fault::Array(modelfmt_arrays::Fault::Method(_)), .. }) => {}
                Err(error) => return Err(error),
            }
            self.headers.pop();
        }
        Ok(())
    }

    /// Adds the record of a member from its header.
    fn record(&mut self, number: usize, header: &[u8]) -> Result<Record> {
        let record = self.directory.record::<Fault>(number, header)?;
        let name = self.directory.names().name(number).unwrap_or_default();
        let added = self.arrays.add_record::<Fault>(name, record)?;
        self.records.get_mut(number).into_iter().for_each(|slot| *slot = Some(added));
        Ok(record)
    }

    fn take(&mut self, what: What, part: &Part, content: &[u8]) -> Result<()> {
        let word = || String::from_utf8_lossy(content).trim().to_owned();
        match what {
            What::Version => self.version = Some(word()).filter(|word| !word.is_empty()),
            What::ByteOrder => match &*word() {
                "little" => {}
                "big" => self.is_big_endian = true,
                other => {
                    let fault = Fault::ByteOrder(other.to_owned());
                    return Err(Error::Malformed { part: part.clone(), at: 0, fault });
                }
            },
            What::Pickle => {
                let limits = &self.context.limits;
                Limits::check("the length of a pickle", content.len() as u64, limits.index_len)?;
                let pickle = pickle::run(content).map_err(|stop| stopped(part, 0, stop))?;
                self.protocol = pickle.protocol;
                self.found = Some(checkpoint::read(&pickle, part, self.context.root.as_deref(), limits)?);
                // In file order. Headers that are close together are read together.
                let is_known = |number: &usize| {
                    self.whole.iter().any(|(known, _)| known == number) || self.record_of(*number).is_some()
                };
                let mut headers: Vec<usize> =
                    (0..self.directory.len()).filter(|number| !is_known(number)).collect();
                headers.sort_by_key(|&number| std::cmp::Reverse(self.directory.header_range(number).start));
                self.headers = headers;
            }
        }
        Ok(())
    }

    /// Returns the record of a member, if its header has been read.
    fn record_of(&self, number: usize) -> Option<usize> {
        self.records.get(number).copied().flatten()
    }

    /// Returns the record of each storage. Most storages are in the order of the directory, so the member
    /// after the previous one is tried first.
    fn records_of(&self, keys: &NameTable) -> Vec<Option<usize>> {
        let names = self.directory.names();
        let mut name = format!("{}/data/", self.prefix);
        let front = name.len();
        let mut next = 0;
        let mut record_of = |key: &str| {
            name.truncate(front);
            name.push_str(key);
            let is_next = names.name(next) == Some(&*name);
            let number = if is_next { next } else { names.find(&name)? };
            next = number.saturating_add(1);
            self.record_of(number)
        };
        keys.iter().map(&mut record_of).collect()
    }

    pub(super) fn finish(mut self) -> Result<Index> {
        let Some(found) = self.found.take() else {
            return Err(Error::Malformed { part: Part::new("directory"), at: 0, fault: Fault::NoPickle });
        };
        let records = self.records_of(&found.keys);
        for (storage, record) in found.storages.iter().zip(&records) {
            let Some((number, record)) =
                record.and_then(|number| Some((number, self.arrays.record(number)?)))
            else {
                continue; // it is an error where a tensor needs it
            };
            if record.len != storage.nbytes {
                let fault = Fault::StorageSize { found: record.len, stated: storage.nbytes };
                return Err(Error::Malformed { part: self.arrays.record_part(number), at: record.at, fault });
            }
        }
        let record_of = |storage: usize| records.get(storage).copied().flatten();
        let form = (Form::Archive, self.protocol, self.version);
        assembled(self.arrays, found, form, record_of, self.is_big_endian)
    }
}

/// Returns the member that is the pickle, and the folder before its name. Like PyTorch, this uses the folder
/// of the first member, and ignores case in names.
fn pickle_of(directory: &Directory) -> Result<(usize, &str)> {
    let refuse = |fault| Error::Malformed { part: Part::new("directory"), at: 0, fault };
    let names = || directory.names().iter().enumerate();
    let is_pickle = |name: &str| {
        let prefix = name.len().checked_sub(PICKLE.len()).and_then(|at| name.split_at_checked(at));
        prefix.is_some_and(|(prefix, end)| end.eq_ignore_ascii_case(PICKLE) && !prefix.contains('/'))
    };
    let mut found = names().filter(|(_, name)| is_pickle(name));
    let (number, name) = found.next().ok_or_else(|| refuse(Fault::NoPickle))?;
    if let Some((_, other)) = found.next() {
        return Err(refuse(Fault::TwoPickles(name.into(), other.into())));
    }
    let prefix = name.strip_suffix(PICKLE).ok_or_else(|| refuse(Fault::NoPickle))?;
    let first = names().next().and_then(|(_, first)| first.split('/').next());
    if first != Some(prefix) {
        let first = first.unwrap_or_default();
        return Err(refuse(Fault::TwoPickles(format!("{first}{PICKLE}").into(), name.into())));
    }
    Ok((number, prefix))
}
