//! The digests of files, on all cores: each thread takes one file after the other, the largest first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use blake2::Blake2b512;
use modelfmt_core::{Execution, Source};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::open::OpenFiles;
use crate::walk::{Found, Stamp, path_of};

/// Bytes that are read at once: they are still in the core's own cache when they are hashed.
const PIECE: usize = 128 << 10;

/// A function of files that statements know.
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

    /// Bytes of a digest.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Sha256 | Self::Blake3 => 32,
            Self::Blake2b => 64,
        }
    }
}

/// A range of a file that has a digest of its own.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) file: &'a Found,
    /// `None`: all of it.
    pub(crate) range: Option<Range<u64>>,
}

impl Job<'_> {
    fn len(&self) -> u64 {
        self.range.as_ref().map_or(self.file.stamp.len, |range| range.end.saturating_sub(range.start))
    }
}

/// The digests of all jobs, in their order. `root` is the folder, or the file itself if it is one. Files that are open are read as they are.
pub(crate) fn digests(
    root: &Path,
    jobs: &[Job<'_>],
    algorithm: Algorithm,
    open: &OpenFiles<'_>,
    work: &Execution<'_>,
) -> Result<Vec<Vec<u8>>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(jobs.get(at).map_or(0, Job::len)));
    let next = AtomicUsize::new(0);
    let is_file = root.is_file();
    // For `map`, a worker is one piece of work, and the pieces must not be far from each other.
    let run = |buffer: &mut Vec<u8>, _| {
        let mut done = Vec::new();
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(job) = jobs.get(at) else { break };
            let path = if is_file { root.to_owned() } else { path_of(root, &job.file.name) };
            let mut opened = open.named(&job.file.name, is_file).peekable();
            let digest = match opened.peek() {
                Some(_) => of_open(&path, job, opened, algorithm, buffer, work),
                None => one(&path, job, algorithm, buffer, work),
            };
            if digest.is_err() {
                next.store(order.len(), Ordering::Relaxed); // the others stop with what they are at
            }
            done.push((at, digest?));
        }
        Ok::<_, Error>(done)
    };
    let threads = u64::try_from(work.threads.clamp(1, jobs.len().max(1))).unwrap_or(1);
    let mut digests = vec![Vec::new(); jobs.len()];
    for (at, digest) in work.map(threads, || vec![0; PIECE], run)?.into_iter().flatten() {
        if let Some(place) = digests.get_mut(at) {
            *place = digest;
        }
    }
    Ok(digests)
}

fn one(
    path: &Path,
    job: &Job<'_>,
    algorithm: Algorithm,
    buffer: &mut [u8],
    work: &Execution<'_>,
) -> Result<Vec<u8>> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let stamp = |file: &File| file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(failed);
    let changed = || Error::Changed { path: path.to_owned() };
    if stamp(&file)? != job.file.stamp {
        return Err(changed());
    }
    if let Some(range) = &job.range {
        file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
    }
    let mut hasher = Hasher::new(algorithm);
    let mut left = job.len();
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..most).unwrap_or_default();
        let len = match file.read(piece) {
            Ok(0) => return Err(changed()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        hasher.update(piece.get(..len).unwrap_or_default());
        left -= len as u64;
        if work.advance(len as u64).is_break() {
            return Err(Error::Stopped);
        }
    }
    if stamp(&file)? == job.file.stamp { Ok(hasher.finish()) } else { Err(changed()) }
}

/// The digest of a file that is open, once or several times: then all of these must be the same.
fn of_open<'o, 'a: 'o>(
    path: &Path,
    job: &Job<'_>,
    opened: impl Iterator<Item = &'o (impl Fn() -> io::Result<&'a dyn Source> + 'o)>,
    algorithm: Algorithm,
    buffer: &mut [u8],
    work: &Execution<'_>,
) -> Result<Vec<u8>> {
    let changed = || Error::Changed { path: path.to_owned() };
    let mut all: Option<Vec<u8>> = None;
    for open in opened {
        let source = open().map_err(|source| Error::Read { path: path.to_owned(), source })?;
        if source.len() != job.file.stamp.len {
            return Err(changed());
        }
        let range = job.range.clone().unwrap_or(0..source.len());
        let digest = of_source(path, source, range, algorithm, buffer, work)?;
        if !source.is_unchanged() || all.as_ref().is_some_and(|all| *all != digest) {
            return Err(changed());
        }
        all = Some(digest);
    }
    all.ok_or_else(changed)
}

/// The digest of a range of a source; `path` is what it is called in errors.
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
