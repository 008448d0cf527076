//! Computes the digests of files on all cores. Each thread takes one file after the other, the largest first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use blake2::Blake2b512;
use modelfmt_core::proof::{GROUP, Page, Recording};
use modelfmt_core::source::BoxSource;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::FileSource;
use modelfmt_core::{Execution, Source};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::walk::{Found, Stamp, path_of};

/// The number of bytes to read at once. They should still be in the core's own cache when they are hashed.
const PIECE: usize = 128 << 10;

/// The greatest number of groups in which one file is recorded. Each group takes 64 bytes of memory.
const GROUPS_OF_FILE: u64 = 1 << 16;
/// The same limit for all files together.
const GROUPS_OF_ALL: u64 = 1 << 20;

/// A hash function that a statement can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Sha256,
    Blake2b,
    Blake3,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 3] = [Self::Sha256, Self::Blake2b, Self::Blake3];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
            Self::Blake3 => "blake3",
        }
    }

    /// Returns the length of a digest in bytes.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Sha256 | Self::Blake3 => 32,
            Self::Blake2b => 64,
        }
    }
}

/// A file, or a range of one, to compute a digest of.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) file: &'a Found,
    /// The range; `None` for the whole file.
    pub(crate) range: Option<Range<u64>>,
}

impl Job<'_> {
    fn len(&self) -> u64 {
        self.range.as_ref().map_or(self.file.stamp.len, |range| range.end.saturating_sub(range.start))
    }
}

/// The result of hashing a file or range.
#[derive(Debug, Default)]
pub(crate) struct Hashed {
    pub(crate) digest: Vec<u8>,
    /// The page digests for checking later reads, if they were recorded.
    pub(crate) page: Option<Page>,
}

/// Whether to keep page digests for checking later reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Nothing,
    Pages,
}

impl Record {
    /// Returns the number of groups in which each job is recorded, or `None` if nothing is recorded.
    fn groups(self, jobs: &[Job<'_>]) -> impl Fn(u64) -> Option<u64> {
        let all = jobs.iter().fold(0u64, |sum, job| sum.saturating_add(job.len().div_ceil(GROUP)));
        move |len| {
            let own = len.div_ceil(GROUP).min(GROUPS_OF_FILE);
            let share = u128::from(len.div_ceil(GROUP)) * u128::from(GROUPS_OF_ALL) / u128::from(all.max(1));
            let share = u64::try_from(share).unwrap_or(GROUPS_OF_FILE);
            (self == Self::Pages).then(|| if all > GROUPS_OF_ALL { own.min(share) } else { own })
        }
    }
}

/// Returns the digests of all jobs, in order. `root` is the folder, or the file if the model is a single
/// file.
pub(crate) fn digests(
    root: &Path,
    jobs: &[Job<'_>],
    algorithm: Algorithm,
    (record, policy): (Record, Option<&ReadPolicy>),
    work: &Execution<'_>,
) -> Result<Vec<Hashed>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(jobs.get(at).map_or(0, Job::len)));
    let next = AtomicUsize::new(0);
    let is_file = root.is_file();
    let groups = record.groups(jobs);
    // Each worker is one piece for `map`, which keeps threads from getting more than a few pieces ahead.
    let run = |buffer: &mut Vec<u8>, _| {
        let mut done = Vec::new();
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(job) = jobs.get(at) else { break };
            let path = if is_file { root.to_owned() } else { path_of(root, &job.file.name) };
            let recording = groups(job.len()).map(|groups| Recording::new(job.len(), groups));
            let hashed = one((&path, policy), job, Hasher::new(algorithm), recording, buffer, work);
            if hashed.is_err() {
                next.store(order.len(), Ordering::Relaxed); // the others stop with what they are at
            }
            done.push((at, hashed?));
        }
        Ok::<_, Error>(done)
    };
    let threads = u64::try_from(work.threads.clamp(1, jobs.len().max(1))).unwrap_or(1);
    let mut digests: Vec<Hashed> = jobs.iter().map(|_| Hashed::default()).collect();
    for (at, hashed) in work.map(threads, || vec![0; PIECE], run)?.into_iter().flatten() {
        if let Some(place) = digests.get_mut(at) {
            *place = hashed;
        }
    }
    Ok(digests)
}

/// Decides whether an open file may be read.
#[derive(Clone)]
pub(crate) struct ReadPolicy(pub(crate) Arc<ReadPolicyFn>);

/// Returns an open file through which to read, or an error that says why the file must not be read.
type ReadPolicyFn = dyn Fn(&Path, BoxSource) -> io::Result<BoxSource> + Send + Sync;

impl std::fmt::Debug for ReadPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadPolicy")
    }
}

