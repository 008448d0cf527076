//! Reads values and checks them against the digests in the file.
//!
//! The digests are [`claims`](crate::claims), so one implementation serves every format that has digests.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;
use std::ops::Range;

use tensor_core::{AlignedBuf, Bytes, TensorInfo};

use crate::claims::{Claims, ObservedSource, WantedRange};
use crate::error::Error;
use crate::fetch::Fetch;
use crate::file_index::FileIndex;
use crate::plan::{Runs, gathered, wanted_of};
use crate::table::{Encoding, Location, Place};

/// The bytes of a tensor's values to read.
#[derive(Clone, Debug)]
pub enum Which<'a> {
    /// All bytes.
    Whole,
    /// A range of them.
    Range(Range<u64>),
    /// Several ranges, returned one after another.
    Runs(&'a Runs),
}

impl<'a> Which<'a> {
    /// Checks that the tensor has these bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub(crate) fn check<F>(&self, info: &TensorInfo<'_>) -> Result<(), Error<F>> {
        let Self::Range(range) = self else { return Ok(()) };
        let len = range.end.checked_sub(range.start);
        if len.is_none() || range.end > info.nbytes {
            return Err(Error::out_of_range(info, range.start, len.unwrap_or(u64::MAX)));
        }
        Ok(())
    }

    /// Returns several ranges, or one if they are adjacent.
    #[must_use]
    pub fn runs(runs: &'a Runs) -> Self {
        runs.as_range().map_or(Self::Runs(runs), Self::Range)
    }

    /// Returns the bytes that the claims must cover.
    pub(crate) fn wanted(&self, position: usize) -> Vec<WantedRange> {
        match self {
            Self::Whole => vec![WantedRange::whole(position)],
            Self::Range(range) => vec![WantedRange { position, range: Some(range.clone()) }],
            Self::Runs(runs) => wanted_of(position, runs),
        }
    }
}

/// A read of a tensor in a file, with the claims that cover it.
pub(crate) struct CheckedRead<'c, 's, I, S> {
    pub(crate) index: &'s I,
    pub(crate) source: &'s S,
    pub(crate) info: TensorInfo<'s>,
    pub(crate) place: Place,
    /// The number of the file in the claims.
    pub(crate) file: usize,
    pub(crate) claims: &'c Claims,
}

