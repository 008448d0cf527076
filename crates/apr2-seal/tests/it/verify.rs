//! Verification of sealed files: how often it reads them, on how many processes, and what it reports about
//! unreadable files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use apr2_seal::modelfmt_core::source::Share;
use apr2_seal::seal::{Identity, SealOptions, SigningKey};
use apr2_seal::value::Object;
use apr2_seal::write::MemoryFile;
use apr2_seal::{
    Compression, DType, Execution, Metadata, Plan, Reader, Report, Source, Status, TensorSpec, VerifyLevel,
    WriteOptions,
};
use testkit::CountingSource;

/// Returns a signed file whose tensors take several pieces, less than a piece, a page, less than a page, and
/// nothing. Some of them can be compressed.
fn signed(compression: Compression, seal: &SealOptions) -> Vec<u8> {
    let noise = |n: usize| {
        let n = (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (n ^ n >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9).to_le_bytes()[7]
    };
    let values: [Vec<u8>; 8] = [3 << 20, 100, 0, 700_000, 5 << 20, 262_144, 262_145, 1025]
        .map(|len| (0..len).map(|n| if n % 4096 < 2000 { 0 } else { noise(n) }).collect());
    let spec =
        |(n, bytes): (usize, &Vec<u8>)| TensorSpec::new(format!("t{n}"), DType::U8, vec![bytes.len() as u64]);
    let options = WriteOptions::new().compression(compression);
    let specs = values.iter().enumerate().map(spec);
    let plan = Plan::new(specs, &Metadata::new("tiny", Object::default()), &options).unwrap();
    let file = MemoryFile::new();
    seal.write(&plan, &values, &file, &Execution::default()).unwrap();
    file.into_bytes().to_vec()
}

fn alice() -> SealOptions {
    SealOptions::new().sign(SigningKey::from_bytes(&[1; 32]))
}

/// Returns signed files, compressed or not, and a file that cannot be decrypted here.
fn subjects() -> Vec<(&'static str, Vec<u8>)> {
    let carol = Identity::from_bytes(&[2; 32]).recipient();
    vec![
        ("signed", signed(Compression::None, &alice())),
        ("compressed", signed(Compression::Lz4, &alice())),
        ("locked", signed(Compression::Lz4, &alice().recipient(carol).hide_index(true))),
    ]
}

/// Memory that several processes share, or that fails from some byte on.
struct Memory {
    inner: CountingSource<Vec<u8>>,
    share: Option<Share>,
    good: AtomicU64,
}

impl Memory {
    fn new(bytes: Vec<u8>) -> Self {
        Self { inner: CountingSource::new(bytes), share: None, good: AtomicU64::new(u64::MAX) }
    }
}

impl Source for Memory {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.good.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is worn out"));
        }
        self.inner.read_into(offset, out)
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        if self.share.is_some() { None } else { Some(self) }
    }

    fn share(&self) -> Option<&Share> {
        self.share.as_ref()
    }
}

fn work(threads: usize) -> Execution<'static> {
    Execution { threads, progress: None }
}

fn status(report: &Report, name: &str) -> Status {
    report.checks.iter().find(|check| check.name == name).unwrap().status
}

#[test]
fn verify_reads_a_sealed_file_once() {
    for (name, good) in subjects() {
        for damaged in [None, Some(good.len() / 2), Some(300_000)] {
            let mut bytes = good.clone();
            if let Some(at) = damaged {
                bytes[at] ^= 1;
            }
            let len = bytes.len() as u64;
            for threads in [1, 2] {
                let reader = Reader::from_source(Memory::new(bytes.clone())).unwrap();
                reader.source().inner.reset();
                let report = reader.verify_with(VerifyLevel::Full, &work(threads));
                let read = reader.source().inner.nbytes();
                assert!(read < len + len / 50, "{name}: {read} bytes of {len}");
                let told = report.errors.iter().filter(|error| error.contains("SealDigest")).count();
                assert_eq!(told, usize::from(damaged.is_some()), "{name}: {:?}", report.errors);
                assert_eq!(status(&report, "digests") == Status::Failed, damaged.is_some());
            }
        }
    }
}

#[test]
fn processes_that_share_a_sealed_file_come_to_the_same_report() {
    let shared = |bytes: &[u8], share| {
        let source = Memory { share: Some(share), ..Memory::new(bytes.to_vec()) };
        let reader = Reader::from_source(source).unwrap();
        reader.source().inner.reset();
        let report = reader.verify_with(VerifyLevel::Full, &work(1));
        (reader.into_source(), report)
    };
    for (name, good) in subjects() {
        let mut bad = good.clone();
        bad[good.len() / 3] ^= 0x10;
        for bytes in [good, bad] {
            let alone = Reader::from_source(&bytes[..]).unwrap().verify(VerifyLevel::Full);
            for of in 0..4 {
                let parts: Vec<Memory> =
                    (0..of).map(|number| shared(&bytes, Share::part(number, of)).0).collect();
                let notes = parts.iter().flat_map(|part| part.share.as_ref().unwrap().take_notes());
                let (last, report) = shared(&bytes, Share::whole(notes.collect()));
                assert_eq!(report, alone, "{name}: {of} parts");
                let read: u64 = parts.iter().chain([&last]).map(|part| part.inner.nbytes()).sum();
                let len = bytes.len() as u64;
                assert!(read < len + (of + 1) * (64 << 10), "{name}: {of} parts read {read} of {len} bytes");
            }
        }
    }
}

#[test]
fn what_ends_the_pass_is_said_of_the_digests_too() {
    for (name, bytes) in subjects() {
        let good = (bytes.len() / 2) as u64;
        let reader = Reader::from_source(Memory::new(bytes.clone())).unwrap();
        reader.source().good.store(good, Ordering::Relaxed);
        let report = reader.verify(VerifyLevel::Full);
        for check in ["crc", "digests"] {
            assert_eq!(status(&report, check), Status::Failed, "{name}: {check}");
        }
        // Block headers that cannot be read are findings of their own.
        let (first, last) = (report.errors.first().unwrap(), report.errors.last().unwrap());
        assert!(first.contains("the disk is worn out") && first == last, "{name}: {:?}", report.errors);

        let reader = Reader::from_source(Memory::new(bytes)).unwrap();
        let stop = Execution { threads: 2, progress: Some(&|_| ControlFlow::Break(())) };
        let report = reader.verify_with(VerifyLevel::Full, &stop);
        for check in ["crc", "digests"] {
            assert_eq!(status(&report, check), Status::Failed, "{name}: {check}");
        }
    }
}
