//! The result of a fetch.

use std::path::PathBuf;

/// What was fetched, and what existed already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fetched {
    /// The file, or the folder of several files.
    pub path: PathBuf,
    /// The length in bytes; for several files, the sum.
    pub size: u64,
    /// The number of correct bytes that existed and were not fetched.
    pub kept: u64,
    /// The number of bytes of the file that came from servers, including wrong ones, without the outboard.
    pub fetched: u64,
    /// The number of pieces that existed and were wrong.
    pub bad: u64,
    /// The number of requests, including those for the length and the outboard.
    pub requests: u64,
    /// The servers.
    pub sources: Vec<FetchSource>,
    /// How the bytes were checked; `None` if there was nothing to check them by. For several files, the
    /// weakest check of all.
    pub checked_by: Option<CheckedBy>,
    /// For a set or a folder, each file.
    pub files: Vec<Self>,
    /// Notes for the user, such as servers that were given up.
    pub notes: Vec<String>,
}

/// The progress of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchProgress {
    /// The number of correct bytes that have been written. While a local file is checked, the number of bytes
    /// that were checked.
    pub done: u64,
    /// The number of written bytes that the same call will not fetch again if this one is stopped now.
    pub kept: u64,
    /// The length of all files, as far as it is known. With several files, it grows.
    pub total: u64,
    /// Whether a local file is being checked.
    pub is_checking: bool,
}

/// A server, and what came from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchSource {
    /// The URL, without secrets.
    pub url: String,
    /// The number of bytes of the file that came from it.
    pub bytes: u64,
    /// The number of pieces from it that were wrong.
    pub refused: u64,
}

/// What bytes were checked against, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CheckedBy {
    /// A BLAKE3 hash of the whole file, given by the caller.
    B3,
    /// A SHA-256 of the whole file, stated by Hugging Face or by the index of a set.
    Sha256,
    /// The hashes in the file itself.
    Own,
    /// Only the entity tag: all bytes are of one version.
    Etag,
}

impl CheckedBy {
    /// Returns the word for JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::B3 => "b3",
            Self::Sha256 => "sha256",
            Self::Own => "own",
            Self::Etag => "etag",
        }
    }
}

impl Fetched {
    /// Sums the reports of several files.
    pub(super) fn of_files(path: PathBuf, files: Vec<Self>, notes: Vec<String>) -> Self {
        let sum = |number: fn(&Self) -> u64| files.iter().map(number).fold(0, u64::saturating_add);
        let mut sources: Vec<FetchSource> = Vec::new();
        for source in files.iter().flat_map(|file| &file.sources) {
            match sources.iter_mut().find(|known| known.url == source.url) {
                Some(known) => {
                    known.bytes = known.bytes.saturating_add(source.bytes);
                    known.refused = known.refused.saturating_add(source.refused);
                }
                None => sources.push(source.clone()),
            }
        }
        // `None` is the weakest.
        let checked_by = match files.iter().all(|file| file.checked_by.is_some()) {
            true => files.iter().filter_map(|file| file.checked_by).max(),
            false => None,
        };
        Self {
            path,
            size: sum(|file| file.size),
            kept: sum(|file| file.kept),
            fetched: sum(|file| file.fetched),
            bad: sum(|file| file.bad),
            requests: sum(|file| file.requests),
            sources,
            checked_by,
            files,
            notes,
        }
    }
}
