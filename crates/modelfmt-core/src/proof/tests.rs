use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::ledger::DigestKind;
use crate::source::{Source, contract_test};

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// A source that is not in memory, and records which ranges are read.
#[derive(Default)]
struct Ranges {
    bytes: Mutex<Vec<u8>>,
    read: AtomicUsize,
}

impl Ranges {
    fn new(bytes: &[u8]) -> Self {
        Self { bytes: Mutex::new(bytes.to_vec()), read: AtomicUsize::new(0) }
    }
}

impl Source for Ranges {
    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(out.len(), Ordering::Relaxed);
        self.bytes.lock().unwrap().read_into(offset, out)
    }
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

const LENGTHS: [usize; 7] = [0, 1, 16_384, 16_385, 100_000, 600_000, 1_500_001];

#[test]
fn verified_sources_keep_the_contract() {
    for len in LENGTHS {
        let file = bytes(len);
        let (hash, outboard) = blake3_tree::outboard(&file);
        let small = len < 20_000; // the contract test reads every tail
        let looked = |source: &dyn Source| {
            if small {
                contract_test(source, &file).unwrap();
            }
            for range in [0..len, len / 3..len / 2, len / 2..len / 2, len.saturating_sub(1)..len] {
                let found = source.read(range.start as u64..range.end as u64).unwrap();
                assert!(*found == file[range.clone()], "{len} {range:?}");
            }
        };
        looked(&VerifiedSource::by_outboard(&file, hash, &outboard).unwrap());
        looked(&VerifiedSource::by_outboard(Ranges::new(&file), hash, Ranges::new(&outboard)).unwrap());
        looked(&VerifiedSource::by_hash(&file, hash));
        looked(&VerifiedSource::by_hash(Ranges::new(&file), hash));
    }
}

#[test]
fn what_is_not_right_is_not_served() {
    let file = bytes(600_000);
    let (hash, outboard) = blake3_tree::outboard(&file);
    for at in (0..file.len()).step_by(55_555) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let by_memory = VerifiedSource::by_outboard(&damaged, hash, &outboard).unwrap();
        let by_ranges = VerifiedSource::by_outboard(Ranges::new(&damaged), hash, &outboard).unwrap();
        for source in [&by_memory as &dyn Source, &by_ranges] {
            for range in [at..at + 1, 0..file.len(), at.saturating_sub(9)..at + 9] {
                let error = source.read(range.start as u64..range.end as u64).unwrap_err();
                let Some(ProofError::Bytes { start, end, .. }) = ProofError::within(&error) else {
                    panic!("{error:?}")
                };
                assert!((*start..*end).contains(&(at as u64)), "{error}");
                let mut out = vec![0xee; range.len()];
                source.read_into(range.start as u64, &mut out).unwrap_err();
                assert!(
                    out.iter().zip(range).all(|(&byte, at)| byte == file[at] || byte == 0 || byte == 0xee)
                );
            }
        }
        for source in [
            &VerifiedSource::by_hash(&damaged, hash) as &dyn Source,
            &VerifiedSource::by_hash(Ranges::new(&damaged), hash),
        ] {
            let error = source.read(3..4).unwrap_err();
            assert!(matches!(ProofError::within(&error), Some(ProofError::Whole { .. })), "{error}");
        }
    }
}

#[test]
fn a_file_that_changes_meanwhile_is_an_error() {
    let file = bytes(600_000);
    let (hash, outboard) = blake3_tree::outboard(&file);
    let by_outboard = VerifiedSource::by_outboard(Ranges::new(&file), hash, &outboard).unwrap();
    let by_hash = VerifiedSource::by_hash(Ranges::new(&file), hash);
    let change = |source: &Ranges| source.bytes.lock().unwrap()[300_000] ^= 1;
    assert!(by_outboard.read(300_000..300_001).is_ok() && by_hash.read(300_000..300_001).is_ok());
    change(by_outboard.source());
    change(by_hash.source());
    for source in [&by_outboard as &dyn Source, &by_hash] {
        assert!(source.read(0..100).is_ok());
        let error = source.read(300_000..300_001).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().starts_with("bytes 294912 to 311296 are not those of b3:"), "{error}");
    }
}

#[test]
fn outboards_that_are_none_of_this_file() {
    let file = bytes(600_000);
    let (hash, outboard) = blake3_tree::outboard(&file);
    for len in [0, 64, outboard.len() - 64, outboard.len() - 1, outboard.len() + 64] {
        let mut other = outboard.clone();
        other.resize(len, 0);
        let error = VerifiedSource::by_outboard(&file, hash, other).unwrap_err();
        assert!(matches!(ProofError::within(&error), Some(ProofError::Outboard { .. })), "{error}");
    }
    for other in [vec![0; outboard.len()], blake3_tree::outboard(&bytes(600_001)[1..]).1] {
        let source = VerifiedSource::by_outboard(&file, hash, other).unwrap();
        let error = source.read(5..6).unwrap_err();
        assert!(
            error.to_string().starts_with("the outboard is not the outboard of a file with b3:"),
            "{error}"
        );
    }
    // The outboard of this file proves nothing about another hash.
    let error = VerifiedSource::by_outboard(&file, [1; 32], &outboard).unwrap().read(0..1).unwrap_err();
    assert!(matches!(ProofError::within(&error), Some(ProofError::Outboard { .. })), "{error}");
}

