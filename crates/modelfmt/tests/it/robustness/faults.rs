//! Sources and sinks that fail: always an error, never a panic, and never a report that says all is well.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt::{DType, Execution, Model, Source, VerifyLevel};
use modelfmt_write::{BoxError, MemoryFile, Overwrite, Sink, TensorData, TensorSpec};

use testkit::error_text;

use super::fuzz::samples;

/// Fails only at the n-th read, like a network with a short interruption.
struct FailsAt<S> {
    inner: S,
    at: u64,
    reads: AtomicU64,
}

impl<S: Source + Sync> Source for FailsAt<S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.reads.fetch_add(1, Ordering::Relaxed) == self.at {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the peer has gone"));
        }
        self.inner.read_into(offset, out)
    }
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

#[test]
fn a_failing_read_is_an_error_wherever_it_happens() {
    for sample in samples() {
        let mut at = 0;
        loop {
            let source = FailsAt { inner: sample.bytes.clone(), at, reads: AtomicU64::new(0) };
            let source = Arc::new(source);
            let failed = || source.reads.load(Ordering::Relaxed) > at;
            match Model::from_source(sample.name, source.clone()) {
                Err(error) => {
                    assert!(failed(), "{}: {error}", sample.name);
                    assert!(error_text(&error).contains("the peer has gone"), "{}", error_text(&error));
                }
                Ok(model) => {
                    assert!(!failed(), "{}: read {at} failed while opening, and it opened", sample.name);
                    for position in 0..model.tensor_count() {
                        let before = failed();
                        let read = model.tensor(position).map(drop);
                        assert_eq!(read.is_err(), !before && failed(), "{}, read {at}", sample.name);
                    }
                    let before = failed();
                    let report = model.container().verify(VerifyLevel::Full, &Execution::sequential());
                    assert_eq!(report.is_ok(), before || !failed(), "{}, read {at}: {report:?}", sample.name);
                    let before = failed();
                    let metadata = model.metadata().is_ok() && model.details().is_ok();
                    assert_eq!(metadata, before || !failed(), "{}, read {at}", sample.name);
                    if !failed() {
                        break;
                    }
                }
            }
            at += 1;
            assert!(at < 1000, "{}: it never ends", sample.name);
        }
        println!("{}: {at} reads, each failed once", sample.name);
        assert!(at > 3, "{}: {at}", sample.name);
    }
}

/// A file that is cut after it was opened: reading the missing bytes is an error, and the process survives.
#[test]
fn a_file_that_shrinks_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for sample in samples() {
        let path = folder.path().join("file");
        for len in (0..sample.bytes.len()).step_by(61) {
            std::fs::write(&path, &sample.bytes).unwrap();
            let model = Model::open(&path).unwrap();
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len as u64).unwrap();
            for position in 0..model.tensor_count() {
                let location = model.location(position).unwrap();
                let is_gone = location.offset.unwrap() + location.stored_nbytes > len as u64;
                assert_eq!(model.tensor(position).is_err(), is_gone, "{}, {len}", sample.name);
            }
            // Formats without checksums have nothing to read again, and the others find the bytes missing.
            let _ = model.container().verify(VerifyLevel::Full, &Execution::sequential());
        }
    }
}

/// Accepts n writes and no more, like a full disk.
struct Full {
    file: MemoryFile,
    left: AtomicU64,
}

impl Sink for Full {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let took = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        took.map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        self.file.write_at(offset, bytes)
    }
}

/// Values that cannot be read from the n-th piece on.
struct Lost {
    left: AtomicU64,
}

impl TensorData for Lost {
    fn read(&self, _: usize, _: u64, out: &mut [u8]) -> Result<(), BoxError> {
        let took = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        took.map_err(|_| "the tape has torn")?;
        out.fill(3);
        Ok(())
    }
}

fn specs() -> [TensorSpec<'static>; 3] {
    // More than a piece of 4 MiB, so that one tensor takes several reads and writes.
    [("a", 9 << 20), ("b", 5), ("c", 4 << 20)].map(|(name, n)| TensorSpec::new(name, DType::I8, vec![n]))
}

/// Lets every write and every read of values fail in turn until a run passes. Then checks that no file was
/// left behind.
fn writer_survives<P, E: std::error::Error>(
    name: &str,
    plan: &P,
    write: impl Fn(&P, &dyn TensorData, &Full) -> Result<(), E>,
    write_file: impl Fn(&P, &std::path::Path, &dyn TensorData) -> Result<(), E>,
) {
    let endless = || Lost { left: AtomicU64::new(u64::MAX) };
    let mut n = 0;
    loop {
        let sink = Full { file: MemoryFile::new(), left: AtomicU64::new(n) };
        match write(plan, &endless(), &sink) {
            Ok(()) => break,
            Err(error) => assert!(error.to_string().starts_with("cannot write"), "{name}: {error}"),
        }
        n += 1;
        assert!(n < 1000, "{name}: it never ends");
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("file");
    let mut reads = 0;
    loop {
        let done = write_file(plan, &target, &Lost { left: AtomicU64::new(reads) });
        let found: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if let Err(error) = done {
            assert!(error_text(&error).ends_with("the tape has torn"), "{name}: {}", error_text(&error));
            assert!(found.is_empty(), "{name}, read {reads}: {found:?}");
        } else {
            assert_eq!(found, ["file"], "{name}");
            break;
        }
        reads += 1;
        assert!(reads < 1000, "{name}: it never ends");
    }
    println!("{name}: {n} writes and {reads} reads of values, each failed once");
    assert!(n > 2 && reads > 2, "{name}: {n}, {reads}");
    let model = Model::open(&target).unwrap();
    assert!(model.container().verify(VerifyLevel::Full, &Execution::sequential()).is_ok());
}

#[test]
fn a_failing_write_is_an_error_and_leaves_nothing() {
    let work = Execution::sequential();
    macro_rules! survives {
        ($name:literal, $plan:expr) => {
            writer_survives(
                $name,
                &$plan.unwrap(),
                |plan, data, sink| plan.write(data, sink, &work),
                |plan, path, data| plan.write_file(path, Overwrite::Refuse, data, &work),
            );
        };
    }
    survives!(
        "mag",
        mag::Plan::new(specs(), &modelfmt_core::value::Object::new(), &mag::WriteOptions::new())
    );
    survives!("oinf", oinf::Plan::new(specs(), &oinf::Metadata::new(), &oinf::WriteOptions::new()));
    let options = modelfmt_safetensors::WriteOptions::new();
    survives!("safetensors", modelfmt_safetensors::Plan::new(specs(), None, &options));
    let metadata = apr2::Metadata::new("demo", modelfmt_core::value::Object::new());
    survives!("apr2", apr2::Plan::new(specs(), &metadata, &apr2::WriteOptions::new()));
    let lz4 = apr2::WriteOptions::new().compression(apr2::Compression::Lz4);
    survives!("apr2 with lz4", apr2::Plan::new(specs(), &metadata, &lz4));
    let metadata = modelfmt_core::value::Object::from_iter([("model_name", "m"), ("architecture", "demo")]);
    let options = aero::WriteOptions::new().uuid([7; 16]).tensor_hashes(true).page_hashes(Some(1 << 20));
    survives!("aero", aero::Plan::new(specs(), &metadata, &options));
}
