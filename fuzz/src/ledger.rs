//! Compares digests of ranges whose pieces come in any order with digests of each whole range.

use std::ops::Range;

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt_core::author::{Extent, Parcel as _, now_or_never};
use modelfmt_core::claims::{Claim, Claims};
use modelfmt_core::ledger::{Blake3, DigestKind, Ledger, Spans};
use modelfmt_core::{AnyError, CommonFault, Part};

use super::drill::Depth;

/// The longest file: a few leaves of BLAKE3, the last of which is not full.
const MAX_LEN: u64 = 9000;

/// The target: checks what claims find, and the ledger over pieces that several processes hash.
pub fn any(input: &[u8], _: Depth) {
    let mut u = Unstructured::new(input);
    let _ = claims(&mut u).and_then(|()| ledger(&mut u));
}

fn bytes(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let len = u.int_in_range(0..=MAX_LEN)?;
    Ok((0..len).map(|i| (i.wrapping_mul(i ^ 0x55) >> 5) as u8).collect())
}

/// Returns a position, mostly near the beginning or the end of a leaf.
fn place(u: &mut Unstructured<'_>, len: u64) -> Result<u64> {
    let (leaf, within) = (u.int_in_range(0..=len >> 10)?, u64::from(u8::arbitrary(u)?));
    Ok(match within {
        0..16 => (leaf << 10) + within,
        16..32 => (leaf << 10).saturating_sub(within - 16),
        _ => (leaf << 10) + within * 4,
    }
    .min(len))
}

fn range(u: &mut Unstructured<'_>, len: u64) -> Result<Range<u64>> {
    let (a, b) = (place(u, len)?, place(u, len)?);
    Ok(a.min(b)..a.max(b))
}

fn slice<'b>(bytes: &'b [u8], range: &Range<u64>) -> &'b [u8] {
    &bytes[range.start as usize..range.end as usize]
}

/// BLAKE3 without its tree structure: bytes are taken in order.
struct InOrder;

impl DigestKind for InOrder {
    const NAME: &'static str = "in order";
    const IN_ORDER: bool = true;
    type Digest = [u8; 32];
    type Run = blake3::Hasher;

    fn begin(at: u64) -> blake3::Hasher {
        assert_eq!(at, 0);
        blake3::Hasher::new()
    }

    fn extend(_: u64, run: &mut blake3::Hasher, bytes: &[u8]) {
        run.update(bytes);
    }

    fn join(_: u64, _: blake3::Hasher, _: blake3::Hasher) -> blake3::Hasher {
        unreachable!("there is one run")
    }

    fn finish(total: u64, run: blake3::Hasher) -> [u8; 32] {
        assert_eq!(run.count(), total);
        run.finalize().into()
    }
}

/// Reads any ranges, then the rest: a changed byte is found exactly if a claim covers it.
fn claims(u: &mut Unstructured<'_>) -> Result<()> {
    let good = bytes(u)?;
    let len = good.len() as u64;
    let mut list = Vec::new();
    for what in 0..u.int_in_range(0..=12usize)? {
        let range = range(u, len)?;
        let expected = *blake3::hash(slice(&good, &range)).as_bytes();
        let extent = Extent::new(range.start, range.end - range.start, len).expect("it is in the file");
        list.push(Claim { extent, expected, what });
    }
    let (times, is_chain) = (u.int_in_range(0..=3usize)?, bool::arbitrary(u)?);
    let mut file = good.clone();
    let changed = if bool::arbitrary(u)? { Some(place(u, len)?).filter(|at| *at < len) } else { None };
    if let Some(at) = changed {
        file[at as usize] ^= 1;
    }
    let mut claims = Claims::new();
    let failed = |claim: &Claim<[u8; 32], usize>, _| {
        let part = Part::entry("claim", claim.what as u64);
        AnyError::Malformed { part, at: claim.extent.offset(), fault: CommonFault::Utf8.into() }
    };
    let left = match is_chain {
        true => claims.for_file().add::<InOrder, usize>(list.clone(), times, failed),
        false => claims.for_file().add::<Blake3, usize>(list.clone(), times, failed),
    };
    let is_left = |claim: &Claim<_, usize>| left.iter().any(|left| left.extent == claim.extent);
    let covers = |claim: &&Claim<_, usize>| {
        changed.is_some_and(|at| claim.extent.range().contains(&at)) && !is_left(claim)
    };
    let expected = list.iter().any(|claim| covers(&claim));
    for _ in 0..u.int_in_range(0..=20)? {
        let read = range(u, len)?;
        claims.observe(0, read.start, slice(&file, &read));
        assert!(claims.failure().is_none() || expected, "nothing is wrong");
    }
    let found = now_or_never(claims.complete::<_, CommonFault>(0, &file)).expect("memory is not waited for");
    assert_eq!(found.is_err(), expected, "{found:?}");
    Ok(())
}

/// Takes pieces in any order, some of them hashed elsewhere. Notes that are invalid or of another file can
/// only cause wrong digests.
fn ledger(u: &mut Unstructured<'_>) -> Result<()> {
    let bytes = bytes(u)?;
    let len = bytes.len() as u64;
    let mut listed = Vec::new();
    let mut cuts = vec![0, len];
    for _ in 0..u.int_in_range(0..=8)? {
        cuts.push(place(u, len)?);
        let next = range(u, len)?;
        if listed.last().is_none_or(|last: &Range<u64>| last.end <= next.start) && !next.is_empty() {
            listed.push(next);
        }
    }
    cuts.sort_unstable();
    let lists = [
        Spans::Whole(len),
        Spans::Listed(listed.clone()),
        Spans::Even { len, size: u.int_in_range(0..=3000)? },
    ];
    let [here, there] = [(); 2].map(|()| Ledger::<Blake3, 3>::new(lists.clone()));
    let mut pieces: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
    while !pieces.is_empty() {
        let piece = pieces.swap_remove(u.choose_index(pieces.len()).unwrap_or(0));
        let mut note = Vec::new();
        let middle = place(u, len)?.clamp(piece.start, piece.end);
        let mut hasher = there.hasher(piece.start);
        for part in [piece.start..middle, middle..piece.end] {
            hasher.update(slice(&bytes, &part));
        }
        hasher.finish().put(&mut note);
        there.take(modelfmt_core::author::Parcel::take(&mut &note[..]).expect("it is a note"));
        if u.ratio(1u8, 8)? {
            let at = u.choose_index(note.len())?;
            note[at] ^= u8::arbitrary(u)?;
            if let Some(seen) = modelfmt_core::author::Parcel::take(&mut &note[..]) {
                here.take(seen);
            }
        }
    }
    let _ = here.finish();
    let found = there.finish();
    let of = |range: &Range<u64>| *blake3::hash(slice(&bytes, range)).as_bytes();
    let Spans::Even { size, .. } = lists[2] else { unreachable!("it is above") };
    let even = (0..len.checked_div(size).map_or(0, |_| len.div_ceil(size))).map(|n| n * size);
    let even = even.map(|start| of(&(start..(start + size).min(len)))).collect();
    assert_eq!(found, [vec![of(&(0..len))], listed.iter().map(of).collect(), even]);
    Ok(())
}
