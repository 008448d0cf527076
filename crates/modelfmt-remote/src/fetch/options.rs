//! The options of a fetch.

use std::fmt;
use std::ops::ControlFlow;

use modelfmt::Execution;

use super::report::FetchProgress;

/// A callback for progress, which can stop the work.
pub type OnProgress<'a> = dyn Fn(FetchProgress) -> ControlFlow<()> + Sync + 'a;

/// The options of a fetch.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct FetchOptions<'a> {
    pub(crate) pin: Option<[u8; 32]>,
    pub(crate) force: bool,
    pub(crate) include: Vec<String>,
    pub(crate) exclude: Vec<String>,
    pub(crate) progress: Option<&'a OnProgress<'a>>,
    pub(crate) note: Option<&'a (dyn Fn(&str) + Sync)>,
    pub(crate) threads: usize,
    #[cfg(feature = "policy")]
    pub(crate) policy: Option<std::sync::Arc<modelfmt::policy::Policy>>,
}

impl fmt::Debug for FetchOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pin, force, include, exclude, .. } = self;
        write!(
            f,
            "FetchOptions {{ pin: {pin:?}, force: {force}, include: {include:?}, exclude: {exclude:?} }}"
        )
    }
}

impl<'a> FetchOptions<'a> {
    /// Makes options without a pin that replace no existing file.
    #[must_use]
    pub fn new() -> Self {
        Self { threads: Execution::default().threads, ..Self::default() }
    }

    /// Sets the BLAKE3 hash of the file. For a set, this is the hash of its index.
    #[must_use]
    pub const fn pin(mut self, hash: [u8; 32]) -> Self {
        self.pin = Some(hash);
        self
    }

    /// Judges the URL of each file by a policy before the file is requested. The files of a folder become
    /// known by a list, which is requested before.
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn policy(mut self, policy: std::sync::Arc<modelfmt::policy::Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Starts from the beginning: an existing target is ignored and replaced.
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Fetches only files of a repository whose paths match one of these patterns.
    #[must_use]
    pub fn include(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        self.include = patterns.into_iter().collect();
        self
    }

    /// Leaves out files of a repository whose paths match one of these patterns.
    #[must_use]
    pub fn exclude(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        self.exclude = patterns.into_iter().collect();
        self
    }

    /// Calls a function as bytes arrive. The function can stop the work; bytes that arrived by then are kept.
    #[must_use]
    pub const fn progress(mut self, progress: &'a OnProgress<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Calls a function with each note immediately, even if the work fails later.
    #[must_use]
    pub const fn note(mut self, note: &'a (dyn Fn(&str) + Sync)) -> Self {
        self.note = Some(note);
        self
    }

    /// Sets the number of threads that check local files. By default, one for each core, at most 8.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = if threads == 0 { 1 } else { threads };
        self
    }
}
