//! The work of a load, in jobs that threads take one after another.

use tensor_core::TensorInfo;

use crate::error::Error;
use crate::execution::PIECE;
use crate::plan::{PlanOptions, Runs};
use crate::table::{Encoding, Stored};

/// The number of bytes of values that one job decodes: so few that a decoder starts no threads of its own.
const DECODED: u64 = 4 * PIECE;

/// The smallest part of a slice that becomes a separate job, in bytes of values.
const SLICED: u64 = 256 << 10;
/// The same minimum in requests.
const REQUESTS: u64 = 16;
/// The maximum number of jobs for a slice.
const MAX_PARTS: u64 = 256;

/// The block size of disks. Blocks begin at multiples of it.
const BLOCK: u64 = 4096;

/// The maximum number of bytes that a thread reads at once for neighbouring tensors, and so the size of its
/// buffer.
pub(super) const TOGETHER: u64 = 1 << 20;

/// A tensor, or a part of one, and the buffer for it.
pub(super) struct Item<'b> {
    pub(super) position: usize,
    pub(super) stored: Stored,
    /// The wanted bytes of the values.
    runs: Runs,
    out: &'b mut [u8],
}

impl<'b> Item<'b> {
    /// Checks that the buffer is as long as the values, and that the values are within the stored bytes.
    pub(super) fn new<F>(
        info: &TensorInfo<'_>,
        position: usize,
        stored: Stored,
        runs: Runs,
        out: &'b mut [u8],
    ) -> Result<Self, Error<F>> {
        let beyond = |len: u64| Error::out_of_range(info, 0, len);
        if out.len() as u64 != runs.nbytes() {
            return Err(beyond(out.len() as u64));
        }
        let end = runs.hull().end;
        let is_as_it_is = !runs.is_empty() && stored.encoding == Encoding::Raw;
        if is_as_it_is
            && (end > stored.nbytes || stored.offset.is_none_or(|at| at.checked_add(end).is_none()))
        {
            return Err(beyond(end));
        }
        Ok(Self { position, stored, runs, out })
    }
}

/// A piece of the work of a load.
pub(super) enum Job<'b> {
    /// Raw bytes of a file, in ascending order and close to each other, and the buffers for them.
    Bytes { file: usize, parts: Vec<(u64, &'b mut [u8])> },
    /// Values that must be decoded, from byte `offset` of the tensor's values on.
    Values { position: usize, offset: u64, out: &'b mut [u8] },
    /// Values from several ranges of the tensor.
    Slice { position: usize, runs: Runs, out: &'b mut [u8] },
}

/// Cuts the bytes from byte `at` of a file on into pieces of up to `longest` bytes. All but the first begin
/// at a disk block.
pub(super) fn pieces(at: u64, out: &mut [u8], longest: u64) -> impl Iterator<Item = (u64, &mut [u8])> {
    let (mut at, mut rest) = (at, out);
    std::iter::from_fn(move || {
        let len = if longest > BLOCK { longest - at % BLOCK } else { longest.max(1) };
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
        let (piece, after) = std::mem::take(&mut rest).split_at_mut(len);
        let start = at;
        (at, rest) = (at.saturating_add(len as u64), after);
        (!piece.is_empty()).then_some((start, piece))
    })
}

/// Returns the jobs, in the order of the bytes in the files. Neighbours of up to `together` bytes become one
/// job.
pub(super) fn jobs<'b>(mut items: Vec<Item<'b>>, options: PlanOptions, together: u64) -> Vec<Job<'b>> {
    items.sort_by_key(|item| (item.stored.file, item.stored.offset, item.runs.offset()));
    let mut jobs = Jobs { options, together, done: Vec::new(), open: None };
    for Item { position, stored, runs, out } in items {
        if out.is_empty() {
            continue;
        }
        match (runs.as_range(), stored.encoding, stored.offset) {
            (None, ..) => jobs.slices(position, runs, out),
            (Some(range), Encoding::Raw, Some(offset)) => jobs.bytes(stored.file, offset + range.start, out),
            (Some(range), ..) => jobs.values(position, range.start, out),
        }
    }
    jobs.close();
    jobs.done
}

struct Jobs<'b> {
    options: PlanOptions,
    together: u64,
    done: Vec<Job<'b>>,
    /// Neighbours that will be read together.
    open: Option<Open<'b>>,
}

struct Open<'b> {
    file: usize,
    start: u64,
    end: u64,
    parts: Vec<(u64, &'b mut [u8])>,
}

impl<'b> Jobs<'b> {
    fn close(&mut self) {
        if let Some(Open { file, parts, .. }) = self.open.take() {
            self.done.push(Job::Bytes { file, parts });
        }
    }

    fn push(&mut self, job: Job<'b>) {
        self.close();
        self.done.push(job);
    }

    fn bytes(&mut self, file: usize, at: u64, out: &'b mut [u8]) {
        let end = at + out.len() as u64; // within the file: checked by `Item::new`
        let longest = self.options.max_request.max(1);
        if let Some(open) = self.open.as_mut().filter(|open| open.file == file)
            && at <= open.end.saturating_add(self.options.gap)
            && end.max(open.end) - open.start <= longest.min(self.together)
        {
            open.end = open.end.max(end);
            open.parts.push((at, out));
            return;
        }
        self.close();
        if end - at <= longest {
            self.open = Some(Open { file, start: at, end, parts: vec![(at, out)] });
            return;
        }
        self.done.extend(pieces(at, out, longest).map(|part| Job::Bytes { file, parts: vec![part] }));
    }

    /// Adds the jobs of a slice with several ranges, divided for several threads.
    fn slices(&mut self, position: usize, runs: Runs, mut out: &'b mut [u8]) {
        let requests = runs.clone().joined(self.options.gap).count();
        let most = (runs.nbytes() / SLICED).max(requests / REQUESTS).clamp(1, MAX_PARTS);
        for runs in runs.parts(most) {
            let len = usize::try_from(runs.nbytes()).unwrap_or(usize::MAX);
            let (part, rest) = out.split_at_mut(len.min(out.len())); // as long as all parts
            self.push(Job::Slice { position, runs, out: part });
            out = rest;
        }
    }

    fn values(&mut self, position: usize, mut at: u64, mut out: &'b mut [u8]) {
        // Pieces that begin at multiples of the length never decode a block twice.
        while !out.is_empty() {
            let len = usize::try_from(DECODED - at % DECODED).unwrap_or(usize::MAX).min(out.len());
            let (piece, rest) = out.split_at_mut(len);
            self.push(Job::Values { position, offset: at, out: piece });
            (at, out) = (at + len as u64, rest);
        }
    }
}
