//! Drives readers by hand: bytes are fed when they are needed, in pieces and in any order.

use std::ops::Range;

use arbitrary::{Arbitrary, Result as Made, Unstructured};
use modelfmt_core::{
    AsyncReader, Execution, Fetch, OpenFile, Reader, Report, VerifyLevel,
    author::{FileIndex, OpenSettings},
};
use testkit::{Step, Steps};

use super::drill::{Depth, limits};
use super::model::{Constraints, Model};
use super::mutate::{self, mutate};
use super::writers::Write;
use super::{ggufs, roundtrips, samples, writers};

/// The most bytes of a tensor's values that are read.
const MAX_READ: u64 = 1 << 12;
const MAX_TENSORS: usize = 4;

/// The report, and the first values of a few tensors.
type Seen = (Report, Vec<Result<Vec<u8>, String>>);
type Outcome = Result<Seen, String>;

/// How needed bytes are fed.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// The number of pieces for the whole file.
    pieces: u64,
    /// The step by which the next of the remaining pieces is chosen.
    stride: usize,
    /// Whether each piece is fed twice, with surrounding bytes that are not needed.
    excess: bool,
    /// The round in which the bytes are unavailable.
    fails_at: Option<usize>,
}

/// A reader that is fed by hand returns the same as one over memory, down to the text of errors.
pub(crate) fn same<I: FileIndex>(bytes: &[u8], options: &OpenSettings) {
    agree::<I>(bytes, options, Order { pieces: 7, stride: usize::MAX, excess: false, fails_at: None });
}

fn agree<I: FileIndex>(bytes: &[u8], options: &OpenSettings, order: Order) {
    let (found, failed) = by_hand::<I>(bytes, options, order);
    if failed {
        let is_seen = |(report, values): &Seen| !report.is_ok() || values.iter().any(Result::is_err);
        assert!(found.as_ref().map_or(true, is_seen), "bytes could not be had, but all is well: {found:?}");
    } else {
        assert_eq!(found, by_source::<I>(bytes, options), "bytes that are fed, and a source: {order:?}");
    }
}

/// Returns the outcome, and whether bytes were unavailable.
fn by_hand<I: FileIndex>(bytes: &[u8], options: &OpenSettings, order: Order) -> (Outcome, bool) {
    let len = bytes.len() as u64;
    let piece = (len / order.pieces).max(1);
    let mut steps = Steps::new(len, async |fed| by_future::<I, _>(fed, options).await);
    let (mut round, mut failed) = (0, false);
    let found = loop {
        let ranges = match steps.step() {
            Step::Done(found) => break found,
            Step::Need(ranges) => ranges,
        };
        assert!(!ranges.is_empty(), "it waits for nothing");
        if order.fails_at == Some(round) {
            steps.fail(std::io::ErrorKind::TimedOut);
            failed = true;
        } else {
            let mut left: Vec<_> = ranges.iter().flat_map(|range| cut(range, piece)).collect();
            while !left.is_empty() {
                let Range { start, end } = left.swap_remove(order.stride % left.len());
                let around =
                    if order.excess { start.saturating_sub(3)..len.min(end + 5) } else { start..end };
                for _ in 0..=u8::from(order.excess) {
                    steps.feed(around.start, &bytes[around.start as usize..around.end as usize]);
                }
            }
        }
        round += 1;
    };
    let rest = steps.step();
    assert!(matches!(&rest, Step::Need(ranges) if ranges.is_empty()), "done, and then {rest:?}");
    (found, failed)
}

fn cut(range: &Range<u64>, piece: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = *range;
    (start..end).step_by(piece as usize).map(move |at| at..(at + piece).min(end))
}

fn positions(nbytes: impl Iterator<Item = u64>) -> Vec<(usize, usize)> {
    nbytes.take(MAX_TENSORS).map(|nbytes| nbytes.min(MAX_READ) as usize).enumerate().collect()
}

fn by_source<I: FileIndex>(bytes: &[u8], options: &OpenSettings) -> Outcome {
    let reader = Reader::<OpenFile<I, _>>::open_source(bytes, options).map_err(|error| error.to_string())?;
    let mut values = Vec::new();
    for (position, len) in positions(reader.tensors().iter().map(|info| info.nbytes)) {
        let mut out = vec![0; len];
        let read = reader.read_into(position, 0, &mut out);
        values.push(read.map(|()| out).map_err(|error| error.to_string()));
    }
    Ok((reader.verify_with(VerifyLevel::Full, &Execution::sequential()), values))
}

