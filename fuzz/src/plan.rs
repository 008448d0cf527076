//! Compares slices and plans of any shapes and ranges with a reference that lists every byte. Also plans and
//! loads any file in pieces, compared with its tensors read one by one.

use std::collections::BTreeSet;

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt::{Execution, Model, OpenOptions};
use modelfmt_core::load::{self, LoadOptions};
use modelfmt_core::plan::{Pick, PlanOptions, ReadPlan, Runs, Slice, Span, Stride};
use modelfmt_core::read::Reading;
use modelfmt_core::{DType, TensorInfo, implied_nbytes};

use super::drill::{Depth, limits};

/// The number of input bytes that choose the request; the rest is a file.
const ASKED: usize = 48;
/// The most bytes that are listed one by one.
const MAX_LISTED: u64 = 1 << 12;
/// The most tensors and bytes of a file that are loaded.
const MAX_TENSORS: usize = 6;
const MAX_NBYTES: u64 = 1 << 16;

/// The target: the first bytes choose, and the rest is a file of any format.
pub fn any(input: &[u8], _: Depth) {
    let (asked, file) = input.split_at(input.len().min(ASKED));
    let mut u = Unstructured::new(asked);
    let _ = slices(&mut u).and_then(|()| ranges(&mut u)).and_then(|()| of_file(&mut u, file));
}

fn options(u: &mut Unstructured<'_>) -> Result<PlanOptions> {
    let any = |u: &mut Unstructured<'_>| {
        Ok(match u8::arbitrary(u)? {
            255 => u64::MAX,
            254 => 1 << 40,
            byte => u64::from(byte),
        })
    };
    Ok(PlanOptions { gap: any(u)?, max_request: any(u)? })
}

/// Returns a small dimension, and now and then a vast one.
fn dim(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u8::arbitrary(u)? {
        byte @ 248.. => 1 << (u64::from(byte - 248) * 9),
        byte => u64::from(byte % 9),
    })
}

fn span(u: &mut Unstructured<'_>) -> Result<Span> {
    let edge = |u: &mut Unstructured<'_>| {
        Ok(match i8::arbitrary(u)? {
            i8::MIN => Some(i64::MIN),
            i8::MAX => Some(i64::MAX),
            -127 => None,
            other => Some(i64::from(other)),
        })
    };
    Ok(match u.int_in_range(0..=3)? {
        0 => Span::Index(edge(u)?.unwrap_or(0)),
        1 => Span::ALL.step(u.int_in_range(0..=5)?),
        _ => Span::Range { start: edge(u)?, end: edge(u)?, step: u.int_in_range(0..=3)? },
    })
}

fn slice(u: &mut Unstructured<'_>) -> Result<Slice> {
    let spans = (0..u.int_in_range(0..=3)?).map(|_| span(u)).collect::<Result<Vec<_>>>()?;
    Ok(Slice::new(spans))
}

/// A slice of a tensor whose length may be wrong never exceeds the tensor.
fn slices(u: &mut Unstructured<'_>) -> Result<()> {
    let dtype = *u.choose(DType::ALL)?;
    let shape = (0..u.int_in_range(0..=3)?).map(|_| dim(u)).collect::<Result<Vec<_>>>()?;
    let honest = implied_nbytes(dtype, &shape).unwrap_or(7);
    let nbytes = if u.ratio(1, 8)? { u64::from(u16::arbitrary(u)?) } else { honest };
    let info = TensorInfo::with_nbytes("w", dtype, &shape, nbytes, true);
    let slice = slice(u)?;
    let Ok(sliced) = slice.of(&info) else { return Ok(()) };
    assert!(sliced.runs.hull().end <= nbytes, "{slice} of {info:?}: {sliced:?}");
    let text = slice.to_string();
    assert!(slice.spans().is_empty() || text.parse().as_ref() == Ok(&slice), "{text}");
    if let Some(size) = dtype.size().filter(|_| implied_nbytes(dtype, &shape) == Ok(nbytes)) {
        let is_empty = sliced.shape.contains(&0); // the other dimensions may be too large to be multiplied
        let elements: u128 =
            if is_empty { 0 } else { sliced.shape.iter().map(|&dim| u128::from(dim)).product() };
        assert_eq!(u128::from(sliced.runs.nbytes()), elements * u128::from(size), "{slice} of {info:?}");
    }
    let options = options(u)?;
    let mut plan = ReadPlan::builder(options);
    plan.add(0, sliced.runs.clone());
    let totals = plan.finish(vec![None]).totals();
    assert!(totals.wanted == sliced.runs.nbytes() && totals.read >= totals.wanted);
    Ok(())
}

