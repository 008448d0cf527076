//! Sealed APR2 files: writing and reading encrypted files is compared with the bare cipher, verifying signed
//! ones with the bare hash.

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use aes_gcm::aead::AeadInOut as _;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes256Gcm, KeyInit as _, Nonce, Tag};
use apr2_seal::seal::{Access, Identity, SealOptions, SigningKey};
use modelfmt::verify::Status;
use modelfmt::{Execution, Model, OpenOptions, VerifyLevel};
use modelfmt_core::load::LoadOptions;
use modelfmt_core::plan::Pick;
use modelfmt_core::{DType, author::PIECE};
use modelfmt_write::{Discard, MemoryFile, TensorData};

use crate::data::{Noise, Tensors, Values};
use crate::map::map;
use crate::race::{on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove, threads};

/// The number of bytes that are encrypted with one tag, as in our files.
const SEGMENT: usize = 64 << 10;

/// Measures encrypted files, then signed ones.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let ids = ["write", "write-least", "read", "read-least"].map(|id| format!("seal/{id}"));
    let threads = ["write", "read"].map(|id| format!("threads/seal-{id}"));
    if ids.iter().chain(&threads).any(|id| bench.wants(id)) {
        encrypted(bench)?;
    }
    let id = "seal/verify-signed".to_owned();
    if bench.wants(&id) { signed(bench, id) } else { Ok(()) }
}

fn tensors(bench: &Bench) -> Result<(Tensors, Vec<Vec<u8>>)> {
    let tensors = Tensors::layers(DType::F32, 16, bench.sizes.seal_mib << 20);
    let values = tensors.values(&Noise::new(Values::F32))?;
    Ok((tensors, values))
}

fn encrypted(bench: &mut Bench) -> Result {
    let (tensors, values) = tensors(bench)?;
    let owner = Identity::from_bytes(&[7; 32]);
    let options = SealOptions::new().recipient(owner.recipient());
    let work = Execution { threads: bench.sizes.threads, progress: None };
    let path = bench.file("encrypted");
    let access = Access::new().open_with(owner);
    fs::write(&path, sealed(&tensors, &options, &values, &work)?)?;
    Loaded::is_right(&path, &access, &values, &work)?;
    let mut loaded = Loaded::new(&path, &access, &values)?;
    let mut bare = Bare::new(&values);
    bare.is_right()?;
    let (mib, threads) = (bench.sizes.seal_mib, work.threads);
    let what = format!("write {mib} MiB encrypted into a sink that drops them");
    let write = || seconds(|| tensors.seal(&options, &values, &Discard::default(), &work));
    beside(
        bench,
        "write",
        format!("{what}: speed of the bare AES-256-GCM on {threads} threads"),
        write,
        || seconds(|| bare.encrypt(threads)),
    )?;
    let all = format!("{what}: speed of the bare AES-256-GCM, BLAKE3 and CRC-32 on {threads} threads");
    beside(bench, "write-least", all, write, || seconds(|| bare.encrypt_and_hash(threads)))?;
    bare.keep_encrypted()?;
    let what = format!("load {mib} MiB that are encrypted into touched memory");
    let all = format!("{what}: speed of the bare AES-256-GCM on {threads} threads");
    beside(bench, "read", all, || seconds(|| loaded.load(&work)), || seconds(|| bare.decrypt(threads)))?;
    if bench.wants("seal/read-least") {
        let bare_path = bench.file("bare-encrypted");
        let file = bare.to_file(&bare_path)?;
        let mut memory: Vec<Vec<u8>> = values.iter().map(|values| vec![1; values.len()]).collect();
        bare.read(&file, &mut memory, threads)?;
        ensure(memory == values, || "the bare cipher does not read what it wrote".to_owned())?;
        let all = format!(
            "{what}: speed of positioned reads, and the bare AES-256-GCM into such memory, on {threads} threads"
        );
        beside(
            bench,
            "read-least",
            all,
            || seconds(|| loaded.load(&work)),
            || seconds(|| bare.read(&file, &mut memory, threads)),
        )?;
        remove(&bare_path)?;
    }
    for id in ["write", "read"] {
        let full = format!("threads/seal-{id}");
        if !bench.wants(&full) {
            continue;
        }
        let case = if id == "write" { "write encrypted" } else { "load what is encrypted" };
        threads::compare(bench, (full, case), 1.7, |threads| {
            let work = Execution { threads, progress: None };
            match id {
                "write" => tensors.seal(&options, &values, &Discard::default(), &work),
                _ => loaded.load(&work),
            }
        })?;
    }
    drop(loaded);
    remove(&path)
}

/// Adds a row about encrypted files, if it is wanted.
fn beside(
    bench: &mut Bench,
    id: &str,
    work: String,
    ours: impl FnMut() -> Result<f64>,
    other: impl FnMut() -> Result<f64>,
) -> Result {
    let id = format!("seal/{id}");
    if !bench.wants(&id) {
        return Ok(());
    }
    // The cipher is the smallest part of writing a sealed file. The rest is BLAKE3 and CRC-32.
    let target =
        if matches!(&*id, "seal/write-least" | "seal/read") { Target::AtLeast(0.8) } else { Target::None };
    let race = race(bench.rounds(7), ours, other)?;
    bench.add(Row {
        id,
        work,
        case: "APR2, for one recipient".to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target,
        note: race.times(),
    });
    Ok(())
}

