//! Compares plans with a slow reference that lists every byte.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tensor_core::{DType, TensorInfo};

use super::*;

/// Lists every byte of some runs, run after run.
fn bytes_of(runs: &Runs) -> Vec<u64> {
    runs.iter().flatten().collect()
}

/// Lists the bytes of a slice, element after element.
fn reference(shape: &[u64], width: u64, spans: &[Span]) -> Vec<u64> {
    fn go(shape: &[u64], spans: &[Span], at: u64, out: &mut Vec<u64>) {
        let Some((&size, inner)) = shape.split_first() else { return out.push(at) };
        let (span, rest) = spans.split_first().map_or((Span::ALL, &[][..]), |(span, rest)| (*span, rest));
        let from_end = |n: i64| if n < 0 { size as i64 + n } else { n };
        let taken: Vec<u64> = match span {
            Span::Index(n) => vec![u64::try_from(from_end(n)).unwrap()],
            Span::Range { start, end, step } => {
                let (start, end) = (start.map_or(0, from_end), end.map_or(size as i64, from_end));
                (0..size)
                    .filter(|&n| (start..end).contains(&(n as i64)))
                    .filter(|&n| ((n as i64 - start.max(0)) as u64).is_multiple_of(step))
                    .collect()
            }
        };
        let row: u64 = inner.iter().product();
        for n in taken {
            go(inner, rest, at + n * row, out);
        }
    }
    let mut elements = Vec::new();
    go(shape, spans, 0, &mut elements);
    elements.into_iter().flat_map(|element| element * width..(element + 1) * width).collect()
}

fn span(size: u64) -> impl Strategy<Value = Span> {
    let edge = -(size as i64) - 2..size as i64 + 3;
    let range = (prop::option::of(edge.clone()), prop::option::of(edge), 1..4u64);
    let range = range.prop_map(|(start, end, step)| Span::Range { start, end, step });
    match size {
        0 => range.boxed(),
        _ => prop_oneof![4 => range, 1 => (-(size as i64)..size as i64).prop_map(Span::Index)].boxed(),
    }
}

fn sliced() -> impl Strategy<Value = (Vec<u64>, Vec<Span>)> {
    prop::collection::vec(0..7u64, 0..5).prop_flat_map(|shape| {
        let spans: Vec<_> = shape.iter().map(|&size| span(size)).collect();
        (Just(shape), spans, 0..5usize).prop_map(|(shape, mut spans, keep)| {
            spans.truncate(keep);
            (shape, spans)
        })
    })
}

fn options(gap: u64, max_request: u64) -> PlanOptions {
    PlanOptions { gap, max_request }
}