/// Returns the open file through which the policy allows reading, or `None` without a policy.
#[cfg(not(target_arch = "wasm32"))]
fn open_if_allowed(policy: Option<&ReadPolicy>, path: &Path, file: &File) -> Result<Option<BoxSource>> {
    let Some(ReadPolicy(policy)) = policy else { return Ok(None) };
    let opened = file.try_clone().and_then(FileSource::new).and_then(|file| policy(path, Box::new(file)));
    opened.map(Some).map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(target_arch = "wasm32")]
fn open_if_allowed(_: Option<&ReadPolicy>, _: &Path, _: &File) -> Result<Option<BoxSource>> {
    Ok(None)
}

/// Asks the policy about a file whose bytes are not read.
pub(crate) fn check_allowed(policy: Option<&ReadPolicy>, path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    open_if_allowed(policy, path, &file).map(drop)
}

fn one(
    (path, policy): (&Path, Option<&ReadPolicy>),
    job: &Job<'_>,
    mut hasher: Hasher,
    mut recording: Option<Recording>,
    buffer: &mut [u8],
    work: &Execution<'_>,
) -> Result<Hashed> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let stamp = |file: &File| file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(failed);
    let changed = || Error::Changed { path: path.to_owned() };
    if stamp(&file)? != job.file.stamp {
        return Err(changed());
    }
    let allowed = open_if_allowed(policy, path, &file)?;
    let mut at = job.range.as_ref().map_or(0, |range| range.start);
    file.seek(SeekFrom::Start(at)).map_err(failed)?;
    let mut left = job.len();
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..most).unwrap_or_default();
        let read = match &allowed {
            Some(source) => source.read_into(at, piece).map(|()| piece.len()),
            None => file.read(piece),
        };
        let len = match read {
            Ok(0) => return Err(changed()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        let piece = piece.get(..len).unwrap_or_default();
        hasher.update(piece);
        recording.iter_mut().for_each(|recording| recording.update(piece));
        left -= len as u64;
        at += len as u64;
        if work.advance(len as u64).is_break() {
            return Err(Error::Stopped);
        }
    }
    if stamp(&file)? != job.file.stamp {
        return Err(changed());
    }
    let page = recording.map(|recording| recording.finish().ok_or_else(changed)).transpose()?;
    Ok(Hashed { digest: hasher.finish(), page })
}

/// Computes SHA-256 and BLAKE3-256 of a file in one pass.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn both(path: &Path, buffer: &mut Vec<u8>, work: &Execution<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let file = FileSource::open(path).map_err(failed)?;
    let stamp = || std::fs::metadata(path).map(|metadata| Stamp::of(&metadata)).map_err(failed);
    let before = stamp()?;
    buffer.resize(PIECE, 0);
    let mut hashers = [Hasher::new(Algorithm::Sha256), Hasher::new(Algorithm::Blake3)];
    let (mut at, len) = (0_u64, file.len());
    while at < len {
        let most = usize::try_from(len - at).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..most).unwrap_or_default();
        file.read_into(at, piece).map_err(failed)?;
        hashers.iter_mut().for_each(|hasher| hasher.update(piece));
        at += most as u64;
        if work.advance(most as u64).is_break() {
            return Err(Error::Stopped);
        }
    }
    if stamp()? != before {
        return Err(Error::Changed { path: path.to_owned() });
    }
    let [sha256, blake3] = hashers.map(Hasher::finish);
    Ok((sha256, blake3))
}

/// Computes the digest of a range of a source. `path` is for errors.
pub(crate) fn of_source(
    path: &Path,
    source: &dyn Source,
    range: Range<u64>,
    algorithm: Algorithm,
    buffer: &mut [u8],
    work: &Execution<'_>,
) -> Result<Vec<u8>> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut hasher = Hasher::new(algorithm);
    let mut at = range.start;
    while at < range.end {
        let most = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..most).unwrap_or_default();
        source.read_into(at, piece).map_err(failed)?;
        hasher.update(piece);
        at += most as u64;
        if work.advance(most as u64).is_break() {
            return Err(Error::Stopped);
        }
    }
    Ok(hasher.finish())
}

enum Hasher {
    Sha256(Sha256),
    Blake2b(Box<Blake2b512>),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Blake2b => Self::Blake2b(Box::new(Blake2b512::new())),
            Algorithm::Blake3 => Self::Blake3(Box::new(blake3::Hasher::new())),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Blake2b(hasher) => hasher.update(bytes),
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Sha256(hasher) => hasher.finalize().to_vec(),
            Self::Blake2b(hasher) => hasher.finalize().to_vec(),
            Self::Blake3(hasher) => hasher.finalize().as_bytes().to_vec(),
        }
    }
}