fn sealed(
    tensors: &Tensors,
    options: &SealOptions,
    values: &dyn TensorData,
    work: &Execution<'_>,
) -> Result<Vec<u8>> {
    let file = MemoryFile::new();
    tensors.seal(options, values, &file, work)?;
    Ok(file.into_bytes())
}

/// An encrypted model, and memory for all of its tensors.
struct Loaded {
    model: Model,
    picks: Vec<Pick>,
    memory: Vec<Vec<u8>>,
}

impl Loaded {
    fn new(path: &Path, access: &Access, values: &[Vec<u8>]) -> Result<Self> {
        let model = OpenOptions::new().access(access.clone()).open(path)?;
        let picks = model.picks::<&str>(&[])?;
        let memory = values.iter().map(|values| vec![1; values.len()]).collect(); // not zeros: these would not be touched
        Ok(Self { model, picks, memory })
    }

    fn load(&mut self, work: &Execution<'_>) -> Result {
        let mut buffers: Vec<&mut [u8]> = self.memory.iter_mut().map(|buffer| &mut buffer[..]).collect();
        self.model.load_into(&self.picks, &mut buffers, &LoadOptions::new(), work)?;
        Ok(())
    }

    /// Checks that the values are those that were sealed, that they cannot be read without the key, and that
    /// a changed byte is refused.
    fn is_right(path: &Path, access: &Access, values: &[Vec<u8>], work: &Execution<'_>) -> Result {
        let mut good = Loaded::new(path, access, values)?;
        good.load(work)?;
        ensure(good.memory == values, || "what was loaded is not what was sealed".to_owned())?;
        let locked = Model::open(path)?;
        ensure(locked.tensor(0).is_err(), || "a tensor is read without a key".to_owned())?;
        let file = File::options().read(true).write(true).open(path)?;
        let middle = file.metadata()?.len() / 2;
        flip(&file, middle)?;
        let read = Loaded::new(path, access, values)?.load(work);
        flip(&file, middle)?;
        let is_told = read.is_err_and(|error| error.to_string().contains("SealSegment"));
        ensure(is_told, || "a changed byte is read".to_owned())
    }
}

fn flip(file: &File, at: u64) -> Result {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    Ok(file.write_all_at(&[byte[0] ^ 1], at)?)
}

/// The bare cipher over the same bytes, in segments of the same length.
struct Bare<'a> {
    cipher: Aes256Gcm,
    segments: Vec<&'a [u8]>,
    /// The encrypted segments with their tags.
    encrypted: Vec<(Vec<u8>, Tag)>,
}

impl<'a> Bare<'a> {
    fn new(values: &'a [Vec<u8>]) -> Self {
        let segments = values.iter().flat_map(|values| values.chunks(SEGMENT)).collect();
        Self { cipher: Aes256Gcm::new(&[7; 32].into()), segments, encrypted: Vec::new() }
    }

    fn seal(&self, number: usize, out: &mut [u8]) -> Result<Tag> {
        let segment = self.segments[number];
        let buffer = InOutBuf::new(segment, &mut out[..segment.len()]).map_err(|_| "not of one length")?;
        let tag = self.cipher.encrypt_inout_detached(&nonce(number), &[], buffer);
        Ok(tag.map_err(|_| "the bare cipher refuses a segment")?)
    }

    fn open(&self, number: usize, out: &mut [u8]) -> Result {
        let (segment, tag) = &self.encrypted[number];
        let buffer = InOutBuf::new(segment, &mut out[..segment.len()]).map_err(|_| "not of one length")?;
        let opened = self.cipher.decrypt_inout_detached(&nonce(number), &[], buffer, tag);
        Ok(opened.map_err(|_| "the bare cipher finds a changed segment")?)
    }

    fn encrypt(&self, threads: usize) -> Result {
        self.each(threads, |number, out| self.seal(number, out).map(|_| ()))
    }

    fn decrypt(&self, threads: usize) -> Result {
        self.each(threads, |number, out| self.open(number, out))
    }

    /// Encrypts, and computes the two checksums of a sealed file over the result.
    fn encrypt_and_hash(&self, threads: usize) -> Result {
        self.each(threads, |number, out| {
            let tag = self.seal(number, out)?;
            let sealed = &mut out[..self.segments[number].len() + tag.len()];
            sealed[self.segments[number].len()..].copy_from_slice(&tag);
            black_box((crc32fast::hash(sealed), blake3::hash(sealed)));
            Ok(())
        })
    }

