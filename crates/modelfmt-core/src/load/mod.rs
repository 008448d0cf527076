//! Loads tensors into memory, on several threads: into your own buffers or into new ones.
//!
//! Threads take pieces of a few MiB from a counter. Each piece is one positioned read directly into its final
//! place; small tensors that are close to each other are read together. With [`LoadOptions::verify`], the
//! thread that has read a piece hashes it while it is in the processor's cache, to compare it with the
//! digests in the file. Several threads share the hash of a large tensor.
//!
//! ```
//! use modelfmt_core::load::{LoadOptions, load_into};
//! # use modelfmt_core::{AnyError, Container, Execution, plan::Pick};
//! # fn two(model: &(dyn Container + Sync)) -> Result<(), Box<dyn std::error::Error>> {
//! // Memory of your own: pinned, on a node of your choice, a part of something larger.
//! let (mut a, mut b) = (vec![0; 4096], vec![0; 64]);
//! let picks = [Pick::whole(0), Pick::part(1, "::2,0".parse()?)];
//! load_into(model, &picks, &mut [&mut a, &mut b], &LoadOptions::new().verify(true), &Execution::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! For asynchronous sources, [`AsyncReader::load_into`](crate::AsyncReader::load_into) does the same, with as many requests in
//! flight as [`LoadOptions::in_flight`] allows.

mod async_load;
mod buffer;
mod jobs;
mod reader;
mod threads;

use std::collections::BTreeSet;
use std::io;

use tensor_core::{Bytes, DType, TensorError, TensorInfo, TensorView};

pub(crate) use self::async_load::load_opened;
pub use self::buffer::LoadBuffer;
use self::jobs::Item;
use self::threads::LoadRun;
use crate::claims::{ClaimError, Claims};
use crate::container::Container;
use crate::container::wanted;
use crate::error::{AnyError, AnyFault, Error};
use crate::execution::Execution;
use crate::plan::{Pick, PlanOptions, PlannedRange, ReadPlan, Runs};
use crate::table::{Encoding, Stored};

/// Options for loading tensors.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LoadOptions {
    verify: bool,
    drop_cache: bool,
    uncached: bool,
    plan: PlanOptions,
    in_flight: InFlight,
}

/// The number of requests and bytes that an asynchronous load may have in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    requests: usize,
    nbytes: u64,
}

impl LoadOptions {
    /// Returns the defaults: reads go through the page cache, nothing is checked, and the bytes stay in the
    /// cache.
    pub const fn new() -> Self {
        let plan = PlanOptions { gap: 64 << 10, max_request: 4 << 20 };
        let in_flight = InFlight { requests: 16, nbytes: 128 << 20 };
        Self { verify: false, drop_cache: false, uncached: false, plan, in_flight }
    }

    /// Sets whether values are checked against the digests in their files while they are read. Bytes without
    /// a digest are not checked: [`Loaded::unverified`] counts them.
    pub const fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets whether the page cache is asked to drop the bytes that were read, for a model that will not be
    /// read again. This works on Linux, with the feature `direct`.
    pub const fn drop_cache(mut self, drop_cache: bool) -> Self {
        self.drop_cache = drop_cache;
        self
    }

    /// Sets whether reads of a file that is not in the page cache may bypass the cache, which is faster for
    /// fast disks. This works on Linux, with the feature `direct`. If the file system does not support it,
    /// normal reads are made. The disk writes directly into a large buffer if the buffer's address and the
    /// tensor's offset in the file are equal modulo 4096. This crate allocates such buffers if the format
    /// aligns tensors to 64; any other buffer costs a copy.
    pub const fn uncached(mut self, uncached: bool) -> Self {
        self.uncached = uncached;
        self
    }

    /// Sets how ranges become requests: the longest gap that is also read, and the longest request.
    pub const fn plan(mut self, plan: PlanOptions) -> Self {
        self.plan = plan;
        self
    }

