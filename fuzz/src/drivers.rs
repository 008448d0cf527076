//! Reading by hand: bytes are fed as they are asked for, in pieces.

use std::ops::Range;

use modelfmt_core::{
    AsyncReader, Fetch, OpenOptions, Reader, Report, Step, Steps, VerifyLevel, author::FileIndex,
};

/// What of a tensor's values is read: all of a small one.
const MAX_READ: u64 = 1 << 12;
const MAX_TENSORS: usize = 4;

/// The report, and the first values of a few tensors.
type Seen = (Report, Vec<Result<Vec<u8>, String>>);

/// A reader that is fed sees what one over memory sees, down to the text of errors.
pub(crate) fn same<I: FileIndex>(bytes: &[u8], options: &OpenOptions) {
    let expected = by_source::<I>(bytes, options);
    let piece = (bytes.len() as u64 / 7).max(1);
    let mut steps = Steps::new(bytes.len() as u64, async |fed| by_future::<I, _>(fed, options).await);
    let found = loop {
        match steps.step() {
            Step::Done(found) => break found,
            Step::Need(ranges) => {
                assert!(!ranges.is_empty(), "it waits for nothing");
                for range in ranges.iter().rev().flat_map(|range| cut(range, piece)) {
                    let (start, end) = (range.start as usize, range.end as usize);
                    steps.feed(range.start, &bytes[start..end]);
                }
            }
        }
    };
    assert_eq!(found, expected, "bytes that are fed, and a source");
}

fn cut(range: &Range<u64>, piece: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = *range;
    (start..end).step_by(piece as usize).map(move |at| at..(at + piece).min(end))
}

fn positions(nbytes: impl Iterator<Item = u64>) -> Vec<(usize, usize)> {
    nbytes.take(MAX_TENSORS).map(|nbytes| nbytes.min(MAX_READ) as usize).enumerate().collect()
}

fn by_source<I: FileIndex>(bytes: &[u8], options: &OpenOptions) -> Result<Seen, String> {
    let reader = Reader::<I, _>::open_source(bytes, options).map_err(|error| error.to_string())?;
    let mut values = Vec::new();
    for (position, len) in positions(reader.tensors().iter().map(|info| info.nbytes)) {
        let mut out = vec![0; len];
        let read = reader.read_into(position, 0, &mut out);
        values.push(read.map(|()| out).map_err(|error| error.to_string()));
    }
    Ok((reader.verify(VerifyLevel::Full), values))
}

async fn by_future<I: FileIndex, S: Fetch>(source: S, options: &OpenOptions) -> Result<Seen, String> {
    let reader =
        AsyncReader::<I, _>::open_source(source, options).await.map_err(|error| error.to_string())?;
    let mut values = Vec::new();
    for (position, len) in positions(reader.tensors().iter().map(|info| info.nbytes)) {
        let mut out = vec![0; len];
        let read = reader.read_into(position, 0, &mut out).await;
        values.push(read.map(|()| out).map_err(|error| error.to_string()));
    }
    Ok((reader.verify(VerifyLevel::Full).await, values))
}