    /// Writes everything that is encrypted, with the tags, to a file.
    fn to_file(&self, path: &Path) -> Result<File> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let mut at = 0;
        for (sealed, tag) in &self.encrypted {
            file.write_all_at(sealed, at)?;
            file.write_all_at(tag, at + sealed.len() as u64)?;
            at += (SEGMENT + tag.len()) as u64; // the place of the next segment, even if this one is shorter
        }
        Ok(file)
    }

    /// Reads such a file, and decrypts each segment to its position.
    fn read(&self, file: &File, memory: &mut [Vec<u8>], threads: usize) -> Result {
        let outs: Vec<_> =
            memory.iter_mut().flat_map(|out| out.chunks_mut(SEGMENT)).map(Mutex::new).collect();
        let one = |number: usize, buffer: &mut [u8]| -> Result {
            let mut out = outs[number].lock().map_err(|_| "another thread has failed")?;
            let mut tag = [0; 16];
            let stored = &mut buffer[..out.len() + tag.len()];
            file.read_exact_at(stored, (number * (SEGMENT + tag.len())) as u64)?;
            tag.copy_from_slice(&stored[out.len()..]);
            let buffer = InOutBuf::new(&stored[..out.len()], &mut out).map_err(|_| "not of one length")?;
            let opened = self.cipher.decrypt_inout_detached(&nonce(number), &[], buffer, &Tag::from(tag));
            Ok(opened.map_err(|_| "the bare cipher finds a changed segment")?)
        };
        self.each(threads, one)
    }

    /// Processes all segments, in pieces as long as ours.
    fn each(&self, threads: usize, one: impl Fn(usize, &mut [u8]) -> Result + Sync) -> Result {
        let step = PIECE as usize / SEGMENT;
        let failed = std::sync::atomic::AtomicBool::new(false);
        on_threads(
            threads,
            self.segments.len().div_ceil(step),
            || vec![0; SEGMENT + 16],
            |out, piece| {
                for number in piece * step..((piece + 1) * step).min(self.segments.len()) {
                    if one(number, out).is_err() {
                        failed.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                    black_box(&mut *out);
                }
            },
        );
        ensure(!failed.into_inner(), || "the bare cipher fails".to_owned())
    }

    fn keep_encrypted(&mut self) -> Result {
        let one = |number: usize| {
            let mut out = vec![0; self.segments[number].len()];
            let tag = self.seal(number, &mut out)?;
            Ok((out, tag))
        };
        self.encrypted = (0..self.segments.len()).map(one).collect::<Result<_>>()?;
        Ok(())
    }

    /// Checks that the bare cipher works: it changes the first segment, and decrypting gives that segment
    /// again.
    fn is_right(&self) -> Result {
        let one =
            Self { cipher: self.cipher.clone(), segments: self.segments[..1].to_vec(), encrypted: vec![] };
        let mut one = one;
        one.keep_encrypted()?;
        let mut out = vec![0; one.segments[0].len()];
        one.open(0, &mut out)?;
        let is_right = out == one.segments[0] && one.encrypted[0].0 != one.segments[0];
        ensure(is_right, || "the bare cipher is wrong".to_owned())
    }
}

fn nonce(number: usize) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
    Nonce::from(nonce)
}

fn signed(bench: &mut Bench, id: String) -> Result {
    let path = bench.file("signed");
    let key = SigningKey::from_bytes(&[7; 32]);
    let work = Execution { threads: bench.sizes.threads, progress: None };
    let (tensors, values) = tensors(bench)?;
    fs::write(&path, sealed(&tensors, &SealOptions::new().sign(key.clone()), &values, &work)?)?;
    drop(values);
    let open = || -> Result<Model> {
        let options = OpenOptions::new().access(Access::new().trust(key.verifying_key()));
        Ok(options.open_source("signed", Box::new(map(&path)?), None)?)
    };
    let file = File::options().read(true).write(true).open(&path)?;
    let middle = file.metadata()?.len() / 2;
    flip(&file, middle)?;
    let report = open()?.verify(VerifyLevel::Full);
    flip(&file, middle)?;
    for name in ["crc", "digests"] {
        let failed = report.check(name).is_some_and(|check| check.status == Status::Failed);
        ensure(failed, || format!("{name} did not find a changed byte: {report:?}"))?;
    }
    let (model, bytes) = (open()?, map(&path)?);
    let verify = || {
        let report = model.verify_with(VerifyLevel::Full, &work);
        ensure(report.is_ok(), || format!("a good file is said to be bad: {report:?}"))
    };
    verify()?;
    let pieces: Vec<_> = bytes.chunks(PIECE as usize).collect();
    let hash = || {
        let one = |(): &mut (), number: usize| {
            black_box(blake3::hash(pieces[number]));
        };
        on_threads(work.threads, pieces.len(), || (), one);
        Ok(())
    };
    let race = race(bench.rounds(7), || seconds(verify), || seconds(hash))?;
    bench.add(Row {
        id,
        work: format!(
            "verify every byte of a signed file from a map: speed of the bare BLAKE3 on {} threads",
            work.threads
        ),
        case: "APR2, signed".to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(0.85),
        note: race.times(),
    });
    drop((model, bytes));
    remove(&path)
}
