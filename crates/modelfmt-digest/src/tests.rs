//! Compares ledgers with a separate digest of every range.

use super::*;
/// Two blocks.
#[cfg(feature = "blake3")]
const PIECE: u64 = 2 * BLOCK;

/// A digest that keeps the bytes themselves, so that missing, repeated or disordered bytes show.
struct Bytewise;

impl DigestKind for Bytewise {
    const NAME: &'static str = "bytewise";
    type Digest = [u8; 8];
    type Run = Vec<u8>;

    fn begin(_: u64) -> Vec<u8> {
        Vec::new()
    }

    fn extend(total: u64, run: &mut Vec<u8>, bytes: &[u8]) {
        run.extend(bytes);
        assert!(run.len() as u64 <= total);
    }

    fn join(_: u64, mut first: Vec<u8>, second: Vec<u8>) -> Vec<u8> {
        first.extend(second);
        first
    }

    fn finish(total: u64, run: Vec<u8>) -> [u8; 8] {
        assert_eq!(run.len() as u64, total);
        let add = |sum: u64, &byte: &u8| sum.wrapping_mul(1_000_003).wrapping_add(u64::from(byte));
        run.iter().fold(7, add).to_le_bytes()
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// Computes the digests of these lists directly.
fn expected<K: DigestKind>(all: &[u8], lists: &[Spans; 3]) -> [Vec<K::Digest>; 3] {
    let index = |at: u64| usize::try_from(at).unwrap();
    std::array::from_fn(|n| {
        let ranges = (0..lists[n].count()).map(|number| lists[n].range(number).unwrap());
        ranges.map(|range| K::whole(&all[index(range.start)..index(range.end)])).collect()
    })
}

type Order = fn(&mut Vec<(u64, &[u8])>);

/// Computes the digests of the same lists from pieces in this order. Each piece passes through another
/// process, alone or together with those that follow.
fn found<K>(all: &[u8], lists: &[Spans; 3], piece: usize, order: Order) -> [Vec<K::Digest>; 3]
where
    K: DigestKind<Digest: Parcel, Run: Parcel>,
{
    let (here, there) = (Ledger::<K, 3>::new(lists.clone()), Ledger::<K, 3>::new(lists.clone()));
    let mut pieces: Vec<_> = (0u64..).map(|n| n * piece as u64).zip(all.chunks(piece)).collect();
    order(&mut pieces);
    let mut pieces = pieces.into_iter().peekable();
    while let Some((at, bytes)) = pieces.next() {
        let (mut hasher, mut next) = (there.hasher(at), at + piece as u64);
        hasher.update(bytes);
        while !(next / piece as u64).is_multiple_of(3)
            && let Some((_, bytes)) = pieces.next_if(|(at, _)| *at == next)
        {
            hasher.update(bytes);
            next += piece as u64;
        }
        let mut note = Vec::new();
        hasher.finish().put(&mut note);
        let mut note = &note[..];
        here.take(Parcel::take(&mut note).unwrap());
        assert!(note.is_empty());
    }
    let digests: [Vec<_>; 3] =
        std::array::from_fn(|n| here.ranges(n).map(|range| here.digest(n, &range)).collect());
    let found = here.finish();
    for (digests, found) in digests.iter().zip(&found) {
        assert!(
            digests.iter().zip(found).all(|(digest, found)| digest.is_none_or(|digest| digest == *found))
        );
    }
    found
}

fn check<K>(all: &[u8], lists: &[Spans; 3], piece: usize)
where
    K: DigestKind<Digest: Parcel + std::fmt::Debug, Run: Parcel>,
{
    let expected = expected::<K>(all, lists);
    let orders: [Order; 3] =
        [|_| (), |pieces| pieces.reverse(), |pieces| pieces.sort_by_key(|(at, _)| at.reverse_bits() % 7)];
    for order in orders {
        assert_eq!(found::<K>(all, lists, piece, order), expected, "{} {lists:?} {piece}", all.len());
    }
}

#[test]
fn every_byte_comes_once_and_in_order() {
    for len in [0, 1, 99, 100, 101, 1000, 2047] {
        let (all, end) = (bytes(len), len as u64);
        let spans = [0..5, 64..299, 299..301, 450..460, 470..480, 600..1500]
            .map(|r: Range<u64>| r.start.min(end)..r.end.min(end));
        let listed = Spans::Listed(spans.into_iter().filter(|span| span.start < span.end).collect());
        for size in [0, 1, 7, 100, 330, 5000] {
            for piece in [1, 30, 100, 700, 4000] {
                let lists = [Spans::Whole(end), listed.clone(), Spans::Even { len: end, size }];
                check::<Bytewise>(&all, &lists, piece);
            }
        }
    }
}

#[test]
fn a_digest_is_asked_for_by_its_range() {
    let all = bytes(1000);
    let ledger = Ledger::<Bytewise, 2>::new([Spans::Listed(vec![3..9, 9..700]), Spans::Whole(0)]);
    ledger.observe(0, &all);
    for range in [3..9, 9..700] {
        let index = |at: u64| usize::try_from(at).unwrap();
        let expected = Bytewise::whole(&all[index(range.start)..index(range.end)]);
        assert_eq!(ledger.digest(0, &range), Some(expected));
    }
    for (lane, range) in [(0, 3..8), (0, 4..9), (0, 9..9), (0, 700..800), (1, 0..0), (2, 3..9)] {
        assert_eq!(ledger.digest(lane, &range), None, "{lane} {range:?}");
    }
    assert_eq!(ledger.ranges(0).collect::<Vec<_>>(), [3..9, 9..700]);
    assert_eq!(ledger.ranges(2).count(), 0);
}

#[test]
fn another_checksum_can_go_before() {
    let all = bytes(3 * usize::try_from(BLOCK).unwrap());
    let end = 100 + 2 * BLOCK + 5;
    let ledger = Ledger::<Bytewise, 1>::new([Spans::Listed(vec![10..20, 100..end, end..end + 7])]);
    let (mut hasher, mut places) = (ledger.hasher(5), Vec::new());
    hasher.update_after(&all, |place| places.push(place));
    ledger.take(hasher.finish());
    assert_eq!(places, [20, 100 + BLOCK, 100 + 2 * BLOCK, end, end + 7]);
}

#[cfg(feature = "blake3")]
#[test]
fn digests_are_those_of_each_range_in_whatever_order() {
    let piece = usize::try_from(PIECE).unwrap();
    for len in [0, 1, 1024, 1025, piece - 1, piece, piece + 1, 2 * piece, 3 * piece + 777, 4 * piece] {
        let all = bytes(len);
        let end = len as u64;
        let spans = [
            (0, 5),
            (64, 65 + PIECE / 4 * 3),
            (100 + PIECE / 4 * 3, PIECE + 1),
            (PIECE + 1, 2 * PIECE + 1024),
            (2 * PIECE + 1088, end),
        ];
        let spans = spans.into_iter().map(|(start, stop)| start..stop.min(end));
        let listed = Spans::Listed(spans.filter(|span| span.start < span.end).collect());
        for size in [PIECE, PIECE / 4, 1000, 2 * PIECE + 777] {
            let lists = [Spans::Whole(end), listed.clone(), Spans::Even { len: end, size }];
            check::<Blake3>(&all, &lists, piece);
        }
    }
}

#[cfg(feature = "blake3")]
#[test]
fn parts_join_however_an_input_is_cut() {
    let all = bytes(700_000);
    for len in
        [2, 1023, 1024, 1025, 2048, 2049, 3072, 4096, 5000, 8192, 9000, 65_536, 131_073, 262_144, 700_000]
    {
        for cut in [1usize, 64, 1000, 1024, 1500, 2048, 6000, 100_000, 131_072, 200_000, 262_144, 700_000] {
            if len / cut <= 5000 {
                let lists = [Spans::Whole(len as u64), Spans::Listed(Vec::new()), Spans::Whole(0)];
                check::<Blake3>(&all[..len], &lists, cut);
            }
        }
    }
}

#[cfg(feature = "blake3")]
#[test]
fn notes_that_are_none_are_told_from_notes() {
    let all = bytes(5000);
    let ledger = Ledger::<Blake3, 1>::new([Spans::Whole(10_000)]);
    let mut note = Vec::new();
    ledger.hash(0, &all).put(&mut note);
    for cut in 0..note.len() {
        assert!(PieceDigests::<Blake3>::take(&mut &note[..cut]).is_none());
    }
    // The results from another program may name ranges that do not exist.
    let other =
        Ledger::<Blake3, 3>::new([Spans::Whole(0), Spans::Whole(0), Spans::Even { len: 5000, size: 30 }]);
    let [none] = {
        ledger.take(other.hash(0, &all));
        ledger.finish()
    };
    assert_eq!(none, [blake3_tree::hash(&[])]);
}