    /// Sets the number of requests that an asynchronous load has in flight, and their total number of bytes.
    /// The defaults are 16 and 128 MiB. A single longer request is made alone.
    pub const fn in_flight(mut self, requests: usize, nbytes: u64) -> Self {
        self.in_flight = InFlight { requests, nbytes };
        self
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of a load.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// Notes on what was not checked, and why. The text is meant for the user.
    pub notes: Vec<String>,
    /// The number of wanted bytes, as stored, that were not checked against a digest: all of them without
    /// [`verify`](LoadOptions::verify).
    pub unverified: u64,
    /// The number of bytes that were read without the page cache.
    pub uncached: u64,
}

/// A tensor, or a part of one, in its own buffer.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedTensor {
    /// The position of the tensor.
    pub position: usize,
    /// The dtype of the elements.
    pub dtype: DType,
    /// The dimensions of the tensor or of the part.
    pub shape: Vec<u64>,
    /// The values, little-endian and row-major.
    pub bytes: LoadBuffer,
}

impl LoadedTensor {
    /// Returns a view of the bytes as a tensor with this name.
    ///
    /// # Errors
    /// Never for a loaded tensor, because its bytes fit its shape.
    pub fn view<'a>(&'a self, name: &'a str) -> Result<TensorView<'a>, TensorError> {
        let nbytes = self.bytes.len() as u64;
        let info = TensorInfo::with_nbytes(name, self.dtype, &self.shape, nbytes, true);
        TensorView::new(info, Bytes::Borrowed(&self.bytes))
    }
}

/// The part of a tensor that is loaded.
struct ResolvedPick {
    position: usize,
    stored: Stored,
    dtype: DType,
    shape: Vec<u64>,
    /// The wanted bytes of the values.
    runs: Runs,
}

impl ResolvedPick {
    fn of(container: &(dyn Container + Sync), pick: &Pick) -> Result<Self, AnyError> {
        let stored = container.stored(pick.position)?;
        Self::new(&info_of(container, pick.position)?, stored, pick)
    }

    fn new<F>(info: &TensorInfo<'_>, stored: Stored, pick: &Pick) -> Result<Self, Error<F>> {
        if stored.offset.is_none() {
            return Err(Error::NoData { name: info.name.to_owned() });
        }
        let (shape, runs) = match &pick.slice {
            None => (info.shape.to_vec(), Runs::contiguous(0..info.nbytes)),
            Some(slice) => {
                let sliced = slice.of(info).map_err(|fault| Error::slice(info, fault))?;
                (sliced.shape, sliced.runs)
            }
        };
        Ok(Self { position: pick.position, stored, dtype: info.dtype, shape, runs })
    }
}

/// Returns the length in bytes of a tensor, or of a part of one, in memory: the length of its buffer.
///
/// # Errors
/// If there is no such tensor, it has no data, or a slice does not fit it.
pub fn nbytes(container: &(dyn Container + Sync), pick: &Pick) -> Result<u64, AnyError> {
    ResolvedPick::of(container, pick).map(|resolved| resolved.runs.nbytes())
}

/// Fills your buffers with tensors or parts of them, in the order of `picks`. Each buffer must have the
/// length that [`nbytes`] returns. Apart from the buffers, memory use does not depend on the size of the
/// model. Reads that bypass the page cache use twice as many threads.
///
/// # Errors
/// [`ClaimError::Damaged`] if values do not match the digests in their file; [`AnyError::OutOfRange`] for a
/// buffer of another length; [`AnyError::Changed`] if a file was changed since it was opened; if a tensor
/// cannot be read or decompressed. The buffers may then hold some of the values, checked or not.
pub fn load_into(
    container: &(dyn Container + Sync),
    picks: &[Pick],
    buffers: &mut [&mut [u8]],
    options: &LoadOptions,
    work: &Execution<'_>,
) -> Result<Loaded, ClaimError> {
    let resolved =
        picks.iter().map(|pick| ResolvedPick::of(container, pick)).collect::<Result<Vec<_>, _>>()?;
    expect_buffers::<AnyFault>(resolved.len(), buffers.len())?;
    let mut items = Vec::with_capacity(resolved.len());
    for (ResolvedPick { position, stored, runs, .. }, out) in resolved.into_iter().zip(buffers) {
        items.push(Item::new(&info_of(container, position)?, position, stored, runs, out)?);
    }
    load_items(container, picks, items, options, work)
}

fn info_of<'c>(container: &'c (dyn Container + Sync), position: usize) -> Result<TensorInfo<'c>, AnyError> {
    container.info(position).ok_or_else(|| AnyError::no_such_position(position))
}