proptest! {
    #[test]
    fn slices_take_what_the_reference_takes((shape, spans) in sliced(), gap in 0..40u64, most in 1..9u64) {
        let info = TensorInfo::new("w", DType::F32, &shape).unwrap();
        let found = Slice::new(spans.clone()).of(&info).unwrap();
        let expected = reference(&shape, 4, &spans);
        prop_assert_eq!(bytes_of(&found.runs), expected.clone());
        prop_assert_eq!(found.runs.nbytes(), expected.len() as u64);
        prop_assert_eq!(found.shape.iter().product::<u64>() * 4, expected.len() as u64);
        prop_assert_eq!(Slice::new(spans.clone()).to_string().parse::<Slice>().ok(),
                        Some(Slice::new(spans.clone())).filter(|_| !spans.is_empty()));
        let parts = found.runs.clone().parts(most);
        prop_assert!(parts.len() as u64 <= most);
        prop_assert!(parts.len() as u64 > 1 || most == 1 || found.runs.count() <= 1);
        prop_assert_eq!(parts.iter().flat_map(bytes_of).collect::<Vec<_>>(), expected.clone());
        let joined = found.runs.clone().joined(gap);
        let bytes: BTreeSet<u64> = bytes_of(&joined).into_iter().collect();
        prop_assert!(expected.iter().all(|byte| bytes.contains(byte)));
        prop_assert_eq!(joined.hull(), found.runs.hull());
        prop_assert_eq!(bytes.len() as u64, joined.nbytes());
    }

    #[test]
    fn plans_read_what_is_wanted_and_little_more(
        ranges in prop::collection::vec((0..3usize, 0..400u64, 0..60u64), 0..40),
        strided in prop::collection::vec((0..3usize, 0..300u64, 1..9u64, 2..6u64, 0..40u64), 0..6),
        gap in 0..30u64,
        longest in 1..50u64,
    ) {
        let mut plan = ReadPlan::builder(options(gap, longest));
        let mut wanted: BTreeSet<(usize, u64)> = BTreeSet::new();
        for &(file, at, len) in &ranges {
            plan.add(file, Runs::contiguous(at..at + len));
            wanted.extend((at..at + len).map(|byte| (file, byte)));
        }
        for &(file, at, len, count, more) in &strided {
            let runs = Runs::new(at, len, [Stride { count, bytes: len + more }]).unwrap();
            wanted.extend(bytes_of(&runs).into_iter().map(|byte| (file, byte)));
            plan.add(file, runs);
        }
        let plan = plan.finish(vec![None; 3]);
        let requests: Vec<Request> = plan.requests().collect();
        let read: BTreeSet<(usize, u64)> =
            requests.iter().flat_map(|request| request.range.clone().map(|byte| (request.file, byte))).collect();
        prop_assert!(wanted.is_subset(&read));
        let totals = plan.totals();
        prop_assert_eq!(totals.requests, requests.len() as u64);
        prop_assert_eq!(totals.read, requests.iter().map(|r| r.range.end - r.range.start).sum::<u64>());
        prop_assert!(requests.iter().all(|r| (1..=longest).contains(&(r.range.end - r.range.start))));
        prop_assert!(plan.ranges().is_sorted_by_key(|range| (range.file, range.runs.offset())));
        // Bytes that are read but not wanted are in a gap.
        for &(file, byte) in read.difference(&wanted) {
            let next = wanted.range((file, byte)..).next().unwrap().1;
            let last = wanted.range(..(file, byte)).next_back().unwrap().1;
            prop_assert!(next - last - 1 <= gap, "{byte}: {last}..{next}");
        }
        if strided.is_empty() {
            prop_assert_eq!(totals.wanted, wanted.len() as u64);
            // Each byte is read once, and ranges that are close become one.
            prop_assert_eq!(totals.read, read.len() as u64);
            for pair in plan.ranges().windows(2).filter(|pair| pair[0].file == pair[1].file) {
                prop_assert!(pair[1].runs.offset() > pair[0].runs.hull().end + gap);
            }
        }
    }
}

#[test]
fn slices_of_blocks_are_whole_blocks() {
    let info = TensorInfo::new("w", DType::Q8_0, &[4, 64]).unwrap();
    let bytes =
        |text: &str| text.parse::<Slice>().unwrap().of(&info).map(|sliced| bytes_of(&sliced.runs).len());
    assert_eq!(bytes("1"), Ok(68));
    assert_eq!(bytes("::2,32:"), Ok(68));
    assert_eq!(bytes(":,:1"), Err(SliceError::PartialBlock { dtype: DType::Q8_0, elements: 32 }));
    assert_eq!(bytes(":,32:64"), Ok(136));
    // The shape of a packed type does not determine where an element is, so only the whole tensor can be
    // read.
    let packed = TensorInfo::with_nbytes("w", DType::Packed, &[2, 3], 9, true);
    let slice = |text: &str| text.parse::<Slice>().unwrap().of(&packed);
    assert_eq!(slice(":,0:3").unwrap().runs, Runs::contiguous(0..9));
    assert!(matches!(slice("0"), Err(SliceError::Layout { .. })));
    // The same holds for a tensor with padded rows.
    let padded = TensorInfo::with_nbytes("w", DType::F32, &[2, 3], 32, true);
    assert!(matches!(Slice::rows(0).of(&padded), Err(SliceError::Layout { .. })));
}

#[test]
fn what_is_no_slice_is_refused() {
    for text in ["", "a", "1:2:3:4", "1;2", "99999999999999999999", ","] {
        assert!(matches!(text.parse::<Slice>(), Err(SliceError::Syntax(_))), "{text:?}");
    }
    for text in ["::0", "0,::-1"] {
        assert!(matches!(text.parse::<Slice>(), Err(SliceError::Step { .. })), "{text:?}");
    }
    let info = TensorInfo::new("w", DType::U8, &[4]).unwrap();
    assert_eq!(Slice::rows(4).of(&info), Err(SliceError::Index { index: 4, dim: 0, size: 4 }));
    assert_eq!(Slice::rows(-5).of(&info), Err(SliceError::Index { index: -5, dim: 0, size: 4 }));
    let two = Slice::new([Span::ALL, Span::ALL]).of(&info);
    assert_eq!(two, Err(SliceError::Rank { given: 2, rank: 1 }));
    assert_eq!(Slice::rows(i64::MIN).of(&info), Err(SliceError::Index { index: i64::MIN, dim: 0, size: 4 }));
}

