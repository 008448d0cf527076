//! Reads a slice: makes the requests of a plan over a tensor's values, and joins the wanted bytes.

use std::io;
use std::ops::Range;

use tensor_core::{AlignedBuf, Bytes, DType, TensorInfo, TensorView};

use super::runs::Runs;
use super::{PlanOptions, ReadPlan};

/// The values of a part of a tensor, with dtype and shape.
#[derive(Clone, Debug)]
pub struct TensorSlice<'a> {
    name: &'a str,
    dtype: DType,
    shape: Vec<u64>,
    bytes: Bytes<'a>,
}

impl<'a> TensorSlice<'a> {
    pub(crate) fn new(tensor: &TensorInfo<'a>, shape: Vec<u64>, bytes: Bytes<'a>) -> Self {
        Self { name: tensor.name, dtype: tensor.dtype, shape, bytes }
    }

    /// Returns the name of the tensor.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the dtype of the elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the dimensions of the part, slowest first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the values as bytes, little-endian and row-major.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the values as bytes, without dtype and shape.
    #[must_use]
    pub fn into_bytes(self) -> Bytes<'a> {
        self.bytes
    }

    /// Returns the part as a separate tensor.
    ///
    /// # Errors
    /// Never for a part that was read, because its bytes fit its shape.
    pub fn view(&self) -> Result<TensorView<'_>, tensor_core::TensorError> {
        let nbytes = self.bytes.len() as u64;
        let info = TensorInfo::with_nbytes(self.name, self.dtype, &self.shape, nbytes, true);
        TensorView::new(info, Bytes::Borrowed(&self.bytes))
    }
}

/// Reads these bytes of a tensor's values into a new buffer. `read` fills a buffer with values from a given
/// byte on; `failed` converts I/O errors.
pub(crate) async fn gathered<E>(
    runs: &Runs,
    read: impl AsyncFnMut(u64, &mut [u8]) -> Result<(), E>,
    failed: impl Fn(io::Error) -> E,
) -> Result<AlignedBuf, E> {
    let len = usize::try_from(runs.nbytes()).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
    let mut out = AlignedBuf::zeroed(len).map_err(&failed)?;
    gather(runs, PlanOptions::local(), &mut out, read, failed).await?;
    Ok(out)
}

/// Fills `out` with these bytes of a tensor's values, run after run.
pub(crate) async fn gather<E>(
    runs: &Runs,
    options: PlanOptions,
    out: &mut [u8],
    mut read: impl AsyncFnMut(u64, &mut [u8]) -> Result<(), E>,
    failed: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let mut plan = ReadPlan::builder(options);
    plan.add(0, runs.clone());
    let plan = plan.finish(Vec::new());
    let mut scatter = Scatter::new(runs, out);
    let mut scratch = AlignedBuf::default();
    for request in plan.requests() {
        let range = request.range;
        // A request without gaps is read directly into place.
        if let Some(out) = scatter.direct(&range) {
            read(range.start, out).await?;
            continue;
        }
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        scratch.resize(len).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        read(range.start, &mut scratch).await?;
        scatter.put(&range, &scratch);
    }
    Ok(())
}

/// Copies the results of requests, in their order, into the output.
struct Scatter<'a> {
    runs: super::RunsIter<'a>,
    /// The rest of the next run.
    next: Option<Range<u64>>,
    /// The rest of the output, which begins with the next run.
    out: &'a mut [u8],
}

impl<'a> Scatter<'a> {
    fn new(runs: &'a Runs, out: &'a mut [u8]) -> Self {
        let mut runs = runs.iter();
        let next = runs.next();
        Self { runs, next, out }
    }

    /// Returns the place in the output of a range that is within one run.
    fn direct(&mut self, range: &Range<u64>) -> Option<&'a mut [u8]> {
        let next = self.next.as_ref().filter(|next| next.start == range.start && range.end <= next.end)?;
        let rest = range.end..next.end;
        let len = usize::try_from(range.end - range.start).ok()?;
        let (place, out) = std::mem::take(&mut self.out).split_at_mut_checked(len)?;
        self.out = out;
        self.next = if rest.is_empty() { self.runs.next() } else { Some(rest) };
        Some(place)
    }

    /// Copies the wanted bytes of a range.
    fn put(&mut self, range: &Range<u64>, bytes: &[u8]) {
        while let Some(next) = self.next.clone().filter(|next| next.start < range.end) {
            let end = next.end.min(range.end);
            let within = |at: u64| usize::try_from(at - range.start).unwrap_or(usize::MAX);
            let found = bytes.get(within(next.start)..within(end)).unwrap_or_default();
            let Some((place, out)) = std::mem::take(&mut self.out).split_at_mut_checked(found.len()) else {
                return; // `out` is as long as all runs
            };
            place.copy_from_slice(found);
            self.out = out;
            self.next = if end < next.end { Some(end..next.end) } else { self.runs.next() };
        }
    }
}
