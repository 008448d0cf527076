//! Tests claims with a digest that depends on the order of bytes, and with a container that counts reads.

use proptest::prelude::*;

use super::*;
use crate::container::Container;
use crate::execution::Execution;
use crate::ledger::MAX_RUNS;
use crate::read::{Reading, Which};
use crate::report::{Report, VerifyLevel};
use crate::source::Source;
use crate::table::{Location, Stored};
use crate::value::Value;
use tensor_core::TensorInfo;

/// A digest that consists of the bytes themselves: it shows bytes that are missing, repeated or out of order.
struct Bytewise;

impl DigestKind for Bytewise {
    const NAME: &'static str = "bytewise";
    type Digest = u64;
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

    fn finish(total: u64, run: Vec<u8>) -> u64 {
        assert_eq!(run.len() as u64, total);
        run.iter().fold(7, |sum: u64, &byte| sum.wrapping_mul(1_000_003).wrapping_add(u64::from(byte)))
    }
}

/// The same digest, but it takes bytes only in order.
struct Chain;

impl DigestKind for Chain {
    const NAME: &'static str = "chain";
    const IN_ORDER: bool = true;
    type Digest = u64;
    type Run = Vec<u8>;

    fn begin(at: u64) -> Vec<u8> {
        assert_eq!(at, 0);
        Vec::new()
    }

    fn extend(total: u64, run: &mut Vec<u8>, bytes: &[u8]) {
        Bytewise::extend(total, run, bytes);
    }

    fn join(_: u64, _: Vec<u8>, _: Vec<u8>) -> Vec<u8> {
        unreachable!("there is one run")
    }

    fn finish(total: u64, run: Vec<u8>) -> u64 {
        Bytewise::finish(total, run)
    }
}

fn digest(bytes: &[u8]) -> u64 {
    Bytewise::finish(bytes.len() as u64, bytes.to_vec())
}

/// A file without tensors.
struct File {
    bytes: Vec<u8>,
    read: std::sync::atomic::AtomicU64,
}

impl File {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, read: 0.into() }
    }
}

impl Container for File {
    fn version(&self) -> Option<String> {
        None
    }
    fn file_size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn tensor_count(&self) -> usize {
        0
    }
    fn info(&self, _: usize) -> Option<TensorInfo<'_>> {
        None
    }
    fn find(&self, _: &str) -> Option<usize> {
        None
    }
    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        Err(Error::no_such_position(tensor))
    }
    fn stored(&self, tensor: usize) -> Result<Stored, AnyError> {
        Err(Error::no_such_position(tensor))
    }
    fn stored_range(&self, tensor: usize, _: Range<u64>) -> Result<Range<u64>, AnyError> {
        Err(Error::no_such_position(tensor))
    }
    fn values(&self, tensor: usize, _: Which<'_>, _: Reading<'_>) -> Result<Bytes<'_>, AnyError> {
        Err(Error::no_such_position(tensor))
    }
    fn values_into(&self, tensor: usize, _: u64, _: &mut [u8], _: Option<&Claims>) -> Result<(), AnyError> {
        Err(Error::no_such_position(tensor))
    }
    fn read_file(&self, _: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.bytes.read_into(at, out).map_err(|source| Error::Io { at, len: out.len() as u64, source })
    }
    fn source_of(&self, _: usize) -> Result<&dyn Source, AnyError> {
        Ok(&self.bytes)
    }
    fn claims_of(&self, _: &[WantedRange]) -> Result<Claims, AnyError> {
        Ok(Claims::new())
    }
    fn metadata(&self) -> Result<Value, AnyError> {
        Ok(Value::Null)
    }
    fn details(&self) -> Result<Value, AnyError> {
        Ok(Value::Null)
    }
    fn verify(&self, level: VerifyLevel, _: &Execution<'_>) -> Report {
        Report::new(level)
    }
}

fn claim(bytes: &[u8], range: Range<u64>, what: usize) -> Claim<u64, usize> {
    let extent = Extent::new(range.start, range.end - range.start, bytes.len() as u64).unwrap();
    Claim { extent, expected: digest(slice(bytes, &range)), what }
}

fn slice<'b>(bytes: &'b [u8], range: &Range<u64>) -> &'b [u8] {
    &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
}

fn add(claims: &mut Claims, list: Vec<Claim<u64, usize>>, times: usize) -> Vec<Claim<u64, usize>> {
    add_of::<Bytewise>(claims, list, times)
}

fn add_of<K: DigestKind<Digest = u64>>(
    claims: &mut Claims,
    list: Vec<Claim<u64, usize>>,
    times: usize,
) -> Vec<Claim<u64, usize>> {
    claims.for_file().add::<K, usize>(list, times, |claim, _| AnyError::Malformed {
        part: Part::entry("claim", claim.what as u64),
        at: claim.extent.offset(),
        fault: CommonFault::Utf8.into(),
    })
}