#[test]
fn a_range_costs_its_groups_and_a_hash_one_pass() {
    let file = bytes(1_500_001);
    let (hash, outboard) = blake3_tree::outboard(&file);
    let source = VerifiedSource::by_outboard(Ranges::new(&file), hash, &outboard).unwrap();
    source.read(20_000..20_010).unwrap();
    assert_eq!(source.source().read.load(Ordering::Relaxed), 16_384);
    let source = VerifiedSource::by_hash(Ranges::new(&file), hash);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| source.read(20_000..20_010).unwrap());
        }
    });
    assert_eq!(source.source().read.load(Ordering::Relaxed), file.len() + 4 * 16_384);
}

/// A digest that takes bytes in order.
struct Sum;

impl DigestKind for Sum {
    const NAME: &'static str = "sum";
    const IN_ORDER: bool = true;
    type Digest = u64;
    type Run = u64;

    fn begin(_: u64) -> u64 {
        0
    }

    fn extend(_: u64, run: &mut u64, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| *run = run.wrapping_mul(31).wrapping_add(byte.into()));
    }

    fn join(_: u64, first: u64, _: u64) -> u64 {
        first
    }

    fn finish(_: u64, run: u64) -> u64 {
        run
    }
}

#[test]
fn any_digest_of_a_whole_file_will_do() {
    let file = bytes(1_200_000);
    let sum = file.iter().fold(0u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let by_sum = |sum: u64| {
        let root = format!("sum:{sum}").into();
        let proof = HashProof::with_digest::<Sum>(file.len() as u64, root, sum, |sum| format!("sum:{sum}"));
        VerifiedSource::new(Ranges::new(&file), proof)
    };
    let good = by_sum(sum);
    assert!(*good.read(700_000..700_100).unwrap() == file[700_000..700_100]);
    good.source().bytes.lock().unwrap()[700_050] ^= 1;
    assert!(good.read(700_000..700_100).is_err(), "it has changed since");
    let error = by_sum(sum ^ 1).read(0..1).unwrap_err();
    assert!(matches!(ProofError::within(&error), Some(ProofError::Whole { .. })), "{error}");
    let expected = format!("its hash is sum:{sum} and not sum:{}", sum ^ 1);
    assert!(error.to_string().starts_with(&expected), "{error}");
    // The next read makes another pass.
    let again = by_sum(sum);
    again.source().bytes.lock().unwrap()[5] ^= 1;
    assert!(again.read(0..1).is_err());
    again.source().bytes.lock().unwrap()[5] ^= 1;
    assert!(again.read(0..1).is_ok());
}

/// Returns the proof that is recorded by a pass over each of some ranges.
fn recorded(file: &[u8], ranges: &[Range<usize>], step: usize, groups: u64) -> RecordedProof {
    let pages = ranges.iter().map(|range| {
        let mut recording = Recording::new(range.len() as u64, groups);
        file[range.clone()].chunks(step).for_each(|piece| recording.update(piece));
        (range.start as u64, recording.finish().unwrap())
    });
    RecordedProof::new(pages, "what was signed".into())
}

#[test]
fn a_pass_for_another_purpose_proves_later_reads() {
    for len in LENGTHS {
        let file = bytes(len);
        for (step, groups) in [(1, 8), (1000, 1 << 16), (16_384, 4), (2_000_000, 2)] {
            if step == 1 && len > 20_000 {
                continue;
            }
            // Consecutive ranges of any length occur, for example in signatures that hash in ranges.
            let cuts = [0, len / 3, len / 3 * 2, len];
            let ranges: Vec<_> =
                cuts.windows(2).map(|cut| cut[0]..cut[1]).filter(|r| !r.is_empty()).collect();
            let whole: Vec<_> = std::iter::once(0..len).collect();
            for ranges in [&whole, &ranges] {
                let proof = recorded(&file, ranges, step, groups);
                assert_eq!(proof.len(), len as u64);
                let source = VerifiedSource::new(&file, &proof);
                if len < 20_000 {
                    contract_test(&source, &file).unwrap();
                }
                assert!(*source.read(0..len as u64).unwrap() == file[..]);
                for at in (0..len).step_by(100_003) {
                    let mut other = file.clone();
                    other[at] ^= 1;
                    let other = VerifiedSource::new(Ranges::new(&other), &proof);
                    let error = other.read(at as u64..at as u64 + 1).unwrap_err();
                    let Some(ProofError::Bytes { start, end, .. }) = ProofError::within(&error) else {
                        panic!("{error:?}")
                    };
                    assert!((*start..*end).contains(&(at as u64)), "{error}");
                }
                // Nothing proves bytes after the recorded ones.
                let longer = [&file[..], b"x"].concat();
                let longer = VerifiedSource::new(&longer, &proof);
                assert!(longer.read(len as u64..len as u64 + 1).is_err());
            }
        }
    }
}

#[test]
fn a_recording_of_another_length_proves_nothing() {
    for (len, came) in [(10u64, 9usize), (10, 11), (0, 1), (300_000, 299_999), (300_000, 300_001)] {
        let mut recording = Recording::new(len, 1 << 16);
        recording.update(&bytes(came));
        assert!(recording.finish().is_none(), "{len} {came}");
    }
}
