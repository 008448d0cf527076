//! The form before PyTorch 1.6: five pickles one after another, followed by the storages
//! (docs/formats/pytorch.md#the-older-stream).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_arrays::{Arrays, Record};
use modelfmt_core::author::Cursor;
use modelfmt_core::{Limits, Part};

use super::{Context, assembled, stopped};
use crate::checkpoint::{self, Checkpoint};
use crate::error::{Error, Fault, Result};
use crate::index::{Form, Index};
use crate::pickle::{self, Node, Pickle, Stop};

/// The number in the first pickle.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
/// The number in the second pickle.
const VERSION: i64 = 1001;
/// The number of bytes to request first.
const FIRST_READ: u64 = 64 << 10;
/// Counts within this distance are read together.
const WINDOW: u64 = 64 << 10;
/// The length in bytes of the count before each storage.
const COUNT: u64 = 8;

#[derive(Debug)]
pub(super) struct Stream {
    context: Context,
    /// The number of bytes to request.
    asked: u64,
    state: Option<Storages>,
}

/// What is known after the pickles have been read.
#[derive(Debug)]
struct Storages {
    found: Checkpoint,
    protocol: u8,
    arrays: Arrays,
    /// For each storage whose count has not been checked: the offset of the count, its expected value, and
    /// the number of the storage. The next one is last.
    left: Vec<(u64, u64, usize)>,
    /// The number of the record of each storage.
    records: Vec<usize>,
    /// The offset after the last storage.
    end: u64,
}

impl Stream {
    pub(super) const fn new(context: Context) -> Self {
        Self { context, asked: FIRST_READ, state: None }
    }

    pub(super) fn need(&self) -> Option<Range<u64>> {
        let Some(storages) = &self.state else { return Some(0..self.asked.min(self.context.file_len)) };
        let mut left = storages.left.iter().rev();
        let &(start, ..) = left.next()?;
        let mut end = start.saturating_add(COUNT);
        for &(at, ..) in left {
            let next = at.saturating_add(COUNT);
            if next.saturating_sub(start) > WINDOW {
                break;
            }
            end = next;
        }
        Some(start..end)
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(storages) = &mut self.state else {
            let len = usize::try_from(self.context.file_len).unwrap_or(usize::MAX);
            let all = bytes.get(..len.min(bytes.len())).unwrap_or(bytes);
            let limit = usize::try_from(self.context.limits.index_len).unwrap_or(usize::MAX);
            let is_all = all.len() >= len || all.len() >= limit;
            match self.pickles(all.get(..limit.min(all.len())).unwrap_or(all))? {
                Some(storages) => self.state = Some(storages),
                None if is_all => {
                    Limits::check(
                        "the length of the pickles",
                        all.len() as u64,
                        self.context.limits.index_len,
                    )?;
                    let part = Part::new("pickles");
                    return Err(Error::Malformed { part, at: all.len() as u64, fault: Fault::NoStop });
                }
                // Each attempt starts again with a multiple of the bytes, so all attempts together take
                // linear time.
                None => self.asked = self.asked.max(all.len() as u64).saturating_mul(4),
            }
            return Ok(());
        };
        let Some(&(start, ..)) = storages.left.last() else { return Ok(()) };
        let end = start.saturating_add(bytes.len() as u64);
        while let Some(&(at, stated, storage)) = storages.left.last() {
            if at < start || at.saturating_add(COUNT) > end {
                break;
            }
            let from = usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
            let mut c = Cursor::new(bytes.get(from..).unwrap_or_default(), at);
            c.record("storage", Some(storage as u64));
            let count = c.u64("number of elements")?;
            if count != stated {
                let fault = Fault::StorageCount { found: count, stated };
                return Err(Error::Malformed { part: c.part("number of elements"), at, fault });
            }
            storages.left.pop();
        }
        Ok(())
    }