impl<'s, I: FileIndex, S: Fetch> CheckedRead<'_, 's, I, S> {
    /// Returns the values of the tensor, or a part of them, if every claim holds.
    pub(crate) async fn bytes(&self, which: Which<'_>) -> Result<Bytes<'s>, Error<I::Fault>> {
        let range = match which {
            Which::Whole => None,
            Which::Range(range) => Some(range),
            Which::Runs(runs) => return self.gathered(runs).await.map(Bytes::Owned),
        };
        if let Place::Listed(there) = self.place
            && self.index.checks_reads()
        {
            return match range {
                Some(range) => self.index.read_range(self.source, there, range).await,
                None => self.index.read(self.source, there, None).await,
            };
        }
        let Some(stored) = self.stored(range.as_ref())? else { return Err(self.unchecked().await) };
        if !self.claims.covers(self.file, &stored) {
            return Err(Error::NoHash { name: self.info.name.to_owned() });
        }
        let bytes = match self.source.memory() {
            _ if stored.is_empty() && range.is_some() => Bytes::Borrowed(&[]),
            Some(all) => self.in_memory(all, &stored, range).await?,
            None => match self.around(&stored, range.as_ref()) {
                Some(around) => self.cut(around, &stored).await?,
                None => self.watched(range).await?,
            },
        };
        self.claims.complete(self.file, self.source).await?;
        Ok(bytes)
    }

    /// Returns several ranges of the values, joined, if every claim holds.
    async fn gathered(&self, runs: &Runs) -> Result<AlignedBuf, Error<I::Fault>> {
        let (at, len) = (runs.offset(), runs.nbytes());
        let failed = |source| Error::Io { at, len, source };
        if let Place::Listed(there) = self.place
            && self.index.checks_reads()
        {
            let read =
                async |at: u64, out: &mut [u8]| self.index.read_into(self.source, there, at, out).await;
            return gathered(runs, read, failed).await;
        }
        let mut covered = 0..0;
        for wanted in wanted_of(0, runs) {
            let stored = match self.stored(wanted.range.as_ref())? {
                Some(stored) => stored,
                None => return Err(self.unchecked().await),
            };
            // All parts of a compressed tensor are in the same stored bytes.
            if stored != covered && !self.claims.covers(self.file, &stored) {
                return Err(Error::NoHash { name: self.info.name.to_owned() });
            }
            covered = stored;
        }
        let source = ObservedSource::new(self.source, self.file, self.claims);
        let read = async |at: u64, out: &mut [u8]| match self.place {
            Place::Listed(there) => self.index.read_into(&source, there, at, out).await,
            Place::Bytes(extent) => {
                let (at, len) = (extent.offset().saturating_add(at), out.len() as u64);
                source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })
            }
        };
        let bytes = gathered(runs, read, failed).await?;
        self.claims.complete(self.file, self.source).await?;
        Ok(bytes)
    }

    /// Returns the range of the file that holds the values. For a compressed tensor this is the whole stored
    /// tensor, because only decoding shows which bytes are needed. `None` for a tensor without a place in the
    /// file.
    fn stored(&self, range: Option<&Range<u64>>) -> Result<Option<Range<u64>>, Error<I::Fault>> {
        let location = match self.place {
            Place::Listed(there) => self.index.location(there),
            Place::Bytes(extent) => return Ok(Some(self.within(extent.range(), range))),
        };
        let Some(Location { offset: Some(offset), stored_nbytes, encoding, .. }) = location else {
            return Ok(None);
        };
        let whole = offset..offset.saturating_add(stored_nbytes);
        // A raw tensor may have bytes after its values, which its digest covers.
        Ok(Some(if encoding == Encoding::Raw { self.within(whole, range) } else { whole }))
    }

    fn within(&self, whole: Range<u64>, range: Option<&Range<u64>>) -> Range<u64> {
        let at = |offset: u64| whole.start.saturating_add(offset).min(whole.end);
        range.map_or_else(|| whole.clone(), |range| at(range.start)..at(range.end))
    }

    /// Returns the error of reading a tensor without a place in the file.
    async fn unchecked(&self) -> Error<I::Fault> {
        let read = match self.place {
            Place::Listed(there) => self.index.read(self.source, there, None).await,
            Place::Bytes(_) => Ok(Bytes::Borrowed(&[])),
        };
        read.err().unwrap_or_else(|| Error::NoHash { name: self.info.name.to_owned() })
    }

    /// Returns the values from memory, without a copy if the file stores them without encoding.
    async fn in_memory(
        &self,
        all: &'s [u8],
        stored: &Range<u64>,
        range: Option<Range<u64>>,
    ) -> Result<Bytes<'s>, Error<I::Fault>> {
        let (at, len) = (stored.start, stored.end.saturating_sub(stored.start));
        let slice = usize::try_from(stored.start).ok().zip(usize::try_from(stored.end).ok());
        let slice = slice.and_then(|(start, end)| all.get(start..end));
        let slice =
            slice.ok_or_else(|| Error::Io { at, len, source: io::ErrorKind::UnexpectedEof.into() })?;
        self.claims.observe(self.file, at, slice);
        match (self.place, range) {
            (Place::Bytes(_), _) => Ok(Bytes::Borrowed(slice)),
            (Place::Listed(there), None) => self.index.read(self.source, there, None).await,
            (Place::Listed(there), Some(_)) if self.is_raw(there) => Ok(Bytes::Borrowed(slice)),
            (Place::Listed(_), range) => self.watched(range).await,
        }
    }

    /// Returns the range of the file that contains everything that the claims cover, if that is little more
    /// than the wanted part of a tensor: one request is then better than three.
    fn around(&self, stored: &Range<u64>, range: Option<&Range<u64>>) -> Option<Range<u64>> {
        const LITTLE: u64 = 16 << 20;
        let is_raw = match self.place {
            Place::Listed(there) => self.is_raw(there),
            Place::Bytes(_) => true,
        };
        let around = self.claims.hull(self.file)?;
        let is_around = around.start <= stored.start && stored.end <= around.end && around != *stored;
        let more =
            around.end.saturating_sub(around.start).saturating_sub(stored.end.saturating_sub(stored.start));
        (range.is_some() && is_raw && is_around && more <= LITTLE).then_some(around)
    }

    async fn cut(&self, around: Range<u64>, stored: &Range<u64>) -> Result<Bytes<'s>, Error<I::Fault>> {
        let (at, len) = (around.start, around.end.saturating_sub(around.start));
        let io = |source| Error::Io { at, len, source };
        let bytes = self.source.fetch(around).await.map_err(io)?;
        self.claims.observe(self.file, at, &bytes);
        let within = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
        let part = bytes.get(within(stored.start)..within(stored.end));
        let part = part.ok_or_else(|| io(io::ErrorKind::UnexpectedEof.into()))?;
        let mut out = AlignedBuf::zeroed(part.len()).map_err(io)?;
        out.copy_from_slice(part);
        Ok(Bytes::Owned(out))
    }

    fn is_raw(&self, there: usize) -> bool {
        self.index.location(there).is_some_and(|location| location.encoding == Encoding::Raw)
    }

    /// Reads into a buffer, and passes the bytes to the claims.
    async fn watched(&self, range: Option<Range<u64>>) -> Result<Bytes<'s>, Error<I::Fault>> {
        let source = ObservedSource::new(self.source, self.file, self.claims);
        let io = |source| Error::Io { at: 0, len: self.info.nbytes, source };
        let there = match self.place {
            Place::Listed(there) => there,
            Place::Bytes(extent) => {
                let Range { start, end } = self.within(extent.range(), range.as_ref());
                let failed = |source| Error::Io { at: start, len: end.saturating_sub(start), source };
                let bytes = source.fetch(start..end).await.and_then(Bytes::into_owned);
                return bytes.map(Bytes::Owned).map_err(failed);
            }
        };
        let Some(range) = range else {
            let bytes = self.index.read(&source, there, None).await?;
            return bytes.into_owned().map(Bytes::Owned).map_err(io);
        };
        let len = usize::try_from(range.end.saturating_sub(range.start));
        let len = len.map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
        let mut out = AlignedBuf::zeroed(len).map_err(io)?;
        self.index.read_into(&source, there, range.start, &mut out).await?;
        Ok(Bytes::Owned(out))
    }
}