fn expect_buffers<F>(tensors: usize, buffers: usize) -> Result<(), Error<F>> {
    if tensors == buffers {
        return Ok(());
    }
    let text = format!("there are {buffers} buffers for {tensors} tensors");
    Err(Error::Io { at: 0, len: 0, source: io::Error::new(io::ErrorKind::InvalidInput, text) })
}

/// Loads tensors or parts of them, each into its own new buffer.
///
/// # Errors
/// If the memory cannot be allocated; [`ClaimError::Damaged`] if values do not match the digests in their
/// file; [`AnyError::Changed`] if a file was changed since it was opened; if a tensor cannot be read or
/// decompressed.
pub fn load(
    container: &(dyn Container + Sync),
    picks: &[Pick],
    options: &LoadOptions,
    work: &Execution<'_>,
) -> Result<(Vec<LoadedTensor>, Loaded), ClaimError> {
    let resolved =
        picks.iter().map(|pick| ResolvedPick::of(container, pick)).collect::<Result<Vec<_>, _>>()?;
    let mut tensors = Vec::with_capacity(resolved.len());
    let mut places = Vec::with_capacity(resolved.len());
    for ResolvedPick { position, stored, dtype, shape, runs } in resolved {
        let len = runs.nbytes();
        let is_direct = options.uncached && stored.encoding == Encoding::Raw;
        let at = stored.offset.filter(|_| is_direct).map_or(0, |offset| offset.saturating_add(runs.offset()));
        let bytes = LoadBuffer::zeroed_for(len, at).map_err(|source| AnyError::Io { at: 0, len, source })?;
        tensors.push(LoadedTensor { position, dtype, shape, bytes });
        places.push((stored, runs));
    }
    let mut items = Vec::with_capacity(tensors.len());
    for (tensor, (stored, runs)) in tensors.iter_mut().zip(places) {
        let info = info_of(container, tensor.position)?;
        items.push(Item::new(&info, tensor.position, stored, runs, &mut tensor.bytes)?);
    }
    let loaded = load_items(container, picks, items, options, work)?;
    Ok((tensors, loaded))
}

fn load_items(
    container: &(dyn Container + Sync),
    picks: &[Pick],
    items: Vec<Item<'_>>,
    options: &LoadOptions,
    work: &Execution<'_>,
) -> Result<Loaded, ClaimError> {
    let mut files: Vec<usize> = items.iter().map(|item| item.stored.file).collect();
    files.sort_unstable();
    files.dedup();
    let mut load_run = LoadRun::new(container, options, &files)?;
    let claims = if options.verify {
        container.claims_of(&wanted(container, picks)?).map_err(ClaimError::Damaged)?
    } else {
        Claims::new()
    };
    let exact = PlanOptions { gap: 0, max_request: u64::MAX };
    let plan = ReadPlan::new(container, picks, exact)?;
    // A file that was read in full on opening is not read again.
    let read: BTreeSet<usize> = plan.ranges().iter().map(|range| range.file).collect();
    let mut held = ReadPlan::builder(exact);
    for Stored { file, offset, nbytes, .. } in items.iter().map(|item| item.stored) {
        if !read.contains(&file) {
            let at = offset.unwrap_or(0);
            held.add(file, Runs::contiguous(at..at.saturating_add(nbytes)));
        }
    }
    let held = held.finish(Vec::new());
    let unverified = uncovered(&plan, &claims).saturating_add(uncovered(&held, &claims));
    Ok(Loaded { unverified, ..load_run.run(items, &claims, work)? })
}

/// Returns the number of bytes of a plan that no claim covers. Runs are counted one by one. If there are very
/// many, only the range from the first to the last counts.
fn uncovered(plan: &ReadPlan, claims: &Claims) -> u64 {
    const MAX_RUNS: u64 = 1 << 16;
    let of = |range: &PlannedRange| {
        let is_covered = |run: &std::ops::Range<u64>| claims.covers(range.file, run);
        let all = range.runs.nbytes();
        match range.runs.count() {
            _ if claims.is_checked(range.file) => 0,
            _ if claims.is_empty() => all,
            count if count > MAX_RUNS => {
                if is_covered(&range.runs.hull()) {
                    0
                } else {
                    all
                }
            }
            _ => range.runs.iter().filter(|run| !is_covered(run)).map(|run| run.end - run.start).sum(),
        }
    };
    plan.ranges().iter().map(of).fold(0, u64::saturating_add)
}