fn range_in(len: u64) -> impl Strategy<Value = Range<u64>> {
    (0..=len, 0..=len).prop_map(|(a, b)| a.min(b)..a.max(b))
}

proptest! {
    /// However bytes are read, in any pieces and order, by any threads, intact bytes pass and a changed one
    /// does not.
    #[test]
    fn a_changed_byte_is_found_and_none_else(
        bytes in proptest::collection::vec(any::<u8>(), 1..300),
        ranges in proptest::collection::vec(range_in(300), 1..20),
        reads in proptest::collection::vec(range_in(300), 0..40),
        flip in any::<prop::sample::Index>(),
        times in 1usize..4,
        is_chain in any::<bool>(),
    ) {
        let add = if is_chain { add_of::<Chain> } else { add };
        let len = bytes.len() as u64;
        let within = |range: Range<u64>| range.start.min(len)..range.end.min(len);
        let list: Vec<_> = ranges.into_iter().enumerate().map(|(n, r)| claim(&bytes, within(r), n)).collect();
        let mut damaged = bytes.clone();
        let at = flip.index(bytes.len());
        damaged[at] ^= 1;
        for (file, is_damaged) in [(bytes, false), (damaged, true)] {
            let mut claims = Claims::new();
            let left = add(&mut claims, list.clone(), times);
            let covers = |claim: &&Claim<u64, usize>| claim.extent.range().contains(&(at as u64));
            // Only one of equal claims is kept, so a claim that is left out is identified by its range.
            let is_left = |claim: &&Claim<u64, usize>| left.iter().any(|left| left.extent == claim.extent);
            let covered = list.iter().filter(covers).filter(|claim| !is_left(claim)).count();
            let container = File::new(file);
            let (first, second) = reads.split_at(reads.len() / 2);
            std::thread::scope(|scope| {
                for reads in [first, second] {
                    scope.spawn(|| reads.iter().cloned().for_each(|read| {
                        let read = within(read);
                        claims.observe(0, read.start, slice(&container.bytes, &read));
                    }));
                }
            });
            let found = claims.finish(&container, &Execution { threads: 2, progress: None });
            prop_assert_eq!(found.is_err(), is_damaged && covered > 0, "{:?} {}", found, covered);
        }
    }

    #[test]
    fn ranges_are_merged(ranges in proptest::collection::vec(range_in(40), 0..12)) {
        let merged = merged(ranges.clone());
        prop_assert!(merged.windows(2).all(|pair| pair[0].end < pair[1].start));
        for at in 0..40 {
            let is_in = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(&at));
            prop_assert_eq!(is_in(&ranges), is_in(&merged));
        }
    }
}

#[test]
fn only_what_was_not_seen_is_read_at_the_end() {
    let container = File::new((0..200).collect());
    let bytes = container.bytes.clone();
    let mut claims = Claims::new();
    assert!(add(&mut claims, vec![claim(&bytes, 10..110, 0), claim(&bytes, 120..130, 1)], 1).is_empty());
    claims.observe(0, 0, &bytes[0..50]);
    claims.observe(0, 40, &bytes[40..60]);
    claims.observe(0, 70, &bytes[70..125]);
    claims.finish(&container, &Execution::sequential()).unwrap();
    assert_eq!(container.read.load(Ordering::Relaxed), 10 + 5);
}

#[test]
fn a_claim_fails_as_soon_as_it_is_complete() {
    let bytes: Vec<u8> = (0..100).collect();
    let mut claims = Claims::new();
    let mut wrong = claim(&bytes, 5..10, 7);
    wrong.expected ^= 1;
    add(&mut claims, vec![wrong, claim(&bytes, 20..90, 8)], 1);
    claims.observe(0, 0, &bytes[0..9]);
    assert!(claims.failure().is_none());
    claims.observe(1, 0, &bytes);
    assert!(claims.failure().is_none(), "another file");
    claims.observe(0, 9, &bytes[9..11]);
    assert_eq!(claims.failure().unwrap().to_string(), "claim 7 at byte 5: is not valid UTF-8");
    // A wrong claim about an empty range fails at once.
    let mut claims = Claims::new();
    let mut empty = claim(&bytes, 50..50, 0);
    empty.expected ^= 1;
    add(&mut claims, vec![empty], 1);
    assert!(claims.failure().is_some());
}

