//! Files that are opened by the hash of their head: any changed byte must be noticed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::io;
use std::sync::Mutex;

use aero::ReaderExt as _;
use aero::modelfmt_core::source::checked_len;
use aero::{Error, Fault, OpenOptions, Reader, Source, VerifyLevel, open_pinned};

/// A source that is not in memory and counts the bytes that are read.
struct Ranges(Mutex<Vec<u8>>, Mutex<u64>);

impl Ranges {
    fn new(bytes: &[u8]) -> Self {
        Self(Mutex::new(bytes.to_vec()), Mutex::default())
    }
}

impl Source for Ranges {
    fn len(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        checked_len(&(offset..offset.saturating_add(out.len() as u64)), self.len())?;
        *self.1.lock().unwrap() += out.len() as u64;
        self.0.lock().unwrap().read_into(offset, out)
    }
}

/// Returns the golden files and the files by other tools.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for folder in ["aero", "reference"] {
        for entry in std::fs::read_dir(testkit::testdata(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "aero") {
                files.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Returns all values, each with the error if it cannot be read.
fn values<S: Source>(reader: &Reader<S>) -> Vec<Result<Vec<u8>, String>> {
    let read = |position| reader.tensor(position).map(|tensor| tensor.bytes().to_vec());
    (0..reader.tensors().len()).map(|position| read(position).map_err(|error| error.to_string())).collect()
}

#[test]
fn nothing_is_served_that_the_head_does_not_fix() {
    let mut pinnable = 0;
    for (name, bytes) in files() {
        let plain = Reader::from_source(&bytes).unwrap();
        let Some(pin) = plain.pin().unwrap() else { continue };
        let open = |bytes: &[u8]| open_pinned(Ranges::new(bytes), pin, &OpenOptions::new());
        let reader = match open(&bytes) {
            Ok(reader) => reader,
            // A published writer does not record the hash of its first chunk.
            Err(error) => {
                assert!(
                    matches!(error.inner(), Error::Malformed { fault: Fault::Unpinnable(_), .. }),
                    "{name}: {error}"
                );
                continue;
            }
        };
        pinnable += 1;
        let (expected, metadata) = (values(&plain), plain.metadata().map_err(|error| error.to_string()));
        assert_eq!(values(&reader), expected, "{name}");
        assert_eq!(
            values(&open_pinned(bytes.clone(), pin, &OpenOptions::new()).unwrap()),
            expected,
            "{name}"
        );
        assert_eq!(
            reader.verify(VerifyLevel::Full).is_ok(),
            plain.verify(VerifyLevel::Full).is_ok(),
            "{name}"
        );
        let head = usize::try_from(plain.index().payloads_start().unwrap()).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 150 + 1) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x04;
            let Ok(reader) = open(&damaged) else { continue };
            assert!(at >= head, "{name}: byte {at} of the head");
            for (found, good) in values(&reader).iter().zip(&expected) {
                assert!(found.is_err() || found == good, "{name}: byte {at}");
            }
            assert!(
                reader.metadata().map_or(true, |found| metadata.as_ref() == Ok(&found)),
                "{name}: byte {at}"
            );
        }
        // The same bytes, changed after they were read once.
        let len = bytes.len();
        reader.source().source().0.lock().unwrap()[head..].fill(0x55);
        for (found, good) in values(&reader).iter().zip(&expected) {
            assert!(found.is_err() || found == good, "{name}, {len} bytes");
        }
    }
    assert!(pinnable >= 5, "{pinnable}");
}

#[test]
fn a_wrong_pin_and_a_file_that_is_cut_are_errors() {
    let bytes = std::fs::read(testkit::testdata("aero/hashes.aero")).unwrap();
    let pin = Reader::from_source(&bytes).unwrap().pin().unwrap().unwrap();
    let error = open_pinned(&bytes, [7; 32], &OpenOptions::new()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("are not those of aero:0707"), "{cause}");
    for len in 0..bytes.len() {
        if let Ok(reader) = open_pinned(&bytes[..len], pin, &OpenOptions::new()) {
            assert!(values(&reader).iter().any(Result::is_err), "{len}");
        }
    }
}

#[test]
fn pages_and_tensors_are_proved_by_themselves() {
    use aero::modelfmt_core::value::Object;
    use aero::modelfmt_core::{DType, Execution};
    use aero::write::MemoryFile;
    use aero::{Plan, TensorSpec, WriteOptions};

    let values: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
    let metadata = Object::from_iter([("model_name", "m"), ("architecture", "a")]);
    for (tensor_hashes, pages) in
        [(false, None), (true, None), (false, Some(64 << 10)), (true, Some(64 << 10))]
    {
        let mut options = WriteOptions::new().uuid([1; 16]).tensor_hashes(tensor_hashes);
        if let Some(size) = pages {
            options = options.page_hashes(Some(size));
        }
        let shapes = [[2_000_000u64], [1_000_000]];
        let specs =
            [TensorSpec::new("a", DType::U8, &shapes[0]), TensorSpec::new("b", DType::U8, &shapes[1])];
        let sink = MemoryFile::new();
        let data = [&values[..2_000_000], &values[2_000_000..]];
        Plan::new(specs, &metadata, &options).unwrap().write(&data, &sink, &Execution::default()).unwrap();
        let bytes = sink.into_bytes();
        let pin = Reader::from_source(&bytes).unwrap().pin().unwrap().unwrap();
        let reader = open_pinned(Ranges::new(&bytes), pin, &OpenOptions::new()).unwrap();
        let opened = *reader.source().source().1.lock().unwrap();
        assert_eq!(*reader.read_range("b", 500_000..500_010).unwrap(), values[2_500_000..2_500_010]);
        let read = *reader.source().source().1.lock().unwrap() - opened;
        let whole = match (pages, tensor_hashes) {
            (Some(_), _) => 200_000,
            (None, true) => 1_100_000,
            (None, false) => 3_200_000,
        };
        assert!(read <= whole, "{read} bytes, {tensor_hashes} {pages:?}");
        assert!(*reader.tensor("a").unwrap().bytes() == values[..2_000_000]);
        let file = reader.source().source();
        let at = usize::try_from(reader.index().location(1).unwrap().offset.unwrap()).unwrap() + 700_000;
        file.0.lock().unwrap()[at] ^= 1;
        assert!(reader.read_range("b", 700_000..700_001).is_err());
        assert!(reader.tensor("b").is_err());
    }
}