    /// Reads the five pickles. Returns `None` if they do not end within these bytes.
    fn pickles(&self, bytes: &[u8]) -> Result<Option<Storages>> {
        let mut at = 0_usize;
        let next = |at: &mut usize, number: u64| -> Result<Option<(Pickle<'_>, Part, u64)>> {
            let part = Part::entry("pickle", number);
            let base = *at as u64;
            match pickle::run(bytes.get(*at..).unwrap_or_default()) {
                Ok(pickle) => {
                    *at = at.saturating_add(pickle.len);
                    Ok(Some((pickle, part, base)))
                }
                Err(Stop { is_cut: true, .. }) => Ok(None),
                Err(stop) => Err(stopped(&part, base, stop)),
            }
        };
        let Some((magic, part, base)) = next(&mut at, 0)? else { return Ok(None) };
        plain(&magic, &part, base)?;
        let is_magic = match magic.values.node(magic.root) {
            Node::Wide(number) => magic.values.wides.get(number as usize) == Some(&MAGIC),
            _ => false,
        };
        if !is_magic {
            return Err(Error::Malformed { part, at: base, fault: Fault::NotTorch });
        }
        let Some((version, part, base)) = next(&mut at, 1)? else { return Ok(None) };
        plain(&version, &part, base)?;
        if version.values.node(version.root) != Node::Int(VERSION) {
            return Err(Error::Malformed { part, at: base, fault: Fault::StreamVersion });
        }
        let Some((system, part, base)) = next(&mut at, 2)? else { return Ok(None) };
        plain(&system, &part, base)?;
        let Some((object, object_part, object_base)) = next(&mut at, 3)? else { return Ok(None) };
        let Some((keys, part, base)) = next(&mut at, 4)? else { return Ok(None) };
        plain(&keys, &part, base)?;
        let (limits, root) = (&self.context.limits, self.context.root.as_deref());
        let found = checkpoint::read(&object, &object_part, root, limits)
            .map_err(|error| shifted(error, object_base))?;
        let listed = keys.values.members(keys.root);
        let no_list = || Error::Malformed { part: part.clone(), at: base, fault: Fault::Keys };
        let mut storages = Storages {
            records: vec![usize::MAX; found.storages.len()],
            found,
            protocol: object.protocol,
            arrays: Arrays::new(self.context.file_len, limits.clone()),
            left: Vec::new(),
            end: at as u64,
        };
        for &key in listed.ok_or_else(no_list)? {
            let key = keys.values.text(key).ok_or_else(no_list)?;
            storages.add(key, &part, base)?;
        }
        storages.left.reverse();
        Ok(Some(storages))
    }

    pub(super) fn finish(self) -> Result<Index> {
        let Some(storages) = self.state else {
            let part = Part::new("pickles");
            return Err(Error::Malformed { part, at: self.context.file_len, fault: Fault::NoStop });
        };
        let Storages { mut found, protocol, arrays, records, end, .. } = storages;
        let behind = self.context.file_len.saturating_sub(end);
        if behind > 0 {
            found.warnings.push(format!(
                "{behind} bytes follow the last storage, from byte {end} on: they are not looked at"
            ));
        }
        let record_of = |storage: usize| records.get(storage).copied().filter(|&record| record != usize::MAX);
        assembled(arrays, found, (Form::Stream, protocol, Some(VERSION.to_string())), record_of, false)
    }
}

impl Storages {
    /// Adds the next storage. Only the pickle of the object states its length.
    fn add(&mut self, key: &str, part: &Part, base: u64) -> Result<()> {
        let refuse = |fault| Error::Malformed { part: part.clone(), at: base, fault };
        let number = self.found.keys.find(key).ok_or_else(|| refuse(Fault::NoStorage(key.to_owned())))?;
        let storage = self.found.storages.get(number).copied();
        let storage = storage.ok_or_else(|| refuse(Fault::NoStorage(key.to_owned())))?;
        let count = storage.nbytes.checked_div(storage.size).unwrap_or(0);
        let at = self.end.saturating_add(COUNT);
        let record = self.arrays.add_record::<Fault>(key, Record::plain(at, storage.nbytes))?;
        self.records.get_mut(number).into_iter().for_each(|slot| *slot = record);
        self.left.push((self.end, count, number));
        self.end = at.saturating_add(storage.nbytes);
        Ok(())
    }
}

/// Checks that a pickle other than the object's makes only plain values, and names no globals.
fn plain(pickle: &Pickle<'_>, part: &Part, base: u64) -> Result<()> {
    match checkpoint::named(&pickle.values).into_iter().next() {
        None => Ok(()),
        Some(global) => {
            let at = base.saturating_add(global.at);
            let fault = Fault::Global(format!("{}.{}", global.module, global.name).into());
            Err(Error::Malformed { part: part.clone(), at, fault })
        }
    }
}

/// Shifts an error about a pickle that begins at byte `base` of the file.
fn shifted(error: Error, base: u64) -> Error {
    match error {
        Error::Malformed { part, at, fault } => Error::Malformed { part, at: at.saturating_add(base), fault },
        other => other,
    }
}