#[test]
fn no_byte_is_hashed_more_often_than_was_said() {
    let bytes = vec![3u8; 1000];
    let list: Vec<_> = (0..500).map(|n| claim(&bytes, n as u64..n as u64 + 500, n)).collect();
    for times in [1, 2, 3] {
        let mut claims = Claims::new();
        assert_eq!(add(&mut claims, list.clone(), times).len(), 500 - times);
    }
    // The same range twice is one claim, unless the expected digests differ.
    let (one, mut two) = (claim(&bytes, 0..100, 0), claim(&bytes, 0..100, 1));
    assert!(add(&mut Claims::new(), vec![one, two], 1).is_empty());
    two.expected ^= 1;
    assert_eq!(add(&mut Claims::new(), vec![one, two], 1).len(), 1);
}

#[test]
fn what_waits_is_bounded() {
    let count = MAX_RUNS as u64 * 2;
    let container = File::new((0..count * 2).map(|n| (n % 251) as u8).collect());
    let mut claims = Claims::new();
    add(&mut claims, vec![claim(&container.bytes, 0..count * 2, 0)], 1);
    for at in 0..count {
        let range = at * 2..at * 2 + 1;
        claims.observe(0, range.start, slice(&container.bytes, &range));
    }
    assert_eq!(claims.missing().len(), MAX_RUNS + 1 - 1, "those between the runs, and the rest in one");
    claims.finish(&container, &Execution::sequential()).unwrap();
    assert_eq!(container.read.load(Ordering::Relaxed), count * 2 - MAX_RUNS as u64);
}

#[test]
fn what_is_too_much_to_read_is_noted() {
    let mut claims = Claims::new();
    let part = || Part::named("part", "a");
    assert!(claims.for_set_file(2, part()).is_worth("the whole", 64 << 20, 1));
    assert!(claims.for_set_file(2, part()).is_worth("the whole", 1 << 30, 1 << 29));
    assert!(claims.notes().is_empty());
    assert!(!claims.for_set_file(2, part()).is_worth("the whole", 1 << 30, (1 << 29) - 1));
    let note = &claims.notes()[0];
    assert!(
        note.starts_with("part \"a\": the whole covers 1073741824 bytes, but only 536870911 are read"),
        "{note}"
    );
}

/// A verified source over a source that returns different bytes at each read.
struct Fickle {
    proved: Vec<u8>,
    below: Changing,
}

struct Changing(Vec<u8>, std::sync::atomic::AtomicU64);

impl Source for Changing {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_into(offset, out)?;
        if self.1.fetch_add(1, Ordering::Relaxed) > 0 {
            out.fill(0xEE);
        }
        Ok(())
    }
}

impl Source for Fickle {
    fn len(&self) -> u64 {
        Source::len(&self.proved)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.proved.read_into(offset, out)
    }

    fn unproved(&self) -> Option<crate::source::Unproved<'_>> {
        Some(crate::source::Unproved::new(&self.below))
    }
}

#[test]
fn bytes_that_no_claim_proves_are_read_through_their_proof() {
    let bytes: Vec<u8> = (0..100).collect();
    let claims = |is_deferred: bool| {
        let mut claims = Claims::new();
        let claim =
            Claim { extent: Extent::new(10, 50, 100).unwrap(), expected: digest(&bytes[10..60]), what: () };
        claims.for_file().add::<Bytewise, ()>(vec![claim], 1, |_, _| AnyError::Cancelled);
        if is_deferred { claims.deferred() } else { claims }
    };
    // The bytes that are read, and how many of the reads bypass the proof.
    for (is_deferred, ranges, expected) in [
        (true, vec![(10, 60)], 1),
        (true, vec![(10, 30), (30, 60)], 2),
        // On a second read, the claim does not hash the bytes again.
        (true, vec![(10, 60), (10, 60)], 2),
        (true, vec![(10, 40), (30, 60)], 2),
        // The claim does not cover all bytes.
        (true, vec![(5, 60)], 0),
        (true, vec![(0, 100)], 0),
        (false, vec![(10, 60)], 0),
    ] {
        let source = Fickle { proved: bytes.clone(), below: Changing(bytes.clone(), 0.into()) };
        let claims = claims(is_deferred);
        let observed = ObservedSource::new(&source, 0, &claims);
        for (start, end) in ranges.iter().copied() {
            let mut out = vec![0; end - start];
            crate::fetch::now_or_never(observed.fetch_into(start as u64, &mut out)).unwrap().unwrap();
            let is_right = out == bytes[start..end];
            // A wrong byte was hashed for a claim, which has failed.
            assert!(is_right || claims.failure().is_some(), "{is_deferred} {ranges:?}");
        }
        assert_eq!(source.below.1.load(Ordering::Relaxed), expected, "{is_deferred} {ranges:?}");
    }
}