/// A plan reads what is wanted, in requests that are not too long, and nothing else except gaps.
fn ranges(u: &mut Unstructured<'_>) -> Result<()> {
    let options = options(u)?;
    let mut plan = ReadPlan::builder(options);
    let mut wanted = BTreeSet::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let (at, len) = (u64::from(u8::arbitrary(u)?), u64::from(u8::arbitrary(u)? % 32));
        let stride = Stride { count: u.int_in_range(0..=4)?, bytes: u64::from(u8::arbitrary(u)?) };
        let Some(runs) = Runs::new(at, len, [stride]) else { continue };
        wanted.extend(runs.iter().flatten());
        plan.add(0, runs);
    }
    let plan = plan.finish(vec![None]);
    if plan.totals().read > MAX_LISTED {
        return Ok(());
    }
    let mut read = BTreeSet::new();
    let mut requests = 0;
    for request in plan.requests() {
        assert!(!request.range.is_empty());
        assert!(request.range.end - request.range.start <= options.max_request.max(1));
        requests += 1;
        read.extend(request.range);
    }
    assert_eq!(requests, plan.totals().requests);
    assert!(wanted.is_subset(&read));
    for byte in read.difference(&wanted) {
        let (before, after) = (wanted.range(..byte).next_back(), wanted.range(byte..).next());
        let gap = before.zip(after).map(|(before, after)| after - before - 1);
        assert!(gap.is_some_and(|gap| gap <= options.gap), "byte {byte} is in no gap");
    }
    Ok(())
}

/// Compares a file that is read with the same file planned and loaded.
fn of_file(u: &mut Unstructured<'_>, file: &[u8]) -> Result<()> {
    let source = Box::new(file.to_vec());
    let Ok(model) = OpenOptions::new().limits(limits()).open_source("file", source, None) else {
        return Ok(());
    };
    let slice = slice(u)?;
    let plan = options(u)?;
    let work = Execution { threads: u.int_in_range(1..=3)?, progress: None };
    let options = LoadOptions::new().plan(plan).verify(bool::arbitrary(u)?);
    for position in 0..model.tensor_count().min(MAX_TENSORS) {
        one(&model, position, &slice, &options, plan, &work);
    }
    Ok(())
}

fn one(
    model: &Model,
    position: usize,
    slice: &Slice,
    options: &LoadOptions,
    plan: PlanOptions,
    work: &Execution<'_>,
) {
    let container = model.container();
    let Some(info) = container.info(position).filter(|info| info.nbytes <= MAX_NBYTES) else { return };
    for pick in [Pick::whole(position), Pick::part(position, slice.clone())] {
        if let Ok(plan) = model.plan(std::slice::from_ref(&pick), plan) {
            let end = plan.ranges().last().map_or(0, |range| range.runs.hull().end);
            assert!(end <= container.file_size(), "{}: byte {end} is planned", info.name);
        }
        let whole = model.tensor(position).map(|tensor| tensor.bytes().to_vec());
        let expected = match (&pick.slice, whole) {
            (_, Err(_)) => None,
            (None, Ok(whole)) => Some(whole),
            (Some(slice), Ok(whole)) => slice.of(&info).ok().map(|sliced| gathered(&whole, &sliced.runs)),
        };
        let part = container.slice(position, slice, Reading::PLAIN);
        if let (Some(expected), Some(_)) = (&expected, &pick.slice) {
            assert_eq!(part.map(|part| part.bytes().to_vec()).ok().as_ref(), Some(expected), "{slice}");
        }
        let loaded = model.load(&[pick], options, work);
        // A verified read may be refused, but values that are returned are right.
        if let (Ok((loaded, _)), Some(expected)) = (loaded, expected) {
            assert_eq!(*loaded[0].bytes, expected[..], "{}: {slice}", info.name);
        }
    }
    let _ = load::nbytes(container, &Pick::part(position, slice.clone()));
}

fn gathered(whole: &[u8], runs: &Runs) -> Vec<u8> {
    runs.iter().flat_map(|run| &whole[run.start as usize..run.end as usize]).copied().collect()
}