async fn by_future<I: FileIndex, S: Fetch>(source: S, options: &OpenSettings) -> Outcome {
    let reader = AsyncReader::<OpenFile<I, _>>::open_source(source, options)
        .await
        .map_err(|error| error.to_string())?;
    let mut values = Vec::new();
    for (position, len) in positions(reader.tensors().iter().map(|info| info.nbytes)) {
        let mut out = vec![0; len];
        let read = reader.read_into(position, 0, &mut out).await;
        values.push(read.map(|()| out).map_err(|error| error.to_string()));
    }
    Ok((reader.verify(VerifyLevel::Full).await, values))
}

/// A format: functions that compare its drivers, choose the models, write them, and correct the checksums.
type Format = (fn(&[u8], &OpenSettings, Order), fn(u8) -> Constraints, Write, fn(&mut [u8]));

const FORMATS: [Format; 10] = [
    (agree::<aero::Index>, |_| roundtrips::AERO, writers::aero, mutate::fix_aero),
    (agree::<apr::Index>, |_| roundtrips::APR, writers::apr, mutate::fix_apr),
    (agree::<apr::v1::Index>, |_| roundtrips::APR, aprn, |_| ()),
    (agree::<apr2::Index>, |_| roundtrips::APR2, writers::apr2, mutate::fix_apr2),
    (agree::<apr2_seal::Index>, |_| roundtrips::APR2, writers::apr2, mutate::fix_apr2),
    (agree::<apr2::Index>, |_| roundtrips::APR2, samples::write_apr1, fix_apr1),
    (agree::<modelfmt_gguf::Index>, |_| roundtrips::GGUF, ggufs::by_hand, |_| ()),
    (agree::<mag::Index>, roundtrips::mag_constraints, writers::mag_any, mutate::fix_mag),
    (agree::<oinf::Index>, roundtrips::oinf_constraints, writers::oinf_any, |_| ()),
    (agree::<modelfmt_safetensors::Index>, |_| roundtrips::SAFETENSORS, writers::safetensors, |_| ()),
];

/// Returns the only example, because there is no writer.
fn aprn(_: &Model, _: u8, _: &Execution<'_>) -> Option<Vec<u8>> {
    Some(include_bytes!("../../testdata/apr/v1-linear-regression.aprn").to_vec())
}

/// Corrects the CRC after everything else.
fn fix_apr1(file: &mut [u8]) {
    if let Some((before, crc)) = file.split_last_chunk_mut::<4>() {
        *crc = crc32fast::hash(before).to_le_bytes();
    }
}

/// Feeds a file of any format, valid or changed, in pieces of any length and order, with and without
/// unavailable bytes.
pub fn any(bytes: &[u8], _: Depth) {
    let mut u = Unstructured::new(bytes);
    let made: Made<_> = (|| {
        let (format, order) = (*u.choose(&FORMATS)?, order(&mut u)?);
        let (_, constraints, write, fix) = format;
        let flags = u8::arbitrary(&mut u)?;
        if u.ratio(1, 8)? {
            return Ok(Some((format, order, u.take_rest().to_vec())));
        }
        let model = Model::arbitrary(&mut u, constraints(flags))?;
        let Some(mut file) = write(&model, flags, &Execution::sequential()) else { return Ok(None) };
        if !u.is_empty() {
            mutate(&mut u, &mut file)?;
            fix(&mut file);
        }
        Ok(Some((format, order, file)))
    })();
    if let Ok(Some(((agree, ..), order, file))) = made {
        agree(&file, &OpenSettings::new(limits()), order);
    }
}

fn order(u: &mut Unstructured<'_>) -> Made<Order> {
    let excess = bool::arbitrary(u)?;
    let fails_at = if u.ratio(1, 8)? { Some(u.int_in_range(0..=5)?) } else { None };
    Ok(Order { pieces: u.int_in_range(1..=40)?, stride: u8::arbitrary(u)?.into(), excess, fails_at })
}