#[test]
fn a_slice_of_a_huge_tensor_is_a_few_numbers() {
    let shape = [1 << 30, 1 << 30];
    let info = TensorInfo::new("w", DType::U8, &shape).unwrap();
    let every_second = Slice::new([Span::from(..).step(2), Span::from(..).step(2)]).of(&info).unwrap();
    assert_eq!((every_second.runs.count(), every_second.runs.strides().len()), (1 << 58, 2));
    let mut plan = ReadPlan::builder(options(0, 1 << 20));
    plan.add(0, every_second.runs.clone());
    let plan = plan.finish(vec![None]);
    assert_eq!((plan.ranges().len(), plan.totals().requests), (1, 1 << 58));
    // With merged gaps, there are only a few long rows.
    let mut plan = ReadPlan::builder(PlanOptions::local());
    plan.add(0, every_second.runs);
    let totals = plan.finish(vec![None]).totals();
    assert_eq!((totals.wanted, totals.read >> 57), (1 << 58, 3));
    assert_eq!(totals.requests, (1 << 29) * 128);
}

#[test]
fn a_hundred_thousand_ranges_that_overlap_are_one() {
    let mut plan = ReadPlan::builder(PlanOptions::local());
    for n in (0..100_000u64).rev() {
        plan.add(0, Runs::contiguous(n..n + 1_000_000));
        plan.add(0, Runs::new(3, 8, [Stride { count: 1000, bytes: 1 << 20 }]).unwrap());
    }
    let plan = plan.finish(vec![None]);
    assert_eq!(plan.ranges().len(), 2);
    assert_eq!(
        plan.ranges()[0],
        PlannedRange { file: 0, runs: Runs::contiguous(0..1_099_999), wanted: 1_099_999 }
    );
}

#[test]
fn runs_that_share_bytes_are_refused() {
    assert_eq!(Runs::new(0, 8, [Stride { count: 2, bytes: 7 }]), None);
    assert_eq!(Runs::new(0, 8, [Stride { count: 2, bytes: 20 }, Stride { count: 3, bytes: 8 }]), None);
    assert_eq!(Runs::new(u64::MAX, 1, []), None);
    assert_eq!(Runs::new(1, 1, [Stride { count: 3, bytes: u64::MAX / 2 }]), None);
    assert_eq!(Runs::new(5, 2, [Stride { count: 3, bytes: 2 }]), Some(Runs::contiguous(5..11)));
    assert_eq!(Runs::new(5, 2, [Stride { count: 0, bytes: 9 }]).unwrap().count(), 0);
    assert_eq!(Runs::contiguous(5..6).moved(u64::MAX - 5), None);
}

#[test]
fn any_part_of_runs_is_a_few_runs() {
    let stride = |count, bytes| Stride { count, bytes };
    for runs in [
        Runs::contiguous(7..40),
        Runs::new(3, 4, [stride(5, 9)]).unwrap(),
        Runs::new(3, 2, [stride(3, 100), stride(4, 20), stride(3, 5)]).unwrap(),
    ] {
        let all: Vec<u64> = runs.iter().flatten().collect();
        for begin in 0..=all.len() {
            for end in begin..=all.len() {
                let parts = runs.part(begin as u64..end as u64);
                let found: Vec<u64> = parts.iter().flatten().flatten().collect();
                assert_eq!(found, all[begin..end], "{runs:?} {begin}..{end}");
                assert!(parts.len() <= 2 * runs.strides().len() + 1, "{runs:?} {begin}..{end}: {parts:?}");
            }
        }
        assert_eq!(runs.part(all.len() as u64..u64::MAX), []);
    }
    let huge = Runs::new(0, 1, [stride(1 << 30, 1 << 30), stride(1 << 29, 2)]).unwrap();
    assert_eq!(
        huge.part(1 << 29..1 << 58),
        [Runs::new(1 << 30, 1, [stride((1 << 29) - 1, 1 << 30), stride(1 << 29, 2)]).unwrap()]
    );
}

#[test]
fn covers_are_found_by_range() {
    let cover = |file, range| ProofRange { file, range, by: "blake3" };
    let mut plan = ReadPlan::builder(options(0, 100));
    plan.add(0, Runs::contiguous(10..20));
    plan.add(1, Runs::contiguous(10..20));
    let plan = plan.finish(vec![None; 2]);
    let plan = plan.with_proofs(vec![cover(1, 20..30), cover(1, 15..25), cover(0, 0..15), cover(1, 0..11)]);
    let of =
        |n: usize| plan.proofs_of(&plan.ranges()[n]).map(|cover| cover.range.clone()).collect::<Vec<_>>();
    assert_eq!((&of(0)[0], of(0).len()), (&(0..15), 1));
    assert_eq!(of(1), [0..11, 15..25]);
}
